"""Along which lane dimensions of its box a vector varies: the others need to be looked at once."""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from hlo2tx8.dialects import vec
from hlo2tx8.indexing import Sym

Known = dict[SSAValue, frozenset[int]]


def varying_lanes(value: SSAValue, known: Known) -> tuple[int, ...]:
    """The lane dimensions, in order; all of them where nothing is known."""
    return tuple(sorted(_lanes(value, known)))


def _lanes(value: SSAValue, known: Known) -> frozenset[int]:
    if value not in known:
        known[value] = _of_op(value, known)
    return known[value]


def _of_op(value: SSAValue, known: Known) -> frozenset[int]:
    op = value.owner
    match op:
        case vec.SplatOp():
            return frozenset()
        case vec.LoadOp():
            fill = frozenset[int]() if op.fill is None else _lanes(op.fill, known)
            return _moving(vec.ints(op.strides)) | frozenset(vec.ints(op.clipped)) | fill
        case vec.LoadAtOp():
            return _moving(vec.ints(op.strides)) | frozenset(vec.ints(op.varying))
        case vec.GatherOp():
            return _lanes(op.index, known)
        case vec.IndexOp():
            leaves = op.map.data.results[0].leaves()
            return frozenset(leaf.index for leaf in leaves if isinstance(leaf, Sym))
        case vec.MaskOp():
            return frozenset(vec.ints(op.clipped))
        case vec.VecReduceLanesOp():
            return frozenset[int]().union(*(_lanes(value, known) for value in op.elements)) - frozenset(op.lanes)
        case vec.BroadcastOp() if not _lanes(op.value, known):
            return frozenset()
        case Operation() if not op.regions and not isinstance(op, vec.BroadcastOp):
            found = [_lanes(operand, known) for operand in op.operands if isinstance(operand.type, VectorType)]
            return frozenset[int]().union(*found)
        case _:
            type_: Attribute = value.type
            assert isinstance(type_, VectorType)
            vector = cast("VectorType[Attribute]", type_)
            return frozenset(range(vector.get_num_dims()))


def _moving(strides: Sequence[int]) -> frozenset[int]:
    return frozenset(k for k, stride in enumerate(strides) if stride)
