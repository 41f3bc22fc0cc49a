"""The matrix engine's sums with fractions, one product after the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, isinf, isnan, nan

import numpy as np

from hlo2tx8.device.formats import Format

FP16, BF16, TF32, FP32 = Format.FP16, Format.BF16, Format.TF32, Format.FP32
INT8, INT32 = Format.INT8, Format.INT32
# Mantissa bits, least exponent of a unit in the last place, of a format.
SHAPES = {FP32: (23, -149), TF32: (10, -136), BF16: (7, -133), FP16: (10, -24), Format.FP64: (52, -1074)}
LARGEST = {FP16: Fraction(65504)}


@dataclass(frozen=True)
class Number:
    """A float: its value, or an infinity or NaN, and its sign where it is zero."""

    value: Fraction
    special: float = 0.0
    is_minus_zero: bool = False

    @staticmethod
    def of(x: float) -> "Number":
        if not isfinite(x):
            return Number(Fraction(0), x)
        return Number(Fraction(x), 0.0, x == 0 and str(x)[0] == "-")


def rounded(x: Fraction, fmt: Format, toward_zero: bool, is_minus_zero: bool = False) -> Number:
    """x in a format, nearest even or toward zero; `is_minus_zero`: the sign if x is zero."""
    if x == 0:
        return Number(x, 0.0, is_minus_zero)
    mantissa, least = SHAPES[fmt]
    magnitude = abs(x)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - mantissa, least)
    whole = magnitude // unit
    rest = magnitude / unit - whole
    if not toward_zero and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)):
        whole += 1
    most = LARGEST.get(fmt, (2 - Fraction(1, 1 << mantissa)) * Fraction(2) ** 127)
    value = whole * unit
    if fmt is not Format.FP64 and value > most:
        if not toward_zero:
            return Number(Fraction(0), inf if x > 0 else -inf)
        value = most
    return Number(value if x > 0 else -value, 0.0, value == 0 and x < 0)


def is_negative(x: Number) -> bool:
    return x.special < 0 if x.special else x.is_minus_zero or x.value < 0


def multiply(a: Number, b: Number) -> Number:
    """Exact; zeros have the sign of the signs' product."""
    if a.special or b.special:
        return Number(Fraction(0), nan if nan_like(a, b) else inf * (-1 if is_negative(a) != is_negative(b) else 1))
    value = a.value * b.value
    return Number(value, 0.0, value == 0 and is_negative(a) != is_negative(b))


def nan_like(a: Number, b: Number) -> bool:
    """NaN in, or infinity times zero."""
    if isnan(a.special) or isnan(b.special):
        return True
    return (not a.special and a.value == 0) or (not b.special and b.value == 0)


def add(a: Number, b: Number, fmt: Format, toward_zero: bool) -> Number:
    if a.special or b.special:
        if isnan(a.special) or isnan(b.special) or (isinf(a.special) and isinf(b.special) and a.special != b.special):
            return Number(Fraction(0), nan)
        return Number(Fraction(0), a.special or b.special)
    return rounded(a.value + b.value, fmt, toward_zero, a.is_minus_zero and b.is_minus_zero)


def model(left: Sequence[float], right: Sequence[float], psum: float, fmt: Format, result: Format) -> float:
    """One element of a product: blocks of 16, the last one filled with zeros."""
    a, b = ([Number.of(float(x)) for x in row] + [Number(Fraction(0))] * (-len(row) % 16) for row in (left, right))
    acc = Number.of(psum)
    for start in range(0, len(a), 16):
        products = [multiply(x, y) for x, y in zip(a[start : start + 16], b[start : start + 16], strict=True)]
        first = products[0]
        if fmt is FP16:
            s = first
            for product in products[1:]:
                s = add(s, product, Format.FP64, toward_zero=False)
            s = s if s.special else rounded(s.value, FP32, toward_zero=True, is_minus_zero=s.is_minus_zero)
        else:
            s = first if first.special else rounded(first.value, FP32, toward_zero=True, is_minus_zero=first.is_minus_zero)
            for product in products[1:]:
                s = add(s, product, FP32, toward_zero=True)
        acc = add(acc, s, FP32, toward_zero=True)
    out = acc if acc.special else rounded(acc.value, result, toward_zero=False, is_minus_zero=acc.is_minus_zero)
    return out.special or (-0.0 if out.is_minus_zero else float(out.value))


def draw(rng: np.random.Generator, shape: tuple[int, ...], fmt: Format, spread: int = 8) -> np.ndarray:
    """Floats of both signs over 2^-spread..2^spread; of TF32 with bits that are dropped."""
    values = rng.uniform(1, 2, shape) * np.exp2(rng.integers(-spread, spread, shape)) * rng.choice([-1, 1], shape)
    return values.astype(fmt.numpy_dtype)


def random_int8(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


def cut(x: np.ndarray, fmt: Format) -> np.ndarray:
    """float64; of TF32 without the bits that are dropped."""
    return ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) if fmt is TF32 else x).astype(np.float64)


def bits(x: np.ndarray, fmt: Format) -> np.ndarray:
    """As integers, every NaN the canonical one."""
    out = np.ascontiguousarray(x).view(f"u{fmt.bytes}").copy()
    out[np.isnan(x.astype(np.float64))] = {FP16: 0x7E00, BF16: 0x7FC0}.get(fmt, 0x7FC00000)
    return out


def quantised(total: int, q1: int, q2: int, scale: int, zp_out: int) -> int:
    """An INT8 result of an exact sum."""
    narrow = min(max(total >> q1, -32768), 32767)
    nine = min(max(narrow * scale >> q2, -256), 255)
    return min(max(nine + zp_out, -128), 127)
