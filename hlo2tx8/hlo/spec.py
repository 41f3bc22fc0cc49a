"""OpSpec: everything the compiler knows about one HLO operation, in one place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt
from xdsl.ir import Operation

from hlo2tx8.errors import CompileError
from hlo2tx8.hlo.types import DType, is_complex, is_float, is_integer, is_pred, is_unsigned, mlir_name
from hlo2tx8.indexing import IndexingMap

Array: TypeAlias = npt.NDArray[Any]
Attributes: TypeAlias = Mapping[str, Any]


class Kind(Enum):
    """How an op relates result elements to operand elements."""

    ELEMENTWISE = auto()
    """Each result element from the operand elements at the same index (or the only element of a rank-0 operand)."""
    SHAPING = auto()
    """A result element is one operand element, or none: only an indexing map."""
    INDEXED = auto()
    """A result element is one element of the first operand, at a place that elements of the others move."""
    PER_CHANNEL = auto()
    """A result element from the first operand's at the same index and the others' at its channel: arithmetic, once expanded."""
    REDUCE = auto()
    DOT = auto()
    CONSTANT = auto()
    CONTROL = auto()
    """Regions, calls, tuples: evaluated by the evaluator, not by a reference."""
    HERO = auto()
    """Anything else that needs an emitter of its own."""


@dataclass(frozen=True)
class TensorLike:
    """Shape, dtype and layout (minor to major dimensions; None is row major) of a tensor."""

    shape: tuple[int, ...]
    dtype: DType
    layout: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return f"tensor<{''.join(f'{n}x' for n in self.shape)}{mlir_name(self.dtype)}>"


@dataclass(frozen=True)
class Sample:
    """One legal use of an op, for tests and fuzzers. `index_operands` must hold values in 0..bound-1."""

    operands: tuple[TensorLike, ...]
    results: tuple[TensorLike, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    index_operands: tuple[int, ...] = ()


Maps: TypeAlias = tuple[tuple[IndexingMap, ...], ...]
Reference: TypeAlias = Callable[..., Any]
Indexing: TypeAlias = Callable[[Attributes, TensorLike, tuple[TensorLike, ...]], Maps]
ShapeRule: TypeAlias = Callable[[Attributes, tuple[TensorLike, ...]], tuple[TensorLike, ...]]


class Body(Protocol):
    """A region written for scalars, as a function on arrays of one shape."""

    @property
    def only_adds(self) -> bool:
        """True if the body returns the sum of its two arguments."""
        ...

    def __call__(self, *arguments: Array) -> list[Array]:
        """What the region yields for every element."""
        ...


class Accepts(Enum):
    """Families of element dtypes an op is defined on."""

    FLOAT = "floats"
    COMPLEX = "complex numbers"
    SIGNED = "signed integers"
    UNSIGNED = "unsigned integers"
    PRED = "pred"

    def has(self, dtype: DType) -> bool:
        """True if the dtype belongs to the family."""
        match self:
            case Accepts.FLOAT:
                return is_float(dtype)
            case Accepts.COMPLEX:
                return is_complex(dtype)
            case Accepts.SIGNED:
                return is_integer(dtype) and not is_unsigned(dtype)
            case Accepts.UNSIGNED:
                return is_integer(dtype) and is_unsigned(dtype)
            case Accepts.PRED:
                return is_pred(dtype)


@dataclass(frozen=True)
class OpSpec:
    """One HLO operation.

    `reference(attrs, results, *arrays)` is the meaning, in numpy; a tuple of arrays for several results. Elementwise
    references take arrays of any shapes that broadcast and ignore `results[i].shape`.
    `body_reference(attrs, results, bodies, *arrays)` is it for ops with regions: each of the bodies is a function on arrays.
    `indexing(attrs, result, operands)` gives per operand the maps from a result index to the operand indices read.
    `ulp` bounds the distance to the reference in units of the last place of the result's dtype; 0 is bit for bit.
    `complex_ulp` is that bound for complex results, in units of the last place of their absolute value.
    `ulp_floor`: results of smaller size count as this large; for functions with zeros that cancellation makes.
    `scalar` names the arith or math class with the same meaning on scalars: "float", "int" (signless).
    `linear` numbers the operands in which the op is linear: op(a + b, c + d) = op(a, c) + op(b, d), the others unchanged;
    if `is_multilinear`, in each of them alone, and the op sums over all range variables of its maps. A SHAPING op is linear
    in all of its operands.
    `size_attributes` names attributes that give a size for each dimension of the first operand.
    `batch_dimensions(attrs, rank)` lists dimensions that operands and results of that rank share, and along which the op
    treats each index by itself (what a sort does not sort along).
    `neutral(dtype)` is the scalar that changes nothing when the op joins it with another one, bit for bit; None of a dtype that
    has none. Ops that have the field are associative and commutative: a reduce by them may join its elements in any grouping.
    `is_free`: computing an element again wherever it is read costs nothing.
    `reads_parts`: an operand is read for a part of the result only.
    `is_variadic`: it takes any number of operands that stand side by side.
    `update_indexing(attrs, result, operands)`, for ops that combine updates into their first operand, gives per operand the
    maps from an index of the last operand, the updates; the result is written where the first operand is read.
    """

    name: str
    kind: Kind
    reference: Reference | None = None
    indexing: Indexing | None = None
    shape: ShapeRule | None = None
    scalar: Mapping[str, type[Operation]] | None = None
    ulp: float = 0
    complex_ulp: float = 4
    ulp_floor: float = 0
    accepts: tuple[Accepts, ...] = ()
    samples: Callable[[], Sequence[Sample]] = tuple
    body_reference: Reference | None = None
    linear: tuple[int, ...] = ()
    is_multilinear: bool = False
    size_attributes: tuple[str, ...] = ()
    batch_dimensions: Callable[[Attributes, int], tuple[int, ...]] | None = None
    update_indexing: Indexing | None = None
    neutral: Callable[[DType], Any] | None = None
    is_free: bool = False
    reads_parts: bool = False
    is_variadic: bool = False

    def linear_operands(self, count: int) -> tuple[int, ...]:
        """Numbers of the operands, of `count`, in which the op is linear."""
        return tuple(range(count)) if self.kind is Kind.SHAPING else self.linear

    def evaluate(self, attributes: Attributes, results: Sequence[TensorLike], *arrays: Array) -> tuple[Array, ...]:
        """The reference's results, always as a tuple; CompileError for an op that has no reference."""
        if self.reference is None:
            raise CompileError("E1001", f"{self.name} has no reference on arrays alone")
        found: Array | tuple[Array, ...] = self.reference(attributes, tuple(results), *arrays)
        return found if isinstance(found, tuple) else (found,)
