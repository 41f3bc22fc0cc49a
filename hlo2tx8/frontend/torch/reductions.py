"""Ops that reduce, scan or order the elements along dimensions."""

# pyright: basic

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax, nn
from jax.scipy import special

from hlo2tx8.frontend.torch.table import AtenCall, Rows, dims_of, widened


def _dims(dims: Any, x: Any) -> tuple[int, ...]:
    return dims_of(dims, x.ndim)


def _sum(call: AtenCall, x: Any, dims: Any = None, keep: bool = False, *_: Any) -> Any:
    return jnp.sum(call.wide(x), _dims(dims, x), keepdims=keep)


def _mean(call: AtenCall, x: Any, dims: Any = None, keep: bool = False, *_: Any) -> Any:
    return jnp.mean(call.wide(x), _dims(dims, x), keepdims=keep)


def _prod(call: AtenCall, x: Any, dims: Any = None, keep: bool = False, *_: Any) -> Any:
    return jnp.prod(call.wide(x), None if dims is None else _dims(dims, x), keepdims=bool(keep) and dims is not None)


def _reducing(function: Any) -> Any:
    def apply(call: AtenCall, x: Any, dims: Any = None, keep: bool = False, *_: Any) -> Any:
        return function(x, _dims(dims, x), keepdims=keep)

    return apply


def _logical(function: Any) -> Any:
    return lambda call, x, dims=None, keep=False: function(x != 0, _dims(dims, x), keepdims=keep)


def _most(function: Any, place: Any) -> Any:
    """The greatest or least of all elements; along a dimension also where it is; or of two arrays."""

    def apply(call: AtenCall, x: Any, dim: Any = None, keep: bool = False) -> Any:
        if dim is None:
            return function(x)
        if not isinstance(dim, int):
            kind = call.dtype
            return (jnp.maximum if function is jnp.max else jnp.minimum)(x.astype(kind), dim.astype(kind))
        if not x.ndim:
            return x, jnp.zeros((), jnp.int64)
        return function(x, dim, keepdims=keep), _place(place, x, dim, keep)

    return apply


def _place(function: Any, x: Any, dim: Any, keep: bool = False) -> Any:
    x = x.astype(jnp.int32) if x.dtype == bool else x
    if dim is None:
        found = function(x.reshape(-1))
        return found.reshape((1,) * x.ndim) if keep else found
    return function(x, dim, keepdims=keep) if x.ndim else jnp.zeros((), jnp.int64)


def _moments(call: AtenCall, x: Any, dims: Any = None, correction: Any = 1, keep: bool = False) -> Any:
    """Mean and variance; `dims` may be whether the variance is corrected, as in the oldest form of the ops."""
    if isinstance(dims, bool):
        dims, correction = None, dims
    if isinstance(correction, bool) and isinstance(dims, (list, tuple)) is False and dims is not None:
        dims = [dims]
    chosen = _dims(dims, x)
    x = x.astype(widened(x.dtype))
    count = math.prod(x.shape[d] for d in chosen)
    mean = jnp.mean(x, chosen, keepdims=True)
    off = x - mean
    square = (off * jnp.conj(off)).real if jnp.iscomplexobj(x) else off * off
    number = max(count - (1 if correction is None else correction), 0)
    variance = jnp.sum(square, chosen, keepdims=True) / jnp.asarray(number, square.dtype)
    return tuple(a if keep else lax.squeeze(a, chosen) for a in (mean, variance))


def _var(call: AtenCall, *arguments: Any) -> Any:
    return _moments(call, *arguments)[1]


def _var_mean(call: AtenCall, *arguments: Any) -> Any:
    mean, variance = _moments(call, *arguments)
    return variance, mean


def _std_mean(call: AtenCall, *arguments: Any) -> Any:
    mean, variance = _moments(call, *arguments)
    return jnp.sqrt(variance), mean


def _scanning(function: Any) -> Any:
    def apply(call: AtenCall, x: Any, dim: int, *_: Any) -> Any:
        x = call.wide(x)
        return function(x, dim) if x.ndim else x

    return apply


def _logcumsumexp(x: Any, dim: int) -> Any:
    return lax.associative_scan(jnp.logaddexp, x, axis=dim % x.ndim) if x.size else x


def _logsumexp(call: AtenCall, x: Any, dims: Any, keep: bool = False) -> Any:
    return special.logsumexp(call.wide(x), _dims(dims, x), keepdims=keep)


