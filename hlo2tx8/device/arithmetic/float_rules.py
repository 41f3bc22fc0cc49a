"""How the machine computes with floats: rounding into a format, canonical NaN, the order of zeros.

Every result in a 16-bit format is the exact result rounded once; for + - * / and sqrt that equals FP32 arithmetic rounded once
more.
A NaN that arithmetic yields is the canonical quiet NaN: positive, top mantissa bit only. Subnormals are kept.
"""

from typing import Any

import ml_dtypes
import numpy as np

from hlo2tx8.device.formats import Format, Rounding

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_CANONICAL_NAN = {
    Format.FP16: 0x7E00,
    Format.BF16: 0x7FC0,
    Format.FP32: 0x7FC00000,
    Format.TF32: 0x7FC00000,
    Format.FP64: 0x7FF8000000000000,
}
TF32_DROPPED_BITS = 13


def to_bits(x: np.ndarray) -> np.ndarray:
    """The bits of an array as unsigned integers of its width."""
    return x.view(_UNSIGNED[x.dtype.itemsize])


def widen(x: np.ndarray, fmt: Format) -> np.ndarray:
    """Elements of a float format as FP32, or FP64 for FP64; exact."""
    return x if fmt in (Format.FP32, Format.TF32, Format.FP64) else x.astype(np.float32)


def canonical_nan(x: np.ndarray, fmt: Format) -> np.ndarray:
    """The array with every NaN replaced by the canonical one."""
    result = np.ascontiguousarray(x).copy()
    to_bits(result)[np.isnan(x.astype(np.float64))] = _CANONICAL_NAN[fmt]
    return result


def round_to(x: np.ndarray, fmt: Format, rounding: Rounding = Rounding.NEAREST_EVEN) -> np.ndarray:
    """FP32 or FP64 values rounded once into a float format, NaN canonical."""
    if fmt is Format.FP64:
        return canonical_nan(x.astype(np.float64), fmt)
    if rounding is not Rounding.NEAREST_EVEN:
        return canonical_nan(_round_directed(x.astype(np.float64), fmt, rounding), fmt)
    if x.dtype == np.float64 and fmt is not Format.FP32:
        x = _round_odd(x)
    with np.errstate(all="ignore"):
        if fmt is Format.TF32:
            return canonical_nan(_round_tf32(x.astype(np.float32)), fmt)
        return canonical_nan(x.astype(fmt.numpy_dtype), fmt)


def _round_odd(x: np.ndarray) -> np.ndarray:
    """FP64 to FP32 by rounding to odd, so that a second rounding to fewer bits is right."""
    with np.errstate(all="ignore"):
        y = x.astype(np.float32)
    back = y.astype(np.float64)
    bits = to_bits(y).copy()
    inexact = np.isfinite(x) & (back != x)
    away = inexact & (np.abs(back) > np.abs(x))
    bits[away] -= 1
    bits[inexact] |= 1
    return bits.view(np.float32)


def _round_tf32(x: np.ndarray) -> np.ndarray:
    bits = to_bits(x).astype(np.uint64)
    half = np.uint64((1 << (TF32_DROPPED_BITS - 1)) - 1)
    odd = (bits >> np.uint64(TF32_DROPPED_BITS)) & np.uint64(1)
    rounded = (bits + half + odd) & ~np.uint64((1 << TF32_DROPPED_BITS) - 1)
    result = rounded.astype(np.uint32).view(np.float32)
    return np.where(np.isfinite(x), result, x)


def _round_directed(x: np.ndarray, fmt: Format, rounding: Rounding) -> np.ndarray:
    """Nearest first, then one step back where that went the wrong way."""
    if rounding is Rounding.STOCHASTIC:
        raise ValueError("stochastic rounding needs a seed")
    nearest = round_to(x, fmt)
    back = nearest.astype(np.float64)
    if rounding is Rounding.TOWARD_ZERO:
        wrong = np.abs(back) > np.abs(x)
        target = np.zeros_like(x)
    elif rounding is Rounding.TOWARD_POSITIVE:
        wrong, target = back < x, np.full_like(x, np.inf)
    else:
        wrong, target = back > x, np.full_like(x, -np.inf)
    return np.where(wrong, next_after(nearest, target.astype(nearest.dtype), fmt), nearest)


def next_after(x: np.ndarray, y: np.ndarray, fmt: Format) -> np.ndarray:
    """The number of the format next to x toward y; y where they are equal; NaN if one is NaN."""
    step = 1 << TF32_DROPPED_BITS if fmt is Format.TF32 else 1
    signed = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[x.dtype.itemsize]
    bits = x.view(signed)
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    away = (wide_y > wide_x) == (wide_x > 0)
    moved = np.where(away, bits + signed(step), bits - signed(step)).astype(signed)
    least = np.where(np.signbit(wide_y), np.iinfo(signed).min + step, step).astype(signed)
    moved = np.where(wide_x == 0, least, moved).view(x.dtype)
    result = np.where(wide_x == wide_y, y, moved)
    return canonical_nan(np.where(np.isnan(wide_x) | np.isnan(wide_y), np.asarray(np.nan, x.dtype), result), fmt)


def absolute(bits: np.ndarray, sign: int) -> np.ndarray:
    """|x| on bits."""
    return bits & bits.dtype.type(sign - 1)


def negate(bits: np.ndarray, sign: int) -> np.ndarray:
    """-x on bits."""
    return bits ^ bits.dtype.type(sign)


def reciprocal(x: np.ndarray) -> np.ndarray:
    """1 / x."""
    return x.dtype.type(1) / x


def reciprocal_sqrt(x: np.ndarray) -> np.ndarray:
    """1 / sqrt(x), both steps rounded; in FP64 for narrower formats, so that it is rounded once."""
    return 1.0 / np.sqrt(x.astype(np.float64))


def maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The larger; NaN if one is NaN; -0 < +0."""
    larger = np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), larger)


def relu(x: np.ndarray) -> np.ndarray:
    """The larger of x and +0."""
    return maximum(x, np.zeros_like(x))


def minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smaller; NaN if one is NaN; -0 < +0."""
    smaller = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), smaller)


def saturated_relu(x: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """x between +0 and the bound."""
    return minimum(relu(x), np.broadcast_to(bound, x.shape))


def leaky_relu(x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """x if it is > 0, else x times the slope."""
    return np.where(x > 0, x, x * slope)


def order_of(x: np.ndarray) -> np.ndarray:
    """INT64 that order like the FP32 numbers x, with -0 < +0."""
    bits = x.view(np.int32).astype(np.int64)
    return np.where(bits < 0, (bits ^ 0x7FFFFFFF), bits)


def float_to_integer(x: np.ndarray, dtype: np.dtype[Any], rounding: Rounding) -> np.ndarray:
    """Rounded by mode, saturated to the integer type, NaN gives 0."""
    wide = x.astype(np.float64)
    whole = {
        Rounding.NEAREST_EVEN: np.rint,
        Rounding.TOWARD_ZERO: np.trunc,
        Rounding.TOWARD_POSITIVE: np.ceil,
        Rounding.TOWARD_NEGATIVE: np.floor,
    }[rounding](wide)
    info = np.iinfo(dtype.type)
    with np.errstate(all="ignore"):
        result = np.where(np.isnan(wide), 0, whole).astype(np.float64)
        inside = (result >= float(info.min)) & (result < float(info.max) + 1)
        value = np.where(inside, result, 0).astype(dtype)
    value = np.where(result >= float(info.max) + 1, info.max, value)
    return np.where(result < float(info.min), info.min, value).astype(dtype)


BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
