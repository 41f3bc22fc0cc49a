"""Ops of single elements."""

# pyright: basic

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, nn

from hlo2tx8.frontend.torch.table import AtenCall, Rows, plain, unary
from hlo2tx8.frontend.traced import Refused


def _gelu(call: AtenCall, x: Any, approximate: str = "none") -> Any:
    return _gelu_of(call.wide(x), approximate)


def _gelu_of(x: Any, approximate: str) -> Any:
    return nn.gelu(x, approximate=approximate == "tanh")


def _where(call: AtenCall, condition: Any, x: Any, y: Any) -> Any:
    return jnp.where(jnp.asarray(condition).astype(bool), jnp.asarray(x, call.dtype), jnp.asarray(y, call.dtype))


def _round(call: AtenCall, x: Any, decimals: int = 0) -> Any:
    x = call.wide(x)
    if not decimals or not jnp.issubdtype(x.dtype, jnp.floating):
        return jnp.round(x) if jnp.issubdtype(x.dtype, jnp.floating) else x
    scale = jnp.asarray(10.0 ** abs(decimals), x.dtype)
    return jnp.round(x * scale) / scale if decimals > 0 else jnp.round(x / scale) * scale


def _sign(x: Any) -> Any:
    if x.dtype == bool:
        return x
    if jnp.iscomplexobj(x):
        size = jnp.abs(x)
        return jnp.where(size == 0, 0, x / jnp.where(size == 0, 1, size))
    return jnp.where(jnp.isnan(x), 0, jnp.sign(x)) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.sign(x)


def _nan_to_num(call: AtenCall, x: Any, nan: Any = None, high: Any = None, low: Any = None) -> Any:
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    return jnp.nan_to_num(x, nan=nan or 0.0, posinf=high, neginf=low)


def _logit(call: AtenCall, x: Any, eps: Any = None) -> Any:
    x = call.wide(x)
    x = x if eps is None else jnp.where(x < eps, eps, jnp.where(x > 1 - eps, 1 - eps, x))  # eps may be over a half
    return jnp.log(x / (1 - x))


def _angle(call: AtenCall, x: Any) -> Any:
    if jnp.iscomplexobj(x):
        return jnp.angle(x)
    x = call.wide(x)
    return (
        jnp.where(jnp.isnan(x), x, jnp.where(x < 0, jnp.pi, 0).astype(x.dtype))
        if jnp.issubdtype(x.dtype, jnp.floating)
        else (jnp.where(x < 0, jnp.pi, 0))
    )


def _to(call: AtenCall, x: Any, *_: Any) -> Any:
    """x in the dtype of the result; what lies beyond an integer's range is as in torch on this host."""
    x = jnp.asarray(x)
    if jnp.iscomplexobj(x) and not jnp.issubdtype(call.dtype, jnp.complexfloating):
        x = x.real
    if jnp.issubdtype(call.dtype, jnp.integer) and call.dtype.itemsize < 4 and jnp.issubdtype(x.dtype, jnp.floating):
        return x.astype(jnp.int32).astype(call.dtype)
    return x.astype(call.dtype)


