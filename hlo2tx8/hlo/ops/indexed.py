"""hlo.read_at and hlo.write_at: elements at an affine index plus offsets known at run time, each clamped."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo2tx8.hlo.spec import Array, Attributes, Body, Kind, Maps, OpSpec, Sample, TensorLike
from hlo2tx8.hlo.types import dtype
from hlo2tx8.indexing import Dim, Expr, IndexingMap, Sym, Variable


@dataclass(frozen=True)
class IndexedAccess:
    """Where an indexed op reads or writes: at map(d), plus along dims[k] the k-th run-time index, which is read at
    index_maps[k](d).

    The k-th index is clamped to 0..rooms[k], which keeps the access inside of the tensor.
    """

    map: IndexingMap
    index_maps: tuple[IndexingMap, ...]
    dims: tuple[int, ...]
    rooms: tuple[int, ...]

    @staticmethod
    def of(attributes: Attributes) -> "IndexedAccess":
        """The place that an op's attributes describe."""
        return IndexedAccess(*(attributes[name] for name in ("map", "index_maps", "dims", "rooms")))

    def moved(self) -> IndexingMap:
        """The map with one runtime variable per run-time index."""
        results: list[Expr] = list(self.map.results)
        for number, dim in enumerate(self.dims):
            results[dim] = results[dim] + Sym(len(self.map.ranges) + number)
        runtime = tuple(Variable(0, room) for room in self.rooms)
        return IndexingMap(self.map.dims, self.map.ranges, runtime, tuple(results))

    def maps(self) -> Maps:
        """The maps to the element and to each index."""
        return ((self.moved(),), *((m,) for m in self.index_maps))


def open_grid(shape: Sequence[int]) -> list[Array]:
    """An index array per dimension, which broadcast to the shape."""
    rank = len(shape)
    return [np.arange(n).reshape([n if i == d else 1 for i in range(rank)]) for d, n in enumerate(shape)]


def clamped(index: Array, room: int) -> Array:
    """The index in 0..room, as int64."""
    if index.dtype == np.uint64:
        return np.minimum(index, np.uint64(room)).astype(np.int64)
    return np.clip(index.astype(np.int64), 0, room)


def read(place: IndexedAccess, shape: Sequence[int], x: Array, *indices: Array) -> Array:
    """The elements of x at the place, for every index of an array of that shape."""
    if 0 in shape:
        return np.empty(tuple(shape), x.dtype)
    grid = open_grid(shape)
    coordinates, _ = place.map.evaluate(grid)
    for index, map, dim, room in zip(indices, place.index_maps, place.dims, place.rooms, strict=True):
        at, _ = map.evaluate(grid)
        coordinates[dim] = coordinates[dim] + clamped(np.asarray(index[tuple(at)]), room)
    return np.array(np.broadcast_to(x[tuple(coordinates)], tuple(shape)), order="C")


def read_at(attributes: Attributes, results: tuple[TensorLike, ...], x: Array, *indices: Array) -> Array:
    """x[map(d) + clamped indices]."""
    return read(IndexedAccess.of(attributes), results[0].shape, x, *indices)


def read_at_maps(attributes: Attributes, _: TensorLike, __: tuple[TensorLike, ...]) -> Maps:
    """(d0, d1){rt0} -> (d0 + rt0, d1) for the tensor, and the map of each index."""
    return IndexedAccess.of(attributes).maps()


def write_at(attributes: Attributes, results: tuple[TensorLike, ...], bodies: Sequence[Body], *operands: Array) -> list[Array]:
    """The first operands with the updates written at their places, or combined with what is there by the body if there is one."""
    place, count = IndexedAccess.of(attributes), len(results)
    found, updates = [np.array(x) for x in operands[:count]], operands[count : 2 * count]
    shape, in_order = updates[0].shape, tuple(attributes["in_order"])
    window = [1 if d in in_order else n for d, n in enumerate(shape)]
    for turn in np.ndindex(*(n if d in in_order else 1 for d, n in enumerate(shape))):
        grid = [g + t for g, t in zip(open_grid(window), turn, strict=True)]
        coordinates, _ = place.map.evaluate(grid)
        inside = True
        for index, map, dim, room in zip(operands[2 * count :], place.index_maps, place.dims, place.rooms, strict=True):
            at, _ = map.evaluate(grid)
            value = np.asarray(index[tuple(at)])
            moved = clamped(value, room)
            inside = inside and bool(np.all(value == moved))
            coordinates[dim] = coordinates[dim] + moved
        if not inside:
            continue
        where = tuple(np.broadcast_to(c, window) for c in coordinates)
        new = [np.broadcast_to(u[tuple(grid)], window) for u in updates]
        new = bodies[0](*(x[where] for x in found), *new) if bodies else new
        for x, value in zip(found, new, strict=True):
            x[where] = value
    return found


def _samples() -> tuple[Sample, ...]:
    """Two rows of 3 from [5, 3], each from where its index says."""
    place: dict[str, Any] = {
        "map": IndexingMap.from_shape([0, Dim(1)], (2, 3)),
        "index_maps": (IndexingMap.from_shape([Dim(0)], (2, 3)),),
        "dims": (0,),
        "rooms": (4,),
    }
    x, index = TensorLike((5, 3), dtype("float32")), TensorLike((2,), dtype("int32"))
    return (Sample((x, index), (TensorLike((2, 3), x.dtype),), place, (1,)),)


def _write(attributes: Attributes, results: tuple[TensorLike, ...], *operands: Array) -> tuple[Array, ...]:
    return tuple(write_at(attributes, results, (), *operands))


SPECS = (
    OpSpec("hlo.read_at", Kind.INDEXED, read_at, read_at_maps, samples=_samples),
    OpSpec("hlo.write_at", Kind.HERO, _write, body_reference=write_at),
)
