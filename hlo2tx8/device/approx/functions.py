"""The functions of one argument, in f64 and where speed asks for it in f32. Each is a few lines that build a `FunctionProgram`."""

from hlo2tx8.device.approx import coefficients as c
from hlo2tx8.device.approx.parts import (
    INF,
    NAN,
    at_most,
    clamp,
    copy_sign,
    exp_reduced,
    log_parts,
    log_reduced,
    nearest_power,
    polynomial,
    polynomial_even_odd,
    power_of_two,
    round_to_integer,
    scale,
    two_sum,
)
from hlo2tx8.device.approx.program import Value
from hlo2tx8.device.approx.reduction import cosine, reduce_angle, sine


def exp(x: Value) -> Value:
    """e^x."""
    x = clamp(x, -105.0, 90.0) if x.type == "f32" else clamp(x, -747.0, 711.0)
    n, r, rest = exp_reduced(x)
    total = r + 1.0
    return scale(total + ((r - (total - 1.0)) + rest), n)


def exp2(x: Value) -> Value:
    """2^x (f64)."""
    x = clamp(x, -1077.0, 1026.0)
    nearest, n = round_to_integer(x)
    r = x - nearest
    return scale(r * polynomial_even_odd(r, c.EXP2_POLY) + 1.0, n)


def expm1(x: Value) -> Value:
    """e^x - 1 (f64), accurate near 0."""
    n, r, rest = exp_reduced(clamp(x, -60.0, 711.0))
    part = r + rest
    two = power_of_two(n)
    near = two * part + (two - 1.0)
    y = n.less(56).select(near, scale(part + 1.0, n))
    return x.equal(0.0).select(x, y)


def _log_domain(x: Value, y: Value, edge: float = 0.0) -> Value:
    """y inside (edge, inf); inf and NaN pass, edge gives -inf, below it NaN."""
    y = x.less(INF).select(y, x)
    outside = x.equal(edge).select(x.builder.value(-INF, x.type), NAN)
    return x.builder.value(edge, x.type).less(x).select(y, outside)


def log(x: Value) -> Value:
    """Natural logarithm."""
    high, low = (c.LN2_HIGH_F32, c.LN2_LOW_F32) if x.type == "f32" else (c.LN2_HIGH, c.LN2_LOW)
    k, f = log_reduced(x)
    half_square, rest = log_parts(f)
    return _log_domain(x, k * high - ((half_square - (rest + k * low)) - f))


def log1p(x: Value) -> Value:
    """ln(1 + x) (f64), accurate near 0."""
    one = x.builder.value(1.0, x.type)
    total, lost = two_sum(one, x)
    k, f = log_reduced(total)
    half_square, rest = log_parts(f)
    y = k * c.LN2_HIGH - ((half_square - (rest + (k * c.LN2_LOW + lost / total))) - f)
    return x.equal(0.0).select(x, _log_domain(x, y, -1.0))


def log2(x: Value) -> Value:
    """Base-2 logarithm (f64); exact for powers of two."""
    k, f = log_reduced(x)
    half_square, rest = log_parts(f)
    high = ((f - half_square).bits() & -(1 << 32)).as_float()
    low = (f - high) - half_square + rest
    first = high * c.LOG2E_HIGH
    second = (low + high) * c.LOG2E_LOW + low * c.LOG2E_HIGH
    total = k + first
    return _log_domain(x, total + (second + ((k - total) + first)))


def tanh(x: Value) -> Value:
    """Hyperbolic tangent; neither form loses anything near 0."""
    a = x.abs()
    return copy_sign(_tanh_single(at_most(a, 10.0)) if x.type == "f32" else _tanh_double(at_most(a, 22.0)), x)


def _tanh_double(a: Value) -> Value:
    """E / (E + 2) with E = e^2a - 1."""
    n, r, rest = exp_reduced(a * 2.0)
    two = power_of_two(n)
    e = (r + rest) * two + (two - 1.0)
    return e / (e + 2.0)


