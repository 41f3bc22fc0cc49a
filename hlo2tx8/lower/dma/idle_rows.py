"""Mesh rows that have nothing to do in the last step compute once more what is there, and store nothing.

scf.for %step = 0 to 2 {                            scf.for %step = 0 to 2 {
  scf.if 5 - (4 * %step + %row) > 0 {                 %idle = (4 * %step + %row) floordiv 5
    load(%a, %step * 4096 + %row * 1024)    ⟶        load(%a, %step * 4096 + %row * 1024 - %idle * 4096)
    gemm(%c, %a, %b)                                  gemm(%c, %a, %b)
    store(%c)                                         scf.if 5 - (4 * %step + %row) > 0 { store(%c) }
  }                                                 }
}

Their tiles load and send columns for others, and take part in meetings: so all tiles have the same turns. What they load of rows is
what they had in the step before, or what a tile of another mesh row has.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.made import constant_index, if_op, of_two, yield_op
from hlo2tx8.dialects.nested import nested_ops
from hlo2tx8.indexing import Expr
from hlo2tx8.indexing.simplify import range_of
from hlo2tx8.lower.dma.join_tails import only_branch
from hlo2tx8.lower.dma.mesh import COLUMN, ROW, TileIndex
from hlo2tx8.lower.dma.slices import constant_of, instructions_in, roots_of, turns_of

HAS_COLUMNS = "has_columns"
"""Of a comparison: whether a tile has columns in a step."""


@dataclass(frozen=True)
class _Rows:
    """`number` rows, of which a tile has in a step the one at 4 * step + row of the mesh, if there is one: as `extent` says, which
    is positive then, and `limit` at the first of all. Those of the next step are `distance` behind, 0 if they are the same. `along`
    mesh columns they are columns."""

    extent: vec.ExtentOp
    limit: int
    number: int
    distance: int
    along: Expr = ROW


def take_idle_rows_along(loop: scf.ForOp, index: TileIndex) -> None:
    """Puts what is in a step's only branch in front of its stores, if only the mesh row and the step decide whether it is taken."""
    branch, turns = only_branch(loop), turns_of(loop)
    if branch is None or turns is None or any(turns_of(op) is None for op in nested_ops(branch) if isinstance(op, scf.ForOp)):
        return
    index = TileIndex(index.mesh, dict(index.known), list(index.bounds))  # what is known here is about offsets that are changed
    counter = index.known[loop.body.block.args[0]]
    for inner in [op for op in nested_ops(branch) if isinstance(op, scf.ForOp)]:
        index.add_counter(inner.body.block.args[0], turns_of(inner) or 0)
    rows, block = _rows(branch, counter, index), branch.true_region.block
    stores = [op for op in instructions_in(branch) if isinstance(op, Wdma)]
    loads = [op for op in instructions_in(branch) if isinstance(op, Rdma)]
    if rows is None or any(op.parent_block() is not block for op in stores):
        return
    moves = [_moved(op, rows, counter, turns, index) for op in loads]
    if None in moves:
        return
    idle = _idle(branch, rows)
    if rows.along is COLUMN and isinstance(branch.cond.owner, Operation):
        branch.cond.owner.attributes[HAS_COLUMNS] = UnitAttr()
    for op, distance in zip(loads, moves, strict=True):
        if distance:
            _move_back(op, idle, distance)
    for op in stores:
        inside = Block()
        block.insert_op_before(if_op(branch.cond, [], Region(inside)), op)
        op.detach()
        inside.add_ops([op, yield_op()])
    Rewriter.erase_op(block.last_op or branch)
    Rewriter.inline_block(block, InsertPoint.before(branch))
    Rewriter.erase_op(branch)


def skip_products(loop: scf.ForOp, condition: SSAValue, products: Sequence[Instruction], *, is_in_step: bool) -> None:
    """Makes a loop's products of columns only where a condition says that there are any.

    What is made of them `is_in_step`: it is left out too, as it would read what has not been written. Else it is only stored, and
    that only where there is something.
    """
    found, ops = list(products), list(instructions_in(loop))
    made, before = {buffer for op in found for buffer in roots_of(op, is_write=True)}, 0
    while is_in_step and before < len(found):
        before = len(found)
        for op in ops:
            if op not in found and not made.isdisjoint((*roots_of(op, is_write=False), *roots_of(op, is_write=True))):
                found.append(op)
                made.update(roots_of(op, is_write=True))
    for op in found:
        inside = Block()
        _insert_before(if_op(condition, [], Region(inside)), op)
        op.detach()
        inside.add_ops([op, yield_op()])


def _rows(branch: scf.IfOp, counter: Expr, index: TileIndex) -> _Rows | None:
    """The rows that a branch is about; None if it is taken for another reason, or too many rows would be missing."""
    compare = branch.cond.owner
    if not isinstance(compare, arith.CmpiOp) or constant_of(compare.rhs) != 0 or not isinstance(compare.lhs.owner, vec.ExtentOp):
        return None
    left = index.made_of(compare.lhs) or []
    terms = index.terms_of(left[0]) if len(left) == 1 else None
    if terms is None or not terms.keys() <= {None, ROW, COLUMN, counter}:
        return None
    number = terms.get(None, 0)
    if ROW not in terms:
        is_first = terms.get(COLUMN) == -1 and range_of(left[0], index.bounds, ()).lo > -number
        return _Rows(compare.lhs.owner, number, number, -terms.get(counter, 0), COLUMN) if is_first else None
    unit = index.mesh.columns if COLUMN in terms else 1  # tiles are counted, of all columns as many
    if terms.get(COLUMN, -1) != -1 or terms.get(ROW) != -unit or number % unit or terms.get(counter, 0) % unit:
        return None
    is_last = range_of(left[0], index.bounds, ()).lo > -number
    return _Rows(compare.lhs.owner, number, number // unit, -terms.get(counter, 0) // unit) if is_last else None


def _moved(op: Rdma, rows: _Rows, counter: Expr, turns: int, index: TileIndex) -> int | None:
    """How many bytes a load of rows that are not there is moved back: to those of the step before, or, if a tile has rows in all
    steps or in none, to those that another mesh row has in this one. 0 if it is none of rows; None if that is not known."""
    offset = op.field("offset")
    terms = index.terms(offset)
    if terms is None:
        return None
    each = terms.get(rows.along, 0)
    if each and turns > 1 and rows.distance and terms.get(counter, 0) != each * rows.distance:
        return None
    return each * (rows.distance or rows.number)


def _idle(branch: scf.IfOp, rows: _Rows) -> SSAValue:
    """1 for tiles without rows in a step, else 0."""
    map = rows.extent.map.data
    behind = (map.results[0] * -1 + rows.limit) // rows.limit
    found = xla.ApplyIndexingOp(xla.IndexingMapAttr(map.with_results([behind]).simplify()), list(rows.extent.ivs))
    _insert_before(found, branch)
    return found.results[0]


def _move_back(op: Rdma, idle: SSAValue, distance: int) -> None:
    offset = op.field("offset")
    assert isinstance(offset, SSAValue)
    number = constant_index(distance)
    more = of_two(arith.MuliOp, idle, number.result)
    moved = of_two(arith.SubiOp, offset, more.result)
    for new in (number, more, moved):
        _insert_before(new, op)
    op.operands = [moved.result if operand is offset else operand for operand in op.operands]


def _insert_before(new: Operation, op: Operation) -> None:
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(new, op)
