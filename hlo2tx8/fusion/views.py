"""Fusions that do no work: their result is their operand's elements in the same order, in another shape.

%1 = hlo.fusion "reshape_fusion"(%0) { reshape }        the bytes of %0 are those of %1

What a function takes, and constants, have memory of their own: where they are results as they are, a kernel gives them.
"""

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.dialects.layout import is_row_major
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.partitioner.instruction import shape_of, tensor_type

TERMINATOR = "stablehlo.return"


def is_view(fusion: Operation) -> bool:
    """True if the fusion's result can be its operand's buffer under another shape."""
    return _is_in_order(fusion) and (_is_made_here(fusion.operands[0]) or not _is_given(fusion.results[0]))


def _is_in_order(fusion: Operation) -> bool:
    """Does the fusion only give its operand another shape?"""
    if not isinstance(fusion, FusionOp) or len(fusion.operands) != 1 or len(fusion.results) != 1:
        return False
    body = fusion.body.block
    *moves, terminator = body.ops
    value: SSAValue = body.args[0]
    for op in moves:
        if not keeps_order(op) or op.operands[0] is not value:
            return False
        value = op.results[0]
    return bool(moves) and terminator.name == TERMINATOR and terminator.operands[0] is value


def _is_made_here(value: SSAValue) -> bool:
    owner = value.owner
    if isinstance(owner, Operation):
        return owner.name != "stablehlo.constant"
    return not isinstance(owner.parent_op(), FuncOp)


def _is_given(value: SSAValue) -> bool:
    """Is the value, or the same in another shape, a result of its block?"""
    readers = [use.operation for use in value.uses]
    return any(op.next_op is None or (_is_in_order(op) and _is_given(op.results[0])) for op in readers)


def keeps_order(op: Operation) -> bool:
    """A reshape, or a broadcast that repeats nothing and turns nothing."""
    if len(op.operands) != 1 or not all(is_row_major(tensor_type(value)) for value in (op.operands[0], op.results[0])):
        return False
    if op.name == "stablehlo.reshape":
        return True
    if op.name != "stablehlo.broadcast_in_dim":
        return False
    before, after = shape_of(op.operands[0]), shape_of(op.results[0])
    dims = [int(dim) for dim in attributes_of(op)["broadcast_dimensions"]]
    return dims == sorted(dims) and [n for n in before if n != 1] == [n for n in after if n != 1]
