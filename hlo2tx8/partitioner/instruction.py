"""What the partitioner asks about one instruction: its kind, the maps to its operands, whether it is free."""

from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from hlo2tx8.errors import LevelError
from hlo2tx8.hlo import operand_indexing, spec_of
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.indexing import Dim, IndexingMap

TERMINATORS = ("stablehlo.return", "func.return")
SINGLE_OPERAND_SHAPING = (
    "stablehlo.transpose",
    "stablehlo.reshape",
    "stablehlo.broadcast_in_dim",
    "stablehlo.slice",
    "stablehlo.reverse",
    "stablehlo.pad",
    "stablehlo.real_dynamic_slice",
)


def tensor_type(value: SSAValue) -> TensorType[Attribute]:
    """The ranked tensor type of a value; LevelError for anything else (tuples, tokens)."""
    if not isinstance(value.type, TensorType):
        raise LevelError("E1006", f"{value.type} is no tensor")
    return cast(TensorType[Attribute], value.type)


def shape_of(value: SSAValue) -> tuple[int, ...]:
    return tensor_type(value).get_shape()


def kind_of(op: Operation) -> Kind:
    return spec_of(op).kind


def is_elemental(op: Operation) -> bool:
    """Can one element of the result be computed from one element of each operand?"""
    return kind_of(op) in (Kind.ELEMENTWISE, Kind.SHAPING, Kind.CONSTANT) and len(op.results) == 1


def is_inlined_constant(op: Operation) -> bool:
    """A constant whose elements are all equal: written where it is used, never a function or a parameter."""
    return op.name == "stablehlo.constant"


def is_single_operand_shaping(op: Operation) -> bool:
    """Is it an index transformation of one tensor?"""
    return op.name in SINGLE_OPERAND_SHAPING


def operand_maps(op: Operation) -> tuple[IndexingMap | None, ...]:
    """Per operand: result index → operand index; None where that is the identity on the whole result."""
    shape = shape_of(op.results[0])
    if kind_of(op) is Kind.ELEMENTWISE and all(shape_of(operand) == shape for operand in op.operands):
        return (None,) * len(op.operands)
    maps: list[IndexingMap | None] = []
    for choices in operand_indexing(op):
        if len(choices) != 1:
            raise LevelError("E1006", f"{op.name} reads several elements of an operand: it is not elemental")
        maps.append(None if is_identity(choices[0], shape) else choices[0])
    return tuple(maps)


def is_identity(map: IndexingMap, shape: tuple[int, ...]) -> bool:
    """Does the map return its dimensions in order, over exactly that shape?"""
    if map.constraints or map.ranges or map.runtime:
        return False
    if len(map.dims) != len(shape) or len(map.results) != len(shape):
        return False
    if any(d.lo != 0 or d.hi != size - 1 for d, size in zip(map.dims, shape, strict=True)):
        return False
    return all(r == Dim(i) for i, r in enumerate(map.results))


def compose(outer: IndexingMap, inner: IndexingMap) -> IndexingMap:
    """outer after inner, simplified; `outer` itself where `inner` is the identity on its domain."""
    if is_identity(inner, tuple(d.hi + 1 for d in outer.dims)):
        return outer
    return outer.compose(inner).simplify()


def is_elementwise(op: Operation) -> bool:
    """Does every element depend on the elements at the same index alone?"""
    return kind_of(op) is Kind.ELEMENTWISE
