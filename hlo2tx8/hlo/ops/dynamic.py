"""Slices at runtime indices, and the dynamic_* forms whose result type is static."""

from collections.abc import Callable
from typing import Any

import numpy as np

from hlo2tx8.hlo.ops.constant import iota
from hlo2tx8.hlo.ops.forms import dense
from hlo2tx8.hlo.ops.reshape_maps import reshape_map
from hlo2tx8.hlo.ops.shaping import broadcast_in_dim, broadcast_map, reshape
from hlo2tx8.hlo.spec import Array, Attributes, Indexing, Kind, Maps, OpSpec, Sample, TensorLike
from hlo2tx8.hlo.types import dtype
from hlo2tx8.indexing import Dim, IndexingMap, Interval, Sym, Variable

Results = tuple[TensorLike, ...]


def _starts(indices: tuple[Array, ...], room: tuple[int, ...], size: tuple[int, ...]) -> list[int]:
    """Each index clamped so that the slice stays inside."""
    return [max(0, min(int(i), r - s)) for i, r, s in zip(indices, room, size, strict=True)]


def dynamic_slice(attributes: Attributes, _: Results, x: Array, *indices: Array) -> Array:
    """x[i : i + slice_sizes], the start clamped into range."""
    sizes = tuple(attributes["slice_sizes"])
    starts = _starts(indices, x.shape, sizes)
    return dense(x[tuple(slice(i, i + n) for i, n in zip(starts, sizes, strict=True))])


def dynamic_update_slice(_: Attributes, __: Results, x: Array, update: Array, *indices: Array) -> Array:
    """x with `update` written at the start, clamped into range."""
    starts = _starts(indices, x.shape, update.shape)
    out = x.copy()
    out[tuple(slice(i, i + n) for i, n in zip(starts, update.shape, strict=True))] = update
    return out


def _runtime(room: tuple[int, ...], size: tuple[int, ...]) -> tuple[Variable, ...]:
    return tuple(Variable(0, r - s) for r, s in zip(room, size, strict=True))


def dynamic_slice_maps(_: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
    """(d0){rt0} -> (d0 + rt0), rt0 in [0, room]; indices: ()."""
    identity = IndexingMap.identity(result.shape)
    rank = len(result.shape)
    sliced = IndexingMap(identity.dims, (), _runtime(operands[0].shape, result.shape), tuple(Dim(i) + Sym(i) for i in range(rank)))
    return ((sliced,), *((identity.with_results(()),) for _ in operands[1:]))


def dynamic_update_slice_maps(_: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
    """Operand: identity; update: (d0){rt0} -> (d0 - rt0) where that is inside the update; indices: ()."""
    identity = IndexingMap.identity(result.shape)
    update = operands[1]
    exprs = tuple(Dim(i) - Sym(i) for i in range(len(result.shape)))
    written = IndexingMap(identity.dims, (), _runtime(result.shape, update.shape), exprs)
    for expr, size in zip(exprs, update.shape, strict=True):
        written = written.with_constraint(expr, Interval(0, size - 1))
    return ((identity,), (written,), *((identity.with_results(()),) for _ in operands[2:]))


def _whole(operand: TensorLike, result: TensorLike) -> IndexingMap:
    """All elements of a small operand, whatever the result index."""
    return IndexingMap.from_shape([Sym(i) for i in range(len(operand.shape))], result.shape, operand.shape)


def _with_shape_operand(function: Callable[[Attributes, TensorLike, TensorLike], IndexingMap]) -> Indexing:
    def indexing(attributes: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
        return ((function(attributes, result, operands[0]),), (_whole(operands[1], result),))

    return indexing


def _dynamic_reshape(attributes: Attributes, results: Results, x: Array, _: Array) -> Array:
    return reshape(attributes, results, x)


def _dynamic_broadcast(attributes: Attributes, results: Results, x: Array, _: Array) -> Array:
    return broadcast_in_dim(attributes, results, x)


def _dynamic_iota(attributes: Attributes, results: Results, _: Array) -> Array:
    return iota(attributes, results)


def _iota_maps(_: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
    return ((_whole(operands[0], result),),)


def real_dynamic_slice(_: Attributes, __: Results, x: Array, start: Array, limit: Array, strides: Array) -> Array:
    """x[start:limit:stride] with bounds from rank-1 operands."""
    bounds: list[Any] = [np.asarray(a).tolist() for a in (start, limit, strides)]
    return dense(x[tuple(slice(*b) for b in zip(*bounds, strict=True))])


def _slice_samples() -> tuple[Sample, ...]:
    index, x = TensorLike((), dtype("int32")), TensorLike((5, 7), dtype("float32"))
    return (Sample((x, index, index), (TensorLike((2, 3), x.dtype),), {"slice_sizes": (2, 3)}, (1, 2)),)


def _update_samples() -> tuple[Sample, ...]:
    index, x = TensorLike((), dtype("int32")), TensorLike((5, 7), dtype("float32"))
    return (Sample((x, TensorLike((2, 3), x.dtype), index, index), (x,), {}, (2, 3)),)


SPECS = (
    OpSpec(
        "stablehlo.dynamic_slice",
        Kind.HERO,
        dynamic_slice,
        dynamic_slice_maps,
        samples=_slice_samples,
        linear=(0,),
        size_attributes=("slice_sizes",),
    ),
    OpSpec(
        "stablehlo.dynamic_update_slice",
        Kind.HERO,
        dynamic_update_slice,
        dynamic_update_slice_maps,
        samples=_update_samples,
        linear=(0, 1),
    ),
    OpSpec("stablehlo.real_dynamic_slice", Kind.HERO, real_dynamic_slice),
    OpSpec(
        "stablehlo.dynamic_reshape",
        Kind.HERO,
        _dynamic_reshape,
        _with_shape_operand(lambda _, result, operand: reshape_map(operand.shape, result.shape)),
    ),
    OpSpec(
        "stablehlo.dynamic_broadcast_in_dim",
        Kind.HERO,
        _dynamic_broadcast,
        _with_shape_operand(broadcast_map),
    ),
    OpSpec("stablehlo.dynamic_iota", Kind.HERO, _dynamic_iota, _iota_maps),
)
