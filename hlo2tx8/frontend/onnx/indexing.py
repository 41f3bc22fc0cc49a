"""Gathers, scatters, positions, sorting and running sums. Indices may be negative: they count from the end then."""

# pyright: basic

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax, nn

from hlo2tx8.frontend.onnx.table import NodeCall, OpRow, Refused, axis_of


def _from_start(indices: Any, size: int) -> Any:
    """Indices from 0 on, as i32 where sizes allow it."""
    indices = jnp.asarray(indices)
    indices = jnp.where(indices < 0, indices + size, indices)
    return indices.astype(jnp.int32) if size < 2**31 else indices


def _gather(call: NodeCall, x: Any, indices: Any) -> Any:
    axis = axis_of(call["axis"] or 0, x.ndim)
    return jnp.take(x, _from_start(indices, x.shape[axis]), axis, mode="clip")


def _gather_elements(call: NodeCall, x: Any, indices: Any) -> Any:
    axis = axis_of(call["axis"] or 0, x.ndim)
    x = x[tuple(slice(None) if d == axis else slice(indices.shape[d]) for d in range(x.ndim))]
    return jnp.take_along_axis(x, _from_start(indices, x.shape[axis]), axis, mode="clip")


def _tuples(indices: Any, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    """Index tuples, which are the last dimension, as an array per dimension."""
    return tuple(_from_start(indices[..., d], size) for d, size in enumerate(sizes))


def _gather_nd(call: NodeCall, x: Any, indices: Any) -> Any:
    """Slices at index tuples; the first `batch_dims` dimensions are those of both."""
    num, depth = call["batch_dims"] or 0, indices.shape[-1]
    ranges = np.indices(x.shape[:num])
    around = indices.ndim - 1 - num
    batch = tuple(jnp.asarray(r.reshape(r.shape + (1,) * around), jnp.int32) for r in ranges)
    return x.at[(*batch, *_tuples(indices, x.shape[num : num + depth]))].get(mode="clip")


def _update(call: NodeCall, x: Any, places: tuple[Any, ...], updates: Any) -> Any:
    """`updates` at `places`, or what `reduction` makes of them and what is there."""
    at = x.at[places]
    match call["reduction"] or "none":
        case "none":
            return at.set(updates)
        case "add":
            return at.add(updates)
        case "mul":
            return at.multiply(updates)
        case "max":
            return at.max(updates)
        case "min":
            return at.min(updates)
        case other:
            raise Refused(f"there is no reduction {other!r}")


def _scatter_elements(call: NodeCall, x: Any, indices: Any, updates: Any) -> Any:
    axis = axis_of(call["axis"] or 0, x.ndim)
    places = [jnp.asarray(i, jnp.int32) for i in np.indices(indices.shape)]
    places[axis] = _from_start(indices, x.shape[axis])
    return _update(call, x, tuple(places), updates)


def _scatter_nd(call: NodeCall, x: Any, indices: Any, updates: Any) -> Any:
    return _update(call, x, _tuples(indices, x.shape[: indices.shape[-1]]), updates)


def _tensor_scatter(call: NodeCall, past: Any, update: Any, starts: Any = None) -> Any:
    """A cache whose rows from `starts`, one of each batch, on are new; `circular` ones begin again at their end."""
    axis, length = axis_of(call["axis"], past.ndim), past.shape[call["axis"]]
    starts = jnp.zeros(past.shape[0], jnp.int32) if starts is None else starts.astype(jnp.int32)
    rows = starts[:, None] + jnp.arange(update.shape[axis], dtype=jnp.int32)
    rows = rows % length if call["mode"] == "circular" else rows
    batch = jnp.arange(past.shape[0], dtype=jnp.int32)[:, None]
    moved = jnp.moveaxis(past, axis, 1).at[batch, rows].set(jnp.moveaxis(update, axis, 1))
    return jnp.moveaxis(moved, 1, axis)


def _one_hot(call: NodeCall, indices: Any, depth: Any, values: Any) -> Any:
    depth = int(np.asarray(depth).reshape(()))
    axis = axis_of(call["axis"], indices.ndim + 1)
    whole = indices.astype(jnp.int64)
    found = nn.one_hot(jnp.where(whole < 0, whole + depth, whole), depth, axis=axis, dtype=jnp.bool_)
    return jnp.where(found, values[1], values[0])


def _position(find: Any) -> OpRow:
    """The first, or last, position of the greatest or least along an axis."""

    def apply(call: NodeCall, x: Any) -> Any:
        axis = axis_of(call["axis"], x.ndim)
        if call["select_last_index"]:
            found = x.shape[axis] - 1 - find(jnp.flip(x, axis), axis)
        else:
            found = find(x, axis)
        return jnp.expand_dims(found, axis) if call["keepdims"] else found

    return OpRow(apply)


def _top_k(call: NodeCall, x: Any, k: Any = None) -> Any:
    """The k greatest or least along an axis, and where they are; of equal ones the first."""
    axis, num = axis_of(call["axis"], x.ndim), int(call["k"] if k is None else np.asarray(k).reshape(()))
    is_largest = call["largest"] is None or call["largest"]
    order = jnp.argsort(x, axis, descending=bool(is_largest), stable=True)
    places = lax.slice_in_dim(order, 0, num, axis=axis)
    return jnp.take_along_axis(x, places, axis), places.astype(jnp.int64)


def _running(function: Any, start: int) -> OpRow:
    def apply(call: NodeCall, x: Any, axis: Any) -> Any:
        axis = axis_of(int(np.asarray(axis).reshape(())), x.ndim)
        x = jnp.flip(x, axis) if call["reverse"] else x
        if call["exclusive"]:
            first = jnp.full_like(lax.slice_in_dim(x, 0, 1, axis=axis), start)
            x = jnp.concatenate([first, lax.slice_in_dim(x, 0, x.shape[axis] - 1, axis=axis)], axis)
        found = function(x, axis)
        return jnp.flip(found, axis) if call["reverse"] else found

    return OpRow(apply, (1,))


def _compress(call: NodeCall, x: Any, condition: Any) -> Any:
    x = x.reshape(-1) if call["axis"] is None else x
    return jnp.take(x, np.flatnonzero(condition), 0 if call["axis"] is None else call["axis"])


def _non_zero(_: NodeCall, x: Any) -> Any:
    return np.stack(np.nonzero(x)) if x.ndim else np.zeros((0, int(bool(x))), np.int64)


def _unique(call: NodeCall, x: Any) -> Any:
    """The different elements, or slices along `axis`: sorted, or in the order that they come in."""
    axis = call["axis"]
    found, first, back, counts = np.unique(x, True, True, True, axis=axis)
    back = back.reshape(-1)
    if not call["sorted"]:
        order = np.argsort(first)
        found, first, counts = np.take(found, order, 0 if axis is None else axis), first[order], counts[order]
        back = np.argsort(order)[back]
    return found, first.astype(np.int64), back.astype(np.int64), counts.astype(np.int64)


def _array_features(_: NodeCall, x: Any, places: Any) -> Any:
    return jnp.take(x, _from_start(places, x.shape[-1]).reshape(-1), -1, mode="clip")


def _label_encoder(call: NodeCall, x: Any) -> Any:
    """What each element stands for, by a table of keys and what they mean."""
    given = {
        key.partition("_")[0]: call[key]
        for key in call.attributes
        if key.split("_")[0] in ("keys", "values") and call[key] is not None
    }
    keys, found = (np.asarray(given[key]) for key in ("keys", "values"))
    if {keys.dtype.kind, found.dtype.kind} & set("USO"):
        raise Refused("strings are not computed with")
    result = {"f": np.float32, "i": np.int64}[found.dtype.kind]
    default = call["default_tensor"]
    if default is None:
        default = np.array(call["default_float"] if result is np.float32 else call["default_int64"])
    wanted = jnp.asarray(keys).astype(x.dtype)
    same = (x[..., None] == wanted) | (jnp.isnan(x[..., None]) & jnp.isnan(wanted) if x.dtype.kind == "f" else False)
    value = jnp.asarray(found.astype(result))[jnp.argmax(same, -1)]
    return jnp.where(jnp.any(same, -1), value, default.reshape(()).astype(result))


ROWS: dict[str, OpRow] = {
    "ArgMax": _position(jnp.argmax),
    "ArgMin": _position(jnp.argmin),
    "Compress": OpRow(_compress, (1,)),
    "CumProd": _running(jnp.cumprod, 1),
    "CumSum": _running(jnp.cumsum, 0),
    "Gather": OpRow(_gather),
    "GatherElements": OpRow(_gather_elements),
    "GatherND": OpRow(_gather_nd),
    "NonZero": OpRow(_non_zero, is_folded=True),
    "OneHot": OpRow(_one_hot, (1,)),
    "Scatter": OpRow(_scatter_elements),
    "ScatterElements": OpRow(_scatter_elements),
    "ScatterND": OpRow(_scatter_nd),
    "TensorScatter": OpRow(_tensor_scatter),
    "TopK": OpRow(_top_k, (1,)),
    "Unique": OpRow(_unique, is_folded=True),
    "ai.onnx.ml.ArrayFeatureExtractor": OpRow(_array_features),
    "ai.onnx.ml.Binarizer": OpRow(lambda call, x: jnp.where(x > call["threshold"], 1, 0)),
    "ai.onnx.ml.LabelEncoder": OpRow(_label_encoder),
}
