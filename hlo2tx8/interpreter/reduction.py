"""Reduction of arrays along an axis, with a combiner of scalars: halves are combined until one element is left."""

from collections.abc import Callable, Sequence

import numpy as np

from hlo2tx8.interpreter.buffers import Array

Combine = Callable[[Sequence[Array]], Sequence[Array]]


def halved(arrays: Sequence[Array], lanes: tuple[int, ...], axis: int, combine: Combine) -> list[Array]:
    """The arrays reduced along `axis` to one element each; `lanes` is the shape that they broadcast to.

    `combine` gets the first halves of all arrays and then the second halves, and returns the combined halves.
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
