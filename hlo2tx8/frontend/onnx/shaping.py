"""Ops that move elements and make arrays of given shapes; shapes are known at compile time."""

# pyright: basic

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from hlo2tx8.frontend.onnx.conversion import dtype_of
from hlo2tx8.frontend.onnx.table import NodeCall, OpRow, Refused, axes_of, axis_of, numbers


def _reshape(call: NodeCall, x: Any, shape: Any = None) -> Any:
    sizes = list(numbers(call["shape"] if shape is None else shape))
    if not call["allowzero"]:
        sizes = [jnp.shape(x)[d] if n == 0 else n for d, n in enumerate(sizes)]
    return jnp.reshape(x, sizes)


def _flatten(call: NodeCall, x: Any) -> Any:
    axis = call["axis"] + (jnp.ndim(x) if call["axis"] < 0 else 0)
    return jnp.reshape(x, (math.prod(jnp.shape(x)[:axis]), math.prod(jnp.shape(x)[axis:])))


def _squeeze(call: NodeCall, x: Any, axes: Any = None) -> Any:
    return jnp.squeeze(x, axes_of(call, axes, jnp.ndim(x)))


def _unsqueeze(call: NodeCall, x: Any, axes: Any = None) -> Any:
    num_new = len(call["axes"] if axes is None else np.asarray(axes).ravel())
    return jnp.expand_dims(x, axes_of(call, axes, jnp.ndim(x) + num_new) or ())


def _transpose(call: NodeCall, x: Any) -> Any:
    return jnp.transpose(x, call["perm"])


def _concat(call: NodeCall, *inputs: Any) -> Any:
    return jnp.concatenate(inputs, 1 if call["axis"] is None else call["axis"])


