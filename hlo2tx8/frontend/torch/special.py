"""Special functions of single elements, orthogonal polynomials."""

# pyright: basic

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special

from hlo2tx8.frontend.torch.table import AtenCall, Rows, binary, unary, widened


def _xlog(log: Any) -> Any:
    return lambda x, y: jnp.where(jnp.isnan(y), y, jnp.where(x == 0, 0, x * log(jnp.where(x == 0, 1, y))))


def _polynomial(first: tuple[Any, Any, Any, Any]) -> Any:
    """Orthogonal polynomials of degree n at x by their recurrence p(k+1) = (a x + b) p(k) - c p(k-1); `first` is a function of x
    for the degree 1, and functions of k for a, b, c."""
    start, a, b, c = first

    def apply(call: AtenCall, x: Any, n: Any) -> Any:
        x, n = jnp.broadcast_arrays(*call.wide(x, n))
        n = jnp.trunc(n)
        most = jnp.max(n).astype(jnp.int32) if n.size else 0
        one = jnp.ones_like(x)

        def turn(k: Any, carried: Any) -> Any:
            before, now, found = carried
            degree = k.astype(x.dtype)
            after = (a(degree) * x + b(degree)) * now - c(degree) * before
            return now, after, jnp.where(n == degree + 1, after, found)

        found = jnp.where(n == 1, start(x), jnp.where(n < 0, 0, one))
        return lax.fori_loop(jnp.int32(1), jnp.maximum(most, 1), turn, (one, start(x), found))[2]

    return apply


def _one(_: Any) -> int:
    return 1


_CHEBYSHEV = (lambda _: 2, lambda _: 0, _one)


POLYNOMIALS: Rows = {
    f"special_{name}": _polynomial(row)
    for name, row in {
        "chebyshev_polynomial_t": (lambda x: x, *_CHEBYSHEV),
        "chebyshev_polynomial_u": (lambda x: 2 * x, *_CHEBYSHEV),
        "chebyshev_polynomial_v": (lambda x: 2 * x - 1, *_CHEBYSHEV),
        "chebyshev_polynomial_w": (lambda x: 2 * x + 1, *_CHEBYSHEV),
        "shifted_chebyshev_polynomial_t": (lambda x: 2 * x - 1, lambda _: 4, lambda _: -2, _one),
        "shifted_chebyshev_polynomial_u": (lambda x: 4 * x - 2, lambda _: 4, lambda _: -2, _one),
        "shifted_chebyshev_polynomial_v": (lambda x: 4 * x - 3, lambda _: 4, lambda _: -2, _one),
        "shifted_chebyshev_polynomial_w": (lambda x: 4 * x - 1, lambda _: 4, lambda _: -2, _one),
        "hermite_polynomial_h": (lambda x: 2 * x, lambda _: 2, lambda _: 0, lambda k: 2 * k),
        "hermite_polynomial_he": (lambda x: x, _one, lambda _: 0, lambda k: k),
        "laguerre_polynomial_l": (
            lambda x: 1 - x,
            lambda k: -1 / (k + 1),
            lambda k: (2 * k + 1) / (k + 1),
            lambda k: k / (k + 1),
        ),
        "legendre_polynomial_p": (lambda x: x, lambda k: (2 * k + 1) / (k + 1), lambda _: 0, lambda k: k / (k + 1)),
    }.items()
}


def _spherical(x: Any) -> Any:
    """sin(x) / x; near 0 by its series, and 0 at infinity."""
    square = x * x
    near = 1 - square / 6 * (1 - square / 20 * (1 - square / 42))
    return jnp.where(jnp.isinf(x), 0, jnp.where(jnp.abs(x) < 0.5, near, jnp.sin(x) / x))


def _digamma(x: Any) -> Any:
    """Of 0 it is infinite, with the other sign."""
    return jnp.where(x == 0, jnp.copysign(jnp.inf, -x), special.digamma(x))


MOST_STEPS = 1024


def _zeta(s: Any, q: Any) -> Any:
    """Hurwitz's; below 0 by its first terms, NaN from -1024 on."""
    s, q = jnp.broadcast_arrays(s, q)

    def turn(carried: tuple[Any, Any]) -> tuple[Any, Any]:
        q, total = carried
        is_below = (q <= 0) & (q > -MOST_STEPS)
        return jnp.where(is_below, q + 1, q), jnp.where(is_below, total + jnp.power(q, -s), total)

    above, total = lax.while_loop(lambda c: jnp.any((c[0] <= 0) & (c[0] > -MOST_STEPS)), turn, (q, jnp.zeros_like(q)))
    return jnp.where(q <= -MOST_STEPS, jnp.nan, total + special.zeta(s, jnp.where(above > 0, above, 1)))


def _polygamma(call: AtenCall, n: int, x: Any) -> Any:
    """Derivatives of digamma; the first one also below 0, by reflection."""
    x = call.wide(x)
    if n == 0:
        return _digamma(x)
    if n > 1:
        return (-1 if n % 2 == 0 else 1) * math.factorial(n) * _zeta(jnp.asarray(n + 1, x.dtype), x)
    far = jnp.where(x < 0.5, 1 - x, x)
    return jnp.where(x < 0.5, jnp.square(np.pi / jnp.sin(np.pi * x)), 0) + jnp.where(x < 0.5, -1, 1) * special.zeta(2.0, far)


def _frexp(call: AtenCall, x: Any) -> Any:
    mantissa, exponent = jnp.frexp(x.astype(widened(x.dtype)))
    return mantissa, exponent


def _nextafter(call: AtenCall, x: Any, y: Any) -> Any:
    return jnp.nextafter(x.astype(call.dtype), y.astype(call.dtype))


def _sinc(x: Any) -> Any:
    turned = x * np.pi
    return jnp.where(x == 0, 1, jnp.sin(turned) / jnp.where(x == 0, 1, turned)).astype(x.dtype)


ROWS: Rows = {
    **unary(
        sinc=_sinc,
        special_entr=special.entr,
        special_erfcx=lambda x: jnp.where(x < 25, jnp.exp(jnp.square(x)) * lax.erfc(x), 1 / (x * np.sqrt(np.pi))),
        special_i0e=special.i0e,
        special_i1=special.i1,
        special_i1e=special.i1e,
        special_log_ndtr=special.log_ndtr,
        special_ndtr=special.ndtr,
        special_ndtri=special.ndtri,
        digamma=_digamma,
        lgamma=special.gammaln,
        i0=special.i0,
        special_modified_bessel_i0=special.i0,
        special_modified_bessel_i1=special.i1,
        special_spherical_bessel_j0=_spherical,
        erfinv=lax.erf_inv,
        erfc=lax.erfc,
        erf=lax.erf,
    ),
    **binary(
        igamma=special.gammainc,
        igammac=special.gammaincc,
        xlogy=_xlog(jnp.log),
        special_xlog1py=_xlog(jnp.log1p),
        special_zeta=_zeta,
    ),
    "polygamma": _polygamma,
    "frexp": _frexp,
    "nextafter": _nextafter,
    **POLYNOMIALS,
}
