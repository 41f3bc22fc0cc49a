"""Ops that read images at computed positions: resizing, sampling by a grid."""

# pyright: basic

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from hlo2tx8.frontend.onnx.resize import along, taps
from hlo2tx8.frontend.onnx.sampling import grid_sample
from hlo2tx8.frontend.onnx.table import NodeCall
from hlo2tx8.frontend.torch.table import AtenCall, Rows, gradient, widened


def _resized(mode: str, x: Any, sizes: Any, scales: Any, aligned: bool, antialias: bool) -> Any:
    """Along each spatial dimension sums of a few elements by weights that are known when compiling."""
    rank = len(sizes)
    attributes = {
        "mode": mode,
        "cubic_coeff_a": -0.5 if antialias else -0.75,
        "antialias": antialias,
        "exclude_outside": antialias,
        "nearest_mode": "floor",
    }
    node = NodeCall("Resize", "", 19, attributes, ("y",))
    y = x if mode.startswith("nearest") else x.astype(widened(x.dtype) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.float32)
    for d, (new, given) in enumerate(zip(sizes, scales, strict=True)):
        dim = x.ndim - rank + d
        old = x.shape[dim]
        step = 1 / given if given else old / new
        out = np.arange(new, dtype=np.float64)
        if mode.startswith("nearest"):
            single = np.float32(1 / given) if given else np.float32(old) / np.float32(new)
            exact = mode == "nearest-exact"
            where = ((out.astype(np.float32) + np.float32(0.5)) * single if exact else out.astype(np.float32) * single).astype(
                float
            )
            y = jnp.take(y, np.clip(np.floor(where), 0, old - 1).astype(np.int32), dim)
            continue
        if aligned:
            step = (old - 1) / (new - 1) if new > 1 else 0.0
        if aligned and not antialias:
            where = out * step
        else:
            where = (out + 0.5) * step - 0.5
            where = np.maximum(where, 0) if mode == "linear" and not antialias else where
        y = along(y, dim, *taps(node, where, old, 1 / step if step else 1.0))
    if jnp.issubdtype(x.dtype, jnp.integer):
        ends = jnp.iinfo(x.dtype)
        y = jnp.clip(jnp.round(y), ends.min, ends.max)
    return y.astype(x.dtype)


def _upsample(mode: str, rank: int, antialias: bool = False) -> Any:
    def apply(call: AtenCall, x: Any, sizes: Any, *rest: Any) -> Any:
        return _resized(mode, x, *_sizes_of(mode, rank, x.shape[-rank:], sizes, rest), antialias)

    return apply


def _sizes_of(mode: str, rank: int, old: Any, sizes: Any, rest: Any) -> tuple[Any, Any, bool]:
    """New sizes, scales and whether corners are aligned, of what follows the array: sizes or None, `align_corners` unless nearest,
    then a list of scales (overload `vec`) or a scale per dimension."""
    aligned, rest = (False, rest) if mode.startswith("nearest") else (bool(rest[0]), rest[1:])
    scales = rest[0] if rest and isinstance(rest[0], (list, tuple)) else rest
    scales = list(scales) if scales else [None] * rank
    scales = scales if len(scales) == rank else [None] * rank
    return (sizes or [math.floor(n * s) for n, s in zip(old, scales, strict=True)]), scales, aligned


def _upsample_backward(mode: str, rank: int, antialias: bool = False) -> Any:
    def apply(call: AtenCall, g: Any, sizes: Any, input_size: Any, *rest: Any) -> Any:
        made = _sizes_of(mode, rank, input_size[-rank:], sizes, rest)
        return gradient(lambda x: _resized(mode, x, *made, antialias), (jnp.zeros(tuple(input_size), g.dtype),), g)[0]

    return apply


def _sampled(x: Any, grid: Any, mode: int, padding: int, aligned: bool) -> Any:
    attributes = {
        "mode": ("linear", "nearest", "cubic")[mode],
        "padding_mode": ("zeros", "border", "reflection")[padding],
        "align_corners": aligned,
    }
    return grid_sample(NodeCall("GridSample", "", 20, attributes, ("y",)), x, grid)


def _sampled_backward(call: AtenCall, g: Any, x: Any, grid: Any, mode: int, padding: int, aligned: bool, mask: Any) -> Any:
    return gradient(lambda x, grid: _sampled(x, grid, mode, padding, aligned), (x, grid), g)


ROWS: Rows = {
    **{
        f"_{name}{end}": make(mode, 2, True)
        for name, mode in (("upsample_bilinear2d_aa", "linear"), ("upsample_bicubic2d_aa", "cubic"))
        for end, make in (("", _upsample), ("_backward", _upsample_backward))
    },
    **{
        f"upsample_{name}{rank}d{end}": make(mode, rank)
        for name, mode, rank in (
            ("linear", "linear", 1),
            ("trilinear", "linear", 3),
            ("bilinear", "linear", 2),
            ("bicubic", "cubic", 2),
        )
        for end, make in (("", _upsample), ("_backward", _upsample_backward))
    },
    **{
        f"{name}{rank}d{end}": make(mode, rank)
        for name, mode in (("upsample_nearest", "nearest"), ("_upsample_nearest_exact", "nearest-exact"))
        for rank in (1, 2, 3)
        for end, make in (("", _upsample), ("_backward", _upsample_backward))
    },
    **{name: lambda _, *arguments: _sampled(*arguments) for name in ("grid_sampler_2d", "grid_sampler_3d", "grid_sampler")},
    **{f"grid_sampler_{d}d_backward": _sampled_backward for d in (2, 3)},
}
