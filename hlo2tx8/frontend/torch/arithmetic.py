"""Arithmetic, comparisons and logic of two elements or more."""

# pyright: basic

from typing import Any

import jax.numpy as jnp
from jax import lax

from hlo2tx8.frontend.torch.table import AtenCall, Rows, binary, comparing


def _quotient(call: AtenCall, x: Any, y: Any, mode: Any = None) -> Any:
    """x / y, towards zero or down where the mode says so."""
    x, y = call.wide(x, y)
    if mode is None:
        return x / y
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return lax.div(*jnp.broadcast_arrays(x, y)) if mode == "trunc" else jnp.floor_divide(x, y)
    return jnp.trunc(x / y) if mode == "trunc" else _floor_quotient(x, y)


def _floor_quotient(x: Any, y: Any) -> Any:
    """Rounded down as Python does: from the remainder, so that 1 // 0.1 is 9."""
    rest = lax.rem(*jnp.broadcast_arrays(x, y))
    exact = (x - rest) / y
    exact = jnp.where((rest != 0) & ((rest < 0) != (y < 0)), exact - 1, exact)
    down = jnp.floor(exact)
    down = jnp.where(exact - down > 0.5, down + 1, down)
    down = jnp.where(exact == 0, jnp.copysign(jnp.zeros_like(x), x / y), down)
    return jnp.where(y == 0, x / y, down)


def _remainder(x: Any, y: Any) -> Any:
    """With the sign of the divisor."""
    if jnp.issubdtype(x.dtype, jnp.inexact):
        rest = lax.rem(*jnp.broadcast_arrays(x, y))
        return jnp.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)
    return jnp.remainder(x, y)


def _power(call: AtenCall, x: Any, y: Any) -> Any:
    if isinstance(y, float) and abs(y) == 0.5 and jnp.issubdtype(call.dtype, jnp.floating):
        root = jnp.sqrt(call.wide(x))
        return root if y > 0 else 1 / root
    if isinstance(y, (int, float)) and float(y).is_integer() and abs(y) <= 4 and not isinstance(x, (int, float)):
        x = call.wide(x)
        if y >= 0 or jnp.issubdtype(x.dtype, jnp.inexact):
            return lax.integer_pow(x, int(y))
    x, y = call.wide(x, y)
    if jnp.issubdtype(x.dtype, jnp.integer):
        power = jnp.power(x, jnp.maximum(y, 0))
        return jnp.where(y >= 0, power, jnp.where(x == 1, 1, jnp.where(x == -1, jnp.where(y % 2 == 0, 1, -1), 0)).astype(x.dtype))
    return jnp.power(x, y)


def _scaled(sign: int) -> Any:
    def apply(call: AtenCall, x: Any, y: Any, alpha: Any = 1) -> Any:
        x, y = call.wide(x, y)
        y = y if isinstance(alpha, (int, float)) and alpha == 1 else y * jnp.asarray(alpha, y.dtype)
        if x.dtype == bool:
            return x | y
        return x + y if sign > 0 else x - y

    return apply


def _clamp(call: AtenCall, x: Any, low: Any = None, high: Any = None) -> Any:
    x = jnp.asarray(x, call.dtype)
    bounds = [None if bound is None else jnp.asarray(bound, call.dtype) for bound in (low, high)]
    x = x if bounds[0] is None else jnp.maximum(x, bounds[0])
    return x if bounds[1] is None else jnp.minimum(x, bounds[1])


def _shift(is_left: bool) -> Any:
    def apply(call: AtenCall, x: Any, y: Any) -> Any:
        x, y = jnp.broadcast_arrays(*call.wide(x, y))
        bits = x.dtype.itemsize * 8
        is_over = (y < 0) | (y >= bits)
        if is_left:
            return jnp.where(is_over, 0, lax.shift_left(x, y)).astype(x.dtype)
        return lax.shift_right_arithmetic(x, jnp.where(is_over, bits - 1, y).astype(x.dtype))

    return apply


def _fma(sign: str) -> Any:
    def apply(call: AtenCall, x: Any, y: Any, z: Any, value: Any = 1) -> Any:
        x, y, z = call.wide(x, y, z)
        value = jnp.asarray(value, x.dtype)
        return x + value * (y * z if sign == "*" else y / z)

    return apply


def _lerp(call: AtenCall, x: Any, y: Any, weight: Any) -> Any:
    x, y, weight = call.wide(x, y, weight)
    return jnp.where(jnp.abs(weight) < 0.5, x + weight * (y - x), y - (y - x) * (1 - weight))


def _bitwise(function: Any) -> Any:
    return lambda call, x, y: function(jnp.asarray(x, call.dtype), jnp.asarray(y, call.dtype))


def _logical(function: Any) -> Any:
    return lambda _, x, y: function(jnp.asarray(x).astype(bool), jnp.asarray(y).astype(bool))


ROWS: Rows = {
    **binary(
        mul=lambda x, y: x & y if x.dtype == bool else x * y,
        maximum=jnp.maximum,
        minimum=jnp.minimum,
        fmax=jnp.fmax,
        fmin=jnp.fmin,
        atan2=jnp.arctan2,
        hypot=jnp.hypot,
        logaddexp=jnp.logaddexp,
        logaddexp2=jnp.logaddexp2,
        copysign=jnp.copysign,
        fmod=lambda x, y: lax.rem(*jnp.broadcast_arrays(x, y)),
        remainder=_remainder,
        gcd=jnp.gcd,
        lcm=jnp.lcm,
        heaviside=lambda x, y: jnp.where(x == 0, y, jnp.where(jnp.isnan(x), x, x > 0)),
        ldexp=lambda x, y: x * jnp.exp2(y),
        float_power=jnp.power,
    ),
    **comparing(eq=jnp.equal, ne=jnp.not_equal, lt=jnp.less, le=jnp.less_equal, gt=jnp.greater, ge=jnp.greater_equal),
    "add": _scaled(1),
    "sub": _scaled(-1),
    "rsub": lambda call, x, y, alpha=1: _scaled(-1)(call, y, x, alpha),
    "div": _quotient,
    "true_divide": _quotient,
    "floor_divide": lambda call, x, y: _quotient(call, x, y, "floor"),
    "pow": _power,
    "bitwise_and": _bitwise(jnp.bitwise_and),
    "bitwise_or": _bitwise(jnp.bitwise_or),
    "bitwise_xor": _bitwise(jnp.bitwise_xor),
    "bitwise_left_shift": _shift(True),
    "bitwise_right_shift": _shift(False),
    "__lshift__": _shift(True),
    "__rshift__": _shift(False),
    "logical_and": _logical(jnp.logical_and),
    "logical_or": _logical(jnp.logical_or),
    "logical_xor": _logical(jnp.logical_xor),
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": lambda call, x, high: _clamp(call, x, None, high),
    "lerp": _lerp,
    "addcmul": _fma("*"),
    "addcdiv": _fma("/"),
    "prims::fma": lambda call, x, y, z: x * y + z,
}
