"""Contractions of arrays with one axis per loop variable, as the matrix engine computes them."""

from collections.abc import Sequence
from math import prod

import numpy as np

from hlo2tx8.device.definition import ne_rules
from hlo2tx8.device.formats import Format
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.dialects.xla_dot import PASSES
from hlo2tx8.interpreter.buffers import Array

FORMATS = {"int8": Format.INT8, "float16": Format.FP16, "bfloat16": Format.BF16, "float32": Format.TF32}
"""What the engine multiplies elements of a type as."""


LARGEST = np.finfo(np.float32).max


def contracted(init: Array, row: Array, column: Array, depth: Sequence[int], taps: int, parts: int) -> Array:
    """init + the sum of row * column over the axes `depth`, which have size 1 in the result; axes of size 1 are broadcast.

    `taps` are the axes of a window: behind each of them come its features, padded with zeros as in the matrix engine's layout. f32
    elements are multiplied as `parts` narrower numbers each.
    """
    own = tuple(1 if axis in depth else size for axis, size in enumerate(np.broadcast_shapes(row.shape, column.shape)))
    shape = np.broadcast_shapes(init.shape, own)
    sizes = [np.broadcast_shapes(row.shape, column.shape)[axis] for axis in depth]
    kinds = [_kind(axis, shape, row, column) for axis in range(len(shape))]
    found = ([axis for axis, kind in enumerate(kinds) if kind == name] for name in ("batch", "row", "column"))
    of_batch, of_rows, of_columns = found
    left = _matrix(row, shape, depth, sizes, of_batch, of_rows)
    right = _matrix(column, shape, depth, sizes, of_batch, of_columns)
    rest = [axis for axis, kind in enumerate(kinds) if kind == "none"]  # the depth too
    order = [*rest, *of_batch, *of_rows, *of_columns]
    fmt = FORMATS[str(row.dtype)]
    if taps:
        left, right = (_padded(matrix, prod(sizes[taps:]), fmt) for matrix in (left, right))
    sums = np.transpose(np.broadcast_to(init, shape), order).reshape(left.shape[0], left.shape[1], right.shape[1])
    if parts > 1:
        fmt, sides = Format.BF16, [_parts(matrix, parts) for matrix in (left, right)]
    else:
        sides = [[left], [right]]
    for i, j in PASSES[parts]:
        batches = zip(sides[0][i], sides[1][j], sums, strict=True)
        sums = np.stack([ne_rules.accumulate(a, b, psum, fmt) for a, b, psum in batches])
    ordered = sums.reshape([shape[axis] for axis in order])
    return np.transpose(ordered, np.argsort(order)).astype(init.dtype, copy=False)


def _parts(x: Array, count: int) -> list[Array]:
    """Numbers with the bits of BF16 that add up to x, the largest first, each cut off, and the first one of x without
    infinities, of which the others are parts."""
    found = [_cut_off(x)]
    rest = limited = np.clip(x, -LARGEST, LARGEST)
    for _ in range(count - 1):
        rest = rest - _cut_off(rest)
        found.append(_cut_off(rest))
    return [*found, _cut_off(limited)]


def _cut_off(x: Array) -> Array:
    cut = (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isnan(x), x, cut)


def _padded(matrix: Array, features: int, fmt: Format) -> Array:
    """[batch, own, depth] with zeros behind the features of each element of a window."""
    runs = matrix.reshape(*matrix.shape[:2], -1, features)
    width = Blocked(fmt, 1, 1, features).aligned_channels
    return np.pad(runs, ((0, 0), (0, 0), (0, 0), (0, width - features))).reshape(*matrix.shape[:2], -1)


def _kind(axis: int, shape: Sequence[int], row: Array, column: Array) -> str:
    if shape[axis] == 1:
        return "none"
    if row.shape[axis] > 1 and column.shape[axis] == 1:
        return "row"
    return "column" if column.shape[axis] > 1 and row.shape[axis] == 1 else "batch"


def _matrix(
    array: Array, shape: Sequence[int], depth: Sequence[int], sizes: Sequence[int], of_batch: Sequence[int], own: Sequence[int]
) -> Array:
    """[batch, own, depth]."""
    target = [shape[axis] if axis in (*of_batch, *own) else 1 for axis in range(len(shape))]
    for axis, size in zip(depth, sizes, strict=True):
        target[axis] = size
    rest = [axis for axis in range(len(shape)) if axis not in (*of_batch, *own, *depth)]
    ordered = np.transpose(np.broadcast_to(array, target), (*rest, *of_batch, *own, *depth))
    return ordered.reshape(prod(shape[axis] for axis in of_batch), prod(shape[axis] for axis in own), prod(sizes))
