"""Values at the edges of each dtype, for tests and fuzzers: NaN, inf, subnormals, ±0, ties, limits."""

from itertools import product
from typing import Any, cast

import ml_dtypes
import numpy as np

from hlo2tx8.hlo.rounding import Array, narrow
from hlo2tx8.hlo.types import DType, bit_width, integer_limits, is_integer, is_unsigned

_REAL = (
    *(0.0, 1.0, 0.5, 1.5, 2.5, 3.5, 0.25, 0.75, 0.1, 1 / 3, 0.99, 1.01, 2.0, 3.0, 3.14159, 7.0, 10.0, 88.0, 127.5),
    *(128.5, 255.5, 1000.25, 65504.0, 65520.0, 2.0**31, 2.0**32, 2.0**53, 2.0**63, 2.0**64, 1e-3, 1e-8, 1e-20, 1e20),
    *(float("inf"), float("nan")),
)


def edge_values(dtype: DType) -> Array:
    """A 1-d array of distinct interesting values of the dtype, both signs where it has them."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind == "c":
        parts = (-2.5, -1.0, -0.25, 0.5, 1.0, 3.0)
        return np.array([complex(a, b) for a, b in product(parts, parts)], dtype)
    return _integers(dtype) if is_integer(dtype) else _floats(dtype)


def _integers(dtype: DType) -> Array:
    low, high = integer_limits(dtype)
    bits = bit_width(dtype)
    near = [low, low + 1, high - 1, high, 0, 1, 2, 3, 5, 7, 10, bits - 1, bits, bits + 1, high // 2, high // 3]
    powers = [1 << k for k in range(0, bits - 1, 5)]
    signed = [] if is_unsigned(dtype) else [-n for n in (1, 2, 3, 5, 7, bits)]
    kept = sorted({n for n in (*near, *powers, *signed) if low <= n <= high})
    wide = np.array(kept, np.uint64 if is_unsigned(dtype) else np.int64)
    return narrow(wide, dtype)


def _floats(dtype: DType) -> Array:
    info = cast(Any, ml_dtypes).finfo(dtype)
    limits = [float(info.max), float(info.smallest_normal), float(info.smallest_subnormal), 1 + float(info.eps)]
    largest = float(info.max)
    positive = np.array([v for v in (*_REAL, *limits) if not np.isfinite(v) or v <= largest])
    with np.errstate(all="ignore"):
        return narrow(np.concatenate([positive, -positive]), dtype)
