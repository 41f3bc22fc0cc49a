"""What the kernel core computes on vectors: HLO's meaning of each operation, exactly, on arrays of the element dtype.

PRED is uint8 0/1. FP16 and BF16 are computed in FP32 (FP64 where more is needed) and rounded once by the caller's format.
"""

from collections.abc import Callable

import numpy as np

from hlo2tx8.device.arithmetic import float_rules
from hlo2tx8.device.arithmetic.float_rules import canonical_nan, round_to, widen
from hlo2tx8.device.formats import Format

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
Binary = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _float_binary(f: Binary, a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    with np.errstate(all="ignore"):
        return round_to(f(widen(a, fmt), widen(b, fmt)), fmt)


def _unsigned(a: np.ndarray) -> np.ndarray:
    return a.view(_UNSIGNED[a.dtype.itemsize])


def add(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """a + b; integers wrap; of PRED `or`."""
    if fmt.is_float:
        return _float_binary(np.add, a, b, fmt)
    return a | b if fmt is Format.PRED else (_unsigned(a) + _unsigned(b)).view(a.dtype)


def subtract(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """a - b; integers wrap; of PRED `xor`."""
    if fmt.is_float:
        return _float_binary(np.subtract, a, b, fmt)
    return a ^ b if fmt is Format.PRED else (_unsigned(a) - _unsigned(b)).view(a.dtype)


def multiply(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """a * b; integers wrap; of PRED `and`."""
    if fmt.is_float:
        return _float_binary(np.multiply, a, b, fmt)
    return a & b if fmt is Format.PRED else (_unsigned(a) * _unsigned(b)).view(a.dtype)


def divide(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """Toward zero; x/0 is -1 or all ones; MIN/-1 is MIN."""
    if fmt.is_float:
        return _float_binary(np.divide, a, b, fmt)
    zero = b == 0
    if not fmt.is_signed:
        return np.where(zero, np.iinfo(a.dtype).max, a // np.where(zero, 1, b).astype(a.dtype)).astype(a.dtype)
    overflow = (b == -1) & (a == np.iinfo(a.dtype).min)
    divisor = np.where(zero | overflow, 1, b).astype(a.dtype)
    quotient = a // divisor
    quotient = quotient + ((a % divisor != 0) & ((a < 0) != (divisor < 0))).astype(a.dtype)
    return np.where(zero, -1, quotient).astype(a.dtype)


def remainder(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """With the sign of a; x rem 0 is x; float x rem 0 is NaN."""
    if fmt.is_float:
        return _float_binary(np.fmod, a, b, fmt)
    skip = b == 0
    if fmt.is_signed:
        skip |= b == -1
    value = np.fmod(a, np.where(skip, 1, b).astype(a.dtype))
    return np.where(b == 0, a, value).astype(a.dtype)


def maximum(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """The larger of each pair; NaN if one is NaN, -0 < +0."""
    return _float_binary(float_rules.maximum, a, b, fmt) if fmt.is_float else np.maximum(a, b)


def minimum(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """The smaller of each pair; NaN if one is NaN, -0 < +0."""
    return _float_binary(float_rules.minimum, a, b, fmt) if fmt.is_float else np.minimum(a, b)


def bit_and(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """a & b, bit by bit."""
    return a & b


def bit_or(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """a | b, bit by bit."""
    return a | b


def bit_xor(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """a ^ b, bit by bit."""
    return a ^ b


def _shift(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(valid, count) of shifts: a count that is no bit number shifts everything out."""
    width = a.dtype.itemsize * 8
    valid = _unsigned(b) < width
    return valid, np.where(valid, b, 0).astype(a.dtype)


def shift_left(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """a << b; 0 where b is no bit number of the format."""
    valid, count = _shift(a, b)
    return np.where(valid, (_unsigned(a) << _unsigned(count)).view(a.dtype), 0).astype(a.dtype)


def shift_right_logical(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """a >> b with zeros coming in; 0 where b is no bit number of the format."""
    valid, count = _shift(a, b)
    return np.where(valid, (_unsigned(a) >> _unsigned(count)).view(a.dtype), 0).astype(a.dtype)


def shift_right_arithmetic(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """a >> b with copies of the sign coming in."""
    valid, count = _shift(a, b)
    signed = a.view(np.dtype(f"i{a.dtype.itemsize}"))
    fill = np.where(signed < 0, -1, 0).astype(signed.dtype)
    return np.where(valid, signed >> count.view(signed.dtype), fill).astype(signed.dtype).view(a.dtype)


def negate(a: np.ndarray, fmt: Format) -> np.ndarray:
    """-a; integers wrap, floats change the sign bit; PRED stays."""
    if fmt.is_float:
        bits = float_rules.to_bits(a)
        return float_rules.negate(bits, 1 << (8 * a.dtype.itemsize - 1)).view(a.dtype)
    return a if fmt is Format.PRED else (_unsigned(np.zeros_like(a)) - _unsigned(a)).view(a.dtype)


def absolute(a: np.ndarray, fmt: Format) -> np.ndarray:
    """|a|; the smallest integer stays; floats lose the sign bit."""
    if fmt.is_float:
        bits = float_rules.to_bits(a)
        return float_rules.absolute(bits, 1 << (8 * a.dtype.itemsize - 1)).view(a.dtype)
    return np.where(a < 0, negate(a, fmt), a) if fmt.is_signed else a


def bit_not(a: np.ndarray, fmt: Format) -> np.ndarray:
    """~a; of PRED the other truth value."""
    return a ^ 1 if fmt is Format.PRED else ~a


def sign(a: np.ndarray, fmt: Format) -> np.ndarray:
    """-1, 0 or 1; zeros keep their sign; NaN for NaN."""
    if fmt.is_float:
        wide = widen(a, fmt)
        result = np.where(wide > 0, 1, np.where(wide < 0, -1, wide)).astype(wide.dtype)
        return round_to(result, fmt)
    return np.where(a > 0, 1, np.where(a < 0, -1, 0)).astype(a.dtype)


def population_count(a: np.ndarray, fmt: Format) -> np.ndarray:
    """The number of one bits of each element."""
    return np.bitwise_count(_unsigned(a)).astype(a.dtype)


def count_leading_zeros(a: np.ndarray, fmt: Format) -> np.ndarray:
    """The number of zero bits above the highest one bit of each element."""
    bits, width = _unsigned(a).copy(), a.dtype.itemsize * 8
    shift = 1
    while shift < width:
        bits |= bits >> bits.dtype.type(shift)
        shift *= 2
    return (width - np.bitwise_count(bits).astype(np.int64)).astype(a.dtype)


def power(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """Integers by repeated squaring modulo 2^width; a negative exponent gives 0 but for bases 1 and -1."""
    if fmt.is_float:
        return _approx("pow", fmt, a, b)
    result, base = np.ones_like(_unsigned(a)), _unsigned(a).copy()
    exponent = _unsigned(b).copy()
    for _ in range(a.dtype.itemsize * 8):
        result = np.where(exponent & 1, result * base, result).astype(result.dtype)
        base = base * base
        exponent >>= 1
    result = result.view(a.dtype)
    if not fmt.is_signed:
        return result
    odd = (b & 1).astype(bool)
    negative = np.where(a == 1, 1, np.where(a == -1, np.where(odd, -1, 1), 0))
    return np.where(b < 0, negative, result).astype(a.dtype)


def _approx(name: str, fmt: Format, *operands: np.ndarray) -> np.ndarray:
    from hlo2tx8.device import approx

    return canonical_nan(approx.evaluate(name, *operands, fmt_name=fmt.name), fmt)


def atan2(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """The angle of each point (b, a), rounded once."""
    return _approx("atan2", fmt, a, b)


def next_after(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """The number of the format next to a toward b."""
    return float_rules.next_after(a, b, fmt)


def _total_order(a: np.ndarray, fmt: Format) -> np.ndarray:
    """Integers that order like the floats: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    if not fmt.is_float:
        return a
    signed = a.view(np.dtype(f"i{a.dtype.itemsize}"))
    return np.where(signed < 0, signed ^ np.iinfo(signed.dtype).max, signed)


def _compare(a: np.ndarray, b: np.ndarray, fmt: Format, total: bool, f: Binary) -> np.ndarray:
    x, y = (_total_order(a, fmt), _total_order(b, fmt)) if total else (a, b)
    if not total and fmt.is_float:
        x, y = widen(a, fmt), widen(b, fmt)
    return f(x, y).astype(np.uint8)


def compare_eq(a: np.ndarray, b: np.ndarray, fmt: Format, total: bool) -> np.ndarray:
    """a == b as PRED; `total` orders floats totally."""
    return _compare(a, b, fmt, total, np.equal)


def compare_ne(a: np.ndarray, b: np.ndarray, fmt: Format, total: bool) -> np.ndarray:
    """a != b as PRED; `total` orders floats totally."""
    return _compare(a, b, fmt, total, np.not_equal)


def compare_ge(a: np.ndarray, b: np.ndarray, fmt: Format, total: bool) -> np.ndarray:
    """a >= b as PRED; `total` orders floats totally."""
    return _compare(a, b, fmt, total, np.greater_equal)


def compare_gt(a: np.ndarray, b: np.ndarray, fmt: Format, total: bool) -> np.ndarray:
    """a > b as PRED; `total` orders floats totally."""
    return _compare(a, b, fmt, total, np.greater)


def compare_le(a: np.ndarray, b: np.ndarray, fmt: Format, total: bool) -> np.ndarray:
    """a <= b as PRED; `total` orders floats totally."""
    return _compare(a, b, fmt, total, np.less_equal)


def compare_lt(a: np.ndarray, b: np.ndarray, fmt: Format, total: bool) -> np.ndarray:
    """a < b as PRED; `total` orders floats totally."""
    return _compare(a, b, fmt, total, np.less)


def is_finite(a: np.ndarray, fmt: Format) -> np.ndarray:
    """Which elements are neither infinite nor NaN, as PRED."""
    return np.isfinite(widen(a, fmt)).astype(np.uint8)


def _float_unary(f: Callable[[np.ndarray], np.ndarray], a: np.ndarray, fmt: Format) -> np.ndarray:
    with np.errstate(all="ignore"):
        return round_to(f(widen(a, fmt)), fmt)


def floor(a: np.ndarray, fmt: Format) -> np.ndarray:
    """The largest integers that are not above a, in its float format."""
    return _float_unary(np.floor, a, fmt)


def ceil(a: np.ndarray, fmt: Format) -> np.ndarray:
    """The smallest integers that are not below a, in its float format."""
    return _float_unary(np.ceil, a, fmt)


def round_even(a: np.ndarray, fmt: Format) -> np.ndarray:
    """The nearest integers, ties to even, in a's float format."""
    return _float_unary(np.rint, a, fmt)


def _away(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    up = np.abs(x - whole) >= 0.5
    return np.copysign(np.abs(whole) + up.astype(x.dtype), x)


def round_away(a: np.ndarray, fmt: Format) -> np.ndarray:
    """The nearest integers, ties away from zero, in a's float format."""
    return _float_unary(_away, a, fmt)


def sqrt(a: np.ndarray, fmt: Format) -> np.ndarray:
    """The square roots, rounded once."""
    return _float_unary(np.sqrt, a, fmt)


def reciprocal_sqrt(a: np.ndarray, fmt: Format) -> np.ndarray:
    """1 / sqrt(a), rounded once; in FP64 the root is rounded too."""
    return _float_unary(float_rules.reciprocal_sqrt, a, fmt)
