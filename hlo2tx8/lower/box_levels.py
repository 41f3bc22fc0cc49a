"""Boxes as nested strided levels: what a DMA or TDMA descriptor walks.

A level is one loop of a descriptor: `extent` turns, moving each side of the transfer by its stride. Levels are listed from
the outermost; both sides count in elements. Extents and strides are integers where they are known at compile time and SSA
index values where the step decides (tails, clips).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

Size: TypeAlias = int | SSAValue


@dataclass(frozen=True)
class BoxLevel:
    """`extent` turns; `strides` has one entry per side of the transfer, in elements."""

    extent: Size
    strides: tuple[Size, ...]


def coalesce(levels: Sequence[BoxLevel], multiply: "Multiply") -> tuple[BoxLevel, ...]:
    """The same walk with fewer levels: drops single turns, merges a level into the one inside where all sides continue.

    `[(4, 64), (64, 1)]` is `[(256, 1)]`; `[(%n, 64), (64, 1)]` is `[(%n * 64, 1)]`, and `[(4, %n), (%n, 1)]` is `[(4 * %n, 1)]`.
    """
    merged: list[BoxLevel] = []
    for level in reversed([lv for lv in levels if lv.extent != 1]):
        inner = merged[-1] if merged else None
        if inner is not None and _continues(level, inner):
            merged[-1] = BoxLevel(multiply(level.extent, inner.extent), inner.strides)
        else:
            merged.append(level)
    return tuple(reversed(merged))


def _continues(outer: BoxLevel, inner: BoxLevel) -> bool:
    return all(_is_product(o, i, inner.extent) for o, i in zip(outer.strides, inner.strides, strict=True))


def _is_product(size: Size, a: Size, b: Size) -> bool:
    """Is a size known to be a * b, because both are numbers or that is how it was made?"""
    if a == 1 or size == 0:
        return size == (b if a == 1 else a)
    if isinstance(size, int):
        return isinstance(a, int) and isinstance(b, int) and size == a * b
    made = size.owner
    return isinstance(made, arith.MuliOp) and (_is_size(made.lhs, a) and _is_size(made.rhs, b))


def _is_size(value: SSAValue, size: Size) -> bool:
    if isinstance(size, SSAValue):
        return value is size
    made = value.owner
    return isinstance(made, arith.ConstantOp) and isinstance(made.value, IntegerAttr) and made.value.value.data == size


def dense_strides(extents: Sequence[Size], multiply: "Multiply") -> tuple[Size, ...]:
    """Row-major strides, in elements, of a box with these extents."""
    strides: list[Size] = []
    running: Size = 1
    for extent in reversed(extents):
        strides.append(running)
        running = multiply(running, extent)
    return tuple(reversed(strides))


class Multiply:
    """Multiplies sizes; subclasses emit an instruction where a factor is not known at compile time."""

    def __call__(self, a: Size, b: Size) -> Size:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 1:
            return b
        if b == 1:
            return a
        return self.emit(a, b)

    def emit(self, a: Size, b: Size) -> SSAValue:
        raise TypeError(f"sizes {a} and {b} are not known at compile time")
