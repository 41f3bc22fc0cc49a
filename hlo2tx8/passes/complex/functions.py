"""Elementwise functions of complex numbers, expressed by real and imaginary parts.

    z = a + bi, w = c + di        z w     = (a c - b d) + (a d + b c) i
                                  exp z   = e^a cos b + e^a sin b i
                                  tanh z  = (th (1 + t²) + t / cosh² a i) / (1 + th² t²),  th = tanh a, t = tan b

What overflows only on the way is scaled; infinities and zeros give what C99 says where XLA:CPU follows it.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from hlo2tx8.builders.formula import Pred, Term

INFINITY = float("inf")


class Parts(NamedTuple):
    """A complex array as two arrays of reals."""

    real: Term
    imag: Term


def choose(condition: Pred, yes: Parts, no: Parts) -> Parts:
    """`yes` where the condition holds, else `no`."""
    return Parts(condition.choose(yes.real, no.real), condition.choose(yes.imag, no.imag))


def multiply(z: Parts, w: Parts) -> Parts:
    (a, b), (c, d) = z, w
    return Parts(a * c - b * d, a * d + b * c)


def divide(z: Parts, w: Parts) -> Parts:
    """Smith's method: everything is divided by the larger part of w first; then zero and infinite operands."""
    (a, b), (c, d) = z, w
    is_wide = abs(c) >= abs(d)
    ratio = is_wide.choose(d, c) / is_wide.choose(c, d)
    scale = is_wide.choose(c, d) + is_wide.choose(d, c) * ratio
    first, second = is_wide.choose(a, b), is_wide.choose(b, a)
    imag = (second - first * ratio) / scale
    found = Parts((first + second * ratio) / scale, is_wide.choose(imag, -imag))

    # Finite by infinite: only directions are left of w.
    r, s = _direction(w)
    to_zero = Parts((a * r + b * s) * 0.0, (b * r - a * s) * 0.0)
    found = choose(_is_infinite(w) & _is_finite(z), to_zero, found)
    p, q = _direction(z)
    to_infinity = Parts((p * c + q * d) * INFINITY, (q * c - p * d) * INFINITY)
    found = choose(_is_infinite(z) & _is_finite(w), to_infinity, found)
    infinity = c.number(INFINITY).with_sign_of(c)
    return choose(c.equals(0.0) & d.equals(0.0), Parts(infinity * a, infinity * b), found)


def _direction(z: Parts) -> Parts:
    """±1 for an infinite part, ±0 for another."""
    a, b = (part.is_infinite().choose(part.number(1.0), 0.0).with_sign_of(part) for part in z)
    return Parts(a, b)


def _is_infinite(z: Parts) -> Pred:
    return z.real.is_infinite() | z.imag.is_infinite()


def _is_finite(z: Parts) -> Pred:
    return (abs(z.real) < INFINITY) & (abs(z.imag) < INFINITY)


def absolute(z: Parts) -> Term:
    """|z| as max * sqrt(1 + (min / max)²) of the parts' absolute values; inf if one of them is infinite."""
    a, b = abs(z.real), abs(z.imag)
    large, small = a.call("maximum", b), a.call("minimum", b)
    ratio = small / large
    found = large * (1.0 + ratio * ratio).call("sqrt")
    found = large.equals(0.0).choose(large, found)
    return _is_infinite(z).choose(INFINITY, found)


def sign(z: Parts) -> Parts:
    """z / |z|; 0 for 0."""
    size = absolute(z)
    found = Parts(z.real / size, z.imag / size)
    return choose(size.equals(0.0), Parts(size, size), found)


def exponential(z: Parts) -> Parts:
    """e^z; as a product of two factors where e^a alone would overflow, and real for real z."""
    a, b = z
    size = _exp_limit(a)
    is_large = a > size
    e = is_large.choose(a * 0.5, a).call("exponential")
    rest = is_large.choose(e, 1.0)
    imag = b.equals(0.0).choose(b, e * b.call("sine") * rest)
    real = b.equals(0.0).choose(e * rest, e * b.call("cosine") * rest)
    return Parts(real, imag)


def _exp_limit(x: Term) -> float:
    """A number below the logarithm of the largest float."""
    return 700.0 if "f64" in str(x.type.element_type) else 80.0


