"""reduce: indexing, and folding many elements at once with any body."""

from collections.abc import Callable, Sequence

import numpy as np

from hlo2tx8.hlo.rounding import narrow, widen_to_double
from hlo2tx8.hlo.spec import Array, Attributes, Kind, Maps, OpSpec, TensorLike
from hlo2tx8.hlo.types import is_complex, is_float
from hlo2tx8.indexing import Dim, Expr, IndexingMap, Sym

Combine = Callable[[Sequence[Array], Sequence[Array]], Sequence[Array]]
"""The body on whole arrays: (left accumulators, right accumulators) → accumulators."""


def reduce_maps(attributes: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
    """Inputs: (d0)[s0] -> (d0, s0) with ranges over the reduced dimensions; initial values: ()."""
    reduced: tuple[int, ...] = tuple(sorted(attributes["dimensions"]))
    half = len(operands) // 2
    maps: list[tuple[IndexingMap, ...]] = []
    for operand in operands[:half]:
        exprs: list[Expr] = []
        kept = 0
        for i in range(len(operand.shape)):
            if i in reduced:
                exprs.append(Sym(reduced.index(i)))
            else:
                exprs.append(Dim(kept))
                kept += 1
        sizes = [operand.shape[i] for i in reduced]
        maps.append((IndexingMap.from_shape(exprs, result.shape, sizes),))
    scalar = IndexingMap.from_shape([], result.shape)
    return (*maps, *((scalar,) for _ in operands[half:]))


def rows(array: Array, dimensions: Sequence[int]) -> Array:
    """The array as [n, kept...]: the reduced dimensions become one axis in front, in row-major order."""
    kept = [i for i in range(array.ndim) if i not in dimensions]
    moved = np.transpose(array, (*sorted(dimensions), *kept))
    count = int(np.prod([array.shape[i] for i in dimensions], dtype=np.int64))
    return moved.reshape(count, *(array.shape[i] for i in kept))


def fold(arrays: Sequence[Array], initial: Sequence[Array], combine: Combine) -> list[Array]:
    """The arrays reduced along their first axis in a balanced tree; initial values are combined once, from the left."""
    level = [np.asarray(a) for a in arrays]
    count = level[0].shape[0]
    start = [np.broadcast_to(i, a.shape[1:]) for i, a in zip(initial, level, strict=True)]
    if count == 0:
        return [np.array(s) for s in start]
    while count > 1:
        even = count - count % 2
        merged = combine([a[0:even:2] for a in level], [a[1:even:2] for a in level])
        level = [np.concatenate([m, a[even:]]) for m, a in zip(merged, level, strict=True)]
        count = level[0].shape[0]
    return [np.asarray(a) for a in combine(start, [a[0] for a in level])]


def sum_rows(array: Array, initial: Array) -> Array:
    """initial + sum over the first axis: floats in float64, rounded once; integers wrap; pred is or."""
    kind = array.dtype
    if is_float(kind) or is_complex(kind):
        with np.errstate(all="ignore"):
            return narrow(widen_to_double(initial) + np.sum(widen_to_double(array), axis=0), kind)
    if kind.kind == "b":
        return np.logical_or(np.any(array, axis=0), initial)
    total = np.sum(array.astype(np.int64), axis=0) + initial.astype(np.int64)
    return narrow(total, kind)


SPECS = (OpSpec("stablehlo.reduce", Kind.REDUCE, None, reduce_maps, ulp=1),)
