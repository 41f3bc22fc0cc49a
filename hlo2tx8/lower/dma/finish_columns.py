"""The end of a shared product: columns of the result are finished one set after the other, each stored while the next is computed.
What follows the products of other steps is spread over the turns of the step after them, as many parts in each.

    last step:  scf.for %k = 0 to 32 { turn(%k); gemm(%k) }          scf.for %k = 0 to 22 { turn(%k); gemm(%k) }
                turn(32); gemm(32)                             ⟶    scf.for %k = 22 to 32 { turn(%k); gemm(%k, set 0) }
                store                                                turn(32); gemm(32, set 0); store(set 0)
                                                                     scf.for %set = 1 to 8 {
                                                                       scf.for %k = 22 to 32 { gemm(%k, %set) }
                                                                       gemm(32, %set); store(%set)
                                                                     }

The last panels stay in their slots: as many as there are. A set is a number of channel blocks, which lie one after the other in the
engine's layout, in the panel of columns as in sums and result.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any

from xdsl.builder import Builder
from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.ne import NeGemm, psum_format
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.dialects import spm
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.allocate_spm import SpmSpace
from hlo2tx8.lower.dma.epilogue_parts import Epilogue
from hlo2tx8.lower.dma.find_epilogue import epilogue_of
from hlo2tx8.lower.dma.mesh import quotient
from hlo2tx8.lower.dma.panels import Panels
from hlo2tx8.lower.dma.slices import clone_slice, collect_slice, drop_unused, instructions_in, turns_of
from hlo2tx8.lower.select.step_builder import StepBuilder

MOST_SETS = 12
LEAST_KEPT = 2
PARTS_STORED = 8
"""Parts of a result that is only stored: between them loads get their turn."""
LEAST_PART = 8192
"""Elements that the vector engine gets at once: few instructions' starts, and little that the matrix engine could wait for."""


@dataclass(frozen=True)
class Columns:
    """`num_sets` sets of `size` columns each; `last` multiplies the last panel, `epilogue` is what follows it, in `num_parts`."""

    size: int
    num_sets: int
    last: NeGemm
    epilogue: Epilogue
    num_parts: int

    def saved_bytes(self, space: SpmSpace) -> int:
        """What buffers of parts take less than those of all columns."""
        return self.epilogue.saved_bytes(self.num_parts, space)


