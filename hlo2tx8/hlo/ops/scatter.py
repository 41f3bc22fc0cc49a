"""scatter: updates that a tensor of indices places in an operand."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo2tx8.hlo.ops.indexed import IndexedAccess
from hlo2tx8.hlo.spec import Array, Attributes, Body, Kind, Maps, OpSpec, TensorLike
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap

Dims = tuple[int, ...]


def scatter_place(attributes: Attributes, operand: Dims, indices: Dims, updates: Dims) -> tuple[IndexedAccess, Dims]:
    """Where each update goes: one index per entry of scatter_dims_to_operand_dims; and the updates' window dimensions."""
    numbers: Any = attributes["scatter_dimension_numbers"]
    windows: Dims = tuple(numbers.update_window_dims)
    batch = [d for d in range(len(updates)) if d not in windows]
    of_index_dim: dict[int, Expr] = dict(
        zip([d for d in range(len(indices)) if d != numbers.index_vector_dim], map(Dim, batch), strict=True)
    )
    place: list[Expr] = [Const(0)] * len(operand)
    sizes = [1] * len(operand)
    kept = [d for d in range(len(operand)) if d not in (*numbers.inserted_window_dims, *numbers.input_batching_dims)]
    for dim, window in zip(kept, windows, strict=True):
        place[dim], sizes[dim] = Dim(window), updates[window]
    for dim, index_dim in zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
        place[dim] = of_index_dim[index_dim]
    moved: Dims = tuple(numbers.scatter_dims_to_operand_dims)
    index_maps: list[IndexingMap] = []
    for component in range(len(moved)):
        at = [of_index_dim[d] if d in of_index_dim else Const(component) for d in range(len(indices))]
        index_maps.append(IndexingMap.from_shape(at, updates))
    rooms = tuple(operand[d] - sizes[d] for d in moved)
    return IndexedAccess(IndexingMap.from_shape(place, updates), tuple(index_maps), moved, rooms), windows


def scatter(attributes: Attributes, results: tuple[TensorLike, ...], bodies: Sequence[Body], *operands: Array) -> list[Array]:
    """The inputs with every window of the updates, in order, combined by the body where the window lies inside as a whole."""
    count, numbers = len(results), attributes["scatter_dimension_numbers"]
    found = [np.array(x) for x in operands[:count]]
    indices, updates = operands[count], operands[count + 1 :]
    if numbers.index_vector_dim == indices.ndim:
        indices = indices[..., None]
    vectors = np.moveaxis(indices, numbers.index_vector_dim, -1)
    first = tuple(d for d in range(updates[0].ndim) if d not in numbers.update_window_dims)
    ordered = [np.transpose(u, (*first, *numbers.update_window_dims)) for u in updates]
    dims_of_batch = [d for d in range(indices.ndim) if d != numbers.index_vector_dim]
    aside = (*numbers.inserted_window_dims, *numbers.input_batching_dims)
    for turn in np.ndindex(*vectors.shape[:-1]):
        start = [0] * found[0].ndim
        for dim, value in zip(numbers.scatter_dims_to_operand_dims, vectors[turn].tolist(), strict=True):
            start[dim] = int(value)
        for dim, index_dim in zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
            start[dim] = turn[dims_of_batch.index(index_dim)]
        own = [np.expand_dims(u[turn], tuple(sorted(aside))) for u in ordered]
        sizes = own[0].shape
        if any(s < 0 or s + n > room for s, n, room in zip(start, sizes, found[0].shape, strict=True)):
            continue
        where = tuple(slice(s, s + n) for s, n in zip(start, sizes, strict=True))
        for x, new in zip(found, bodies[0](*(x[where] for x in found), *own), strict=True):
            x[where] = new
    return found


def scatter_update_maps(attributes: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
    """Updates [u0, u1] of rows: operand (d0, d1){rt0} -> (rt0, d1), scatter indices (d0, d1) -> (d0, 0), updates: the identity."""
    count = len(operands) // 2
    updates = operands[-1].shape
    place, _ = scatter_place(attributes, result.shape, operands[count].shape, updates)
    identity = IndexingMap.identity(updates)
    return (*((place.moved(),) for _ in range(count)), place.index_maps, *((identity,) for _ in range(count)))


SPECS = (OpSpec("stablehlo.scatter", Kind.HERO, ulp=1, body_reference=scatter, update_indexing=scatter_update_maps),)