def expm1(z: Parts) -> Parts:
    """(expm1 a cos b - 2 sin² (b / 2)) + e^a sin b i."""
    a, b = z
    half = (b * 0.5).call("sine")
    real = a.call("exponential_minus_one") * b.call("cosine") - 2.0 * (half * half)
    return choose(b.equals(0.0), Parts(a.call("exponential_minus_one"), b), Parts(real, exponential(z).imag))


def _sinh_cosh(x: Term) -> tuple[Term, Term, Term]:
    """(s, c, f) with sinh x = s f, cosh x = c f; f is 1 unless e^|x| overflows."""
    size = abs(x)
    is_large = size > _exp_limit(x)
    e = is_large.choose(size * 0.5, size).call("exponential")
    m = size.call("exponential_minus_one")
    sinh = (size < 1.0).choose((m + m / (m + 1.0)) * 0.5, (e - 1.0 / e) * 0.5)
    cosh = (e + 1.0 / e) * 0.5
    half = e * 0.5
    sinh = is_large.choose(half, sinh).with_sign_of(x)
    return sinh, is_large.choose(half, cosh), is_large.choose(e, 1.0)


def sine(z: Parts) -> Parts:
    """sin a cosh b + cos a sinh b i."""
    a, b = z
    sinh, cosh, factor = _sinh_cosh(b)
    real = a.equals(0.0).choose(a, a.call("sine") * cosh * factor)
    imag = b.equals(0.0).choose(b, a.call("cosine") * sinh * factor)
    return Parts(real, imag)


def cosine(z: Parts) -> Parts:
    """cos a cosh b - sin a sinh b i."""
    a, b = z
    sinh, cosh, factor = _sinh_cosh(b)
    imag = (a.equals(0.0) | b.equals(0.0)).choose(-(a * b), -(a.call("sine") * sinh * factor))
    return Parts(a.call("cosine") * cosh * factor, imag)


def tanh(z: Parts) -> Parts:
    """(th (1 + t²) + t / cosh² a i) / (1 + th² t²)."""
    a, b = z
    th, t = a.call("tanh"), b.call("tan")
    e = (-abs(a)).call("exponential")
    sech = 2.0 * e / (1.0 + e * e)
    square = t * t
    below = 1.0 + th * th * square
    found = Parts(th * (1.0 + square) / below, t * (sech * sech) / below)
    infinite = a.is_infinite()
    imag = b.equals(0.0).choose(b, found.imag)
    return Parts(infinite.choose(th, found.real), infinite.choose(a.number(0.0).with_sign_of(b), imag))


def tan(z: Parts) -> Parts:
    """-i tanh(iz)."""
    found = tanh(Parts(-z.imag, z.real))
    return Parts(found.imag, -found.real)


def logistic(z: Parts) -> Parts:
    """1 / (1 + e^-z) on the right, e^z / (1 + e^z) on the left."""
    a, b = z
    is_right = a >= 0.0
    e = exponential(Parts(-abs(a), is_right.choose(-b, b)))
    one = Parts(a.number(1.0), a.number(0.0))
    return divide(choose(is_right, one, e), Parts(1.0 + e.real, e.imag))


def cbrt(z: Parts) -> Parts:
    """The principal cube root: the root of the absolute value, at a third of the angle."""
    size, angle = absolute(z).call("cbrt"), z.imag.call("atan2", z.real) / 3.0
    return Parts(size * angle.call("cosine"), size * angle.call("sine"))


def extremum(direction: str) -> Callable[[Parts, Parts], Parts]:
    """The function that gives the larger (GT) or smaller (LT) of two numbers in lexicographic order of their parts."""

    def function(z: Parts, w: Parts) -> Parts:
        first = z.real.compare(direction, w.real)
        second = z.real.equals(w.real) & z.imag.compare(direction, w.imag)
        return choose(first | second | z.real.is_nan() | z.imag.is_nan(), z, w)

    return function


UNARY: Mapping[str, Callable[[Parts], Parts]] = {
    "sign": sign,
    "exponential": exponential,
    "exponential_minus_one": expm1,
    "sine": sine,
    "cosine": cosine,
    "tanh": tanh,
    "tan": tan,
    "logistic": logistic,
    "cbrt": cbrt,
}
BINARY: Mapping[str, Callable[[Parts, Parts], Parts]] = {
    "multiply": multiply,
    "divide": divide,
    "maximum": extremum("GT"),
    "minimum": extremum("LT"),
}
"""Functions by the name of the op; add, subtract and negate are those of each part."""
