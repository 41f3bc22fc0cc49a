"""From an operation to its spec, its types and its indexing maps."""

from collections.abc import Mapping
from functools import cache
from typing import Any, cast
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute, Operation

from hlo2tx8.dialects.hlo import decode_attributes, minor_to_major, origin
from hlo2tx8.dialects.xla import ElementwiseOp
from hlo2tx8.errors import CompileError, LevelError
from hlo2tx8.hlo.ops import SPECS
from hlo2tx8.hlo.spec import Maps, OpSpec, TensorLike
from hlo2tx8.hlo.types import numpy_dtype


def all_specs() -> tuple[OpSpec, ...]:
    """Every spec, in the order of the families."""
    return SPECS


@cache
def _by_name() -> Mapping[str, OpSpec]:
    return {spec.name: spec for spec in SPECS}


@cache
def _by_scalar_class() -> Mapping[type[Operation], OpSpec]:
    """arith and math classes to the first spec that names them."""
    found: dict[type[Operation], OpSpec] = {}
    for spec in SPECS:
        for scalar in (spec.scalar or {}).values():
            found.setdefault(scalar, spec)
    return found


def has_spec(name: str) -> bool:
    """True if there is an OpSpec with that name."""
    return name in _by_name()


def spec_of(op: Operation | str) -> OpSpec:
    """The spec of an HLO op or of its name; CompileError E1001 with the origin if there is none."""
    name = op if isinstance(op, str) else op.name
    spec = _by_name().get(name)
    if spec is None:
        where = "" if isinstance(op, str) else origin(op)
        raise CompileError("E1001", f"{name} is not supported", origin=where)
    return spec


def spec_of_scalar(op: Operation) -> OpSpec:
    """The spec with the meaning of an arith, math or `xla.elementwise` op on scalars or vectors."""
    if isinstance(op, ElementwiseOp):
        return spec_of(op.op.data)
    spec = _by_scalar_class().get(type(op))
    if spec is None:
        raise CompileError("E1001", f"{op.name} has no HLO meaning", origin=origin(op))
    return spec


def tensor_like(type_: Attribute) -> TensorLike:
    """Shape, dtype and layout of a ranked tensor type with static shape; LevelError for other types."""
    if not isinstance(type_, TensorType):
        raise LevelError("E1006", f"{type_} is no tensor")
    tensor = cast("TensorType[Attribute]", type_)
    shape = tuple(tensor.get_shape())
    if any(n < 0 for n in shape):
        raise CompileError("E1001", f"{type_} has a dynamic shape")
    layout = None if isinstance(tensor.encoding, NoneAttr) else minor_to_major(tensor)
    return TensorLike(shape, numpy_dtype(tensor.element_type), layout)


def attributes_of(op: Operation) -> dict[str, Any]:
    """The op's attributes as Python values; `operand_layouts` too where the op may change the layout."""
    attributes: dict[str, Any] = decode_attributes(op)
    if op.name == "hlo.bitcast":
        attributes["operand_layouts"] = tuple(tensor_like(value.type).layout for value in op.operands)
    return attributes


_INDEXING: WeakKeyDictionary[Operation, tuple[tuple[Any, ...], Maps]] = WeakKeyDictionary()
"""Of each op the maps that were asked for last, behind the types and attributes that they are of."""


def operand_indexing(op: Operation) -> Maps:
    """Per operand the maps from an index of result 0 to the operand indices it depends on."""
    asked = (op.results[0].type, *(value.type for value in op.operands), *op.properties.items(), *op.attributes.items())
    known = _INDEXING.get(op)
    if known is not None and known[0] == asked:
        return known[1]
    spec = spec_of(op)
    if spec.indexing is None:
        raise CompileError("E1001", f"{op.name} has no indexing maps", origin=origin(op))
    operands = tuple(tensor_like(value.type) for value in op.operands)
    maps = spec.indexing(attributes_of(op), tensor_like(op.results[0].type), operands)
    _INDEXING[op] = asked, maps
    return maps
