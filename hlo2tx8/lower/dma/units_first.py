"""What columns of weights have once, a scale of each group of rows say, is loaded for all panels of a step in front of them.

    scf.for %k = 0 to 31 {                                   %u = spm.alloc {size = 31 * 2048}
      load(%w, %k); load(%s, row %k of the scales)           load(%u, rows 0 to 30 of the scales); load(%s', row 31)
      mul(%w, unit %s); gemm(%a, %w)                  ⟶      scf.for %k = 0 to 31 {
    }                                                          load(%w, %k); mul(%w, unit at %u + 2048 * %k); gemm(%a, %w)
    load(%w'); load(%s', row 31)                             }
    mul(%w', unit %s'); gemm(%a', %w')                       load(%w'); mul(%w', unit %s'); gemm(%a', %w')

A tile loads panels turns ahead, and would wait for those with what it needs at once behind them.
"""

from xdsl.dialects import scf
from xdsl.ir import Block, Operation

from hlo2tx8.device.isa.forms import CtVuV, CtVuVLoop
from hlo2tx8.device.isa.lsu import Rdma
from hlo2tx8.device.isa.ne import NeGemm
from hlo2tx8.dialects import spm
from hlo2tx8.lower.dma.slices import collect_slice, turns_of
from hlo2tx8.lower.dma.widen_loads import widen_load


def load_units_first(loop: scf.ForOp, most_bytes: int) -> None:
    """Rewrites a step loop; what is loaded for all turns takes at most so many bytes."""
    inner = [op for op in loop.body.block.ops if isinstance(op, scf.ForOp)]
    inner = [op for op in inner if any(isinstance(own, NeGemm) for own in op.body.block.ops)]
    if len(inner) != 1:
        return
    (panels,) = inner
    for alloc, load in _units(panels.body.block):
        turns = turns_of(panels)
        if turns is not None and not _moved_out(load, alloc, panels):
            widen_load(alloc, load, panels, turns, most_bytes)
    for alloc, load in _units(loop.body.block):
        if panels.is_before_in_block(load):
            _move(load, alloc, panels, loop)


def _units(block: Block) -> list[tuple[spm.AllocOp, Rdma]]:
    """The buffers of a block that vector instructions in front of a product only read an element per column of, and their loads."""
    products = [op for op in block.ops if isinstance(op, NeGemm)]
    found: list[tuple[spm.AllocOp, Rdma]] = []
    for alloc in (op for op in block.ops if isinstance(op, spm.AllocOp)):
        users = [use.operation for use in alloc.result.uses]
        loads = [op for op in users if isinstance(op, Rdma)]
        readers = [op for op in users if op not in loads]
        is_unit = all(isinstance(op, CtVuV | CtVuVLoop) and op.field("unit") is alloc.result for op in readers)
        is_before = all(op.parent is block and op.is_before_in_block(products[-1]) for op in readers) if products else False
        if len(loads) == 1 < len(users) and loads[0].parent is block and is_unit and is_before:
            found.append((alloc, loads[0]))
    return found


def _moved_out(load: Rdma, alloc: spm.AllocOp, panels: scf.ForOp) -> bool:
    """Moves a load in front of a loop that it is the same in all turns of; False if it is not."""
    needed: set[Operation] = set()
    collect_slice(load, panels, needed)
    if any(value is panels.body.block.args[0] for op in needed for value in op.operands):
        return False
    _move(load, alloc, panels, panels)
    return True


def _move(load: Rdma, alloc: spm.AllocOp, before: scf.ForOp, around: scf.ForOp) -> None:
    """Moves a load and what it needs inside of a loop in front of another."""
    needed: set[Operation] = set()
    collect_slice(load, around, needed)
    block = before.parent_block()
    assert block is not None
    for op in [op for op in around.body.block.ops if op in needed or op is alloc]:
        if op.parent is not block or before.is_before_in_block(op):
            op.detach()
            block.insert_op_before(op, before)