def _norm(call: AtenCall, x: Any, order: Any = 2, dims: Any = None, keep: bool = False, *_: Any) -> Any:
    chosen = _dims(dims, x)
    x = jnp.abs(x)
    x = x.astype(widened(call.dtype))
    order = 2 if order is None else order
    if order == math.inf:
        return jnp.max(x, chosen, keepdims=keep)
    if order == -math.inf:
        return jnp.min(x, chosen, keepdims=keep)
    if order == 0:
        return jnp.sum((x != 0).astype(x.dtype), chosen, keepdims=keep)
    if order == 1:
        return jnp.sum(x, chosen, keepdims=keep)
    if order == 2:
        return jnp.sqrt(jnp.sum(x * x, chosen, keepdims=keep))
    return jnp.sum(x**order, chosen, keepdims=keep) ** (1 / order)


def _softmax(function: Any) -> Any:
    def apply(call: AtenCall, x: Any, dim: int, *_: Any) -> Any:
        x = call.wide(x)
        return function(x, dim) if x.ndim else function(x.reshape(1), 0).reshape(())

    return apply


def _safe_softmax(call: AtenCall, x: Any, dim: int, *_: Any) -> Any:
    """A row of nothing but -inf gives zeros."""
    x = call.wide(x)
    return jnp.where(jnp.all(x == -jnp.inf, dim, keepdims=True), 0, nn.softmax(x, dim))


def _softmax_backward(call: AtenCall, g: Any, y: Any, dim: int, *_: Any) -> Any:
    g, y = g.astype(widened(g.dtype)), y.astype(widened(y.dtype))
    return (g - jnp.sum(g * y, dim if g.ndim else None, keepdims=True)) * y


def _log_softmax_backward(call: AtenCall, g: Any, y: Any, dim: int, *_: Any) -> Any:
    g, y = g.astype(widened(g.dtype)), y.astype(widened(y.dtype))
    return g - jnp.exp(y) * jnp.sum(g, dim if g.ndim else None, keepdims=True)


def _distances(call: AtenCall, x: Any, y: Any, order: float, *_: Any) -> Any:
    off = jnp.abs(x[..., :, None, :] - y[..., None, :, :])
    return _norm(call, off, order, [-1]) if off.shape[-1] else jnp.zeros(off.shape[:-1], x.dtype)


def _pair_distances(call: AtenCall, x: Any, order: float = 2) -> Any:
    rows, columns = np.triu_indices(x.shape[0], 1)
    return _norm(call, jnp.abs(x[rows] - x[columns]), order, [-1])


def _distances_backward(call: AtenCall, g: Any, x: Any, y: Any, order: float, distances: Any) -> Any:
    off = x[..., :, None, :] - y[..., None, :, :]
    far = distances[..., None]
    if order == 2:
        part = off / jnp.where(far == 0, 1, far)
    elif order == 1:
        part = jnp.sign(off)
    elif order == math.inf:
        part = jnp.sign(off) * (jnp.abs(off) == far)
    else:
        part = jnp.sign(off) * (jnp.abs(off) / jnp.where(far == 0, 1, far)) ** (order - 1)
    return jnp.sum(jnp.where(far == 0, 0, part * g[..., None]), -2)


def _aminmax(call: AtenCall, x: Any, dim: Any = None, keep: bool = False) -> Any:
    return tuple(f(x, _dims(dim, x), keepdims=keep) for f in (jnp.min, jnp.max))


ROWS: Rows = {
    "sum": _sum,
    "mean": _mean,
    "prod": _prod,
    "nansum": lambda call, x, *rest: _sum(call, jnp.where(jnp.isnan(x), 0, x), *rest),
    "amax": _reducing(jnp.max),
    "amin": _reducing(jnp.min),
    "aminmax": _aminmax,
    "max": _most(jnp.max, jnp.argmax),
    "min": _most(jnp.min, jnp.argmin),
    "argmax": lambda call, x, dim=None, keep=False: _place(jnp.argmax, x, dim, keep),
    "argmin": lambda call, x, dim=None, keep=False: _place(jnp.argmin, x, dim, keep),
    "all": _logical(jnp.all),
    "any": _logical(jnp.any),
    "count_nonzero": lambda call, x, dims=None: jnp.sum(x != 0, _dims(dims, x)),
    "var": _var,
    "std": lambda call, *arguments: jnp.sqrt(_var(call, *arguments)),
    "var_mean": _var_mean,
    "std_mean": _std_mean,
    "cumsum": _scanning(jnp.cumsum),
    "cumprod": _scanning(jnp.cumprod),
    "logcumsumexp": _scanning(_logcumsumexp),
    "logsumexp": _logsumexp,
    "linalg_vector_norm": _norm,
    "norm.ScalarOpt_dim": _norm,
    "norm.Scalar": _norm,
    "_softmax": _softmax(nn.softmax),
    "_log_softmax": _softmax(nn.log_softmax),
    "_safe_softmax": _safe_softmax,
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _log_softmax_backward,
    "_cdist_forward": _distances,
    "_cdist_backward": _distances_backward,
    "_pdist_forward": _pair_distances,
    "trace": lambda call, x: jnp.trace(call.wide(x)),
}
