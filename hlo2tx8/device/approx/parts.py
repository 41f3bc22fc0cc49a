"""Pieces the functions share: polynomials, powers of two, exact sums and products, argument reduction."""

from collections.abc import Sequence

from hlo2tx8.device.approx import coefficients as c
from hlo2tx8.device.approx.program import Value

ROUND_F32 = 12582912.0  # 1.5 * 2^23: adding it rounds to an integer, which then sits in the low bits
ROUND_F64 = 6755399441055744.0  # 1.5 * 2^52
INF = float("inf")
NAN = float("nan")


def polynomial(x: Value, coefficients: Sequence[str]) -> Value:
    """c[0] + x (c[1] + x (...)), Horner."""
    result = x.builder.value(float.fromhex(coefficients[-1]), x.type)
    for text in reversed(coefficients[:-1]):
        result = result * x + float.fromhex(text)
    return result


def polynomial_even_odd(x: Value, coefficients: Sequence[str]) -> Value:
    """The same polynomial as even(x^2) + x odd(x^2): half the depth."""
    square = x * x
    return polynomial(square, coefficients[0::2]) + x * polynomial(square, coefficients[1::2])


def round_to_integer(x: Value) -> tuple[Value, Value]:
    """(nearest integer as a float, as an integer of the same width) for |x| < 2^22 (f32) or 2^50 (f64)."""
    magic = ROUND_F32 if x.type == "f32" else ROUND_F64
    shifted = x + magic
    magic_bits = 0x4B400000 if x.type == "f32" else 0x4338000000000000
    return shifted - magic, shifted.bits() - magic_bits


def power_of_two(n: Value) -> Value:
    """2^n as a float for an integer n in the range of normal numbers."""
    bias, width = (127, 23) if n.type == "i32" else (1023, 52)
    return ((n + bias) << width).as_float()


def nearest_power(x: Value) -> tuple[Value, Value]:
    """(n, 2^n), both as floats, for the integer n nearest to x (f32) in -126 .. 127: its low bits end up as the exponent."""
    magic = ROUND_F32 + 127.0
    shifted = x + magic
    return shifted - magic, (shifted.bits() << 23).as_float()


def scale(x: Value, n: Value) -> Value:
    """x 2^n rounded once, for |x| in [1/2, 2] and n within twice the exponent range."""
    return x.scale(n)


def at_most(x: Value, high: float) -> Value:
    """min(x, high); NaN stays."""
    return x.builder.value(high, x.type).less(x).select(high, x)


def clamp(x: Value, low: float, high: float) -> Value:
    """min(max(x, low), high); NaN stays."""
    return at_most(x.less(low).select(low, x), high)


def copy_sign(magnitude: Value, sign: Value) -> Value:
    """`magnitude` (not negative) with the sign bit of `sign`."""
    mask = -(1 << 31) if sign.type == "f32" else -(1 << 63)
    return (magnitude.bits() | (sign.bits() & mask)).as_float()


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """(s, e): s = fl(a + b), s + e = a + b exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fast_two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """two_sum for |a| >= |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def halves(x: Value) -> tuple[Value, Value]:
    """x = high + low, 26 and 27 bits."""
    product = x * 134217729.0
    high = product - (product - x)
    return high, x - high


def two_product(a: Value, b: Value) -> tuple[Value, Value]:
    """(p, e): p = fl(a b), p + e = a b exactly, barring overflow and underflow."""
    product = a * b
    a_high, a_low = halves(a)
    b_high, b_low = halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def exp_reduced(x: Value) -> tuple[Value, Value, Value]:
    """(n, r, e^r - 1 - r) with x = n ln 2 + r, |r| <= ln(2)/2, for f32 or f64 within the exponent range."""
    if x.type == "f32":
        nearest, n = round_to_integer(x * c.LOG2E_F32)
        r = (x - nearest * c.LN2_HIGH_F32) - nearest * c.LN2_LOW_F32
        return n, r, r * r * polynomial(r, c.EXP_F32_POLY)
    nearest, n = round_to_integer(x * c.LOG2E)
    high, low = x - nearest * c.LN2_HIGH, nearest * c.LN2_LOW
    r = high - low
    lost = (high - r) - low
    return n, r, r * r * polynomial_even_odd(r, c.EXP_POLY) + lost


def log_reduced(x: Value) -> tuple[Value, Value]:
    """(k, f): x = 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), k a float; x positive, finite, subnormals allowed."""
    if x.type == "f32":
        tiny, up, width, root = 2.0**-126, 23, 23, 0x3F3504F3
    else:
        tiny, up, width, root = 2.0**-1022, 52, 52, 0x3FE6A09E667F3BCD
    is_tiny = x.less(tiny)
    bits = is_tiny.select(x * 2.0**up, x).bits()
    shifted = bits - root
    k = (shifted >> width) - is_tiny.select(x.builder.value(up, bits.type), 0)
    mantissa = ((shifted & ((1 << width) - 1)) + root).as_float()
    return k.to(x.type), mantissa - 1.0


def log_parts(f: Value) -> tuple[Value, Value]:
    """(f^2 / 2, s (f^2/2 + R)) so that log(1 + f) = f - (first - second); s = f / (2 + f)."""
    s = f / (f + 2.0)
    z = s * s
    rest = z * polynomial(z, c.LOG_F32_POLY if f.type == "f32" else c.LOG_POLY)
    half_square = f * f * 0.5
    return half_square, s * (half_square + rest)
