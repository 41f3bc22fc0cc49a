"""What is known of an operation so that it can be cut, and how that is read off one in jaxlib's MLIR.

A *factor* is an extent of the work: dot_general of [m, k] and [k, n] has the factors m, n and k. A dimension of an operand or
result that is a factor may be cut as the factor is; one that is none must be whole. A cut of a factor that only operands have (k)
leaves each device a part of the result: a summand, or one of what a reduction combines.
"""
# pyright: basic

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hlo2tx8.frontend import shim

Dims = list[int | None]
"""The factor of each dimension, None where it must be whole."""
ADD = "stablehlo.add"


@dataclass
class Rule:
    """Factors of an operation: their sizes, those of each dimension, those that are combined and how.

    `linear` operands may be parts of sums, together or, if `is_bilinear`, one of them; `summed_onto` is an operand that must be
    cut into summands as the combined factors are.
    """

    sizes: list[int] = field(default_factory=list[int])
    operands: list[Dims] = field(default_factory=list[Dims])
    results: list[Dims] = field(default_factory=list[Dims])
    combined: list[int] = field(default_factory=list[int])
    combiner: str = ""
    linear: tuple[int, ...] = ()
    is_bilinear: bool = False
    summed_onto: int | None = None
    attributes: dict[str, list[int | None]] = field(default_factory=dict[str, list[int | None]])
    """Lists of sizes, with the factor of each."""

    def factor(self, size: int) -> int:
        """A new one; it may be cut into parts if that divides `size`."""
        self.sizes.append(size)
        return len(self.sizes) - 1

    def factors(self, shape: Sequence[int]) -> Dims:
        """A new one for each dimension."""
        return [self.factor(size) for size in shape]


Shapes = list[list[int]]


def shape(value: Any) -> list[int]:
    ir = shim.ir()
    return list(ir.RankedTensorType(value.type).shape) if isinstance(value.type, ir.RankedTensorType) else []


def integers(op: Any, name: str) -> list[int]:
    return [int(i) for i in op.attributes[name]] if name in op.attributes else []


def integer(op: Any, name: str) -> int:
    return shim.ir().IntegerAttr(op.attributes[name]).value


def alike(op: Any, rule: Rule, operands: Shapes, results: Shapes, wholes: set[int]) -> None:
    """All arrays have the same dimensions, of which some must be whole; others are scalars."""
    dims: Dims = [None if d in wholes else rule.factor(size) for d, size in enumerate(results[0])]
    rule.operands = [dims if shape else [] for shape in operands]
    rule.results = [dims for _ in results]


def splat_of(op: Any) -> Any:
    """The attribute of the one value that a constant has everywhere; None if it has others, or is complex."""
    ir = shim.ir()
    if isinstance(op.results[0].type.element_type, ir.ComplexType):
        return None
    value = op.attributes["value"]
    if not isinstance(value, ir.DenseElementsAttr) or not value.is_splat:
        return None
    return value.get_splat_value()
