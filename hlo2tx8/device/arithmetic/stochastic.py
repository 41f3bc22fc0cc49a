"""Stochastic rounding: what is cut off, plus a hash of the element's number, decides by its carry."""

import numpy as np

from hlo2tx8.device.arithmetic import float_rules
from hlo2tx8.device.arithmetic.float_rules import round_to
from hlo2tx8.device.formats import Format, Rounding

FRACTION_BITS = 32


def hashes(seed: int, n: int) -> np.ndarray:
    """uint64[n]: the finalizer of 32-bit murmur3 of seed ^ i."""
    h = np.uint32(seed & 0xFFFFFFFF) ^ np.arange(n, dtype=np.uint32)
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (h ^ (h >> np.uint32(16))).astype(np.uint64)


def _carries(fraction: np.ndarray, seed: int) -> np.ndarray:
    """Does the fraction, cut to 32 bits, plus the hash reach 1?"""
    part = np.nan_to_num(np.floor(np.minimum(fraction, 1) * 2.0**FRACTION_BITS)).astype(np.uint64)
    return part + hashes(seed, fraction.size) >= 1 << FRACTION_BITS


def convert(x: np.ndarray, fmt: Format, seed: int) -> np.ndarray:
    """FP64 values in a float or integer format, the hash seeded."""
    with np.errstate(all="ignore"):
        return _to_float(x, fmt, seed) if fmt.is_float else _to_integer(x, fmt, seed)


def round_by(x: np.ndarray, fmt: Format, rounding: Rounding) -> np.ndarray:
    """FP32 or FP64 values rounded once into a float format by any mode, the hash of numbers of elements alone."""
    if rounding is Rounding.STOCHASTIC:
        return convert(x.astype(np.float64).reshape(-1), fmt, 0).reshape(x.shape)
    return round_to(x, fmt, rounding)


def _to_float(x: np.ndarray, fmt: Format, seed: int) -> np.ndarray:
    """What reaches a unit in the last place beyond the largest number becomes infinite."""
    cut = round_to(x, fmt, Rounding.TOWARD_ZERO)
    away = float_rules.next_after(cut, np.copysign(np.inf, x).astype(cut.dtype), fmt)
    below = float_rules.next_after(cut, np.zeros_like(cut), fmt)
    size, above, under = (np.abs(v.astype(np.float64)) for v in (cut, away, below))
    last = np.where(np.isinf(above), size - under, above - size)
    return float_rules.canonical_nan(np.where(_carries((np.abs(x) - size) / last, seed), away, cut), fmt)


def _to_integer(x: np.ndarray, fmt: Format, seed: int) -> np.ndarray:
    """Saturated, NaN gives 0."""
    cut = np.trunc(x)
    whole = np.where(_carries(np.abs(x) - np.abs(cut), seed), cut + np.copysign(1, x), cut)
    return float_rules.float_to_integer(whole, fmt.numpy_dtype, Rounding.TOWARD_ZERO)
