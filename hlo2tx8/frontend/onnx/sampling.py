"""Ops that read between elements at computed positions: GridSample, RoiAlign, DeformConv; Col2Im and pooling of regions."""

# pyright: basic

import math
from collections.abc import Sequence
from functools import reduce
from itertools import product
from typing import Any

import jax.numpy as jnp
import numpy as np

from hlo2tx8.frontend.onnx.table import NodeCall, OpRow, Refused, numbers
from hlo2tx8.frontend.onnx.windows import Windows


def _elements(rows: Any, places: Sequence[Any], sizes: Sequence[int]) -> Any:
    """[n, c, m] elements of [n, c, *sizes] at positions [n, m] per dimension; 0 where one is outside."""
    inside = reduce(jnp.logical_and, ((p >= 0) & (p < s) for p, s in zip(places, sizes, strict=True)))
    flat = jnp.zeros_like(places[0], jnp.int32)
    for place, size in zip(places, sizes, strict=True):
        flat = flat * size + jnp.clip(place, 0, size - 1).astype(jnp.int32)
    found = jnp.take_along_axis(rows.reshape(*rows.shape[:2], -1), flat[:, None], 2, mode="clip")
    return jnp.where(inside[:, None], found, jnp.zeros_like(found))


def _reflected(x: Any, low: float, high: float) -> Any:
    """Positions mirrored at both ends until they are between them."""
    span = high - low
    if span <= 0:
        return jnp.zeros_like(x)
    turned = jnp.mod(jnp.abs(x - low), 2 * span)
    return jnp.where(turned > span, 2 * span - turned, turned) + low


def _border(call: NodeCall, x: Any, size: int, is_element: bool = True) -> Any:
    """Positions that padding other than zeros moves inside: of an element, or in its extent."""
    match call["padding_mode"]:
        case "border":
            return jnp.clip(x, 0, size - 1)
        case "reflection":
            ends = (0, size - 1) if call["align_corners"] else (-0.5, size - 0.5)
            turned = _reflected(x, *ends)
            return jnp.clip(turned, 0, size - 1) if is_element else turned
        case _:
            return x


