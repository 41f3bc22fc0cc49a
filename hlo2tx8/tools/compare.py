"""Compares results: by the rounding that the module's operations declare, or by absolute and relative bounds that the user
names.

By default an element may be off by `relative` times the largest expected value, where `relative` is the sum over the
module's ops of ulp(op) * eps(dtype of op); `reference.bounds_of` computes it.
A module whose ops are all exact (moves, compares, integers) must agree bit for bit, NaNs with NaNs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from hlo2tx8.hlo.signature import Port

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Bounds:
    """The allowed difference: `relative` to the largest expected value, or absolute and relative bounds as in run_hlo_module."""

    relative: float = 0.0
    absolute_bound: float | None = None
    relative_bound: float | None = None

    @property
    def is_named(self) -> bool:
        """True if the user named the bounds."""
        return self.absolute_bound is not None or self.relative_bound is not None

    def __str__(self) -> str:
        if self.is_named:
            return f"abs {self.absolute_bound or 0:g} or rel {self.relative_bound or 0:g}"
        return f"{self.relative:.3g} of the largest value" if self.relative else "bit for bit"


@dataclass(frozen=True)
class Mismatch:
    """An output that differs too much, with the worst element's index, actual and expected value."""

    output: int
    port: Port
    count: int
    size: int
    index: tuple[int, ...]
    actual: object
    expected: object

    def __str__(self) -> str:
        share = 100 * self.count / max(self.size, 1)
        return (
            f"mismatch in output {self.output} {self.port}: {self.count} of {self.size} elements "
            f"({share:.3g} %), worst at {list(self.index)}: got {self.actual}, expected {self.expected}"
        )


def compare(actual: Sequence[Array], expected: Sequence[Array], bounds: Bounds) -> list[Mismatch]:
    """One Mismatch per output that differs by more than the bounds allow; shapes and dtypes must be equal."""
    found: list[Mismatch] = []
    for number, (a, e) in enumerate(zip(actual, expected, strict=True)):
        if a.shape != e.shape or a.dtype != e.dtype:
            port = Port(a.shape, a.dtype.name)
            found.append(Mismatch(number, port, e.size, e.size, (), port, Port(e.shape, e.dtype.name)))
            continue
        error = excess(a, e, bounds)
        wrong = error > 0
        count = int(np.count_nonzero(wrong))
        if count:
            worst = tuple(int(i) for i in np.unravel_index(int(np.argmax(error)), a.shape))
            port = Port(a.shape, a.dtype.name)
            found.append(Mismatch(number, port, count, a.size, worst, a[worst], e[worst]))
    return found


def describe_difference(actual: Sequence[Array], expected: Sequence[Array]) -> str:
    """How close two results are, as text: "equal bit for bit", or how many elements differ and by how much at most."""
    differing, size, worst = 0, 0, 0.0
    for a, e in zip(actual, expected, strict=True):
        over = excess(a, e, Bounds())
        differing += int(np.count_nonzero(over))
        size += a.size
        worst = max(worst, float(over.max(initial=0.0)))
    return f"{differing} of {size} elements differ, by at most {worst:.3g}" if differing else "equal bit for bit"


def excess(actual: Array, expected: Array, bounds: Bounds) -> Array:
    """How far beyond the bound each element is: 0 within, inf where one is NaN and the other is not."""
    if not is_inexact(actual.dtype):
        return np.asarray(actual != expected, np.float64)
    wide = np.complex128 if actual.dtype.kind == "c" else np.float64
    a, e = np.asarray(actual.astype(wide)), np.asarray(expected.astype(wide))
    with np.errstate(all="ignore"):
        error = np.where(a == e, 0.0, np.abs(_difference(a, e)))
        limit = _limit(np.abs(e), error, bounds)
        over = np.where(error <= limit, 0.0, np.where(np.isfinite(error), error, np.inf))
    both_nan, one_nan = np.isnan(a) & np.isnan(e), np.isnan(a) ^ np.isnan(e)
    over = np.where(both_nan, 0.0, np.where(one_nan, np.inf, over))
    if not bounds.relative and not bounds.is_named and wide is np.float64:
        over = np.where((np.signbit(a) != np.signbit(e)) & ~both_nan, np.inf, over)
    return np.asarray(over)


def _difference(a: Array, e: Array) -> Array:
    """a - e; 0 in the parts of complex numbers that are equal, so that the infinity of one part does not hide the other."""
    if a.dtype.kind != "c":
        return np.asarray(a - e)
    found = np.empty(a.shape, np.complex128)
    found.real, found.imag = (np.where(part(a) == part(e), 0.0, part(a) - part(e)) for part in (np.real, np.imag))
    return found


def _limit(size: Array, error: Array, bounds: Bounds) -> Array:
    if bounds.is_named:
        return np.maximum(bounds.absolute_bound or 0.0, (bounds.relative_bound or 0.0) * size)
    finite = size[np.isfinite(size)]
    largest = float(finite.max()) if finite.size else 0.0
    return np.full(error.shape, bounds.relative * largest)


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """Is it a float (also bf16, f8, f4) or complex dtype?"""
    if dtype.kind in "fc":
        return True
    return dtype.kind == "V" and "float" in dtype.name


def epsilon(dtype: np.dtype[Any]) -> float:
    """Spacing of the dtype's numbers at 1; 0 for integers and pred."""
    if not is_inexact(dtype):
        return 0.0
    real = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
    return 2.0 ** -int(float_info(real).nmant)


def float_info(dtype: np.dtype[Any]) -> Any:
    """finfo of any float dtype: nmant, max, smallest_normal."""
    module: Any = import_module("ml_dtypes")
    return module.finfo(dtype)
