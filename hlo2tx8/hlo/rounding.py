"""Arithmetic in a wider dtype with one rounding at the end.

Arithmetic of bf16, f16 and f8 in float32 and transcendentals of float32 in float64 have enough bits that the result,
rounded once to the narrow dtype, is (for + - * / sqrt) or nearly always is (for the rest) the correctly rounded one.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from hlo2tx8.hlo.types import DType, bit_width, is_float, is_integer, is_unsigned

Array = npt.NDArray[Any]


def widen(array: Array) -> Array:
    """The array in the dtype that its arithmetic is done in: f32 for f8, bf16 and f16; 8 bits for integers of less."""
    kind = array.dtype
    if is_float(kind):
        return array if kind.itemsize >= 4 else array.astype(np.float32)
    if is_integer(kind) and bit_width(kind) < 8:
        return array.astype(np.uint8 if is_unsigned(kind) else np.int8)
    return array


def widen_to_double(array: Array) -> Array:
    """Floats as float64, complex as complex128: for transcendentals."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def narrow(array: Array, to: DType) -> Array:
    """The array in dtype `to`: floats rounded once to nearest even, integers wrapped."""
    array = np.asarray(array)
    if array.dtype == to:
        return array
    if is_integer(to):
        return wrap(array, to)
    if is_float(to) and to.itemsize < 4 and array.dtype == np.float64 and to != np.float16:
        return _narrow_double(array, to)
    return array.astype(to)


def wrap(array: Array, to: DType) -> Array:
    """Integers modulo 2**bits of `to`."""
    bits = bit_width(to)
    if bits >= 8:
        return array.astype(to)
    low = np.bitwise_and(array.astype(np.int64), (1 << bits) - 1)
    if not is_unsigned(to):
        sign = 1 << (bits - 1)
        low = (low ^ sign) - sign
    return low.astype(np.int8).astype(to)


def _narrow_double(array: Array, to: DType) -> Array:
    """float64 → bf16, f8, f6 or f4 through float32 without rounding twice."""
    single = np.atleast_1d(array.astype(np.float32))
    exact = np.atleast_1d(array)
    if to.name == "bfloat16":
        ties = np.flatnonzero((single.view(np.uint32) & 0xFFFF) == 0x8000)
        if ties.size:
            flat, wide = single.reshape(-1), exact.reshape(-1)[ties]
            near = flat[ties]
            toward = np.where(wide > near, np.float32(np.inf), np.float32(-np.inf))
            flat[ties] = np.where(wide == near, near, np.nextafter(near, toward))
        return single.astype(to).reshape(array.shape)
    return round_to_odd(exact).astype(to).reshape(array.shape)


def round_to_odd(array: Array) -> Array:
    """float64 truncated to float32 with its last bit set if anything was cut off, so that a later rounding to fewer bits is the
    right one.
    """
    single = array.astype(np.float32)
    inexact = (single.astype(np.float64) != array) & ~np.isnan(array)
    truncated = np.where(np.abs(single.astype(np.float64)) > np.abs(array), np.nextafter(single, np.float32(0)), single)
    return np.where(inexact, (truncated.view(np.uint32) | 1).view(np.float32), single)


def integers_to_double(array: Array) -> Array:
    """Integers as float64, those beyond 2**53 rounded to odd so that a later rounding to ≤ 24 bits is right."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8:
        return array.astype(np.float64)
    magnitude = np.where(array < 0, np.negative(array), array).astype(np.uint64)
    sticky = ((magnitude & np.uint64(0x7FF)) != 0).astype(np.uint64) << np.uint64(11)
    large = (magnitude & ~np.uint64(0x7FF)) | sticky
    double = np.where(magnitude >> np.uint64(53) != 0, large, magnitude).astype(np.float64)
    return np.where(array < 0, -double, double)
