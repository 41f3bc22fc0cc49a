"""and, or, xor, not, shifts, popcnt, count_leading_zeros."""

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import arith

from hlo2tx8.hlo.ops.forms import INTEGER, PRED, elementwise, raw, wide
from hlo2tx8.hlo.rounding import narrow, widen
from hlo2tx8.hlo.spec import Array, Attributes, Reference, TensorLike
from hlo2tx8.hlo.types import DType, bit_width, integer_limits, is_integer, is_unsigned

BITS = (*INTEGER, *PRED)


def unsigned_bits(array: Array) -> Array:
    """Integers as their bit patterns in uint64."""
    bits = bit_width(array.dtype)
    return widen(array).astype(np.int64).view(np.uint64) & np.uint64((1 << bits) - 1)


def _shift(function: Callable[[Array, Array, int], Array]) -> Reference:
    """A shift by an amount read as unsigned: function(x, min(amount, bits), bits) in 64 bits."""

    def shift(_: Attributes, result: TensorLike, x: Array, amount: Array) -> Array:
        bits = bit_width(result.dtype)
        by = np.minimum(unsigned_bits(amount), np.uint64(bits))
        return narrow(function(x, by, bits), result.dtype)

    return raw(shift)


def _left(x: Array, by: Array, bits: int) -> Array:
    shifted = unsigned_bits(x) << np.minimum(by, np.uint64(63))
    return np.where(by >= bits, np.uint64(0), shifted)


def _right_logical(x: Array, by: Array, bits: int) -> Array:
    shifted = unsigned_bits(x) >> np.minimum(by, np.uint64(63))
    return np.where(by >= bits, np.uint64(0), shifted)


def _right_arithmetic(x: Array, by: Array, bits: int) -> Array:
    pattern = unsigned_bits(x).view(np.int64) << np.int64(64 - bits)
    return (pattern >> np.int64(64 - bits)) >> np.minimum(by, np.uint64(bits - 1)).astype(np.int64)


def _popcnt(_: Attributes, result: TensorLike, x: Array) -> Array:
    return narrow(np.bitwise_count(unsigned_bits(x)), result.dtype)


def _count_leading_zeros(_: Attributes, result: TensorLike, x: Array) -> Array:
    """bits - (position of the highest set bit + 1): the highest bit is smeared down and counted."""
    pattern = unsigned_bits(x)
    for step in (1, 2, 4, 8, 16, 32):
        pattern = pattern | (pattern >> np.uint64(step))
    return narrow(bit_width(result.dtype) - np.bitwise_count(pattern).astype(np.int64), result.dtype)


def _zero(_: DType) -> Any:
    return 0


def _ones(dtype: DType) -> Any:
    return integer_limits(dtype)[1] if is_integer(dtype) and is_unsigned(dtype) else -1 if is_integer(dtype) else True


SPECS = (
    elementwise("stablehlo.and", wide(np.bitwise_and), accepts=BITS, arity=2, scalar={"int": arith.AndIOp}, neutral=_ones),
    elementwise("stablehlo.or", wide(np.bitwise_or), accepts=BITS, arity=2, scalar={"int": arith.OrIOp}, neutral=_zero),
    elementwise("stablehlo.xor", wide(np.bitwise_xor), accepts=BITS, arity=2, scalar={"int": arith.XOrIOp}, neutral=_zero),
    elementwise("stablehlo.not", wide(np.invert), accepts=BITS),
    elementwise("stablehlo.shift_left", _shift(_left), accepts=INTEGER, arity=2),
    elementwise("stablehlo.shift_right_logical", _shift(_right_logical), accepts=INTEGER, arity=2),
    elementwise("stablehlo.shift_right_arithmetic", _shift(_right_arithmetic), accepts=INTEGER, arity=2),
    elementwise("stablehlo.popcnt", raw(_popcnt), accepts=INTEGER),
    elementwise("stablehlo.count_leading_zeros", raw(_count_leading_zeros), accepts=INTEGER),
)