def _tanh_single(a: Value) -> Value:
    """((s + 1) t + (s - 1)) / ((s - 1) t + (s + 1)) with a = n ln2/2 + h, s = 2^n, t = tanh h.

    The product n ln2/2 is rounded where n is 3, 5, 6 ...: there h weighs too little for it to matter.
    """
    nearest, two = nearest_power(a * c.TWO_LOG2E_F32)
    h = a - nearest * c.HALF_LN2_F32
    z = h * h
    t = h + (h * z) * polynomial(z, c.TANH_F32_POLY)
    below, above = two - 1.0, two + 1.0
    return (above * t + below) / (below * t + above)


def tanh_bf16(x: Value) -> Value:
    """Hyperbolic tangent good enough to be rounded to BF16: x P(x^2) / Q(x^2) up to where it rounds to 1 (f32)."""
    a = clamp(x, -3.8, 3.8)
    z = a * a
    return (a * polynomial(z, c.TANH_OVER_BF16_POLY)) / polynomial(z, c.TANH_UNDER_BF16_POLY)


def logistic(x: Value) -> Value:
    """1 / (1 + e^-x), as e / (1 + e) with e = e^-|x|."""
    e = exp(-(x.abs()))
    return x.less(0.0).select(e, 1.0) / (e + 1.0)


def softplus(x: Value) -> Value:
    """ln(1 + e^x) (f64), as max(x, 0) + log1p(e^-|x|)."""
    return x.less(0.0).select(x.builder.value(0.0, x.type), x) + log1p(exp(-(x.abs())))


def rsqrt(x: Value) -> Value:
    """1 / sqrt(x) (f64)."""
    return 1.0 / x.sqrt()


def _finite_angle(x: Value, y: Value) -> Value:
    return x.abs().less(INF).select(y, NAN)


def sin(x: Value, *, only_small: bool = False) -> Value:
    """Sine (f64), any magnitude."""
    n, r, low = reduce_angle(x.abs(), only_small=only_small)
    y = (n & 1).equal(1).select(cosine(r, low), sine(r, low))
    sign = ((n & 2) << 62) ^ (x.bits() & -(1 << 63))
    return x.equal(0.0).select(x, _finite_angle(x, (y.bits() ^ sign).as_float()))


def cos(x: Value, *, only_small: bool = False) -> Value:
    """Cosine (f64), any magnitude."""
    n, r, low = reduce_angle(x.abs(), only_small=only_small)
    y = (n & 1).equal(1).select(sine(r, low), cosine(r, low))
    return _finite_angle(x, (y.bits() ^ (((n + 1) & 2) << 62)).as_float())


def tan(x: Value, *, only_small: bool = False) -> Value:
    """Tangent (f64), any magnitude."""
    n, r, low = reduce_angle(x.abs(), only_small=only_small)
    s, k = sine(r, low), cosine(r, low)
    is_odd = (n & 1).equal(1)
    y = is_odd.select(-k, s) / is_odd.select(s, k)
    return x.equal(0.0).select(x, _finite_angle(x, (y.bits() ^ (x.bits() & -(1 << 63))).as_float()))


def cbrt(x: Value) -> Value:
    """Cube root (f64): a polynomial on [1, 8), then two steps of Halley, the second with an exact square."""
    a = x.abs()
    is_tiny = a.less(2.0**-1022)
    bits = is_tiny.select(a * 2.0**54, a).bits()
    exponent = (bits >> 52) - is_tiny.select(x.builder.value(1023 + 54, "i64"), 1023) + 1200
    third = (exponent * 43691) >> 17
    mantissa = ((bits & ((1 << 52) - 1)) | (1023 << 52)).as_float() * power_of_two(exponent - third * 3)
    t = polynomial(mantissa, c.CBRT_POLY)
    cube = t * t * t
    t = t * ((cube + mantissa * 2.0) / (cube * 2.0 + mantissa))
    t = ((t.bits() + (1 << 26)) & -(1 << 27)).as_float()
    quotient = mantissa / (t * t)
    y = (t + t * ((quotient - t) / (t + t + quotient))) * power_of_two(third - 400)
    is_regular = a.less(INF) & x.builder.value(0.0, "f64").less(a)
    return is_regular.select(copy_sign(y, x), x)
