"""sort: rows along a dimension in the order of a comparator. hlo.sort_words: in that of their numbers."""

from collections.abc import Sequence

import numpy as np

from hlo2tx8.hlo.spec import Array, Attributes, Body, Kind, OpSpec, TensorLike


def sort(attributes: Attributes, _: tuple[TensorLike, ...], bodies: Sequence[Body], *arrays: Array) -> list[Array]:
    """The operands sorted along a dimension by a comparator. Elements of which it puts none in front of the other keep their order;
    those that it puts in front of each other, as LE does, change theirs, as with XLA:CPU."""
    if not arrays[0].ndim or 0 in arrays[0].shape:
        return [np.array(a) for a in arrays]
    dim = int(attributes["dimension"])
    rows = [np.moveaxis(a, dim, -1) for a in arrays]
    found = [np.empty(r.shape, r.dtype) for r in rows]
    n = rows[0].shape[-1]
    for row in np.ndindex(rows[0].shape[:-1]):
        pairs: list[Array] = []
        for values in (r[row] for r in rows):
            pairs += [np.broadcast_to(values[:, None], (n, n)), np.broadcast_to(values[None, :], (n, n))]
        before: Array = np.asarray(bodies[0](*pairs)[0], bool)
        earlier: Array = np.tri(n, k=-1, dtype=bool).T
        rank = np.sum(np.where(before == before.T, np.where(before, earlier.T, earlier), before), axis=0)
        for out, r in zip(found, rows, strict=True):
            out[row][rank] = r[row]
    return [np.ascontiguousarray(np.moveaxis(f, -1, dim)) for f in found]


def _unsorted_dimensions(attributes: Attributes, rank: int) -> tuple[int, ...]:
    return tuple(d for d in range(rank) if d != int(attributes["dimension"]))


def words_in_order(words: Sequence[Array], axis: int, is_descending: Array) -> list[Array]:
    """Tuples of numbers, one of each array, in order along an axis: the smallest first, or the largest where that is true."""
    order = np.lexsort(tuple(reversed(words)), axis=axis)
    rising = [np.take_along_axis(word, order, axis) for word in words]
    return [np.where(is_descending, np.flip(word, axis), word) for word in rising]


def sort_words(attributes: Attributes, _: tuple[TensorLike, ...], *words: Array) -> tuple[Array, ...]:
    """The tuples of each line along `dimension` in order."""
    dim, alternating = int(attributes["dimension"]), int(attributes["alternating"])
    shape = [n if d == alternating else 1 for d, n in enumerate(words[0].shape)]
    is_odd: Array = (np.arange(np.prod(shape)) % 2 == 1).reshape(shape)
    return tuple(words_in_order(words, dim, is_odd))


SPECS = (
    OpSpec("stablehlo.sort", Kind.HERO, body_reference=sort, batch_dimensions=_unsorted_dimensions),
    OpSpec("hlo.sort_words", Kind.HERO, sort_words),
)
