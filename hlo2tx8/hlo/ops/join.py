"""hlo.join_at: updates joined, one after the other, with the columns that their places name."""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from hlo2tx8.hlo.spec import Array, Attributes, Body, Kind, OpSpec, TensorLike

Combine = Callable[[Array, Array], Array]


def joined_at(init: Array, places: Array, updates: Array, axis: int, along: int, combine: Combine) -> Array:
    """The first array with the updates joined in order of the axis `along`, in which it has size 1, at their places on `axis`, in
    which the others have size 1; all of equal rank, axes of size 1 are broadcast. Places that are none are left out."""
    rest = [np.take(array, [0], along) for array in (places, updates)]
    shape = np.broadcast_shapes(init.shape, *(array.shape for array in rest))
    found = np.array(np.broadcast_to(init, shape))
    line = [1 if d == axis else n for d, n in enumerate(shape)]
    for turn in range(max(places.shape[along], updates.shape[along])):
        place, update = (np.broadcast_to(_turn(array, turn, along), line) for array in (places, updates))
        is_inside = (place >= 0) & (place < shape[axis])
        at = np.where(is_inside, place, 0).astype(np.int64)
        old = np.take_along_axis(found, at, axis)
        np.put_along_axis(found, at, np.where(is_inside, combine(old, update), old), axis)
    return found


def _turn(array: Array, turn: int, along: int) -> Array:
    return np.take(array, [min(turn, array.shape[along] - 1)], along)


def join_at(attributes: Attributes, results: tuple[TensorLike, ...], bodies: Sequence[Body], *operands: Array) -> list[Array]:
    """The first operand with the updates of its lines joined by the body, or in the place of what is there."""
    shape = results[0].shape
    lines, size, columns = lines_of(attributes, shape)
    init, places, updates = operands[0].reshape(lines, size, columns, 1), operands[1].reshape(lines, 1, 1, -1), operands[2]
    combine: Combine = (lambda old, new: bodies[0](old, new)[0]) if bodies else lambda old, new: new
    updates = np.swapaxes(updates.reshape(lines, 1, -1, columns), 2, 3)
    return [joined_at(init, places, updates, 1, 3, combine).reshape(shape)]


def lines_of(attributes: Attributes, shape: Sequence[int]) -> tuple[int, int, int]:
    """How many lines, places and columns."""
    first, last = int(attributes["places"]), int(attributes["columns"])
    return prod(shape[:first]), prod(shape[first:last]), prod(shape[last:])


def _replace(attributes: Attributes, results: tuple[TensorLike, ...], *operands: Array) -> tuple[Array, ...]:
    return tuple(join_at(attributes, results, (), *operands))


SPECS = (OpSpec("hlo.join_at", Kind.HERO, _replace, body_reference=join_at),)
