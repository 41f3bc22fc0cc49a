"""Elementwise ops: arithmetic, comparisons, logic, activations, conversions."""

# pyright: basic

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, nn

from hlo2tx8.frontend.onnx.conversion import bitcast, cast, cast_like
from hlo2tx8.frontend.onnx.table import NodeCall, OpRow, plain


def _binary(function: Callable[..., Any]) -> OpRow:
    """A row of two operands; before opset 7 the second's dimensions may stand from `axis` on."""

    def apply(call: NodeCall, x: Any, y: Any) -> Any:
        if call.since < 7 and call["axis"] is not None:
            axis = call["axis"] % max(jnp.ndim(x), 1)
            y = jnp.reshape(y, jnp.shape(y) + (1,) * (jnp.ndim(x) - axis - jnp.ndim(y)))
        return function(x, y)

    return OpRow(apply)


def _variadic(function: Callable[..., Any]) -> OpRow:
    return OpRow(lambda _, *inputs: reduce(function, inputs))


def _with_attributes(function: Callable[..., Any], *names: str) -> OpRow:
    """A row of one operand and attributes in that order."""
    return OpRow(lambda call, x: function(x, *(call[name] for name in names)))


def _divide(x: Any, y: Any) -> Any:
    x, y = jnp.broadcast_arrays(x, y)
    return lax.div(x, y)


def _modulo(call: NodeCall, x: Any, y: Any) -> Any:
    return (jnp.fmod if call["fmod"] else jnp.mod)(x, y)


def _shift(call: NodeCall, x: Any, y: Any) -> Any:
    x, y = jnp.broadcast_arrays(x, y)
    if call["direction"] == "LEFT":
        return lax.shift_left(x, y)
    is_signed = jnp.issubdtype(x.dtype, jnp.signedinteger)
    return (lax.shift_right_arithmetic if is_signed else lax.shift_right_logical)(x, y)


def _clip(call: NodeCall, x: Any, low: Any = None, high: Any = None) -> Any:
    low, high = (call[name] if given is None else given for name, given in (("min", low), ("max", high)))
    x = x if low is None else jnp.maximum(x, jnp.asarray(low, x.dtype))
    return x if high is None else jnp.minimum(x, jnp.asarray(high, x.dtype))


def _is_infinite(call: NodeCall, x: Any) -> Any:
    positive, negative = call["detect_positive"], call["detect_negative"]
    found = jnp.zeros(jnp.shape(x), bool)
    found = found | jnp.isposinf(x) if positive else found
    return found | jnp.isneginf(x) if negative else found


def _gelu(call: NodeCall, x: Any) -> Any:
    return nn.gelu(x, approximate=call["approximate"] == "tanh")


def _mean(_: NodeCall, *inputs: Any) -> Any:
    return reduce(jnp.add, inputs) / len(inputs)


def _prelu(call: NodeCall, x: Any, slope: Any) -> Any:
    if call.since < 7 and jnp.ndim(slope) == 1 and jnp.ndim(x) > 1 and slope.shape[0] > 1:
        slope = jnp.reshape(slope, (-1,) + (1,) * (jnp.ndim(x) - 2))
    return jnp.where(x < 0, x * slope, x)


def _swish(call: NodeCall, x: Any) -> Any:
    return x * nn.sigmoid(call["alpha"] * x)


def _shrink(x: Any, bias: float, lambd: float) -> Any:
    return jnp.where(x < -lambd, x + bias, jnp.where(x > lambd, x - bias, jnp.zeros_like(x)))


def _softplus(x: Any) -> Any:
    return jnp.logaddexp(x, jnp.zeros_like(x))


def _power(x: Any, y: Any) -> Any:
    both = (jnp.result_type(a) for a in (x, y))
    if all(jnp.issubdtype(dtype, jnp.integer) for dtype in both):
        return jnp.power(x, y)
    wide = jnp.result_type(x) if jnp.issubdtype(jnp.result_type(x), jnp.floating) else jnp.float64
    return jnp.power(jnp.asarray(x, wide), jnp.asarray(y, wide))


