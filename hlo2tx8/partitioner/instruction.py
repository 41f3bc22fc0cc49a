"""Questions about one instruction: its kind, the maps to its operands, whether it costs anything."""

from math import prod
from typing import cast

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from hlo2tx8.dialects.hlo import is_splat_literal
from hlo2tx8.errors import LevelError
from hlo2tx8.hlo import Kind, has_spec, operand_indexing, spec_of
from hlo2tx8.hlo.lookup import KINDS, kept, known_alike, names_of
from hlo2tx8.indexing import Dim, IndexingMap

CONSTANTS = ("stablehlo.constant", "chlo.constant")
_ELEMENTWISE, _INDEXED, _SHAPING = names_of(Kind.ELEMENTWISE), names_of(Kind.INDEXED), names_of(Kind.SHAPING)
_OTHER_ELEMENTAL = names_of(Kind.SHAPING, Kind.INDEXED, Kind.CONSTANT, Kind.PER_CHANNEL)


def tensor_type(value: SSAValue) -> TensorType[Attribute]:
    """The ranked tensor type of a value; LevelError for anything else (tuples, tokens)."""
    type_ = value._type  # pyright: ignore[reportPrivateUsage] - asked very often
    if not isinstance(type_, TensorType):
        raise LevelError("E1006", f"{type_} is no tensor")
    return cast("TensorType[Attribute]", type_)


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tensor value."""
    held = vars(value._type)  # pyright: ignore[reportPrivateUsage] - asked very often
    shape = held.get("shape as numbers")
    if shape is None:
        held["shape as numbers"] = shape = tuple([size.data for size in tensor_type(value).shape.data])
    return shape


def kind_of(op: Operation) -> Kind:
    """The `Kind` in the instruction's OpSpec."""
    return KINDS.get(op.name) or spec_of(op).kind


def is_elemental(op: Operation) -> bool:
    """True if one element of the result can be computed from single elements of the operands."""
    if len(op.results) != 1:
        return False
    if op.name in _ELEMENTWISE:
        scalars = () if op.name == "stablehlo.bitcast_convert" else ((),)
        return all(shape_of(operand) in (shape_of(op.results[0]), *scalars) for operand in op.operands)
    return op.name in _OTHER_ELEMENTAL


def is_read_as_a_whole(op: Operation, number: int) -> bool:
    """True if operand `number` must be a tensor in memory, because only run-time values say which of its elements are read."""
    return number == 0 and op.name in _INDEXED and not is_view(op)


def is_view(op: Operation) -> bool:
    """True if the instruction reads memory at indices that are all known when compiling."""
    return op.name in _INDEXED and len(op.operands) == 1


def is_slice(op: Operation) -> bool:
    """True if the instruction reads one box whose start is known only at run time."""
    if kind_of(op) is not Kind.INDEXED or len(op.operands) == 1:
        return False
    return all(prod(shape_of(index)) == 1 for index in op.operands[1:])


def is_inlined_constant(op: Operation) -> bool:
    """A constant whose elements are all equal: written where it is used, never a function or a parameter."""
    return op.name in CONSTANTS


def is_read_one_by_one(op: Operation) -> bool:
    """True if run-time values say for each element of the result, or each run of them, where it is read."""
    return op.name in _INDEXED and not is_view(op) and not is_slice(op)


def is_splat_constant(op: Operation) -> bool:
    """Is it a constant whose elements are all the same?"""
    return op.name in CONSTANTS and is_splat_literal(op)


def is_free(op: Operation) -> bool:
    """True if a copy in every fusion that reads it costs nothing, as for broadcasts and iotas."""
    return has_spec(op.name) and spec_of(op).is_free


def is_conditional(op: Operation, number: int) -> bool:
    """True if operand `number` is read for a part of the result only, as by pad and concatenate."""
    if not has_spec(op.name) or not spec_of(op).reads_parts:
        return False
    map = operand_maps(op)[number]
    return map is not None and (bool(map.constraints) or not _covers(map, shape_of(op.results[0])))


def _covers(map: IndexingMap, shape: tuple[int, ...]) -> bool:
    return all(d.lo <= 0 and d.hi >= size - 1 for d, size in zip(map.dims, shape, strict=True))


def is_single_operand_shaping(op: Operation) -> bool:
    """True if the instruction only rearranges the elements of one tensor."""
    return op.name in _SHAPING and bool(op.operands) and not spec_of(op).is_variadic


def is_box(op: Operation) -> bool:
    """True if the instruction takes a box out of a tensor, of neighbours along each dimension: a slice without strides."""
    if not is_single_operand_shaping(op):
        return False
    if (map := operand_maps(op)[0]) is None or map.constraints:
        return map is None
    terms, shape = [expr.affine_terms()[1] for expr in map.results], shape_of(op.results[0])
    return len(terms) == len(shape) and all(own == {Dim(d): 1} or shape[d] == 1 for d, own in enumerate(terms))


def operand_maps(op: Operation) -> tuple[IndexingMap | None, ...]:
    """Per operand the map from result index to operand index; None stands for the identity on the whole result.

    For an operand read at run-time indices it is the map that holds if these indices are all 0.
    """
    return kept(op, "operand maps", _maps_alike)


def _maps_alike(op: Operation) -> tuple[IndexingMap | None, ...]:
    return known_alike(op, "operand maps", _operand_maps)


def _operand_maps(op: Operation) -> tuple[IndexingMap | None, ...]:
    shape = shape_of(op.results[0])
    if kind_of(op) is Kind.ELEMENTWISE and all(shape_of(operand) == shape for operand in op.operands):
        return (None,) * len(op.operands)
    maps: list[IndexingMap | None] = []
    for choices in operand_indexing(op):
        if len(choices) != 1:
            raise LevelError("E1006", f"{op.name} reads several elements of an operand: it is not elemental")
        map = choices[0].at_runtime_zero()
        maps.append(None if is_identity(map, shape) else map)
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
    return outer.composed(inner)


def has_plain_tensors(op: Operation) -> bool:
    """Are all operands and results tensors in the usual order?"""
    types: tuple[Attribute, ...] = (*(value.type for value in op.operands), *op.result_types)
    return all(isinstance(type_, TensorType) and isinstance(type_.encoding, NoneAttr) for type_ in types)


def is_elementwise(op: Operation) -> bool:
    """Does every element depend on the elements at the same index alone?"""
    return kind_of(op) is Kind.ELEMENTWISE
