"""chlo's elementwise ops and top_k; scipy.special is imported when a special function is first evaluated."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from xdsl.dialects import math

from hlo2tx8.hlo.ops.forms import COMPLEX, FLOAT, INTEGER, double, elementwise, pred, raw, wide
from hlo2tx8.hlo.rounding import narrow, widen
from hlo2tx8.hlo.spec import Array, Attributes, OpSpec, Reference, TensorLike
from hlo2tx8.hlo.types import bit_width, is_float, is_unsigned

ANALYTIC = (*FLOAT, *COMPLEX)


def scipy_special() -> Any:
    """The module scipy.special, imported late: it takes 0.2 s."""
    return import_module("scipy.special")


def special(name: str) -> Reference:
    """scipy.special.<name> in float64, rounded once."""

    def function(*arrays: Array) -> Any:
        return getattr(scipy_special(), name)(*arrays)

    return double(function)


def erf_inv(x: Array) -> Array:
    """The y with erf(y) = x; ±inf at ±1, NaN outside."""
    found: Any = scipy_special().erfinv(x)
    return found


def lgamma(x: Array) -> Array:
    """log |Γ(x)|; inf at 0, -1, -2 ... and ±inf."""
    found: Any = scipy_special().gammaln(x)
    return np.where(np.isinf(x), np.inf, found)


def digamma(x: Array) -> Array:
    """Γ'(x) / Γ(x); NaN at 0 and the negative integers."""
    found: Any = scipy_special().psi(x)
    return np.where((x <= 0) & (x == np.floor(x)), np.nan, found)


def polygamma(n: Array, x: Array) -> Array:
    """The n-th derivative of digamma at x: (-1)**(n+1) n! zeta(n+1, x); NaN unless n is a natural number."""
    sign = np.where(n % 2 == 0, -1.0, 1.0)
    series = sign * scipy_special().gamma(n + 1) * zeta(n + 1, x)
    found = np.where(n == 0, digamma(x), series)
    return np.where((n < 0) | (n != np.floor(n)), np.nan, found)


def zeta(s: Array, q: Array) -> Array:
    """Hurwitz: sum over k of (q + k)**-s; inf at s = 1 and where a term has a pole, NaN where undefined."""
    found: Any = scipy_special().zeta(s, np.where(q <= 0, np.nan, q))
    pole = (q <= 0) & (q == np.floor(q))
    even = (s == np.floor(s)) & (np.fmod(s, 2) == 0)
    below = np.where(s == np.floor(s), _zeta_below_zero(s, q), np.nan)
    found = np.where(q <= 0, below, found)
    found = np.where((s < 1) | np.isnan(s) | np.isnan(q), np.nan, found)
    return np.where(s == 1, np.inf, np.where(pole, np.where(even, np.inf, np.nan), found))


def _zeta_below_zero(s: Array, q: Array) -> Array:
    """zeta(s, q) for q < 0 and whole s: the first terms singly, the rest from the first positive q + k on."""
    count = np.where((q < 0) & np.isfinite(q), np.minimum(np.ceil(-q), 4096), 0)
    total = np.zeros(np.broadcast_shapes(s.shape, q.shape))
    for k in range(int(count.max(initial=0))):
        total = total + np.where(k < count, np.power(q + k, -s), 0)
    return total + scipy_special().zeta(s, np.where(q + count > 0, q + count, np.nan))


def _asinh(x: Array) -> Any:
    return np.arcsinh(x)


def _conjugate(_: Attributes, result: TensorLike, x: Array) -> Any:
    return np.conj(x).astype(result.dtype, copy=False) if x.dtype.kind == "c" else x


def _infinite(test: Callable[[Array], Any]) -> Reference:
    def function(_: Attributes, __: TensorLike, x: Array) -> Any:
        return test(widen(x))

    return raw(function)


def multiply_high(_: Attributes, result: TensorLike, a: Array, b: Array) -> Array:
    """The upper half of the product of twice the width."""
    kind, bits = result.dtype, bit_width(result.dtype)
    if bits < 64:
        wide_type = np.uint64 if is_unsigned(kind) else np.int64
        product = widen(a).astype(wide_type) * widen(b).astype(wide_type)
        return narrow(product >> wide_type(bits), kind)
    product = np.asarray(a).astype(object) * np.asarray(b).astype(object)
    return np.asarray(product >> 64).astype(kind)


