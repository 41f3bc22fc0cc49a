"""Joining arrays along an axis with a combiner of scalars, by halves."""

from collections.abc import Callable, Sequence

import numpy as np

from hlo2tx8.interpreter.buffers import Array

Combine = Callable[[Sequence[Array]], Sequence[Array]]


def halved(arrays: Sequence[Array], lanes: tuple[int, ...], axis: int, combine: Combine) -> list[Array]:
    """The arrays, which are as large as `lanes` along the axis or the same everywhere, with one element there.

    `combine` gets the first halves of all arrays, then the second ones.
    """
    shape = np.broadcast_shapes(lanes, *(array.shape for array in arrays))
    found, size = [np.broadcast_to(array, shape) for array in arrays], shape[axis]
    while size > 1:
        half = size // 2
        bounds = ((0, half), (half, 2 * half), (2 * half, size))
        first, second, rest = ([_part(array, axis, start, stop) for array in found] for start, stop in bounds)
        joined = combine([*first, *second])
        found = [np.concatenate([a, b], axis) for a, b in zip(joined, rest, strict=True)]
        size -= half
    return found


def _part(array: Array, axis: int, start: int, stop: int) -> Array:
    return array[(slice(None),) * axis + (slice(start, stop),)]
