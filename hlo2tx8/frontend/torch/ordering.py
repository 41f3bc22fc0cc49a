"""Ops that order elements, or take one by its place in the order."""

# pyright: basic

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from hlo2tx8.frontend.torch.table import AtenCall, Rows


def _scan_most(is_max: bool) -> Any:
    """The greatest or least so far and where it is, the last of equal ones; NaN is it from where it is on."""

    def apply(call: AtenCall, x: Any, dim: int) -> Any:
        if not x.ndim:
            return x, jnp.zeros((), jnp.int64)
        places = jnp.broadcast_to(
            jnp.arange(x.shape[dim]).reshape([-1 if k == dim % x.ndim else 1 for k in range(x.ndim)]), x.shape
        )

        def later(a: Any, b: Any) -> Any:
            (v, i), (w, j) = a, b
            wins = (w >= v) if is_max else (w <= v)
            wins = wins | jnp.isnan(w) if jnp.issubdtype(x.dtype, jnp.floating) else wins
            return jnp.where(wins, w, v), jnp.where(wins, j, i)

        return lax.associative_scan(later, (x, places), axis=dim % x.ndim) if x.size else (x, places)

    return apply


def _sorted(x: Any, dim: int, descending: bool) -> Any:
    """In order, and where elements were; equal ones stay in order, NaN is the greatest."""
    if not x.ndim:
        return x, jnp.zeros((), jnp.int64)
    dim %= x.ndim
    if x.dtype == bool:
        values, places = _sorted(x.astype(jnp.int8), dim, descending)
        return values.astype(bool), places
    places = lax.broadcasted_iota(jnp.int64, x.shape, dim)
    if not descending:
        return tuple(lax.sort((x, places), dimension=dim, num_keys=1, is_stable=True))
    keys = -x if jnp.issubdtype(x.dtype, jnp.floating) else ~x
    if jnp.issubdtype(x.dtype, jnp.floating):
        is_nan = jnp.isnan(x)
        *_, values, order = lax.sort((~is_nan, keys, x, places), dimension=dim, num_keys=2, is_stable=True)
        return values, order
    return tuple(lax.sort((keys, x, places), dimension=dim, num_keys=1, is_stable=True)[1:])


def _sort(call: AtenCall, x: Any, *rest: Any) -> Any:
    dim, descending = rest[-2:]  # what is in front of them is whether equal elements keep their order, which they do
    return _sorted(x, -1 if dim is None else dim, bool(descending))


def _argsort(call: AtenCall, x: Any, *rest: Any) -> Any:
    return _sort(call, x, *rest)[1]


def _topk(call: AtenCall, x: Any, k: int, dim: int = -1, largest: bool = True, *_: Any) -> Any:
    if not x.ndim:
        return x.reshape(()), jnp.zeros((), jnp.int64)
    if largest and x.dtype != bool and not jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        values, places = lax.top_k(jnp.moveaxis(x, dim, -1), k)
        return jnp.moveaxis(values, -1, dim), jnp.moveaxis(places, -1, dim)
    values, places = _sorted(x, dim, largest)
    return tuple(lax.slice_in_dim(a, 0, k, 1, dim % x.ndim) for a in (values, places))


def _kth(call: AtenCall, x: Any, k: int, dim: int = -1, keep: bool = False) -> Any:
    if not x.ndim:
        return x, jnp.zeros((), jnp.int64)
    return tuple(lax.index_in_dim(a, k - 1, dim, keepdims=keep) for a in _sorted(x, dim, False))


def _median(skips_nan: bool) -> Any:
    """The lower one of the two in the middle; NaN if there is one, or of the others."""

    def apply(call: AtenCall, x: Any, dim: Any = None, keep: bool = False) -> Any:
        flat = x.reshape(-1) if dim is None else x if x.ndim else x.reshape(1)
        axis = 0 if dim is None or not x.ndim else dim % x.ndim
        if not flat.shape[axis]:
            return jnp.asarray(np.nan, x.dtype)
        values, places = _sorted(flat, axis, False)
        is_nan = jnp.isnan(flat) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.zeros(flat.shape, bool)
        counted = jnp.sum(~is_nan, axis, keepdims=True)
        middle = (counted - 1) // 2 if skips_nan else jnp.full_like(counted, (flat.shape[axis] - 1) // 2)
        middle = jnp.maximum(middle, 0) if skips_nan else jnp.where(counted < flat.shape[axis], counted, middle)
        found = [jnp.take_along_axis(a, middle, axis) for a in (values, places)]
        if dim is None:
            return found[0].reshape(())
        return tuple(a.reshape(()) if not x.ndim else a if keep else lax.squeeze(a, [axis]) for a in found)

    return apply


def _mode(call: AtenCall, x: Any, dim: int = -1, keep: bool = False) -> Any:
    """The element that is there most often, the least of those, and the last place of it."""
    if not x.ndim:
        return x, jnp.zeros((), jnp.int64)
    rows = jnp.moveaxis(x, dim, -1)
    same = rows[..., :, None] == rows[..., None, :]
    counts = jnp.sum(same, -1)
    is_most = counts == jnp.max(counts, -1, keepdims=True)
    kind = jnp.int32 if x.dtype == bool else x.dtype
    highest = jnp.inf if jnp.issubdtype(kind, jnp.floating) else jnp.iinfo(kind).max
    value = jnp.min(jnp.where(is_most, rows.astype(kind), highest), -1, keepdims=True)
    place = jnp.max(jnp.where(rows.astype(kind) == value, jnp.arange(rows.shape[-1]), -1), -1, keepdims=True)
    found = [jnp.moveaxis(a, -1, dim) for a in (value, place)]
    return tuple(a if keep else lax.squeeze(a, [dim % x.ndim]) for a in found)


ROWS: Rows = {
    "cummax": _scan_most(True),
    "cummin": _scan_most(False),
    "sort": _sort,
    "argsort": _argsort,
    "topk": _topk,
    "kthvalue": _kth,
    "median": _median(False),
    "nanmedian": _median(True),
    "mode": _mode,
}
