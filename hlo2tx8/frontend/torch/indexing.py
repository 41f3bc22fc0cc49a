"""Ops that read and write elements at computed places."""

# pyright: basic

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hlo2tx8.frontend.torch.table import AtenCall, Rows, plain, widened
from hlo2tx8.frontend.traced import Refused


def _places(indices: Any, x: Any) -> tuple[Any, ...]:
    """What jax takes in brackets for a list of indices with None between them. Masks are refused: how many elements they choose
    depends on what is computed."""
    if any(i is not None and i.dtype in (bool, np.uint8) for i in indices):
        raise Refused("a mask as an index: the shape of its result depends on what is computed")
    return tuple(slice(None) if i is None else i.astype(jnp.int64) for i in indices)


def _index(call: AtenCall, x: Any, indices: Any) -> Any:
    return x[_places(indices, x)]


def _unsafe_masked_index(call: AtenCall, x: Any, mask: Any, indices: Any, fill: Any) -> Any:
    inside = tuple(None if i is None else jnp.clip(i, -x.shape[d], x.shape[d] - 1) for d, i in enumerate(indices))
    return jnp.where(mask, x[_places(inside, x)], jnp.asarray(fill, x.dtype))


def _masked_index_add(call: AtenCall, x: Any, mask: Any, indices: Any, values: Any) -> Any:
    inside = tuple(None if i is None else jnp.clip(i, -x.shape[d], x.shape[d] - 1) for d, i in enumerate(indices))
    return reduced_at(x, _places(inside, x), "sum", jnp.where(mask, values, jnp.zeros_like(values)))


def _index_put(call: AtenCall, x: Any, indices: Any, values: Any, accumulate: bool = False, *_: Any) -> Any:
    """Where an element is written twice, the last one stays, as on the host."""
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    if any(i.dtype in (bool, np.uint8) for _, i in given):
        if len(given) > 1:
            raise Refused("a mask beside other indices: how much is written depends on what is computed")
        return _put_masked(x, *given[0], values.astype(x.dtype), accumulate)
    places = _places(indices, x)
    return reduced_at(x, places, "sum", values) if accumulate else x.at[places].set(values.astype(x.dtype))


def _put_masked(x: Any, dim: int, mask: Any, values: Any, accumulate: bool) -> Any:
    """Values for the elements that a mask of some dimensions chooses, one after another."""
    rank, mask = mask.ndim, mask.astype(bool)
    lead, rest = x.shape[:dim], x.shape[dim + rank :]
    rows = x.reshape(*lead, mask.size, *rest)
    values = values.reshape((1,) * (rows.ndim - values.ndim) + values.shape)
    if values.shape[dim] > 1:
        order = jnp.clip(jnp.cumsum(mask.reshape(-1)) - 1, 0, values.shape[dim] - 1)
        values = jnp.take(values, order, dim)
    chosen = mask.reshape(-1, *(1,) * len(rest))
    found = rows + values if accumulate and x.dtype != bool else rows | values if accumulate else values
    return jnp.where(chosen, found, rows).reshape(x.shape)


def _gather(x: Any, dim: int, index: Any, *_: Any) -> Any:
    if not x.ndim:
        return jnp.broadcast_to(x, index.shape)
    return x[_along(x, dim, index)] if index.ndim else x[index]


def _along(x: Any, dim: int, index: Any) -> tuple[Any, ...]:
    """The places of elements that an index of the same rank names along a dimension."""
    grid = [np.arange(n).reshape([-1 if k == d else 1 for k in range(x.ndim)]) for d, n in enumerate(index.shape)]
    return tuple(index if d == dim % x.ndim else grid[d] for d in range(x.ndim))


def reduced_at(x: Any, places: Any, name: str, values: Any) -> Any:
    """`x` with its elements at places reduced with values, by torch's name of the reduction; truth is added by or, multiplied by
    and."""
    if x.dtype == bool:
        return reduced_at(x.astype(jnp.int8), places, {"sum": "amax", "prod": "amin"}.get(name, name), values.astype(jnp.int8)) != 0
    name = {"sum": "add", "prod": "multiply", "amax": "max", "amin": "min"}.get(name, name)
    return getattr(x.at[places], name)(values.astype(x.dtype))


def _scatter(call: AtenCall, x: Any, dim: int, index: Any, values: Any, reduce: Any = None) -> Any:
    flat = x.reshape(1) if not x.ndim else x
    index = index.reshape(1) if not index.ndim else index
    if not isinstance(values, jax.Array):
        values = jnp.full(index.shape, values, x.dtype)
    values = values.reshape(1) if not values.ndim else values
    values = values[tuple(slice(0, n) for n in index.shape)].astype(x.dtype)
    places = _along(flat, dim, index)
    return (flat.at[places].set(values) if reduce is None else reduced_at(flat, places, reduce, values)).reshape(x.shape)


def _scatter_reduce(call: AtenCall, x: Any, dim: int, index: Any, values: Any, reduce: str, include_self: bool = True) -> Any:
    """As `scatter` where elements that meet are reduced; without `include_self` only those that are written."""
    shape = x.shape
    x = x.reshape(1) if not x.ndim else x
    index, values = (a.reshape(1) if not a.ndim else a for a in (index, values))
    values = values[tuple(slice(0, n) for n in index.shape)].astype(x.dtype)
    return _reduced_at(x, _along(x, dim, index), values, reduce, include_self).reshape(shape)


