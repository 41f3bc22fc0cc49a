"""Ops on windows and positions of images: pooling, resizing, sampling."""

# pyright: basic

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hlo2tx8.frontend.onnx.pooling import average_pool, max_pool
from hlo2tx8.frontend.onnx.table import NodeCall
from hlo2tx8.frontend.torch.table import AtenCall, Rows, each, gradient, widened


def _batched(function: Any, x: Any, rank: int) -> Any:
    """Of images with or without a batch."""
    if x.ndim == rank + 2:
        return function(x)
    found = function(x[None])
    return tuple(a[0] for a in found) if isinstance(found, tuple) else found[0]


def _pool(rank: int, kernel: Any, stride: Any, pads: Any, ceil_mode: bool, dilation: Any = 1, counts_pads: bool = True) -> NodeCall:
    """A pooling as the common functions take it."""
    attributes = {
        "kernel_shape": each(kernel, rank),
        "strides": each(stride, rank) if stride else each(kernel, rank),
        "pads": each(pads, rank) * 2,
        "dilations": each(dilation, rank),
        "ceil_mode": ceil_mode,
        "count_include_pad": counts_pads,
    }
    return NodeCall("Pool", "", 22, attributes, ("y", "places"))


def _max_pool(rank: int) -> Any:
    def apply(
        call: AtenCall, x: Any, kernel: Any, stride: Any = (), pads: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Any:
        node = _pool(rank, kernel, stride, pads, ceil_mode, dilation)
        most, places = _batched(lambda x: max_pool(node, x), x, rank)
        return most, places % max(math.prod(x.shape[-rank:]), 1)

    return apply


def _max_pool_alone(rank: int) -> Any:
    return lambda *arguments: _max_pool(rank)(*arguments)[0]


def _scattered(g: Any, places: Any, sizes: Any) -> Any:
    """Zeros [..., *sizes] to which each element of `g` is added at its place in the flattened sizes."""
    rank = len(sizes)
    rows = g.reshape(math.prod(g.shape[:-rank]), -1)
    index = places.reshape(rows.shape)
    flat = jnp.zeros((rows.shape[0], math.prod(sizes)), rows.dtype)
    return flat.at[np.arange(rows.shape[0])[:, None], index].add(rows).reshape(*g.shape[:-rank], *sizes)


def _max_pool_backward(rank: int) -> Any:
    return lambda call, g, x, *rest: _scattered(g, rest[-1], x.shape[-rank:])


def _max_unpool(rank: int) -> Any:
    def apply(call: AtenCall, x: Any, places: Any, sizes: Any, *_: Any) -> Any:
        rows = x.reshape(math.prod(x.shape[:-rank]), -1)
        flat = jnp.zeros((rows.shape[0], math.prod(sizes)), x.dtype)
        found = flat.at[np.arange(rows.shape[0])[:, None], places.reshape(rows.shape)].set(rows)
        return found.reshape(*x.shape[:-rank], *sizes)

    return apply


def _averaged(rank: int, x: Any, kernel: Any, stride: Any, pads: Any, ceil_mode: bool, counts_pads: bool, divisor: Any) -> Any:
    node = _pool(rank, kernel, stride, pads, ceil_mode, 1, counts_pads)
    wide = x.astype(widened(x.dtype))
    return _batched(lambda x: average_pool(node, x, divisor), wide, rank).astype(x.dtype)


def _average_pool(rank: int) -> Any:
    def apply(call: AtenCall, x: Any, kernel: Any, stride: Any = (), pads: Any = 0, ceil_mode: Any = False, counts: Any = True,
              divisor: Any = None) -> Any:  # fmt: skip
        return _averaged(rank, x, kernel, stride, pads, ceil_mode, counts, divisor)

    return apply


def _average_pool_backward(rank: int) -> Any:
    return lambda call, g, x, *rest: gradient(lambda x: _averaged(rank, x, *rest), (x,), g)[0]


def _bins(size: int, count: int) -> tuple[Any, Any]:
    """[count, most]: elements of each of `count` parts that cover a dimension, and which of them are in it."""
    k = np.arange(count)
    starts, ends = k * size // count, -(-(k + 1) * size // count)
    places = starts[:, None] + np.arange(int((ends - starts).max(initial=1)))
    return np.minimum(places, max(size - 1, 0)), places < ends[:, None]


def _adaptive_average(rank: int, x: Any, sizes: Any) -> Any:
    """Means of parts, one dimension after another: each is a product with a matrix unless all parts are alike."""
    wide = x.astype(widened(x.dtype))
    for d in range(rank):
        dim, size = x.ndim - rank + d, x.shape[x.ndim - rank + d]
        count = size if sizes[d] is None else sizes[d]
        if count == size:
            continue
        if count and size % count == 0:
            wide = jnp.mean(wide.reshape(*wide.shape[:dim], count, size // count, *wide.shape[dim + 1 :]), dim + 1)
            continue
        places, inside = _bins(size, count)
        matrix = np.zeros((count, size))
        for row, (own, is_in) in enumerate(zip(places, inside, strict=True)):
            matrix[row, own[is_in]] = 1 / is_in.sum()
        wide = jnp.moveaxis(jnp.moveaxis(wide, dim, -1) @ jnp.asarray(matrix.T, wide.dtype), -1, dim)
    return wide.astype(x.dtype)


def _adaptive_average_backward(rank: int) -> Any:
    return lambda call, g, x: gradient(lambda x: _adaptive_average(rank, x, g.shape[-rank:]), (x,), g)[0]


def _adaptive_max(rank: int) -> Any:
    """The greatest of each part, and where in the image it is, the first of equal ones."""

    def apply(call: AtenCall, x: Any, sizes: Any) -> Any:
        shape = x.shape[-rank:]
        flat, inside = np.zeros((), int), np.ones((), bool)
        for d, (size, count) in enumerate(zip(shape, each(sizes, rank), strict=True)):
            places, within = _bins(size, count)
            view = [1] * (2 * rank)
            view[d], view[rank + d] = places.shape
            flat, inside = flat * size + places.reshape(view), inside & within.reshape(view)
        counts = flat.shape[:rank]
        flat, inside = (a.reshape(*counts, -1) for a in (flat, inside))
        rows = jnp.take(x.reshape(*x.shape[:-rank], -1), flat.astype(np.int32), -1)
        rows = jnp.where(inside, rows, -jnp.inf)
        chosen = jnp.argmax(rows, -1)[..., None]
        found = jnp.take_along_axis(rows, chosen, -1)[..., 0]
        places = jnp.take_along_axis(jnp.broadcast_to(flat, rows.shape), chosen, -1)[..., 0]
        return found, places

    return apply


def _column_places(sizes: Any, kernel: Any, dilation: Any, pads: Any, stride: Any) -> tuple[Any, Any]:
    """[kernel elements, windows]: the place of each element of each window in the flattened image, and is it inside."""
    grids = []
    for n, k, d, p, s in zip(sizes, kernel, dilation, pads, stride, strict=True):
        starts = np.arange(0, n + 2 * p - d * (k - 1), s) - p
        grids.append(np.arange(k)[:, None] * d + starts)
    rows, columns = grids[0][:, None, :, None], grids[1][None, :, None, :]
    inside = (rows >= 0) & (rows < sizes[0]) & (columns >= 0) & (columns < sizes[1])
    flat = np.where(inside, rows * sizes[1] + columns, 0)
    count = kernel[0] * kernel[1]
    return flat.reshape(count, -1), np.broadcast_to(inside, flat.shape).reshape(count, -1)


def _im2col(call: AtenCall, x: Any, kernel: Any, dilation: Any, pads: Any, stride: Any) -> Any:
    lists = [each(v, 2) for v in (kernel, dilation, pads, stride)]
    places, inside = _column_places(x.shape[-2:], *lists)
    rows = jnp.take(x.reshape(*x.shape[:-2], math.prod(x.shape[-2:])), places.astype(np.int32), -1)
    rows = jnp.where(inside, rows, jnp.zeros_like(rows))
    return rows.reshape(*x.shape[:-3], x.shape[-3] * places.shape[0], places.shape[1])


def _col2im(call: AtenCall, x: Any, sizes: Any, kernel: Any, dilation: Any, pads: Any, stride: Any) -> Any:
    channels = x.shape[-2] // math.prod(each(kernel, 2))
    shape = (*x.shape[:-2], channels, *sizes)
    image = jnp.zeros(shape, x.dtype)
    return jax.vjp(lambda v: _im2col(call, v, kernel, dilation, pads, stride), image)[1](x)[0]


def _fractional(rank: int) -> Any:
    """Windows whose starts a random number says per image and channel."""

    def apply(call: AtenCall, x: Any, kernel: Any, sizes: Any, samples: Any) -> Any:
        lead, shape = x.shape[:-rank], x.shape[-rank:]
        samples = samples.reshape(*samples.shape[-3 if len(lead) == 2 else -2 :]) if len(lead) == 2 else samples.reshape(-1, rank)
        samples = samples[tuple(slice(0, n) for n in lead)]
        kernel, sizes = each(kernel, rank), each(sizes, rank)
        starts = []
        for d, (n, k, m) in enumerate(zip(shape, kernel, sizes, strict=True)):
            u = samples[..., 1 - d if rank == 2 else d]  # of 2 dimensions torch draws the width first
            step = (n - k) / (m - 1) if m > 1 else 0.0
            first = (
                jnp.floor((np.arange(m) + u[..., None]) * step).astype(jnp.int32) - jnp.floor(u * step).astype(jnp.int32)[..., None]
            )
            starts.append(jnp.where(np.arange(m) == m - 1, n - k, first))
        flat = jnp.zeros((*lead, *(1,) * (2 * rank)), jnp.int32)
        for d, (k, n) in enumerate(zip(kernel, shape, strict=True)):
            view = [*lead] + [1] * (2 * rank)
            places = starts[d][..., None] + np.arange(k)
            view[len(lead) + d], view[len(lead) + rank + d] = places.shape[-2:]
            flat = flat * n + places.reshape(view)
        flat = flat.reshape(*lead, *sizes, -1)
        rows = jnp.take_along_axis(x.reshape(*lead, -1), flat.reshape(*lead, -1), -1).reshape(flat.shape)
        chosen = jnp.argmax(rows, -1)[..., None]
        return tuple(jnp.take_along_axis(a, chosen, -1)[..., 0] for a in (rows, flat))

    return apply


ROWS: Rows = {
    **{f"max_pool{d}d_with_indices": _max_pool(d) for d in (2, 3)},
    **{f"max_pool{d}d": _max_pool_alone(d) for d in (1, 2, 3)},
    **{f"max_pool{d}d_with_indices_backward": _max_pool_backward(d) for d in (2, 3)},
    **{f"max_unpool{d}d": _max_unpool(d) for d in (2, 3)},
    **{f"avg_pool{d}d": _average_pool(d) for d in (1, 2, 3)},
    **{f"avg_pool{d}d_backward": _average_pool_backward(d) for d in (2, 3)},
    **{
        f"{prefix}adaptive_avg_pool{d}d": lambda call, x, sizes, d=d: _adaptive_average(d, x, each(sizes, d))
        for d in (1, 2, 3)
        for prefix in ("", "_")
    },
    **{f"_adaptive_avg_pool{d}d_backward": _adaptive_average_backward(d) for d in (2, 3)},
    **{f"adaptive_max_pool{d}d": _adaptive_max(d) for d in (1, 2, 3)},
    **{f"adaptive_max_pool{d}d_backward": _max_pool_backward(d) for d in (2, 3)},
    **{f"fractional_max_pool{d}d": _fractional(d) for d in (2, 3)},
    **{f"fractional_max_pool{d}d_backward": _max_pool_backward(d) for d in (2, 3)},
    "im2col": _im2col,
    "col2im": _col2im,
}