def _split(call: NodeCall, x: Any, sizes: Any = None) -> Any:
    axis, num = axis_of(call["axis"] or 0, jnp.ndim(x)), call["num_outputs"] or len(call.outputs)
    sizes = call["split"] if sizes is None else sizes
    length = jnp.shape(x)[axis]
    if sizes is None:
        part = -(-length // num)
        sizes = [min(part, max(0, length - part * k)) for k in range(num)]
    if sum(numbers(sizes)) != length:
        raise ValueError(f"parts of {list(numbers(sizes))} are not {length}")
    return tuple(jnp.split(x, np.cumsum(numbers(sizes))[:-1], axis))


def _slice(call: NodeCall, x: Any, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> Any:
    starts, ends = (numbers(call[key] if given is None else given) for key, given in (("starts", starts), ("ends", ends)))
    chosen = axes_of(call, axes, jnp.ndim(x)) or tuple(range(len(starts)))
    steps = (1,) * len(starts) if steps is None else numbers(steps)
    places = [slice(None)] * jnp.ndim(x)
    for axis, start, end, step in zip(chosen, starts, ends, steps, strict=True):
        size = jnp.shape(x)[axis]
        first, last = (n + size if n < 0 else n for n in (start, end))
        low, high = (0, size) if step > 0 else (-1, max(size - 1, 0))
        first, last = min(max(first, 0), high), min(max(last, low), high)
        places[axis] = slice(first, None if last < 0 else last, step)
    return jnp.asarray(x)[tuple(places)]


def _expand(_: NodeCall, x: Any, shape: Any) -> Any:
    return jnp.broadcast_to(x, np.broadcast_shapes(jnp.shape(x), numbers(shape)))


def _tile(call: NodeCall, x: Any, repeats: Any, axis: Any = None) -> Any:
    if axis is None:
        return jnp.tile(x, numbers(repeats))
    return jnp.tile(x, [int(repeats) if d == int(axis) else 1 for d in range(jnp.ndim(x))])


def _pad(call: NodeCall, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    given = next(found for found in (pads, call["pads"], call["paddings"]) if found is not None)
    chosen = tuple(range(jnp.ndim(x))) if axes is None else axes_of(call, axes, jnp.ndim(x))
    amounts = np.zeros((jnp.ndim(x), 2), int)
    amounts[list(chosen or ())] = np.reshape(numbers(given), (2, -1)).T
    for axis, low, high in ((d, min(a, 0), min(b, 0)) for d, (a, b) in enumerate(amounts)):
        x = lax.slice_in_dim(x, -low, jnp.shape(x)[axis] + high, axis=axis)
    amounts, mode = np.maximum(amounts, 0), call["mode"] or "constant"
    if mode != "constant":
        return jnp.pad(x, amounts, mode={"reflect": "reflect", "edge": "edge", "wrap": "wrap"}[mode])
    fill = jnp.asarray(call["value"] or 0 if value is None else value).astype(x.dtype).reshape(())
    return jnp.pad(x, amounts, constant_values=fill)


def _shape(call: NodeCall, x: Any) -> Any:
    return np.array(jnp.shape(x)[call["start"] or 0 : call["end"]], np.int64)


def _size(_: NodeCall, x: Any) -> Any:
    return np.array(math.prod(jnp.shape(x)), np.int64)


def _constant(call: NodeCall) -> Any:
    types = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    (key,) = (key for key in call.attributes if key.startswith(("value", "sparse")))
    return np.asarray(call[key], types.get(key))


def _constant_of_shape(call: NodeCall, shape: Any) -> Any:
    value = np.zeros(1, np.float32) if call["value"] is None else call["value"]
    return jnp.full(numbers(shape), value.reshape(()), value.dtype)


def _range(_: NodeCall, start: Any, limit: Any, delta: Any) -> Any:
    first, end, step = (np.asarray(a).reshape(()) for a in (start, limit, delta))
    wide = [a.astype(np.float64) if a.dtype.kind not in "iu" else int(a) for a in (first, end, step)]
    num = max(0, math.ceil((wide[1] - wide[0]) / wide[2]))
    number = np.dtype(np.float32) if first.dtype.itemsize < 4 and first.dtype.kind not in "iu" else first.dtype
    return (first.astype(number) + lax.iota(number, num) * step.astype(number)).astype(first.dtype)


def _eye_like(call: NodeCall, x: Any) -> Any:
    dtype = x.dtype if call["dtype"] is None else dtype_of(call["dtype"])
    return jnp.eye(*jnp.shape(x), k=call["k"], dtype=dtype)


def _triangle(call: NodeCall, x: Any, k: Any = None) -> Any:
    return (jnp.triu if call["upper"] else jnp.tril)(x, 0 if k is None else int(k))


def _depth_to_space(call: NodeCall, x: Any) -> Any:
    n, c, *sizes = x.shape
    b, num = call["blocksize"], len(sizes)
    spatial = tuple(range(num))
    if call["mode"] == "CRD":
        x = x.reshape(n, c // b**num, *(b,) * num, *sizes)
        order = (0, 1, *(d for k in spatial for d in (2 + num + k, 2 + k)))
    else:
        x = x.reshape(n, *(b,) * num, c // b**num, *sizes)
        order = (0, 1 + num, *(d for k in spatial for d in (2 + num + k, 1 + k)))
    return x.transpose(order).reshape(n, c // b**num, *(s * b for s in sizes))


def _space_to_depth(call: NodeCall, x: Any) -> Any:
    n, c, *sizes = x.shape
    b, num = call["blocksize"], len(sizes)
    x = x.reshape(n, c, *(d for s in sizes for d in (s // b, b)))
    blocks, rest = ([2 + 2 * k + part for k in range(num)] for part in (1, 0))
    order = (0, 1, *blocks, *rest) if call["mode"] == "CRD" else (0, *blocks, 1, *rest)
    return x.transpose(order).reshape(n, c * b**num, *(s // b for s in sizes))


def _center_crop_pad(call: NodeCall, x: Any, shape: Any) -> Any:
    axes = axes_of(call, None, jnp.ndim(x)) or range(jnp.ndim(x))
    for axis, size in zip(axes, numbers(shape), strict=True):
        more = size - x.shape[axis]
        if more < 0:
            x = lax.slice_in_dim(x, -more // 2, -more // 2 + size, axis=axis)
        else:
            x = jnp.pad(x, [(more // 2, more - more // 2) if d == axis else (0, 0) for d in range(x.ndim)])
    return x


def _reverse_sequence(call: NodeCall, x: Any, lengths: Any) -> Any:
    """Of each batch the first elements, as many as its length says, in reverse."""
    time = call["time_axis"]
    steps = jnp.arange(x.shape[time], dtype=jnp.int32)[:, None]
    ends = lengths.astype(jnp.int32)[None]
    order = jnp.where(steps < ends, ends - 1 - steps, steps)
    order = order if time == 0 else order.T
    order = order.reshape(order.shape + (1,) * (x.ndim - 2))
    return jnp.take_along_axis(x, order, axis=time)


def _dropout(call: NodeCall, x: Any, ratio: Any = None, training: Any = None) -> Any:
    if training is not None and bool(training) and (ratio is None or float(ratio) != 0):
        raise Refused("training draws random numbers")
    return x, jnp.ones(jnp.shape(x), bool if call.since >= 10 else x.dtype)


ROWS: dict[str, OpRow] = {
    "CenterCropPad": OpRow(_center_crop_pad, (1,)),
    "Concat": OpRow(_concat),
    "Constant": OpRow(_constant),
    "ConstantOfShape": OpRow(_constant_of_shape, (0,)),
    "DepthToSpace": OpRow(_depth_to_space),
    "Dropout": OpRow(_dropout, (1, 2)),
    "Expand": OpRow(_expand, (1,)),
    "EyeLike": OpRow(_eye_like),
    "Flatten": OpRow(_flatten),
    "Pad": OpRow(_pad, (1, 3)),
    "Range": OpRow(_range, (0, 1, 2)),
    "Reshape": OpRow(_reshape, (1,)),
    "ReverseSequence": OpRow(_reverse_sequence),
    "Shape": OpRow(_shape),
    "Size": OpRow(_size),
    "Slice": OpRow(_slice, (1, 2, 3, 4)),
    "SpaceToDepth": OpRow(_space_to_depth),
    "Split": OpRow(_split, (1,)),
    "Squeeze": OpRow(_squeeze, (1,)),
    "Tile": OpRow(_tile, (1, 2)),
    "Transpose": OpRow(_transpose),
    "Trilu": OpRow(_triangle, (1,)),
    "Unsqueeze": OpRow(_unsqueeze, (1,)),
}
