"""Fusions that do no work: their result is elements of their operand that follow each other in memory, in another shape.

%1 = hlo.fusion "reshape_fusion"(%0) { reshape }               the bytes of %0 are those of %1
%2 = hlo.fusion "slice_view"(%0, %i) { read_at; reshape }      the bytes of %2 are among those of %0, from a run-time place on

What a function takes, and constants, have memory of their own: where they are results as they are, a kernel gives them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue, Use

from hlo2tx8.device.isa.kc_control import KcLoadScalar
from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.dialects.layout import is_row_major
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.indexed import IndexedAccess
from hlo2tx8.hlo.regions import CALL, CONTROL, UPDATE
from hlo2tx8.indexing import Dim, linearize
from hlo2tx8.partitioner.instruction import operand_maps, shape_of, tensor_type

TERMINATOR = "stablehlo.return"
INDEX_TYPES = tuple(fmt.name.lower() for fmt in KcLoadScalar.FORMATS)
READ_AT, SLICE, WRITE_AT = "hlo.read_at", "stablehlo.slice", "hlo.write_at"


@dataclass(frozen=True)
class ViewPlace:
    """The element at which a view begins: `offset`, and the sum of `steps[k]` times number k clamped to 0..rooms[k]."""

    offset: int = 0
    steps: Sequence[int] = ()
    rooms: Sequence[int] = ()


def is_view(fusion: Operation) -> bool:
    """True if the fusion's result can be its operand's buffer under another shape, or a part of it."""
    return view_place(fusion) is not None


def view_place(fusion: Operation) -> ViewPlace | None:
    """Where in its first operand the fusion's result is, if it need not be anywhere else."""
    place = _place_in_order(fusion)
    if place is None:
        return None
    if _is_of_all(fusion):
        return place if _is_made_here(fusion.operands[0]) or not _is_given(fusion.results[0]) else None
    is_as_read = not _writers(fusion.operands[0]) or _is_read_before(fusion)
    return place if is_as_read and all(isinstance(use.operation, FusionOp | GroupOp) for use in fusion.results[0].uses) else None


def shows_elements(op: Operation) -> bool:
    """Is it a fusion that gives elements of its first operand, as they follow each other, another shape?"""
    return _place_in_order(op) is not None


def _place_in_order(fusion: Operation) -> ViewPlace | None:
    """Where the elements that the fusion gives another shape begin in its first operand; None if it does other work."""
    if not isinstance(fusion, FusionOp) or not fusion.operands or len(fusion.results) != 1:
        return None
    body = fusion.body.block
    *moves, terminator = body.ops
    if not moves or terminator.name != TERMINATOR:
        return None
    value: SSAValue = body.args[0]
    place: ViewPlace | None = ViewPlace()
    if moves[0].name in (READ_AT, SLICE):
        read, *moves = moves
        place, value = piece_of(read), read.results[0]
        if tuple(read.operands) != tuple(body.args):
            return None
    elif len(body.args) > 1:
        return None
    for op in moves:
        if not keeps_order(op) or op.operands[0] is not value:
            return None
        value = op.results[0]
    return place if terminator.operands[0] is value else None


def piece_of(op: Operation) -> ViewPlace | None:
    """Where what an instruction reads begins in its operand, if these are elements that follow each other in memory."""
    if op.name not in (READ_AT, SLICE) or not all(is_row_major(tensor_type(value)) for value in (op.operands[0], op.results[0])):
        return None
    source, shape = shape_of(op.operands[0]), shape_of(op.results[0])
    if not prod(shape) or not all(_is_index(value) for value in op.operands[1:]):
        return None
    map = operand_maps(op)[0]
    offset, terms = linearize([Dim(d) for d in range(len(shape))] if map is None else map.results, source).affine_terms()
    moved = {term: step for term, step in terms.items() if not isinstance(term, Dim) or shape[term.index] > 1}
    if moved != {Dim(d): prod(shape[d + 1 :]) for d, n in enumerate(shape) if n > 1}:
        return None
    if op.name == SLICE:
        return ViewPlace(offset)
    at = IndexedAccess.of(attributes_of(op))
    return ViewPlace(offset, tuple(prod(source[dim + 1 :]) for dim in at.dims), at.rooms)


def _is_index(value: SSAValue) -> bool:
    """Is the value one number that a kernel core can load?"""
    return prod(shape_of(value)) == 1 and tensor_like(value.type).dtype.name in INDEX_TYPES


def is_written(value: SSAValue) -> bool:
    """May an op write into the value's memory: an update, control flow of which it is state, a function that is called?"""
    return bool(_writers(value))


def _writers(value: SSAValue) -> list[Operation]:
    return [use.operation for use in value.uses if _writes(use)]


def _writes(use: Use) -> bool:
    op = use.operation
    if op.name in (UPDATE, WRITE_AT, CALL, *CONTROL):
        return True
    return isinstance(op, FusionOp) and any(inner.operation.name == WRITE_AT for inner in op.body.block.args[use.index].uses)


def _is_read_before(fusion: Operation) -> bool:
    """Does all that reads a fusion's result stand before what writes into its operand's memory?"""
    block = fusion.parent
    if block is None:
        return False
    writers = [block.find_ancestor_op_in_block(op) for op in _writers(fusion.operands[0])]
    readers = [block.find_ancestor_op_in_block(use.operation) for use in fusion.results[0].uses]
    if None in writers or None in readers:
        return False
    order = {op: number for number, op in enumerate(block.ops)}
    return max((order[op] for op in readers if op), default=-1) < min(order[op] for op in writers if op)


def _is_made_here(value: SSAValue) -> bool:
    owner = value.owner
    if isinstance(owner, Operation):
        return owner.name != "stablehlo.constant"
    return not isinstance(owner.parent_op(), FuncOp)


def _is_given(value: SSAValue) -> bool:
    """Is the value, or the same in another shape, a result of its block?"""
    readers = [use.operation for use in value.uses]
    return any(op.next_op is None or (shows_elements(op) and _is_of_all(op) and _is_given(op.results[0])) for op in readers)


def _is_of_all(op: Operation) -> bool:
    """Has the result as many elements as the first operand?"""
    return prod(shape_of(op.results[0])) == prod(shape_of(op.operands[0]))


def keeps_order(op: Operation) -> bool:
    """A reshape, or a broadcast that repeats nothing and turns nothing."""
    if len(op.operands) != 1 or len(op.results) != 1:
        return False
    if not all(is_row_major(tensor_type(value)) for value in (op.operands[0], op.results[0])):
        return False
    if op.name == "stablehlo.reshape":
        return True
    if op.name != "stablehlo.broadcast_in_dim":
        return False
    before, after = shape_of(op.operands[0]), shape_of(op.results[0])
    dims = [int(dim) for dim in attributes_of(op)["broadcast_dimensions"]]
    return dims == sorted(dims) and [n for n in before if n != 1] == [n for n in after if n != 1]
