"""Rounding f64 and f32 into the narrow formats by integer arithmetic: one rounding, to nearest even, NaN canonical."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

CANONICAL_NAN = {np.dtype(np.float16): 0x7E00, np.dtype(np.float32): 0x7FC00000, np.dtype(np.float64): 0x7FF8000000000000}


def canonical(x: Array) -> Array:
    """x with every NaN replaced by the positive quiet NaN (float16, float32, float64)."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    return np.where(np.isnan(x), unsigned.type(CANONICAL_NAN[x.dtype]), x.view(unsigned)).view(x.dtype)


def widen_half(bits: Array, fmt_name: str) -> Array:
    """The f64 values of 16-bit patterns of FP16 or BF16; exact."""
    with np.errstate(all="ignore"):
        if fmt_name == "BF16":
            return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return bits.view(np.float16).astype(np.float64)


def to_odd(x: Array) -> Array:
    """f64 to f32 rounded to odd: rounding the result again to 16 bits equals rounding x once."""
    with np.errstate(all="ignore"):
        nearest = x.astype(np.float32)
        back = nearest.astype(np.float64)
        bits = nearest.view(np.uint32) - (np.abs(back) > np.abs(x)).astype(np.uint32)
        inexact = (back != x) & ~np.isnan(x)
        return (bits | inexact.astype(np.uint32)).view(np.float32)


def round_to_half(x: Array, fmt_name: str) -> Array:
    """The bits (uint16) of f64 values in FP16 or BF16."""
    odd = to_odd(x)
    if fmt_name == "BF16":
        bits = odd.view(np.uint32)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)
    with np.errstate(all="ignore"):
        return canonical(odd.astype(np.float16)).view(np.uint16)


def round_to_tf32(x: Array) -> Array:
    """f32 rounded at bit 13; NaN canonical."""
    bits = x.view(np.uint32)
    rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(x), np.uint32(0x7FC00000), rounded).view(np.float32)
