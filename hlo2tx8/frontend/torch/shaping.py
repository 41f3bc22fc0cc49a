"""Ops that make arrays, and ops that move elements without computing with them."""

# pyright: basic

import math
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hlo2tx8.frontend.torch.table import AtenCall, Rows, dims_of, each, plain
from hlo2tx8.frontend.traced import Refused


def _sizes(x: Any, shape: Any) -> list[int]:
    """A shape with -1 for what is left."""
    sizes = [int(n) for n in shape]
    if -1 in sizes:
        rest = math.prod(n for n in sizes if n != -1)
        sizes[sizes.index(-1)] = x.size // rest if rest else 0
    return sizes


def _expand(x: Any, sizes: Any, *_: Any) -> Any:
    new = len(sizes) - x.ndim
    return jnp.broadcast_to(x, [x.shape[d - new] if n == -1 else n for d, n in enumerate(sizes)])


def _squeeze(x: Any, dims: Any = None, *_: Any) -> Any:
    chosen = range(x.ndim) if dims is None else dims_of(dims, x.ndim) if not isinstance(dims, list) or dims else ()
    return lax.squeeze(x, [d for d in chosen if x.shape[d] == 1])


def _cat(call: AtenCall, arrays: Any, dim: int = 0) -> Any:
    """Of a dimension; empty lists of elements are as if they were not there."""
    kept = [a.astype(call.dtype) for a in arrays if a.shape != (0,)] or [arrays[0].astype(call.dtype)]
    return jnp.concatenate(kept, dim)


def _slice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return lax.slice_in_dim(x, *_range(x.shape[dim], start, end), step, dim % x.ndim)


def _range(size: int, start: Any, end: Any) -> tuple[int, int]:
    start, end = (0 if start is None else start), (size if end is None else end)
    start, end = (min(max(n + size if n < 0 else n, 0), size) for n in (start, end))
    return start, max(start, end)


