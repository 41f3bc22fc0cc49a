"""What all ops of ours are, and the attributes that ops are made with again and again.

Compiling is making ops above all, some tens of thousands for a model. xDSL reads an op's definition anew for each one it makes, and
verifies each attribute; here a class's definition is read once, and equal attributes, which nothing can change, are one object.
"""

from abc import ABCMeta
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from struct import error, pack, unpack
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    BytesAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    StringAttr,
    TensorType,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue, Use
from xdsl.ir.core import SSAValues
from xdsl.irdl import AttrSizedOperandSegments, IRDLOperation, OptionalDef
from xdsl.irdl.operations import BeforeVariadicSingleAccessor, VarIRConstruct

INDEX = IndexType()
OpT = TypeVar("OpT", bound=Operation)
ValueT = TypeVar("ValueT", bound=SSAValue)
DeclaredT = TypeVar("DeclaredT", bound=IRDLOperation)
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
def _form(cls: type[Operation]) -> _Form:
    definition = cast("type[IRDLOperation]", cls).get_irdl_definition()
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


_take: Callable[[tuple[Any, ...], Any], Any] = getattr(tuple, "__getitem__")  # noqa: B009 - whose type says less
"""What a tuple does by itself."""


class Values(SSAValues[ValueT]):
    """Operands or results of an op, of which one is taken in the shortest way."""

    def __getitem__(self, index: int | slice) -> Any:
        found: Any = _take(self, index)
        return found if type(index) is int else Values(found)


def _place(accessor: BeforeVariadicSingleAccessor) -> object:
    """Gives one operand, or result, without a view of all."""
    index = accessor.idx

    def of_operands(op: Operation) -> SSAValue:
        return _take(op._operands, index)  # pyright: ignore[reportPrivateUsage]

    def of_results(op: Operation) -> SSAValue:
        return _take(op.results, index)

    of = {VarIRConstruct.OPERAND: of_operands, VarIRConstruct.RESULT: of_results}.get(accessor.construct)
    return accessor if of is None else property(of)