def _reduced_at(x: Any, places: Any, values: Any, reduce: str, include_self: bool) -> Any:
    kind = widened(x.dtype)
    ends = jnp.iinfo(kind) if jnp.issubdtype(kind, jnp.integer) else jnp.finfo(kind) if kind.kind != "b" else None
    neutral = {
        "sum": 0,
        "mean": 0,
        "prod": 1,
        "amax": False if ends is None else ends.min,
        "amin": True if ends is None else ends.max,
    }[reduce]
    if jnp.issubdtype(kind, jnp.floating) and reduce in ("amax", "amin"):
        neutral = -jnp.inf if reduce == "amax" else jnp.inf
    counts = jnp.zeros(x.shape, jnp.int32).at[places].add(1)
    base = x.astype(kind) if include_self else jnp.where(counts > 0, jnp.asarray(neutral, kind), x.astype(kind))
    found = reduced_at(base, places, "sum" if reduce == "mean" else reduce, values.astype(kind))
    if reduce == "mean":
        number = jnp.maximum(counts + include_self, 1).astype(kind)
        found = found / number if jnp.issubdtype(kind, jnp.inexact) else jnp.floor_divide(found, number)
    return found.astype(x.dtype)


def _at_dim(x: Any, dim: int, index: Any) -> tuple[Any, ...]:
    return (slice(None),) * (dim % max(x.ndim, 1)) + (index.reshape(-1),)


def _index_select(x: Any, dim: int, index: Any) -> Any:
    return x if not x.ndim else x[_at_dim(x, dim, index)]


def _index_add(call: AtenCall, x: Any, dim: int, index: Any, values: Any, alpha: Any = 1) -> Any:
    values = values.astype(x.dtype) * jnp.asarray(alpha, x.dtype) if x.dtype != bool else values & bool(alpha)
    if not x.ndim:
        return x + values.sum()
    return reduced_at(x, _at_dim(x, dim, index), "sum", values.reshape(values.shape or (1,)))


def _index_set(call: AtenCall, x: Any, dim: int, index: Any, values: Any) -> Any:
    values = jnp.asarray(values, x.dtype)
    if not x.ndim:
        return values.reshape(())
    return x.at[_at_dim(x, dim, index)].set(values)


def _index_reduce(call: AtenCall, x: Any, dim: int, index: Any, values: Any, reduce: str, include_self: bool = True) -> Any:
    shape = x.shape
    x, values = (a.reshape(1) if not a.ndim else a for a in (x, values))
    return _reduced_at(x, _at_dim(x, dim, index), values.astype(x.dtype), reduce, include_self).reshape(shape)


def _put(call: AtenCall, x: Any, index: Any, values: Any, accumulate: bool = False) -> Any:
    flat, places, values = x.reshape(-1), (index.reshape(-1),), values.reshape(-1)
    return (reduced_at(flat, places, "sum", values) if accumulate else flat.at[places].set(values)).reshape(x.shape)


def _masked_scatter(call: AtenCall, x: Any, mask: Any, values: Any) -> Any:
    mask = jnp.broadcast_to(mask, jnp.broadcast_shapes(x.shape, mask.shape)).astype(bool)
    if not values.size:
        return x
    order = jnp.cumsum(mask.reshape(-1)) - 1
    taken = jnp.take(values.reshape(-1), jnp.clip(order, 0, values.size - 1)).reshape(mask.shape)
    return jnp.where(mask, taken.astype(x.dtype), x)


def _of_computed_shape(call: AtenCall, *_: Any) -> Any:
    raise Refused("the shape of its result depends on what is computed")


def _nonzero_static(call: AtenCall, x: Any, size: int, fill: int = -1) -> Any:
    """The first `size` places of elements that are not 0."""
    flat = (x != 0).reshape(-1)
    order = jnp.cumsum(flat) - 1
    places = jnp.full(size, -1, jnp.int64).at[jnp.where(flat, order, size)].set(jnp.arange(flat.size), mode="drop")
    columns, rest = [], places
    for n in reversed(x.shape):
        columns.append(jnp.where(places < 0, fill, rest % n))
        rest = rest // n
    return jnp.stack(columns[::-1], -1) if columns else jnp.zeros((size, 0), jnp.int64)


ROWS: Rows = {
    "index": _index,
    "_unsafe_index": _index,
    "_unsafe_masked_index": _unsafe_masked_index,
    "_unsafe_masked_index_put_accumulate": _masked_index_add,
    "index_put": _index_put,
    "_unsafe_index_put": _index_put,
    **plain(
        gather=_gather,
        index_select=_index_select,
        take=lambda x, index: jnp.take(x.reshape(-1), index),
    ),
    "scatter": _scatter,
    "scatter_add": lambda call, x, dim, index, values: _scatter(call, x, dim, index, values, "add"),
    "scatter_reduce": _scatter_reduce,
    "index_add": _index_add,
    "index_copy": _index_set,
    "index_fill": _index_set,
    "index_reduce": _index_reduce,
    "put": _put,
    "masked_scatter": _masked_scatter,
    **dict.fromkeys(
        [
            "bincount",
            "nonzero",
            "nonzero_numpy",
            "masked_select",
            "unique_consecutive",
            "unique_dim",
            "_unique2",
            "repeat_interleave.Tensor",
        ],
        _of_computed_shape,
    ),
    "nonzero_static": _nonzero_static,
}