def _slice_scatter(x: Any, y: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    first, last = _range(x.shape[dim], start, end)
    if (first, last, step) == (0, x.shape[dim], 1):
        return jnp.broadcast_to(y, x.shape).astype(x.dtype)
    index = [slice(None)] * x.ndim
    index[dim] = slice(first, last, step)
    return x.at[tuple(index)].set(y.astype(x.dtype))


def _select(x: Any, dim: int, index: Any) -> Any:
    if not isinstance(index, int):
        return jnp.take(x, index, dim)
    return lax.index_in_dim(x, index, dim, keepdims=False)


def _select_scatter(x: Any, y: Any, dim: int, index: Any) -> Any:
    place: list[Any] = [slice(None)] * x.ndim
    place[dim] = index
    return x.at[tuple(place)].set(y.astype(x.dtype))


def _split(x: Any, size: Any, dim: int = 0) -> Any:
    count = x.shape[dim]
    if isinstance(size, int):
        size = [size] * (count // size) + ([count % size] if count % size else []) if size else [0]
        size = size or [0]
    ends = np.cumsum([0, *size])
    return tuple(lax.slice_in_dim(x, int(a), int(b), 1, dim % x.ndim) for a, b in pairwise(ends))


def _strided_places(size: Any, stride: Any, offset: Any) -> Any:
    flat = np.full((), int(offset or 0))
    for d, (n, s) in enumerate(zip(size, stride, strict=True)):
        flat = flat + (np.arange(n) * s).reshape([-1] + [1] * (len(size) - d - 1))
    return np.broadcast_to(flat, tuple(size)).astype(np.int32)


def _as_strided(call: AtenCall, x: Any, size: Any, stride: Any, offset: Any = None) -> Any:
    """Elements by their place in memory, if the tensor lies row by row."""
    places = _strided_places(size, stride, offset)
    if places.size and places.max() >= x.size:
        raise Refused("elements of other tensors in the same memory")
    if places.size == x.size and (places.ravel() == np.arange(x.size)).all():
        return x.reshape(tuple(size))
    return jnp.take(x.reshape(-1), places) if places.size else jnp.zeros(tuple(size), x.dtype)


def _as_strided_scatter(x: Any, y: Any, size: Any, stride: Any, offset: Any = None) -> Any:
    places = _strided_places(size, stride, offset).ravel()
    return x.reshape(-1).at[places].set(y.astype(x.dtype).ravel()).reshape(x.shape)


def _pad(call: AtenCall, x: Any, pads: Any, value: Any = 0) -> Any:
    """`pads` are before and behind, of the last dimension first; less than 0 takes away."""
    config = [(0, 0, 0)] * x.ndim
    for k in range(len(pads) // 2):
        config[x.ndim - 1 - k] = (int(pads[2 * k]), int(pads[2 * k + 1]), 0)
    return lax.pad(x, jnp.asarray(value or 0, x.dtype), config)


def _around(mode: str) -> Any:
    """Padding that is made of the elements themselves."""

    def places(size: int, low: int, high: int) -> Any:
        k = np.arange(-low, size + high)
        if mode == "edge":
            return np.clip(k, 0, size - 1)
        if mode == "wrap":
            return k % size
        turned = np.abs(k) % max(2 * (size - 1), 1)
        return np.minimum(turned, 2 * (size - 1) - turned)

    def apply(x: Any, pads: Any) -> Any:
        for k in range(len(pads) // 2):
            dim = x.ndim - 1 - k
            low, high = int(pads[2 * k]), int(pads[2 * k + 1])
            if low or high:
                x = jnp.take(x, places(x.shape[dim], low, high).astype(np.int32), dim)
        return x

    return apply


def _around_backward(mode: str) -> Any:
    return lambda g, x, pads: jax.vjp(lambda v: _around(mode)(v, pads), x)[1](g)[0]


def _flip(x: Any, dims: Any) -> Any:
    return lax.rev(x, dims_of(dims, x.ndim)) if dims else x


def _roll(x: Any, shifts: Any, dims: Any = ()) -> Any:
    if not dims:
        return jnp.roll(x.reshape(-1), shifts[0] if isinstance(shifts, (list, tuple)) else shifts).reshape(x.shape)
    return jnp.roll(x, each(shifts, len(each(dims, 1))), each(dims, 1))


def _diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return jnp.diagonal(x, offset, dim1, dim2)


def _diagonal_scatter(x: Any, y: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    order = [d for d in range(x.ndim) if d not in (dim1 % x.ndim, dim2 % x.ndim)] + [dim1 % x.ndim, dim2 % x.ndim]
    turned = jnp.transpose(x, order)
    rows = np.arange(y.shape[-1]) + max(-offset, 0)
    turned = turned.at[..., rows, rows + offset].set(y.astype(x.dtype))
    return jnp.transpose(turned, np.argsort(order).tolist())


def _diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    rank, size = x.ndim + 1, x.shape[-1] + abs(offset)
    padded = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(abs(offset), 0)])
    rows, columns = np.arange(size)[:, None], np.arange(size)[None]
    found = jnp.where(columns - rows == offset, padded[..., None, :] if offset >= 0 else padded[..., :, None], 0).astype(x.dtype)
    return jnp.moveaxis(found, (-2, -1), (dim1 % rank, dim2 % rank))


def _unfold(x: Any, dim: int, size: int, step: int) -> Any:
    if not x.ndim:
        return x.reshape(size)
    starts = np.arange(0, x.shape[dim] - size + 1, step)
    taken = jnp.take(x, (starts[:, None] + np.arange(size)).astype(np.int32), dim)
    return jnp.moveaxis(taken, dim % x.ndim + 1, -1)


def _unfold_backward(call: AtenCall, g: Any, sizes: Any, dim: int, size: int, step: int) -> Any:
    return jax.vjp(lambda v: _unfold(v, dim, size, step), jnp.zeros(tuple(sizes), g.dtype))[1](g)[0]


def _repeat(x: Any, times: Any) -> Any:
    return jnp.tile(x, tuple(times))


def _repeat_interleave(call: AtenCall, x: Any, times: Any, dim: Any = None, *_: Any) -> Any:
    if not isinstance(times, int):
        raise Refused("the shape of its result depends on what is computed")
    return jnp.repeat(x.reshape(-1) if dim is None else x, times, dim or 0)


def _triangle(is_lower: bool) -> Any:
    def apply(x: Any, k: int = 0) -> Any:
        rows, columns = np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])
        return jnp.where(columns - rows <= k if is_lower else columns - rows >= k, x, jnp.zeros_like(x))

    return apply


def _like(x: Any, value: Any) -> Any:
    return jnp.full_like(x, value)


def _pixel_shuffle(x: Any, factor: int) -> Any:
    *batch, channels, height, width = x.shape
    n = len(batch)
    parts = x.reshape(*batch, channels // factor**2, factor, factor, height, width)
    parts = jnp.transpose(parts, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return parts.reshape(*batch, channels // factor**2, height * factor, width * factor)


def _pixel_unshuffle(x: Any, factor: int) -> Any:
    *batch, channels, height, width = x.shape
    n = len(batch)
    parts = x.reshape(*batch, channels, height // factor, factor, width // factor, factor)
    parts = jnp.transpose(parts, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return parts.reshape(*batch, channels * factor**2, height // factor, width // factor)


def _resize(call: AtenCall, x: Any, shape: Any, *_: Any) -> Any:
    count = math.prod(shape)
    flat = x.reshape(-1)
    return (flat[:count] if count <= flat.size else jnp.pad(flat, (0, count - flat.size))).reshape(tuple(shape))


def _unbind(x: Any, dim: int = 0) -> Any:
    return tuple(lax.index_in_dim(x, k, dim, keepdims=False) for k in range(x.shape[dim]))


ROWS: Rows = {
    "cat": _cat,
    "as_strided": _as_strided,
    "constant_pad_nd": _pad,
    "unfold_backward": _unfold_backward,
    "repeat_interleave": _repeat_interleave,
    "resize": _resize,
    **{
        f"{name}_pad{d}d{end}": lambda _, *arguments, f=function: f(*arguments)
        for name, mode in (("reflection", "reflect"), ("replication", "edge"))
        for d in (1, 2, 3)
        for end, function in (("", _around(mode)), ("_backward", _around_backward(mode)))
    },
    **plain(
        view=lambda x, shape: x.reshape(_sizes(x, shape)),
        reshape=lambda x, shape: x.reshape(_sizes(x, shape)),
        _unsafe_view=lambda x, shape: x.reshape(_sizes(x, shape)),
        _reshape_alias=lambda x, shape, *_: x.reshape(_sizes(x, shape)),
        expand=_expand,
        permute=lambda x, dims: jnp.transpose(x, dims_of(dims, x.ndim) if dims else ()),
        transpose=lambda x, a, b: jnp.swapaxes(x, a, b) if x.ndim else x,
        t=lambda x: x.T,
        squeeze=_squeeze,
        unsqueeze=jnp.expand_dims,
        slice=_slice,
        slice_scatter=_slice_scatter,
        select=_select,
        select_scatter=_select_scatter,
        split=_split,
        split_with_sizes=_split,
        unbind=_unbind,
        as_strided_scatter=_as_strided_scatter,
        flip=_flip,
        roll=_roll,
        diagonal=_diagonal,
        diagonal_scatter=_diagonal_scatter,
        diag_embed=_diag_embed,
        unfold=_unfold,
        repeat=_repeat,
        tril=_triangle(True),
        triu=_triangle(False),
        pixel_shuffle=_pixel_shuffle,
        pixel_unshuffle=_pixel_unshuffle,
    ),
    "slice_backward": lambda call, g, sizes, dim, start, end, step: _slice_scatter(
        jnp.zeros(tuple(sizes), g.dtype), g, dim, start, end, step
    ),
    "select_backward": lambda call, g, sizes, dim, index: _select_scatter(jnp.zeros(tuple(sizes), g.dtype), g, dim, index),
    "sym_size": lambda _, x, dim: x.shape[dim],
    "sym_numel": lambda _, x: x.size,
}
ROWS |= {
    f"{name}_copy": ROWS[name]
    for name in (
        "view",
        "expand",
        "permute",
        "transpose",
        "t",
        "squeeze",
        "unsqueeze",
        "slice",
        "select",
        "split",
        "split_with_sizes",
        "unbind",
        "as_strided",
        "diagonal",
        "unfold",
    )
}
