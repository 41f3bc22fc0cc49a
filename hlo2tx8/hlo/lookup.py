"""From an operation to its spec, its types and its indexing maps."""

from collections.abc import Callable, Mapping
from functools import cache
from itertools import count
from operator import attrgetter
from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute, Block, Operation

from hlo2tx8.dialects.hlo import decode_attributes, minor_to_major, origin
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.dialects.xla import ElementwiseOp
from hlo2tx8.errors import CompileError, LevelError
from hlo2tx8.hlo.ops import SPECS
from hlo2tx8.hlo.spec import Kind, Maps, OpSpec, TensorLike
from hlo2tx8.hlo.types import numpy_dtype

Found = TypeVar("Found")
_TYPE = attrgetter("_type")
MOST = 1 << 14
"""Kinds of ops of which something is kept."""


def all_specs() -> tuple[OpSpec, ...]:
    """Every spec, in the order of the families."""
    return SPECS


_BY_NAME: Mapping[str, OpSpec] = {spec.name: spec for spec in SPECS}
KINDS: Mapping[str, Kind] = {spec.name: spec.kind for spec in SPECS}


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
    return name in _BY_NAME


def spec_of(op: Operation | str) -> OpSpec:
    """The spec of an HLO op or of its name; CompileError E1001 with the origin if there is none."""
    name = op if isinstance(op, str) else op.name
    spec = _BY_NAME.get(name)
    if spec is None:
        where = "" if isinstance(op, str) else origin(op)
        raise CompileError("E1001", f"{name} is not supported", origin=where)
    return spec


def names_of(*kinds: Kind) -> frozenset[str]:
    """The names of all ops of these kinds."""
    return frozenset(name for name, kind in KINDS.items() if kind in kinds)


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


def kept(op: Operation, what: str, find: Callable[[Operation], Found]) -> Found:
    """`what` of an op is found of its types and attributes alone: it is kept with it, until one of them is another."""
    properties, attributes, held = op.properties, op.attributes, vars(op)
    types = (*map(_TYPE, op.results), *map(_TYPE, op._operands))  # pyright: ignore[reportPrivateUsage] - asked very often
    asked = (*types, *properties, *properties.values(), *attributes, *attributes.values())
    known = held.get(what)
    if known is None or known[0] != asked:
        held[what] = known = asked, find(op)
    return known[1]


def kept_with(block: Block, what: str, find: Callable[[Block], Found]) -> Found:
    """`what` of a block is found of its ops alone: it is kept with it, until one of them is another."""
    asked = _content(block)
    held = vars(block)
    known = held.get(what)
    if known is None or known[0] != asked:
        held[what] = known = asked, find(block)
    return known[1]


def _content(block: Block) -> list[object]:
    """All that makes a block what it is, each as it is there now."""
    found: list[object] = [own._type for own in block.args]  # pyright: ignore[reportPrivateUsage]
    for op in ops_of(block):
        found += (op, op._operands, *[own._type for own in op.results])  # pyright: ignore[reportPrivateUsage]
        found += (*op.properties.values(), *op.attributes.values())
        for region in op.regions:
            for inner in region.blocks:
                found += _content(inner)
    return found


def attributes_of(op: Operation) -> dict[str, Any]:
    """The op's attributes as Python values; `operand_layouts` too where the op may change the layout."""
    return {**kept(op, "attributes as values", _attributes_of)}


def _attributes_of(op: Operation) -> dict[str, Any]:
    attributes: dict[str, Any] = decode_attributes(op)
    if op.name == "hlo.bitcast":
        attributes["operand_layouts"] = tuple(tensor_like(value.type).layout for value in op.operands)
    return attributes


def operand_indexing(op: Operation) -> Maps:
    """Per operand the maps from an index of result 0 to the operand indices it depends on."""
    return kept(op, "operand indexing", _operand_indexing)


def known_alike(op: Operation, what: str, find: Callable[[Operation], Found]) -> Found:
    """`what` of an op is found of its kind, types and attributes alone, but for where it is in the source: it is kept for all such
    ops, of which layers of a model have many. Constants, whose attributes may be large, are none of them."""
    if not op._operands:  # pyright: ignore[reportPrivateUsage] - of each op, without a view
        return find(op)
    types = [_number_of(value._type) for value in (*op.results, *op._operands)]  # pyright: ignore[reportPrivateUsage] - as above
    attributes = [item for item in op.attributes.items() if item[0] != "loc"]
    key = (what, op.name, len(op.results), *types, *op.properties.items(), *attributes)
    found = _ALIKE.get(key)
    if found is None:
        if len(_ALIKE) >= MOST:
            _ALIKE.clear()
        found = _ALIKE[key] = find(op)
    return found


_ALIKE: dict[tuple[object, ...], Any] = {}
_NUMBERS: dict[Attribute, int] = {}
_NEXT = count()


def _number_of(type_: Attribute) -> int:
    """The same number for equal types, of which each is hashed once."""
    held = vars(type_)
    number = held.get("number among types")
    if number is None:
        if len(_NUMBERS) >= MOST:
            _NUMBERS.clear()  # and none is given again
        held["number among types"] = number = _NUMBERS.setdefault(type_, next(_NEXT))
    return number


def _operand_indexing(op: Operation) -> Maps:
    return known_alike(op, "operand indexing", _found_operand_indexing)


def _found_operand_indexing(op: Operation) -> Maps:
    spec = spec_of(op)
    if spec.indexing is None:
        raise CompileError("E1001", f"{op.name} has no indexing maps", origin=origin(op))
    operands = tuple(tensor_like(value.type) for value in op.operands)
    return spec.indexing(attributes_of(op), tensor_like(op.results[0].type), operands)
