"""Compares results element by element with what each may be off.

What is allowed comes from the errors that the module's operations declare, carried through it (`hlo.error_bounds`), or from the
absolute and relative bounds that the user names. Where it is 0 elements agree bit for bit, NaNs with NaNs; where it is infinite
nothing is known of the element.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hlo2tx8.hlo.signature import Port
from hlo2tx8.hlo.types import is_complex, is_float

Array = npt.NDArray[Any]
SHOWN = 5
"""Elements that a mismatch lists."""


@dataclass(frozen=True)
class Element:
    """One element that differs by more than is allowed."""

    index: tuple[int, ...]
    actual: object
    expected: object
    difference: float
    allowed: float

    def __str__(self) -> str:
        values = f"got {self.actual}, expected {self.expected}"
        return f"{list(self.index)}: {values}, difference {self.difference:.3g}, allowed {self.allowed:.3g}"


@dataclass(frozen=True)
class Mismatch:
    """An output that differs too much: how many elements, and the worst few of them, the worst first; none of them where shape or
    dtype differ.
    """

    output: int
    port: Port
    count: int
    size: int
    elements: tuple[Element, ...]
    instead: Port | None = None

    @property
    def line(self) -> str:
        """The mismatch with its worst element."""
        if self.instead is not None:
            return f"mismatch in output {self.output}: {self.port} instead of {self.instead}"
        share = 100 * self.count / max(self.size, 1)
        where = f"mismatch in output {self.output} {self.port}: {self.count} of {self.size} elements ({share:.3g} %)"
        return f"{where}, worst at {self.elements[0]}"

    def __str__(self) -> str:
        return "\n".join([self.line, *(f"  {' ' * 8}next at {element}" for element in self.elements[1:])])


def compare(actual: Sequence[Array], expected: Sequence[Array], allowed: Sequence[Array]) -> list[Mismatch]:
    """One Mismatch per output that differs by more than is allowed (per element, float64); shapes and dtypes must be equal."""
    found: list[Mismatch] = []
    for number, (a, e, limit) in enumerate(zip(actual, expected, allowed, strict=True)):
        port = Port(a.shape, a.dtype.name)
        if a.shape != e.shape or a.dtype != e.dtype:
            found.append(Mismatch(number, port, e.size, e.size, (), Port(e.shape, e.dtype.name)))
            continue
        error = differences(a, e)
        wrong = (error > limit) & ~np.isinf(limit)
        if not wrong.any():
            continue
        with np.errstate(all="ignore"):
            rank = np.where(wrong, error / np.maximum(limit, 1e-307), -1.0).reshape(-1)
        worst = np.argsort(-rank, kind="stable")[: min(SHOWN, int(np.count_nonzero(wrong)))]
        places = [tuple(int(i) for i in np.unravel_index(int(flat), a.shape)) for flat in worst]
        elements = tuple(Element(p, a[p], e[p], float(error[p]), float(limit[p])) for p in places)
        found.append(Mismatch(number, port, int(np.count_nonzero(wrong)), a.size, elements))
    return found


def named(expected: Sequence[Array], absolute: float | None, relative: float | None) -> list[Array]:
    """What run_hlo_module's bounds allow: elements within either; infinities and NaNs must be expected."""
    sizes = [np.abs(e.astype(np.complex128 if is_complex(e.dtype) else np.float64)) for e in expected]
    limits = [np.maximum(absolute or 0.0, (relative or 0.0) * np.where(np.isfinite(size), size, 0.0)) for size in sizes]
    tiny = np.float64(np.finfo(np.float64).tiny)  # the sign of a zero does not count
    return [
        np.maximum(limit, tiny) if is_inexact(e.dtype) else np.zeros(e.shape) for limit, e in zip(limits, expected, strict=True)
    ]


def describe_difference(actual: Sequence[Array], expected: Sequence[Array], allowed: Sequence[Array]) -> str:
    """How close two results are, as text: how many elements differ, by how much at most, and how much of what is allowed that
    is.
    """
    differing, size, worst, share, unknown = 0, 0, 0.0, 0.0, 0
    for a, e, limit in zip(actual, expected, allowed, strict=True):
        error = differences(a, e)
        known = ~np.isinf(limit)
        differing += int(np.count_nonzero(error))
        unknown += int(np.count_nonzero(~known))
        size += a.size
        worst = max(worst, float(np.where(np.isfinite(error), error, 0.0).max(initial=0.0)))
        with np.errstate(all="ignore"):
            share = max(share, float(np.where(known & (error > 0), error / limit, 0.0).max(initial=0.0)))
    text = f"{differing} of {size} elements differ, by at most {worst:.3g}; that is {share:.0%} of what is allowed there"
    lost = f"; of {unknown} elements rounding decides, nothing is known of them" if unknown else ""
    return (text if differing else "equal bit for bit") + lost


def differences(actual: Array, expected: Array) -> Array:
    """The distance of each element in float64: infinite where one is NaN or infinite and the other is not so, a very small number
    where two zeros differ by their sign.
    """
    if not is_inexact(actual.dtype):
        different = np.asarray(actual != expected)
        if not different.any():
            return np.zeros(actual.shape)
        return np.where(different, np.maximum(np.abs(actual.astype(np.float64) - expected.astype(np.float64)), 1.0), 0.0)
    wide = np.complex128 if is_complex(actual.dtype) else np.float64
    a, e = np.asarray(actual.astype(wide)), np.asarray(expected.astype(wide))
    both_nan, one_nan = np.isnan(a) & np.isnan(e), np.isnan(a) ^ np.isnan(e)
    with np.errstate(all="ignore"):
        error = np.where(a == e, 0.0, np.abs(_difference(a, e)))
    error = np.where(both_nan, 0.0, np.where(one_nan | np.isnan(error), np.inf, error))
    if wide is np.float64:
        error = np.where(
            (np.signbit(a) != np.signbit(e)) & (error == 0) & ~both_nan, np.finfo(np.float64).smallest_subnormal, error
        )
    return np.asarray(error)


def _difference(a: Array, e: Array) -> Array:
    """a - e; 0 in the parts of complex numbers that are equal, so that the infinity of one part does not hide the other."""
    if a.dtype.kind != "c":
        return np.asarray(a - e)
    found = np.empty(a.shape, np.complex128)
    found.real, found.imag = (np.where(part(a) == part(e), 0.0, part(a) - part(e)) for part in (np.real, np.imag))
    return found


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """Is it a float (also bf16, f8, f4) or complex dtype?"""
    return is_float(dtype) or is_complex(dtype)