def next_after(_: Attributes, result: TensorLike, a: Array, b: Array) -> Array:
    """The neighbour of a in the direction of b, in the operands' own dtype; a where they are equal."""
    kind = result.dtype
    if kind.kind == "f" and kind.itemsize >= 4:
        return np.nextafter(a, b)
    signed = np.dtype(f"int{8 * kind.itemsize}")
    a, b = np.broadcast_arrays(a, b)
    x, y = widen(a), widen(b)
    bits = np.ascontiguousarray(a).view(signed).reshape(a.shape)
    away = (y > x) == (x > 0)
    moved = np.where(away, bits + 1, bits - 1).astype(signed)
    from_zero = np.where(y > 0, 1, 1 | np.iinfo(signed).min).astype(signed)
    moved = np.where(x == 0, from_zero, moved)
    if kind.name.endswith("fnuz"):
        moved = np.where(moved == np.iinfo(signed).min, 0, moved).astype(signed)
    stepped = np.where(x == y, np.ascontiguousarray(b).view(signed).reshape(b.shape), moved).view(kind)
    return np.where(np.isnan(x) | np.isnan(y), np.array(np.nan, kind), stepped)


def square(x: Array) -> Array:
    """x * x; for complex (re - im)(re + im) + 2 re im i."""
    return x * x


def top_k(attributes: Attributes, results: tuple[TensorLike, ...], x: Array) -> tuple[Array, ...]:
    """The k largest along the last dimension, descending, and their indices; equal ones in order, NaN largest."""
    from hlo2tx8.hlo.ops.elementwise_select import total_order

    key = total_order(x) if is_float(x.dtype) else widen(x)
    order = np.argsort(np.invert(key), axis=-1, kind="stable")[..., : attributes["k"]]
    return np.take_along_axis(x, order, axis=-1), order.astype(results[1].dtype)


def _unary(name: str, reference: Reference, ulp: float, scalar: type[Any] | None = None) -> OpSpec:
    return elementwise(f"chlo.{name}", reference, accepts=FLOAT, ulp=ulp, scalar={"float": scalar} if scalar is not None else None)


def _analytic(name: str, function: Callable[[Array], Any], ulp: float, scalar: type[Any]) -> OpSpec:
    scalars = {"float": scalar}
    return elementwise(f"chlo.{name}", double(function), accepts=ANALYTIC, ulp=ulp, complex_ulp=max(ulp, 4), scalar=scalars)


SPECS = (
    _analytic("acos", np.arccos, 4, math.AcosOp),
    _analytic("acosh", np.arccosh, 4, math.AcoshOp),
    _analytic("asin", np.arcsin, 4, math.AsinOp),
    _analytic("asinh", _asinh, 4, math.AsinhOp),
    _analytic("atan", np.arctan, 4, math.AtanOp),
    _analytic("atanh", np.arctanh, 4, math.AtanhOp),
    _analytic("cosh", np.cosh, 32, math.CoshOp),
    _analytic("sinh", np.sinh, 32, math.SinhOp),
    _analytic("tan", np.tan, 4, math.TanOp),
    elementwise("chlo.erf", special("erf"), accepts=FLOAT, ulp=8, ulp_floor=2.0**-118, scalar={"float": math.ErfOp}),
    _unary("erfc", special("erfc"), 8),
    _unary("erf_inv", double(erf_inv), 8),
    elementwise("chlo.lgamma", double(lgamma), accepts=FLOAT, ulp=32, ulp_floor=1),
    elementwise("chlo.digamma", double(digamma), accepts=FLOAT, ulp=32, ulp_floor=1),
    _unary("bessel_i1e", special("i1e"), 8),
    elementwise("chlo.polygamma", double(polygamma), accepts=FLOAT, arity=2, ulp=32, ulp_floor=1),
    elementwise("chlo.zeta", double(zeta), accepts=FLOAT, arity=2, ulp=32),
    elementwise("chlo.next_after", raw(next_after), accepts=FLOAT, arity=2),
    elementwise("chlo.square", wide(square), accepts=ANALYTIC, ulp=1),
    elementwise("chlo.conj", raw(_conjugate), accepts=ANALYTIC),
    elementwise("chlo.mulhi", raw(multiply_high), accepts=INTEGER, arity=2),
    elementwise("chlo.is_inf", _infinite(np.isinf), accepts=FLOAT, result=pred),
    elementwise("chlo.is_pos_inf", _infinite(np.isposinf), accepts=FLOAT, result=pred),
    elementwise("chlo.is_neg_inf", _infinite(np.isneginf), accepts=FLOAT, result=pred),
)