def columns_of(panels: Panels) -> Columns | None:
    """The sets of columns in which a step's result can be finished; None where a set's operands do not lie one after the other, or
    what follows the products cannot be cut."""
    if len(panels.sites) != 2 or len(panels.kinds) != 1 or panels.sites[0].loop is None:
        return None
    loads = [load.op for site in panels.sites for load in site.loads.values()]
    inner = [op for op in instructions_in(panels.sites[0].loop) if op not in loads]
    ops = list(panels.loop.body.block.ops)
    last = next(op for op in ops if isinstance(op, NeGemm))
    before = [op for op in ops[: ops.index(last)] if isinstance(op, Instruction | scf.IfOp | scf.ForOp)]
    if len(inner) != 1 or any(op not in loads and op is not panels.sites[0].loop for op in before):
        return None
    (gemm,) = inner
    if not isinstance(gemm, NeGemm):
        return None
    columns, rows, dst = last.field("columns"), last.field("rows"), last.field("dst")
    if any(not op.field("transpose_right") or op.field("batch") != 1 or op.field("columns") != columns for op in (gemm, last)):
        return None
    width = max(_block_width(fmt) for fmt in (last.fmt, last.fmt2, gemm.fmt))
    if not isinstance(columns, int) or columns % width or not isinstance(last.field("depth"), int) or not isinstance(dst, SSAValue):
        return None
    after = [op for op in ops[ops.index(last) + 1 :] if not isinstance(op, scf.YieldOp)]
    needed: set[Operation] = set()
    for op in after:
        collect_slice(op, panels.loop, needed)
    after = [op for op in ops[: ops.index(last)] if op in needed and not isinstance(op, Instruction | spm.AllocOp)] + after
    epilogue = epilogue_of(after, dst, rows, columns, last.fmt)
    size = next(n for n in range(width, columns + 1, width) if columns % n == 0 and columns // n <= MOST_SETS)
    if epilogue is None:
        return None
    num_sets = columns // size
    return Columns(size, num_sets, last, epilogue, _num_parts(epilogue, num_sets, panels.num_panels - 1, rows))


def _num_parts(epilogue: Epilogue, num_sets: int, turns: int, rows: Size) -> int:
    """One per turn and more, so that engines work side by side; fewer will do where there is nothing to compute."""
    num_parts = num_sets
    if not isinstance(rows, int):
        return num_parts
    wanted = turns if epilogue.has_arithmetic else min(turns, PARTS_STORED)
    most = epilogue.blocks * rows * epilogue.width // LEAST_PART
    for number in range(num_sets, most + 1, num_sets):
        if num_parts < wanted and epilogue.can_cut(number):
            num_parts = number
    return num_parts


def num_kept(panels: Panels, columns: Columns, num_slots: int, chip: Chip) -> int:
    """The last panels that are multiplied set by set: as many as take the engine as long as the result takes the others,
    and as can have been sent by the time the engine comes to them: a queue full."""
    c, last = chip.cycles, columns.last
    dst, depth = last.field("dst"), last.field("depth")
    assert isinstance(dst, SSAValue) and isinstance(dst.owner, spm.AllocOp) and isinstance(depth, int)
    products = c.ne_arrays * c.ne_tile_rows * c.ne_tile_columns * c.ne_tile_depth
    products *= c.ne_int8_speedup if last.fmt2 is Format.INT8 else 1
    stored = dst.owner.size_bytes * chip.tiles / chip.ddr_bytes_per_cycle
    computed = columns.epilogue.cycles(columns.num_parts, chip)
    multiplied = c.ne_startup + dst.owner.size_bytes // last.fmt.bytes * depth / products
    most = min(num_slots, panels.num_panels, chip.queue_depth + LEAST_KEPT)
    return min(max(LEAST_KEPT, ceil(max(stored, computed) / multiplied)), most)


def finish(panels: Panels, columns: Columns, kept: int) -> None:
    """Rewrites a step loop whose turns have their protocol: what follows the last product goes into the turns of the next step,
    and in the last step the last `kept` panels are multiplied set by set."""
    loop, turns, epilogue = panels.loop, panels.sites[0].loop, columns.epilogue
    assert turns is not None
    for alloc in [op for op in loop.body.block.ops if isinstance(op, spm.AllocOp)]:
        alloc.detach()
        _block_of(loop).insert_op_before(alloc, loop)
    before = _at(loop)
    parts = epilogue.shorten(columns.num_parts, before)
    step_counter = loop.body.block.args[0]
    if panels.num_steps > 1:
        _put_off(turns, columns, parts, step_counter)
    end = loop.clone()
    found = dict(zip(loop.walk(), end.walk(), strict=True))
    _block_of(loop).insert_op_after(end, loop)
    loop.operands[1] = end.operands[0] = before.value(panels.num_steps - 1)
    own_turns, last = found[turns], found[columns.last]
    assert isinstance(own_turns, scf.ForOp) and isinstance(last, NeGemm)
    _finish_step(own_turns, last, columns, parts, {step_counter: end.body.block.args[0]}, panels.num_panels, kept)
    for op in epilogue.ops:
        if isinstance(op, Instruction):
            _erase(found[op])
            _erase(op)
    drop_unused(loop)
    drop_unused(end)
    for alloc in (*epilogue.moved, *epilogue.local):
        _erase(alloc)
    if panels.num_steps == 1:
        _erase(loop)


def _put_off(turns: scf.ForOp, columns: Columns, parts: dict[SSAValue, SSAValue], step_counter: SSAValue) -> None:
    """Adds what follows the products of a step to the turns of the next one, as many parts to each."""
    num_turns, epilogue = turns_of(turns), columns.epilogue
    assert num_turns is not None
    end = turns.body.block.last_op
    builder = Builder(InsertPoint.before(end) if isinstance(end, scf.YieldOp) else InsertPoint.at_end(turns.body.block))
    step = StepBuilder(builder, builder, (), {})
    turn = turns.body.block.args[0]
    with step.if_positive([step_counter]):
        mapping = {step_counter: step.value(step.subtract(step_counter, 1))}
        if epilogue.once:
            with step.if_positive([step.subtract(1, turn)]):
                epilogue.emit(epilogue.once, step, 0, columns.num_parts, mapping, {})
        num_stages = columns.num_parts + bool(epilogue.ahead)
        first, limit = (quotient(step, step.emit(at, num_stages), num_turns) for at in (turn, step.add(turn, 1)))
        with _loop(step, first, limit) as stage:
            if epilogue.ahead:
                with step.if_positive([step.subtract(columns.num_parts, stage)]):
                    epilogue.emit(epilogue.ahead, step, stage, columns.num_parts, mapping, parts)
                with step.if_positive([stage]):
                    part = step.subtract(stage, 1)
                    epilogue.emit(epilogue.compute, step, part, columns.num_parts, mapping, parts)
            else:
                epilogue.emit(epilogue.compute, step, stage, columns.num_parts, mapping, parts)


def _finish_set(
    step: StepBuilder, columns: Columns, number: Size, mapping: dict[SSAValue, SSAValue], parts: dict[SSAValue, SSAValue]
) -> None:
    """What follows the products of a set, each part after DMA has been told to bring what the next one needs."""
    epilogue, each = columns.epilogue, columns.num_parts // columns.num_sets
    first = step(number, each)

    def finish_part(part: Size) -> None:
        if epilogue.ahead:
            following = step.add(part, 1)
            left = step.subtract(columns.num_parts, following)
            with step.if_positive([left]):
                epilogue.emit(epilogue.ahead, step, following, columns.num_parts, mapping, parts)
        epilogue.emit(epilogue.compute, step, part, columns.num_parts, mapping, parts)

    if each == 1:
        finish_part(first)
        return
    with _loop(step, step.value(first), step.value(step.add(first, each))) as part:
        finish_part(part)


@contextmanager
def _loop(step: StepBuilder, first: SSAValue, limit: SSAValue) -> Generator[SSAValue]:
    """Emits what follows as the body of a loop; yields its counter."""
    outer, body = step.builder, Block(arg_types=[IndexType()])
    step.insert(scf.ForOp(first, limit, step.value(1), [], body))
    step.builder = Builder(InsertPoint.at_end(body))
    yield body.args[0]
    body.add_op(scf.YieldOp())
    step.builder = outer


def _finish_step(
    turns: scf.ForOp,
    last: NeGemm,
    columns: Columns,
    parts: dict[SSAValue, SSAValue],
    mapping: dict[SSAValue, SSAValue],
    num_panels: int,
    kept: int,
) -> None:
    """Cuts the loop over the panels of the last step, and adds the sets."""
    here = _at(turns)
    first_kept, end = here.value(num_panels - kept), here.value(num_panels - 1)
    own = turns.clone()
    _block_of(turns).insert_op_after(own, turns)
    turns.operands[1] = own.operands[0] = first_kept
    gemm = next(op for op in own.body.block.ops if isinstance(op, NeGemm))
    sets = Block(arg_types=[IndexType()])
    step = StepBuilder(Builder(InsertPoint.at_end(sets)), here.prologue, (), {})
    inner = Block(arg_types=[IndexType()])
    step.insert(scf.ForOp(first_kept, end, step.value(1), [], inner))
    of_turn = StepBuilder(Builder(InsertPoint.at_end(inner)), here.prologue, (), {})
    wanted: set[Operation] = set()
    collect_slice(gemm, own, wanted)
    clone_slice(own.body.block, wanted, {own.body.block.args[0]: inner.args[0]}, of_turn.builder)
    whole = next(op for op in inner.ops if isinstance(op, NeGemm))
    of_turn.insert(_gemm_of_set(of_turn, whole, sets.args[0], columns.size))
    _erase(whole)
    inner.add_op(scf.YieldOp())
    step.insert(_gemm_of_set(step, last, sets.args[0], columns.size))
    _finish_set(step, columns, sets.args[0], mapping, parts)
    sets.add_op(scf.YieldOp())
    first = _at(gemm)
    first.insert(_gemm_of_set(first, gemm, 0, columns.size))
    first, epilogue = _at(last), columns.epilogue
    epilogue.emit(epilogue.once, first, 0, columns.num_parts, mapping, {})
    if epilogue.ahead:
        epilogue.emit(epilogue.ahead, first, 0, columns.num_parts, mapping, parts)
    first.insert(_gemm_of_set(first, last, 0, columns.size))
    _finish_set(first, columns, 0, mapping, parts)
    lower, upper, stride = (first.value(n) for n in (1, columns.num_sets, 1))
    first.insert(scf.ForOp(lower, upper, stride, [], sets))
    _erase(gemm)
    _erase(last)
    if kept == num_panels:
        _erase(turns)


def _gemm_of_set(step: StepBuilder, op: NeGemm, number: Size, size: int) -> NeGemm:
    """The product of a set of columns."""
    values: dict[str, Any] = dict(op.values())
    first = step(number, size)
    distances = {
        "dst": step(step(first, values["rows"]), op.fmt.bytes),
        "psum": step(step(first, values["rows"]), psum_format(op.fmt2).bytes),
        "right": step(step(first, values["depth"]), op.fmt2.bytes),
    }
    for name, distance in distances.items():
        values[name] = step.at(values[name], distance)
    values["columns"] = size
    return NeGemm.make(fmt=op.fmt, fmt2=op.fmt2, rnd=op.rounding, origin=op.origin, **values)


def _block_width(fmt: Format) -> int:
    return Blocked(fmt, 1, 1, 1).block_width


def _at(op: Operation) -> StepBuilder:
    builder = Builder(InsertPoint.before(op))
    return StepBuilder(builder, builder, (), {})


def _block_of(op: Operation) -> Block:
    block = op.parent_block()
    assert block is not None
    return block


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()
