"""Conversions of the kernel core, and rounding to fewer bits: exactly, on arrays of the element dtype."""

import numpy as np

from hlo2tx8.device.arithmetic import float_rules
from hlo2tx8.device.arithmetic.float_rules import round_to, widen
from hlo2tx8.device.formats import Format


def convert(x: np.ndarray, source: Format, target: Format) -> np.ndarray:
    """Float to int toward zero, saturating, NaN gives 0; int to int wraps; to PRED is != 0."""
    if source.is_float:
        wide = widen(x, source)
        if target is Format.PRED:
            return (wide != 0).astype(np.uint8)
        if target.is_float:
            return round_to(wide, target)
        return float_rules.float_to_integer(wide, target.numpy_dtype, float_rules.Rounding.TOWARD_ZERO)
    if target is Format.PRED:
        return (x != 0).astype(np.uint8)
    if not target.is_float:
        return x.astype(target.numpy_dtype)
    return integer_to_float(x, target)


def integer_to_float(x: np.ndarray, fmt: Format) -> np.ndarray:
    """Integers rounded once, to nearest even, into a float format."""
    if fmt in (Format.FP32, Format.FP64):
        return x.astype(fmt.numpy_dtype)
    if x.dtype.itemsize < 8:
        return round_to(x.astype(np.float64), fmt)
    # 64-bit integers: cut to 53 bits by rounding to odd, which the second rounding undoes.
    bits = float_rules.to_bits(x)
    magnitude = np.where(x < 0, np.zeros_like(bits) - bits, bits)
    low = np.uint64(0x7FF)
    sticky = ((magnitude & low) != 0).astype(np.uint64) << np.uint64(11)
    big = magnitude >> np.uint64(53) != 0
    kept = np.where(big, (magnitude & ~low) | sticky, magnitude)
    wide = kept.astype(np.float64)
    return round_to(np.where(x < 0, -wide, wide), fmt)


def reduce_precision(x: np.ndarray, fmt: Format, exponent: int, mantissa: int) -> np.ndarray:
    """Rounded to `mantissa` bits, nearest even, then flushed or overflowed to the range of `exponent` bits.

    Subnormal numbers stay, as multiples of what the last of the `mantissa` bits is worth, if no exponent bit is lost.
    """
    own = {Format.FP16: 5, Format.FP64: 11}.get(fmt, 8)
    wide = widen(x, fmt).astype(np.float64)
    bits = wide.view(np.uint64)
    drop = np.uint64(52 - min(mantissa, 52))
    one = np.uint64(1)
    if drop:
        odd = (bits >> drop) & one
        bits = (bits + ((one << (drop - one)) - one) + odd) >> drop << drop
    rounded = np.where(np.isfinite(wide), bits.view(np.float64), wide)
    bias = (1 << (min(exponent, own) - 1)) - 1
    with np.errstate(all="ignore"):
        largest, smallest = np.ldexp(1.0, bias + 1), np.ldexp(1.0, 1 - bias)
        rounded = np.where(np.abs(rounded) >= largest, np.copysign(np.inf, rounded), rounded)
        if exponent < own:
            rounded = np.where(np.abs(rounded) < smallest, np.copysign(0.0, rounded), rounded)
        elif fmt is not Format.FP64:
            last = np.ldexp(smallest, -min(mantissa, 52))
            rounded = np.where(np.abs(wide) < smallest, np.copysign(np.rint(wide / last) * last, wide), rounded)
        return round_to(np.where(np.isnan(wide), wide, rounded), fmt)