def _cubic(t: Any) -> tuple[Any, ...]:
    """Weights of the elements -1, 0, 1, 2 around a position that is `t` behind element 0."""
    a = -0.75
    near = lambda d: (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = lambda d: a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return far(t + 1), near(t), near(1 - t), far(2 - t)


def grid_sample(call: NodeCall, x: Any, grid: Any) -> Any:
    """The last dimension of `grid` is a position between -1 and 1, innermost dimension first."""
    sizes, outs = x.shape[2:], grid.shape[1:-1]
    number = jnp.promote_types(grid.dtype, jnp.float32)
    positions = grid.reshape(grid.shape[0], -1, len(sizes))[..., ::-1].astype(number)
    scaled: list[Any] = []
    for d, size in enumerate(sizes):
        p = positions[..., d]
        scaled.append((p + 1) / 2 * (size - 1) if call["align_corners"] else ((p + 1) * size - 1) / 2)
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(call["mode"], call["mode"])
    if mode == "nearest":
        places = [jnp.round(_border(call, jnp.round(p), n)) for p, n in zip(scaled, sizes, strict=True)]
        return _elements(x, places, sizes).reshape(*x.shape[:2], *outs)
    moved = [_border(call, p, n, mode == "linear") for p, n in zip(scaled, sizes, strict=True)]
    if mode == "cubic":  # which of positions inside of the image, to the edges of its elements, moves none
        pairs = zip(scaled, moved, sizes, strict=True)
        edge = 0 if call["align_corners"] else 0.5
        moved = [jnp.where((p < -edge) | (p > n - 1 + edge), m, p) for p, m, n in pairs]
    scaled = moved
    bases = [jnp.floor(p) for p in scaled]
    parts = [p - base for p, base in zip(scaled, bases, strict=True)]
    weights = [(1 - t, t) if mode == "linear" else _cubic(t) for t in parts]
    first = 0 if mode == "linear" else -1
    total: Any = 0
    for taps in product(range(len(weights[0])), repeat=len(sizes)):
        places = [base + first + k for base, k in zip(bases, taps, strict=True)]
        places = places if mode == "linear" else [_border(call, p, n) for p, n in zip(places, sizes, strict=True)]
        weight = reduce(jnp.multiply, (w[k] for w, k in zip(weights, taps, strict=True)))
        total = total + weight[:, None] * _elements(x, places, sizes).astype(number)
    return total.astype(x.dtype).reshape(*x.shape[:2], *outs)


def _roi_align(call: NodeCall, x: Any, rois: Any, batches: Any) -> Any:
    """The mean or greatest of samples of each bin of each region; how many samples there are must not depend on regions."""
    height, width, scale = call["output_height"], call["output_width"], call["spatial_scale"]
    offset = 0.5 if call["coordinate_transformation_mode"] == "half_pixel" and call.since >= 16 else 0.0
    samples = call["sampling_ratio"]
    if not samples:
        raise Refused("sampling_ratio 0: how many samples there are depends on what is computed")
    low = rois[:, [1, 0]] * scale - offset
    span = rois[:, [3, 2]] * scale - offset - low
    span = span if offset else jnp.maximum(span, 1)
    images = jnp.take(x, batches.astype(jnp.int32), 0, mode="clip")
    places: list[Any] = []
    for d, bins in enumerate((height, width)):
        steps = (np.arange(bins * samples) + 0.5) / samples / bins
        places.append(low[:, d, None] + span[:, d, None] * steps.astype(rois.dtype))
    y, p = (
        jnp.broadcast_to(a, (rois.shape[0], height * samples, width * samples)) for a in (places[0][:, :, None], places[1][:, None])
    )
    found = _bilinear(images, [y.reshape(y.shape[0], -1), p.reshape(p.shape[0], -1)], x.shape[2:], call["mode"] == "max")
    found = found.reshape(*found.shape[:2], height, samples, width, samples)
    return jnp.max(found, (3, 5)) if call["mode"] == "max" else jnp.mean(found, (3, 5))


def _bilinear(x: Any, places: Sequence[Any], sizes: Sequence[int], is_max: bool) -> Any:
    """Between four elements; 0 more than one element outside, the border's element up to there. `is_max`: the greatest of the four
    weighted elements."""
    inside = reduce(jnp.logical_and, ((p >= -1) & (p <= n) for p, n in zip(places, sizes, strict=True)))
    places = [jnp.clip(p, 0, n - 1) for p, n in zip(places, sizes, strict=True)]
    bases = [jnp.floor(p) for p in places]
    parts: list[Any] = []
    for taps in product((0, 1), repeat=2):
        at = [jnp.minimum(b + k, n - 1) for b, k, n in zip(bases, taps, sizes, strict=True)]
        weight = reduce(jnp.multiply, (p - b if k else 1 - (p - b) for p, b, k in zip(places, bases, taps, strict=True)))
        parts.append(weight[:, None] * _elements(x, at, sizes))
    found = reduce(jnp.maximum if is_max else jnp.add, parts)
    return jnp.where(inside[:, None], found, jnp.zeros_like(found))


def _deform_conv(call: NodeCall, x: Any, w: Any, offset: Any, b: Any = None, mask: Any = None) -> Any:
    """A convolution whose windows' elements are read where `offset` moves them, times `mask`."""
    if x.ndim != 4:
        raise Refused("DeformConv of other than two spatial dimensions")
    windows = Windows.of(call, x.shape[2:], call["kernel_shape"] or w.shape[2:])
    n, c, sizes = x.shape[0], x.shape[1], x.shape[2:]
    groups, (kh, kw), (oh, ow) = call["offset_group"], windows.kernel, windows.counts
    grids = [windows.places(d) for d in range(2)]
    y = np.broadcast_to(grids[0].T[:, None, :, None], (kh, kw, oh, ow))
    p = np.broadcast_to(grids[1].T[None, :, None, :], (kh, kw, oh, ow))
    offset = offset.reshape(n, groups, kh, kw, 2, oh, ow)
    places = [(base + offset[:, :, :, :, k]).reshape(n * groups, -1) for k, base in enumerate((y, p))]
    rows = x.reshape(n * groups, c // groups, *sizes)
    bases = [jnp.floor(a) for a in places]
    columns: Any = 0
    for taps in product((0, 1), repeat=2):
        weight = reduce(jnp.multiply, (a - at if k else 1 - (a - at) for a, at, k in zip(places, bases, taps, strict=True)))
        columns = columns + weight[:, None] * _elements(rows, [at + k for at, k in zip(bases, taps, strict=True)], sizes)
    columns = columns.reshape(n, groups, c // groups, kh * kw, oh, ow)
    if mask is not None:
        columns = columns * mask.reshape(n, groups, 1, kh * kw, oh, ow)
    num, out = call["group"] or 1, w.shape[0]
    columns = columns.reshape(n, num, c // num * kh * kw, oh * ow)
    found = jnp.einsum("goc,ngcp->ngop", w.reshape(num, out // num, -1), columns).reshape(n, out, oh, ow)
    return found if b is None else found + b.reshape(-1, 1, 1)


def _col2im(call: NodeCall, x: Any, image: Any, block: Any) -> Any:
    """Sums of the elements of all windows at each place of an image."""
    sizes, kernel = numbers(image), numbers(block)
    windows = Windows.of(call, sizes, kernel)
    if math.prod(windows.counts) != x.shape[2]:
        raise ValueError(f"{windows.counts} windows are not {x.shape[2]}")
    c, rank = x.shape[1] // math.prod(kernel), len(sizes)
    flat, inside = np.zeros((1,) * (2 * rank), int), np.ones((1,) * (2 * rank), bool)
    for d, size in enumerate(sizes):
        places = windows.places(d).T
        shape = [1] * (2 * rank)
        shape[d], shape[rank + d] = places.shape
        flat = flat * size + np.clip(places, 0, size - 1).reshape(shape)
        inside = inside & ((places >= 0) & (places < size)).reshape(shape)
    flat, inside = (np.broadcast_to(a, (*kernel, *windows.counts)).reshape(-1) for a in (flat, inside))
    rows = x.reshape(x.shape[0], c, -1)[:, :, np.flatnonzero(inside).astype(np.int32)]
    found = jnp.zeros((*rows.shape[:2], math.prod(sizes)), x.dtype).at[:, :, flat[inside].astype(np.int32)].add(rows)
    return found.reshape(*rows.shape[:2], *sizes)


def _max_roi_pool(call: NodeCall, x: Any, rois: Any) -> Any:
    """The greatest of each bin of each region [batch, x1, y1, x2, y2]; 0 of an empty bin."""
    bins, sizes = call["pooled_shape"], x.shape[2:]
    corners = jnp.round(rois[:, 1:] * call["spatial_scale"])
    images = jnp.take(x, rois[:, 0].astype(jnp.int32), 0, mode="clip")
    inside: list[Any] = []
    for first, last, num, size in ((1, 3, bins[0], sizes[0]), (0, 2, bins[1], sizes[1])):
        span = jnp.maximum(corners[:, last] - corners[:, first] + 1, 1)[:, None] / num
        steps, base = np.arange(num, dtype=np.float32), corners[:, first, None]
        low = jnp.clip(base + jnp.floor(steps * span), 0, size)[..., None]
        high = jnp.clip(base + jnp.ceil((steps + 1) * span), 0, size)[..., None]
        places = np.arange(size, dtype=np.float32)
        inside.append((places >= low) & (places < high))
    both = inside[0][:, None, :, None, :, None] & inside[1][:, None, None, :, None, :]
    most = jnp.max(jnp.where(both, images[:, :, None, None], -jnp.inf), (-2, -1))
    return jnp.where(jnp.isfinite(most), most, jnp.zeros_like(most)).astype(x.dtype)


ROWS: dict[str, OpRow] = {
    "Col2Im": OpRow(_col2im, (1, 2)),
    "DeformConv": OpRow(_deform_conv),
    "GridSample": OpRow(grid_sample),
    "MaxRoiPool": OpRow(_max_roi_pool),
    "RoiAlign": OpRow(_roi_align),
}
