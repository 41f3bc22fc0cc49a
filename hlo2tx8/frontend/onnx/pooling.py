"""Pooling: the greatest, mean or norm of windows, and the inverse of the first."""

# pyright: basic

import math
from functools import reduce
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from hlo2tx8.frontend.onnx.table import NodeCall, OpRow, Refused, numbers
from hlo2tx8.frontend.onnx.windows import Windows


def _over_windows(x: Any, windows: Windows, start: Any, combine: Any) -> Any:
    """What `combine` makes of the elements of each window; the padding holds `start`."""
    pads = windows.whole_pads
    x = lax.slice(x, [0] * x.ndim, [*x.shape[:2], *(n + min(high, 0) for n, (_, high) in zip(x.shape[2:], pads, strict=True))])
    return lax.reduce_window(
        x,
        np.asarray(start, x.dtype),
        combine,
        (1, 1, *windows.kernel),
        (1, 1, *windows.strides),
        ((0, 0), (0, 0), *((low, max(high, 0)) for low, high in pads)),
        window_dilation=(1, 1, *windows.dilations),
    )


def _least(dtype: Any) -> Any:
    return -np.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def max_pool(call: NodeCall, x: Any) -> Any:
    """The greatest of each window, and where in all of `x` it is if that is asked for."""
    windows = Windows.of(call, x.shape[2:], call["kernel_shape"])
    most = _over_windows(x, windows, _least(x.dtype), lax.max)
    return (most, _places_of_most(call, x, windows)) if call.wants(1) else most


def _places_of_most(call: NodeCall, x: Any, windows: Windows) -> Any:
    """Where in the flattened input the greatest of each window is, the first of equal ones."""
    rank, sizes = len(windows.sizes), windows.sizes
    is_column_major = bool(call["storage_order"])
    weights = [math.prod(sizes[:d]) if is_column_major else math.prod(sizes[d + 1 :]) for d in range(rank)]
    flat, order, inside = 0, 0, True
    for d in range(rank):
        places = windows.places(d)
        shape = [1] * (2 * rank)
        shape[d], shape[rank + d] = places.shape
        flat = flat + (places * math.prod(sizes[d + 1 :])).reshape(shape)
        order = order + (places * weights[d]).reshape(shape)
        inside = inside & ((places >= 0) & (places < sizes[d])).reshape(shape)
    outs, size = windows.counts, math.prod(windows.kernel)
    flat, order, inside = (np.broadcast_to(a, (*outs, *windows.kernel)).reshape(*outs, size) for a in (flat, order, inside))
    rows = x.reshape(*x.shape[:2], -1)
    elements = jnp.take(rows, np.where(inside, flat, 0).astype(np.int32), axis=2)
    elements = jnp.where(inside, elements, jnp.asarray(_least(x.dtype), x.dtype))
    chosen = jnp.argmax(elements, -1)[..., None]
    local = jnp.take_along_axis(jnp.broadcast_to(order, elements.shape), chosen, -1)[..., 0]
    images = np.arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], *(1,) * rank)
    return (local + images * math.prod(sizes)).astype(jnp.int64)


def average_pool(call: NodeCall, x: Any, divisor: int | None = None) -> Any:
    """Sums over how many elements a window has, with those of the padding if `count_include_pad`, or over `divisor`."""
    windows = Windows.of(call, x.shape[2:], call["kernel_shape"])
    total = _over_windows(x.astype(jnp.float32) if x.dtype.itemsize < 4 else x, windows, 0, lax.add)
    if divisor is not None:
        return (total / divisor).astype(x.dtype)
    counts: list[Any] = []
    for d, size in enumerate(windows.sizes):
        low, high = windows.pads[d] if call["count_include_pad"] else (0, 0)
        places = windows.places(d)
        counts.append(((places >= -low) & (places < size + high)).sum(1))
    number = reduce(np.multiply.outer, counts).astype(total.dtype)
    return (total / number).astype(x.dtype)


def _lp_pool(call: NodeCall, x: Any) -> Any:
    windows = Windows.of(call, x.shape[2:], call["kernel_shape"])
    p = call["p"]
    total = _over_windows(x * x if p == 2 else jnp.abs(x) ** p, windows, 0, lax.add)
    return jnp.sqrt(total) if p == 2 else total ** (1 / p)


def _spatial(x: Any) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


def _global_lp_pool(call: NodeCall, x: Any) -> Any:
    return jnp.sum(jnp.abs(x) ** call["p"], _spatial(x), keepdims=True) ** (1 / call["p"])


def _max_unpool(call: NodeCall, x: Any, places: Any, shape: Any = None) -> Any:
    """Zeros with the elements of `x` where they came from; places are those in arrays of the natural size."""
    windows = zip(x.shape[2:], call["kernel_shape"], call["strides"] or (1,) * (x.ndim - 2), strict=True)
    pads = call["pads"] or (0,) * 2 * (x.ndim - 2)
    sizes = [(n - 1) * s + k - pads[d] - pads[d + x.ndim - 2] for d, (n, k, s) in enumerate(windows)]
    natural = (*x.shape[:2], *sizes)
    flat = jnp.zeros(math.prod(natural), x.dtype).at[places.reshape(-1).astype(jnp.int32)].set(x.reshape(-1))
    found = flat.reshape(natural)
    if shape is None:
        return found
    wanted = numbers(shape)
    if any(n < m for n, m in zip(wanted, natural, strict=True)):
        raise Refused("output_shape is less than what is there")
    return jnp.pad(found, [(0, n - m) for n, m in zip(wanted, natural, strict=True)])


ROWS: dict[str, OpRow] = {
    "AveragePool": OpRow(average_pool),
    "GlobalAveragePool": OpRow(lambda _, x: jnp.mean(x, _spatial(x), keepdims=True)),
    "GlobalLpPool": OpRow(_global_lp_pool),
    "GlobalMaxPool": OpRow(lambda _, x: jnp.max(x, _spatial(x), keepdims=True)),
    "LpPool": OpRow(_lp_pool),
    "MaxPool": OpRow(max_pool),
    "MaxUnpool": OpRow(_max_unpool, (2,)),
}
