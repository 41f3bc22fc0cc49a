"""Angles reduced to [-pi/4, pi/4]: |x| = n pi/2 + (high + low), right for every finite f64.

Up to 2^20 by subtracting n times pi/2 in four parts. Beyond by integers (Payne and Hanek): |x| = M 2^E, so |x| 2/pi mod 4
depends only on the bits of 2/pi from bit E - 2 on; 192 of them times the 53 bits of M leave at least 128 good bits after the
binary point.
"""

from hlo2tx8.device.approx import coefficients as c
from hlo2tx8.device.approx.parts import fast_two_sum, polynomial, round_to_integer, two_product, two_sum
from hlo2tx8.device.approx.program import Value

SMALL_ANGLE = 2.0**20
_MASK = 0xFFFFFFFF
_WORDS = 6

Angle = tuple[Value, Value, Value]  # n (i64, right modulo 4), high, low


def small_angle(x: Value) -> Angle:
    """Reduction of 0 <= x <= SMALL_ANGLE (f64)."""
    nearest, n = round_to_integer(x * c.TWO_OVER_PI)
    first, lost = two_sum(x - nearest * c.HALF_PI_1, -(nearest * c.HALF_PI_2))
    second, lost2 = two_sum(first, -(nearest * c.HALF_PI_3))
    high, low = fast_two_sum(second, (lost + lost2) - nearest * c.HALF_PI_4)
    return n, high, low


def _fraction(mantissa: Value, window: list[Value]) -> tuple[Value, Value]:
    """The first 128 bits of the fraction of mantissa * 0.window, as two i64 used as unsigned."""
    low, high = mantissa & _MASK, mantissa.logical_shift(32)
    carry = window[0] & 0
    limbs: list[Value] = []
    for k in range(_WORDS - 1, -1, -1):
        total = carry + ((window[k] * low) & _MASK)
        if k + 1 < _WORDS:
            total = total + (window[k + 1] * low).logical_shift(32) + ((window[k + 1] * high) & _MASK)
        if k + 2 < _WORDS:
            total = total + (window[k + 2] * high).logical_shift(32)
        limbs.append(total & _MASK)
        carry = total.logical_shift(32)
    limbs.reverse()
    return (limbs[0] << 32) | limbs[1], (limbs[2] << 32) | limbs[3]


def large_angle(x: Value) -> Angle:
    """Reduction of x >= 2^20 (f64); any bits for inf and NaN."""
    bits = x.bits()
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    exponent = bits.logical_shift(52) & 0x7FF
    offset = exponent.less(1024).select(1024, exponent) - 1013
    index, shift = offset >> 5, offset & 31
    words = [x.builder.lookup("TWO_OVER_PI_WORDS", index + k, "i64") for k in range(_WORDS + 1)]
    rest = 32 - shift
    window = [((words[k] << 32) | words[k + 1]).logical_shift(rest) & _MASK for k in range(_WORDS)]
    first, second = _fraction(mantissa, window)
    n = (first + (1 << 61)).logical_shift(62)
    signed = first - (n << 62)
    top = signed.to("f64")
    lower = (signed - top.to("i64")).to("f64") + second.logical_shift(1).to("f64") * 2.0**-63
    high, low = fast_two_sum(top * 2.0**-62, lower * 2.0**-62)
    product, lost = two_product(high, x.builder.value(c.HALF_PI, "f64"))
    high, low = fast_two_sum(product, lost + (high * c.HALF_PI_LOW + low * c.HALF_PI))
    return n, high, low


def reduce_angle(x: Value, *, only_small: bool) -> Angle:
    """Reduction of any x >= 0, or with `only_small` of x <= SMALL_ANGLE by a program without the integer part."""
    small = small_angle(x)
    if only_small:
        return small
    large = large_angle(x)
    is_small = x.less(SMALL_ANGLE)
    n, high, low = (is_small.select(s, b) for s, b in zip(small, large, strict=True))
    return n, high, low


def sine(r: Value, low: Value) -> Value:
    """sin(r + low) for |r| <= pi/4."""
    z = r * r
    return r + (r * z * polynomial(z, c.SIN_POLY) + low * (1.0 - z * 0.5))


def cosine(r: Value, low: Value) -> Value:
    """cos(r + low) for |r| <= pi/4."""
    z = r * r
    half = z * 0.5
    top = 1.0 - half
    return top + (((1.0 - top) - half) + (z * z * polynomial(z, c.COS_POLY) - r * low))
