"""sort: rows along a dimension in the order of a comparator."""

from collections.abc import Sequence

import numpy as np

from hlo2tx8.hlo.spec import Array, Attributes, Body, Kind, OpSpec, TensorLike


def sort(attributes: Attributes, _: tuple[TensorLike, ...], bodies: Sequence[Body], *arrays: Array) -> list[Array]:
    """The operands sorted along a dimension by a comparator; elements that the comparator does not order keep their order."""
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
        rank = np.sum(before | (earlier & ~before.T), axis=0)
        for out, r in zip(found, rows, strict=True):
            out[row][rank] = r[row]
    return [np.ascontiguousarray(np.moveaxis(f, -1, dim)) for f in found]


def _unsorted_dimensions(attributes: Attributes, rank: int) -> tuple[int, ...]:
    return tuple(d for d in range(rank) if d != int(attributes["dimension"]))


SPECS = (OpSpec("stablehlo.sort", Kind.HERO, body_reference=sort, batch_dimensions=_unsorted_dimensions),)