class OpClass(ABCMeta):
    """The class of classes of ops. Nothing is registered as one of theirs, so whether an object is one is said by its own class;
    `ABCMeta` asks at several times the cost, and passes ask it of every op. Single operands and results in front of any list of
    them are read where they are, not by a view of all."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__

    def __setattr__(cls, name: str, value: object) -> None:
        super().__setattr__(name, _place(value) if isinstance(value, BeforeVariadicSingleAccessor) else value)


class DeclaredOp(IRDLOperation, metaclass=OpClass):
    """An op of a definition; made as other such ops are."""

    if not TYPE_CHECKING:  # those of xDSL say the same, in Python
        __hash__ = object.__hash__
        __eq__ = object.__eq__

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
        fill(self, [value for values in found for value in values], types, held, _given(attributes), within)

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
        fill(op, operands, result_types, dict(properties or {}), dict(attributes or {}), regions)
        op.location = location or UNKNOWN_LOC
        return op


def fill(
    op: Operation,
    operands: Sequence[SSAValue],
    result_types: Sequence[Attribute],
    properties: dict[str, Attribute],
    attributes: dict[str, Attribute],
    regions: Sequence[Region],
) -> None:
    """What `IRDLOperation.__init__` does, for an op that is new."""
    uses: list[Use] = []
    for index, value in enumerate(operands):
        use, other = Use(op, index), value.first_use
        value.first_use = use  # what `add_use` does
        if other is not None:
            use._next_use, other._prev_use = other, use  # pyright: ignore[reportPrivateUsage]
        uses.append(use)
    op._operands, op._operand_uses = Values(operands), tuple(uses)  # pyright: ignore[reportPrivateUsage] - as its setter does
    op.results = Values([OpResult(type_, op, index) for index, type_ in enumerate(result_types)])
    op.properties, op.attributes, op.location, op.regions = properties, attributes, UNKNOWN_LOC, ()
    for region in regions:
        op.add_region(region)
    form = _form(type(op))
    for name, value in form.properties:
        properties.setdefault(name, value)
    for name, value in form.attributes:
        attributes.setdefault(name, value)


def make(
    cls: type[DeclaredT],
    operands: Sequence[SSAValue] = (),
    result_types: Sequence[Attribute] = (),
    properties: dict[str, Attribute] | None = None,
    regions: Sequence[Region] = (),
) -> DeclaredT:
    """An op of any dialect, without successors, of all that it has but what its definition says if nothing else is given."""
    op = cls.__new__(cls)
    fill(op, operands, result_types, properties or {}, {}, regions)
    return op


def maker_of(value: SSAValue) -> Operation | None:
    """The op that a value is a result of; None for an argument of a block. `owner` is to be asked for its class, of `ABCMeta`."""
    return value.op if type(value) is OpResult else None


def append(block: Block, op: Operation) -> None:
    """Puts a new op, in which the block is not, at the end of a block; `Block.add_op` goes up through all that is around the
    block to see that the op is not there."""
    assert op.parent is None
    last = block._last_op  # pyright: ignore[reportPrivateUsage] - as `add_op` does
    op.parent = block
    if last is None:
        block._first_op = op  # pyright: ignore[reportPrivateUsage]
    else:
        op._prev_op, last._next_op = last, op  # pyright: ignore[reportPrivateUsage]
    block._last_op = op  # pyright: ignore[reportPrivateUsage]


def insert_before(op: Operation, other: Operation) -> None:
    """Puts a new op, in which the other is not, in front of it; as `append`."""
    block, before = other.parent, other._prev_op  # pyright: ignore[reportPrivateUsage] - as `insert_op_before` does
    assert block is not None
    assert op.parent is None
    op.parent = block
    op._prev_op, op._next_op = before, other  # pyright: ignore[reportPrivateUsage]
    other._prev_op = op  # pyright: ignore[reportPrivateUsage]
    if before is None:
        block._first_op = op  # pyright: ignore[reportPrivateUsage]
    else:
        before._next_op = op  # pyright: ignore[reportPrivateUsage]


def like(op: OpT, operands: Sequence[SSAValue], result_types: Sequence[Attribute]) -> OpT:
    """An op as another one, without regions and successors, of other operands and types; its results have the same names."""
    new = type(op).__new__(type(op))
    fill(new, operands, result_types, dict(op.properties), dict(op.attributes), ())
    for result, own in zip(op.results, new.results, strict=True):
        own._name = result._name  # pyright: ignore[reportPrivateUsage] - which is a name
    return new


def copy_of(op: OpT, known: dict[SSAValue, SSAValue]) -> OpT:
    """A copy of an op without successors, with nothing in its regions. Its operands are what is `known` for those of the op, which
    learns its results."""
    copy = type(op).__new__(type(op))
    operands = [known.get(value, value) for value in op._operands]  # pyright: ignore[reportPrivateUsage] - a tuple, no view of it
    types = [result.type for result in op.results]
    fill(copy, operands, types, dict(op.properties), dict(op.attributes), [Region() for _ in op.regions])
    copy.location = op.location
    for result, own in zip(op.results, copy.results, strict=True):
        known[result] = own
        own._name = result._name  # pyright: ignore[reportPrivateUsage] - which is a name
    return copy


_VALUES = (OpResult, BlockArgument)


def _values(given: SSAValue | Operation | Sequence[SSAValue | Operation] | None) -> Sequence[SSAValue]:
    """The values of an operand of the definition."""
    if type(given) in _VALUES:  # the classes themselves, which is asked faster than of their base
        return (cast(SSAValue, given),)
    if isinstance(given, (list, tuple)):
        return [cast(SSAValue, value) if type(value) in _VALUES else SSAValue.get(value) for value in given]
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


@lru_cache(maxsize=MOST)
def _tensor(element: Attribute, shape: tuple[int, ...]) -> TensorType[Attribute]:
    return TensorType(element, shape)


def tensor_type_of(element: Attribute, shape: Sequence[int]) -> TensorType[Attribute]:
    """The type of a tensor in the usual order."""
    return _tensor(element, tuple(shape))
