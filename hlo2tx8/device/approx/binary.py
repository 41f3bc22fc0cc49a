"""The functions of two arguments (f64): atan2 and pow."""

from hlo2tx8.device.approx import coefficients as c
from hlo2tx8.device.approx.parts import (
    INF,
    NAN,
    clamp,
    copy_sign,
    exp_reduced,
    fast_two_sum,
    log_reduced,
    polynomial,
    scale,
    two_product,
    two_sum,
)
from hlo2tx8.device.approx.program import Value


def atan2(y: Value, x: Value) -> Value:
    """Angle of the point (x, y) in [-pi, pi]; signs of zeros count, (inf, inf) is a diagonal."""
    builder = y.builder
    ay, ax = y.abs(), x.abs()
    swap = ax.less(ay)
    top, bottom = swap.select(ax, ay), swap.select(ay, ax)
    quotient = bottom.equal(0.0).select(0.0, top.equal(bottom).select(1.0, top / bottom))
    is_far = builder.value(0.4140625, "f64").less(quotient)
    factor = builder.value(2.0**1000, "f64").less(bottom).select(builder.value(0.25, "f64"), 1.0)
    p, q = top * factor, bottom * factor
    turned = quotient.equal(1.0).select(0.0, (p - q) / (p + q))
    t = is_far.select(turned, quotient)
    z = t * t
    rest = t * (z * polynomial(z, c.ATAN_POLY))
    near = t + rest
    far = (t + (rest + c.QUARTER_PI_LOW)) + c.QUARTER_PI
    angle = is_far.select(far, near)
    angle = swap.select((c.HALF_PI_LOW - angle) + c.HALF_PI, angle)
    is_left = x.bits().less(0)
    angle = is_left.select((c.PI_LOW - angle) + c.PI, angle)
    is_number = y.equal(y) & x.equal(x)
    return is_number.select(copy_sign(angle, y), NAN)


def _log_double(a: Value) -> tuple[Value, Value]:
    """ln(a) as high + low with about 68 good bits, a positive and finite."""
    k, f0 = log_reduced(a)
    m = f0 + 1.0
    index = ((m * 128.0 + 0.5).to("i64")) - c.POW_FIRST
    inverse = a.builder.lookup("POW_INVERSE", index)
    m_high = (m.bits() & -(1 << 27)).as_float()
    f, f_low = two_sum(m_high * inverse - 1.0, (m - m_high) * inverse)
    square, square_low = two_product(f, f)
    cubic = f * square * polynomial(f, c.LOG_SHORT_POLY) - f * f_low
    high, low = two_sum(k * c.LN2_HIGH, a.builder.lookup("POW_LOG_HIGH", index))
    high, lost = two_sum(high, f)
    high, lost2 = two_sum(high, square * -0.5)
    tail = k * c.LN2_LOW + a.builder.lookup("POW_LOG_LOW", index)
    return fast_two_sum(high, (low + lost + lost2) + (f_low - square_low * 0.5 + tail + cubic))


def pow(x: Value, y: Value) -> Value:
    """x^y with C's special values."""
    builder = x.builder
    one = builder.value(1.0, "f64")
    a, ay = x.abs(), y.abs()
    is_odd, is_integer = _parity(y)
    is_regular = a.less(INF) & builder.value(0.0, "f64").less(a)
    log_high, log_low = _log_double(is_regular.select(a, 1.0))
    exponent = clamp(y, -(2.0**80), 2.0**80)
    high, low = two_product(log_high, exponent)
    low = low + log_low * exponent
    high, low = fast_two_sum(high, low)
    is_extreme = builder.value(800.0, "f64").less(high.abs())
    n, r, rest = exp_reduced(clamp(high, -800.0, 800.0))
    low = is_extreme.select(0.0, low)
    total = r + 1.0
    power = scale(total + ((r - (total - 1.0)) + (rest + (low + low * (r + rest)))), n)
    # |x| of 0 or inf: 0 or inf by the sign of y; y infinite falls out of the clamped exponent except at |x| = 1.
    grows = x.equal(0.0) ^ builder.value(0.0, "f64").less(y)
    power = is_regular.select(power, grows.select(builder.value(INF, "f64"), 0.0))
    power = a.equal(1.0).select(one, power)
    is_negative = x.bits().less(0)
    power = (is_negative & is_odd).select(-power, power)
    is_bad = is_negative & ~is_integer & a.less(INF) & builder.value(0.0, "f64").less(a)
    power = is_bad.select(NAN, power)
    power = (x.is_nan() | ay.is_nan()).select(NAN, power)
    return (y.equal(0.0) | x.equal(1.0)).select(one, power)


def _parity(y: Value) -> tuple[Value, Value]:
    """(y is an odd integer, y is an integer; infinities count as even integers)."""
    builder = y.builder
    small = y.abs().less(2.0**53)
    whole = small.select(y, 0.0).to("i64")
    is_integer = ~small | whole.to("f64").equal(y)
    is_odd = small & is_integer & (whole & 1).equal(builder.value(1, "i64"))
    return is_odd, is_integer
