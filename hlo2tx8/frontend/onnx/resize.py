"""Resize and Upsample: along each dimension a sum of a few elements by weights, which are known at compile time."""

# pyright: basic

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from hlo2tx8.frontend.onnx.table import NodeCall, OpRow, Refused, axes_of

Array = np.ndarray[Any, Any]


def _sizes(call: NodeCall, old: Sequence[int], scales: Any, sizes: Any) -> tuple[list[int], list[float]]:
    """New sizes of the dimensions resized, and their scales."""
    if sizes is None:
        factors = [float(s) for s in scales]
        return [math.floor(n * s) for n, s in zip(old, factors, strict=True)], factors
    new = [int(n) for n in sizes]
    policy = call["keep_aspect_ratio_policy"] or "stretch"
    if policy == "stretch":
        return new, [m / n for n, m in zip(old, new, strict=True)]
    ratios = [m / n for n, m in zip(old, new, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [math.floor(scale * n + 0.5) for n in old], [scale] * len(old)


def _coordinates(call: NodeCall, old: int, new: int, scale: float, roi: tuple[float, float]) -> Array:
    """Where in the input the elements of the result are."""
    out = np.arange(new, dtype=np.float64)
    match call["coordinate_transformation_mode"]:
        case "half_pixel":
            return (out + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (out + 0.5) / scale - 0.5 if scale * old > 1 else np.zeros(new)
        case "align_corners":
            return out * (old - 1) / (scale * old - 1) if scale * old != 1 else np.zeros(new)
        case "asymmetric":
            return out / scale
        case "half_pixel_symmetric":
            centre = old / 2 * (1 - new / (scale * old))
            return centre + (out + 0.5) / scale - 0.5
        case "tf_crop_and_resize":
            start, end = roi
            if new == 1:
                return np.full(1, 0.5 * (start + end) * (old - 1))
            return start * (old - 1) + out * (end - start) * (old - 1) / (new - 1)
        case "tf_half_pixel_for_nn":
            return (out + 0.5) / scale
        case other:
            raise Refused(f"there is no coordinate_transformation_mode {other!r}")


def _nearest(call: NodeCall, x: Array) -> Array:
    match call["nearest_mode"] or "floor":
        case "round_prefer_floor":
            return np.ceil(x - 0.5)
        case "round_prefer_ceil":
            return np.floor(x + 0.5)
        case "floor":
            return np.floor(x)
        case _:
            return np.ceil(x)


def _cubic(distance: Array, a: float) -> Array:
    d = np.abs(distance)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    return np.where(d <= 1, near, np.where(d < 2, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a, 0))


def taps(call: NodeCall, x: Array, size: int, scale: float) -> tuple[Array, Array]:
    """[new, taps]: which elements along a dimension each new one is made of, and their weights."""
    mode = call["mode"]
    if mode == "nearest":
        return np.clip(_nearest(call, x), 0, size - 1)[:, None].astype(int), np.ones((x.size, 1))
    reach = 1 if mode == "linear" else 2
    stretch = min(scale, 1.0) if call["antialias"] else 1.0
    reach_scaled = reach / stretch
    first = np.floor(x - reach_scaled) + 1
    num = math.ceil(2 * reach_scaled) + (1 if stretch < 1 else 0)
    places = first[:, None] + np.arange(num)
    distance = (places - x[:, None]) * stretch
    weights = np.maximum(0, 1 - np.abs(distance)) if mode == "linear" else _cubic(distance, call["cubic_coeff_a"])
    if call["exclude_outside"] or stretch < 1:
        inside = (places >= 0) & (places < size)
        weights = np.where(inside, weights, 0) if call["exclude_outside"] else weights
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(places, 0, size - 1).astype(int), weights


def _resize(call: NodeCall, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    chosen = axes_of(call, None, x.ndim) or tuple(range(x.ndim))
    empty = scales is None or not np.size(scales)
    if empty and sizes is None:
        raise ValueError("neither scales nor sizes are given")
    new, factors = _sizes(call, [x.shape[d] for d in chosen], scales, sizes if empty else None)
    regions = np.asarray([0, 1] if roi is None or not np.size(roi) else roi, np.float64)
    regions = regions.reshape(2, -1) if regions.size == 2 * len(chosen) else np.array([[0], [1]]).repeat(len(chosen), 1)
    dtype, outside = x.dtype, jnp.zeros((), bool)
    is_nearest = call["mode"] == "nearest"
    y = x if is_nearest or dtype.itemsize >= 4 else x.astype(jnp.float32)
    for d, size, scale, start, end in zip(chosen, new, factors, *regions, strict=True):
        is_cropped = call["coordinate_transformation_mode"] == "tf_crop_and_resize"
        if size == x.shape[d] and scale == 1 and not is_cropped:
            continue
        where = _coordinates(call, x.shape[d], size, scale, (start, end))
        y = along(y, d, *taps(call, where, x.shape[d], scale))
        if is_cropped:
            beyond = (where < 0) | (where > x.shape[d] - 1)
            outside = outside | beyond.reshape([-1 if k == d else 1 for k in range(x.ndim)])
    if jnp.ndim(outside):
        y = jnp.where(outside, jnp.asarray(call["extrapolation_value"], y.dtype), y)
    if not is_nearest and jnp.issubdtype(dtype, jnp.integer):
        ends = jnp.iinfo(dtype)
        y = jnp.clip(jnp.round(y), ends.min, ends.max)
    return y.astype(dtype)


def along(x: Any, axis: int, places: Array, weights: Array) -> Any:
    """Sums of elements along a dimension by weights."""
    if weights.shape[1] == 1:
        return jnp.take(x, places[:, 0].astype(np.int32), axis)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(jnp.float32)
    shape = [-1 if k == axis else 1 for k in range(x.ndim)]
    parts = [
        jnp.take(x, places[:, k].astype(np.int32), axis) * weights[:, k].reshape(shape).astype(x.dtype)
        for k in range(weights.shape[1])
    ]
    return sum(parts[1:], parts[0])


def _upsample(call: NodeCall, x: Any, scales: Any = None) -> Any:
    """Resize as opsets before 10 call it."""
    if scales is None:
        scales = call["scales"] or [1, 1, call["height_scale"], call["width_scale"]]
    mode = {"bilinear": "linear"}.get(call["mode"], call["mode"])
    own = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", "mode": mode}
    return _resize(NodeCall("Resize", call.name, 11, {**call.attributes, **own}, call.outputs), x, None, np.asarray(scales))


def _resize_of(call: NodeCall, x: Any, *inputs: Any) -> Any:
    """Resize; that of opset 10 takes scales alone."""
    if call.since < 11:
        return _upsample(call, x, *inputs)
    return _resize(call, x, *inputs)


ROWS: dict[str, OpRow] = {"Resize": OpRow(_resize_of, (1, 2, 3)), "Upsample": OpRow(_upsample, (1,))}
"""The inputs behind the first say sizes."""