def _bits(call: AtenCall, x: Any, *_: Any) -> Any:
    """The same memory as elements of another dtype."""
    old, new = x.dtype.itemsize, call.dtype.itemsize
    if old < new:
        x = x.reshape(*x.shape[:-1], -1, new // old)
    found = lax.bitcast_convert_type(x, call.dtype)
    return found.reshape(*found.shape[:-2], -1) if old > new else found


def _threshold_backward(call: AtenCall, g: Any, x: Any, threshold: Any) -> Any:
    return jnp.where(x <= jnp.asarray(threshold, x.dtype), jnp.zeros_like(g), g)


def _gelu_backward(call: AtenCall, g: Any, x: Any, approximate: str = "none") -> Any:
    g, x = call.wide(g, x)
    return jax.vjp(lambda v: _gelu_of(v, approximate), x)[1](g)[0]


def _log_sigmoid(call: AtenCall, x: Any) -> Any:
    x = call.wide(x)
    return nn.log_sigmoid(x), jnp.exp(-jnp.abs(x))


def _refused_item(call: AtenCall, x: Any) -> Any:
    raise Refused("a number of Python is made of what is computed")


ROWS: Rows = {
    **unary(
        acos=jnp.arccos,
        acosh=jnp.arccosh,
        asin=jnp.arcsin,
        asinh=jnp.arcsinh,
        atan=jnp.arctan,
        atanh=jnp.arctanh,
        cos=jnp.cos,
        cosh=jnp.cosh,
        deg2rad=jnp.deg2rad,
        exp=jnp.exp,
        exp2=jnp.exp2,
        expm1=jnp.expm1,
        log=jnp.log,
        log10=jnp.log10,
        log1p=jnp.log1p,
        log2=jnp.log2,
        neg=jnp.negative,
        rad2deg=jnp.rad2deg,
        reciprocal=lambda x: 1 / x,
        relu=lambda x: jnp.maximum(x, 0),
        rsqrt=lambda x: 1 / jnp.sqrt(x) if jnp.iscomplexobj(x) else lax.rsqrt(x),
        sgn=_sign,
        sigmoid=lambda x: 1 / (1 + jnp.exp(-x)) if jnp.iscomplexobj(x) else nn.sigmoid(x),
        sign=_sign,
        silu=lambda x: x / (1 + jnp.exp(-x)) if jnp.iscomplexobj(x) else nn.silu(x),
        sin=jnp.sin,
        sinh=jnp.sinh,
        sqrt=jnp.sqrt,
        tan=jnp.tan,
        tanh=jnp.tanh,
        positive=lambda x: x,
        _conj=jnp.conj,
        _conj_physical=jnp.conj,
        conj=jnp.conj,
        conj_physical=jnp.conj,
        resolve_conj=lambda x: x,
        resolve_neg=lambda x: x,
        square=jnp.square,
    ),
    **{
        name: lambda call, x, *_, f=f: f(x) if jnp.issubdtype(x.dtype, jnp.floating) else x
        for name, f in {"ceil": jnp.ceil, "floor": jnp.floor, "trunc": jnp.trunc}.items()
    },
    **plain(
        abs=jnp.abs,
        real=jnp.real,
        imag=jnp.imag,
        isnan=jnp.isnan,
        isinf=jnp.isinf,
        isfinite=jnp.isfinite,
        isneginf=jnp.isneginf,
        isposinf=jnp.isposinf,
        signbit=lambda x: jnp.signbit(x) if jnp.issubdtype(x.dtype, jnp.floating) else x < 0,
        logical_not=lambda x: jnp.logical_not(x.astype(bool)),
        bitwise_not=jnp.bitwise_not,
        view_as_real=lambda x: jnp.stack([x.real, x.imag], -1),
        view_as_complex=lambda x: lax.complex(x[..., 0], x[..., 1]),
    ),
    "complex": lambda call, x, y: lax.complex(*jnp.broadcast_arrays(x, y)),
    "polar": lambda call, r, t: lax.complex(r * jnp.cos(t), r * jnp.sin(t)),
    "angle": _angle,
    "round": _round,
    "nan_to_num": _nan_to_num,
    "logit": _logit,
    "log_sigmoid_forward": _log_sigmoid,
    "where.self": _where,
    "where.ScalarOther": _where,
    "where.ScalarSelf": _where,
    "where.Scalar": _where,
    "gelu": _gelu,
    "gelu_backward": _gelu_backward,
    "threshold_backward": _threshold_backward,
    "_to_copy": _to,
    "to": _to,
    "prims::convert_element_type": _to,
    "copy": lambda call, x, y, *_: jnp.broadcast_to(_to(call, y), x.shape),
    "view.dtype": _bits,
    **plain(
        clone=lambda x, *_: x,
        detach=lambda x: x,
        alias=lambda x: x,
        lift_fresh=lambda x: x,
        lift_fresh_copy=lambda x: x,
        contiguous=lambda x, *_: x,
        masked_fill=lambda x, mask, value: jnp.where(mask, jnp.asarray(value, x.dtype), x),
    ),
    "item": _refused_item,
    "_local_scalar_dense": _refused_item,
}
