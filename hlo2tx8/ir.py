"""What all ops of ours are, and the attributes that ops are made with again and again.

Compiling is making ops above all, some tens of thousands for a model. xDSL reads an op's definition anew for each one it makes, and
verifies each attribute; here a class's definition is read once, and equal attributes, which nothing can change, are one object.
"""

from abc import ABCMeta
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from struct import error, pack, unpack
from typing import Any, Self

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    BytesAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    StringAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue, Use
from xdsl.ir.core import SSAValues
from xdsl.irdl import AttrSizedOperandSegments, IRDLOperation, OptionalDef

INDEX = IndexType()
MOST = 16_384
"""Attributes of a kind that are kept."""


@dataclass(frozen=True)
class _Form:
    """What an op's definition says about making it; `is_usual`: nothing but the sizes of its operands, as a property, at most."""

    num_operands: int
    num_results: int
    num_regions: int
    is_usual: bool
    has_sizes: bool
    properties: tuple[tuple[str, Attribute], ...]
    attributes: tuple[tuple[str, Attribute], ...]


@cache
def _form(cls: type[IRDLOperation]) -> _Form:
    definition = cls.get_irdl_definition()
    sizes = AttrSizedOperandSegments(as_property=True)
    return _Form(
        len(definition.operands),
        len(definition.results),
        len(definition.regions),
        all(option == sizes for option in definition.options) and not definition.successors,
        bool(definition.options),
        _defaults(definition.properties),
        _defaults(definition.attributes),
    )


def _defaults(given: Mapping[str, Any]) -> tuple[tuple[str, Attribute], ...]:
    """The attributes that an op has where it is made without them."""
    required = ((name, own.default_value) for name, own in given.items() if not isinstance(own, OptionalDef))
    return tuple((name, value) for name, value in required if value is not None)


class OpClass(ABCMeta):
    """The class of classes of ops. Nothing is registered as one of theirs, so whether an object is one is said by its own class;
    `ABCMeta` asks at several times the cost, and passes ask it of every op."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


class DeclaredOp(IRDLOperation, metaclass=OpClass):
    """An op of a definition; made as other such ops are."""

    def __init__(
        self,
        *,
        operands: Sequence[SSAValue | Operation | Sequence[SSAValue | Operation] | None] = (),
        result_types: Sequence[Attribute | Sequence[Attribute] | None] = (),
        properties: Mapping[str, Attribute | None] | None = None,
        attributes: Mapping[str, Attribute | None] | None = None,
        regions: Sequence[Region | Sequence[Region]] = (),
    ) -> None:
        form = _form(type(self))
        given = (len(operands), len(result_types), len(regions))
        if not form.is_usual or given != (form.num_operands, form.num_results, form.num_regions):
            super().__init__(
                operands=operands, result_types=result_types, properties=properties, attributes=attributes, regions=regions
            )
            return
        found = [_values(own) for own in operands]
        types = [type_ for own in result_types for type_ in _types(own)]
        held = _given(properties)
        if form.has_sizes:
            held[AttrSizedOperandSegments.attribute_name] = _sizes(tuple(map(len, found)))
        within = [region for own in regions for region in ((own,) if isinstance(own, Region) else own)]
        self._fill([value for values in found for value in values], types, held, _given(attributes), within)

    @classmethod
    def create(
        cls,
        *,
        operands: Sequence[SSAValue] = (),
        result_types: Sequence[Attribute] = (),
        properties: Mapping[str, Attribute] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        location: LocationAttr | None = None,
        successors: Sequence[Block] = (),
        regions: Sequence[Region] = (),
    ) -> Self:
        """An op of all that it has, as xDSL clones them too; none of ours has successors."""
        assert not successors
        op = cls.__new__(cls)
        op._fill(operands, result_types, dict(properties or {}), dict(attributes or {}), regions)
        op.location = location or UNKNOWN_LOC
        return op

    def _fill(
        self,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        properties: dict[str, Attribute],
        attributes: dict[str, Attribute],
        regions: Sequence[Region],
    ) -> None:
        """What `Operation.__init__` does, for an op that is new."""
        uses: list[Use] = []
        for index, value in enumerate(operands):
            use = Use(self, index)
            value.add_use(use)
            uses.append(use)
        self._operands, self._operand_uses = SSAValues(operands), tuple(uses)
        self.results = SSAValues([OpResult(type_, self, index) for index, type_ in enumerate(result_types)])
        self.properties, self.attributes, self.location, self.regions = properties, attributes, UNKNOWN_LOC, ()
        for region in regions:
            self.add_region(region)
        self.__post_init__()

    def __post_init__(self) -> None:
        form = _form(type(self))
        for name, value in form.properties:
            self.properties.setdefault(name, value)
        for name, value in form.attributes:
            self.attributes.setdefault(name, value)


def _values(given: SSAValue | Operation | Sequence[SSAValue | Operation] | None) -> Sequence[SSAValue]:
    """The values of an operand of the definition."""
    if isinstance(given, (OpResult, BlockArgument)):  # the classes themselves, which is asked faster than of their base
        return (given,)
    if isinstance(given, (list, tuple)):
        return [value if isinstance(value, (OpResult, BlockArgument)) else SSAValue.get(value) for value in given]
    if given is None:
        return ()
    return (SSAValue.get(given),) if isinstance(given, SSAValue | Operation) else [SSAValue.get(value) for value in given]


def _types(given: Attribute | Sequence[Attribute] | None) -> Sequence[Attribute]:
    """The types of a result of the definition."""
    if isinstance(given, (list, tuple)):
        return given
    if given is None:
        return ()
    return (given,) if isinstance(given, Attribute) else given


def _given(attributes: Mapping[str, Attribute | None] | None) -> dict[str, Attribute]:
    return {name: value for name, value in attributes.items() if value is not None} if attributes else {}


@lru_cache(maxsize=MOST)
def _sizes(sizes: tuple[int, ...]) -> Attribute:
    return DenseArrayBase.from_list(i32, sizes)


@lru_cache(maxsize=MOST)
def _array(values: tuple[int, ...]) -> DenseArrayBase[IntegerType]:
    try:
        return DenseArrayBase(i64, BytesAttr(pack(f"<{len(values)}q", *values)))
    except error:  # 2**63 and more: numbers without a sign, whose bits are kept
        return DenseArrayBase.from_list(i64, values)


@lru_cache(maxsize=MOST)
def _integers(data: bytes) -> tuple[int, ...]:
    return unpack(f"<{len(data) // 8}q", data)


def integers(array: DenseArrayBase[IntegerType]) -> tuple[int, ...]:
    """The elements of an `array<i64: ...>`."""
    return _integers(array.data.data)


def i64_array(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """The sequence as an `array<i64: ...>` attribute."""
    return _array(tuple(values))


@lru_cache(maxsize=MOST, typed=True)
def i64_attr(value: int) -> IntegerAttr[IntegerType]:
    """`value : i64`."""
    return IntegerAttr(value, i64)


@lru_cache(maxsize=MOST, typed=True)
def index_attr(value: int) -> IntegerAttr[IndexType]:
    """`value : index`."""
    return IntegerAttr(value, INDEX)


@lru_cache(maxsize=MOST)
def text_attr(text: str) -> StringAttr:
    """The text as an attribute."""
    return StringAttr(text)


@lru_cache(maxsize=MOST)
def _vector(element: Attribute, shape: tuple[int, ...]) -> VectorType[Attribute]:
    return VectorType(element, shape)


def vector_type_of(element: Attribute, shape: Sequence[int]) -> VectorType[Attribute]:
    """The type of a vector."""
    return _vector(element, tuple(shape))
