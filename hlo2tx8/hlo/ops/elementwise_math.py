"""Transcendentals and rounding: computed in float64 (complex128) and rounded once to the dtype.

ULP bounds cover what XLA:CPU and the chip's polynomials were measured to need; the reference itself is nearly exact.
"""

from typing import Any

import numpy as np
from xdsl.dialects import math

from hlo2tx8.hlo.ops.forms import COMPLEX, FLOAT, double, elementwise, pred, raw, wide
from hlo2tx8.hlo.rounding import widen
from hlo2tx8.hlo.spec import Array, Attributes, TensorLike

ANALYTIC = (*FLOAT, *COMPLEX)


def exponential(x: Array) -> Array:
    """e^x; NaN for a complex x without an angle, even at -inf."""
    if x.dtype.kind == "c":
        return np.where(np.isfinite(np.imag(x)), np.exp(x), complex(np.nan, np.nan))
    return np.exp(x)


def cbrt(x: Array) -> Array:
    """The real cube root; the principal one for complex."""
    if x.dtype.kind == "c":
        return np.cbrt(np.abs(x)) * np.exp(1j * (np.angle(x) / 3))
    return np.cbrt(x)


def rsqrt(x: Array) -> Array:
    """1 / sqrt(x); ±0 gives ±inf."""
    return 1 / np.sqrt(x)


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)), through exp of a negative number so that small results keep their digits."""
    if x.dtype.kind == "c":
        return 1 / (1 + exponential(-x))
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def atan2(y: Array, x: Array) -> Array:
    """The angle of (x, y); for complex -i log((x + i y) / sqrt(x² + y²))."""
    if x.dtype.kind == "c":
        return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))
    return np.arctan2(y, x)


def round_afz(x: Array) -> Array:
    """To the nearest integer, ties away from zero."""
    whole = np.trunc(x)
    return np.copysign(np.abs(whole) + (np.abs(x - whole) >= 0.5), x)


def _is_finite(_: Attributes, __: TensorLike, x: Array) -> Any:
    return np.isfinite(widen(x))


SPECS = (
    elementwise("stablehlo.exponential", double(exponential), accepts=ANALYTIC, ulp=2, scalar={"float": math.ExpOp}),
    elementwise("stablehlo.exponential_minus_one", double(np.expm1), accepts=ANALYTIC, ulp=3, scalar={"float": math.ExpM1Op}),
    elementwise("stablehlo.log", double(np.log), accepts=ANALYTIC, ulp=2, scalar={"float": math.LogOp}),
    elementwise("stablehlo.log_plus_one", double(np.log1p), accepts=ANALYTIC, ulp=3, complex_ulp=8, scalar={"float": math.Log1pOp}),
    elementwise("stablehlo.logistic", double(logistic), accepts=ANALYTIC, ulp=3, complex_ulp=16),
    elementwise("stablehlo.tanh", double(np.tanh), accepts=ANALYTIC, ulp=4, scalar={"float": math.TanhOp}),
    elementwise("stablehlo.sine", double(np.sin), accepts=ANALYTIC, ulp=2, scalar={"float": math.SinOp}),
    elementwise("stablehlo.cosine", double(np.cos), accepts=ANALYTIC, ulp=2, scalar={"float": math.CosOp}),
    elementwise("stablehlo.tan", double(np.tan), accepts=ANALYTIC, ulp=4, scalar={"float": math.TanOp}),
    elementwise("stablehlo.atan2", double(atan2), accepts=ANALYTIC, arity=2, ulp=3, complex_ulp=32, scalar={"float": math.Atan2Op}),
    elementwise("stablehlo.sqrt", double(np.sqrt), accepts=ANALYTIC, ulp=1, scalar={"float": math.SqrtOp}),
    elementwise("stablehlo.rsqrt", double(rsqrt), accepts=ANALYTIC, ulp=2, scalar={"float": math.RsqrtOp}),
    elementwise("stablehlo.cbrt", double(cbrt), accepts=ANALYTIC, ulp=2, scalar={"float": math.CbrtOp}),
    elementwise("stablehlo.floor", wide(np.floor), accepts=FLOAT, scalar={"float": math.FloorOp}),
    elementwise("stablehlo.ceil", wide(np.ceil), accepts=FLOAT, scalar={"float": math.CeilOp}),
    elementwise("stablehlo.round_nearest_even", wide(np.rint), accepts=FLOAT, scalar={"float": math.RoundEvenOp}),
    elementwise("stablehlo.round_nearest_afz", wide(round_afz), accepts=FLOAT, scalar={"float": math.RoundOp}),
    elementwise("stablehlo.is_finite", raw(_is_finite), accepts=FLOAT, result=pred),
)