def _hard_sigmoid(x: Any, alpha: float, beta: float) -> Any:
    return jnp.clip(alpha * x + beta, 0, 1)


def _selu(x: Any, alpha: float, gamma: float) -> Any:
    return gamma * jnp.where(x > 0, x, alpha * jnp.expm1(x))


ROWS: dict[str, OpRow] = {
    **plain(
        Abs=jnp.abs,
        Acos=jnp.arccos,
        Acosh=jnp.arccosh,
        Asin=jnp.arcsin,
        Asinh=jnp.arcsinh,
        Atan=jnp.arctan,
        Atanh=jnp.arctanh,
        BitwiseNot=jnp.bitwise_not,
        Ceil=jnp.ceil,
        Cos=jnp.cos,
        Cosh=jnp.cosh,
        Erf=jax.scipy.special.erf,
        Exp=jnp.exp,
        Floor=jnp.floor,
        Identity=lambda x: x,
        IsNaN=jnp.isnan,
        Log=jnp.log,
        Mish=lambda x: x * jnp.tanh(_softplus(x)),
        Neg=jnp.negative,
        Not=jnp.logical_not,
        Reciprocal=lambda x: 1 / x,
        Relu=lambda x: jnp.maximum(x, jnp.zeros_like(x)),
        Round=jnp.round,
        Sigmoid=nn.sigmoid,
        Sign=jnp.sign,
        Sin=jnp.sin,
        Sinh=jnp.sinh,
        Softplus=_softplus,
        Softsign=nn.soft_sign,
        Sqrt=jnp.sqrt,
        Tan=jnp.tan,
        Tanh=jnp.tanh,
        Where=jnp.where,
    ),
    **{
        name: _binary(function)
        for name, function in {
            "Add": jnp.add,
            "And": jnp.logical_and,
            "BitwiseAnd": jnp.bitwise_and,
            "BitwiseOr": jnp.bitwise_or,
            "BitwiseXor": jnp.bitwise_xor,
            "Div": _divide,
            "Equal": jnp.equal,
            "Greater": jnp.greater,
            "GreaterOrEqual": jnp.greater_equal,
            "Less": jnp.less,
            "LessOrEqual": jnp.less_equal,
            "Mul": jnp.multiply,
            "Or": jnp.logical_or,
            "Pow": _power,
            "Sub": jnp.subtract,
            "Xor": jnp.logical_xor,
        }.items()
    },
    "BitCast": OpRow(bitcast),
    "BitShift": OpRow(_shift),
    "Cast": OpRow(cast),
    "CastLike": OpRow(cast_like),
    "Celu": _with_attributes(nn.celu, "alpha"),
    "Clip": OpRow(_clip),
    "Elu": _with_attributes(nn.elu, "alpha"),
    "Gelu": OpRow(_gelu),
    "HardSigmoid": _with_attributes(_hard_sigmoid, "alpha", "beta"),
    "HardSwish": OpRow(lambda _, x: x * jnp.clip(x / 6 + 0.5, 0, 1)),
    "IsInf": OpRow(_is_infinite),
    "LeakyRelu": _with_attributes(lambda x, alpha: jnp.where(x < 0, alpha * x, x), "alpha"),
    "Max": _variadic(jnp.maximum),
    "Mean": OpRow(_mean),
    "Min": _variadic(jnp.minimum),
    "Mod": OpRow(_modulo),
    "PRelu": OpRow(_prelu),
    "Selu": _with_attributes(_selu, "alpha", "gamma"),
    "Shrink": _with_attributes(_shrink, "bias", "lambd"),
    "Sum": _variadic(jnp.add),
    "Swish": OpRow(_swish),
    "ThresholdedRelu": _with_attributes(lambda x, alpha: jnp.where(x > alpha, x, jnp.zeros_like(x)), "alpha"),
}
