"""Indexing maps of reshape and bitcast: through the row-major position, in groups of dimensions that do not depend on each
other.
"""

from collections.abc import Sequence
from math import prod

from hlo2tx8.hlo.spec import TensorLike
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, delinearize, linearize


def reshape_exprs(dims: Sequence[Expr], result: Sequence[int], operand: Sequence[int]) -> list[Expr]:
    """Operand indices of the element at `dims` of the result: both shapes read row-major.

    [8, 4] from [4, 2, 4]: ((d0 floordiv 2), (d0 mod 2), d1); the unchanged 4 is a group of its own.
    """
    exprs: list[Expr] = []
    for group, own in _groups(tuple(result), tuple(operand)):
        sizes = [result[i] for i in group]
        wanted = [operand[i] for i in own]
        if [n for n in sizes if n != 1] == [n for n in wanted if n != 1]:
            source = iter([dims[i] for i in group if result[i] != 1])
            exprs += [next(source) if n != 1 else Const(0) for n in wanted]
        else:
            exprs += delinearize(linearize([dims[i] for i in group], sizes), wanted)
    return exprs


def _groups(result: tuple[int, ...], operand: tuple[int, ...]) -> list[tuple[range, range]]:
    """The finest split of both shapes into consecutive dimensions with equal products."""
    if 0 in result or 0 in operand:
        return [(range(len(result)), range(len(operand)))]
    groups: list[tuple[range, range]] = []
    i = j = 0
    while i < len(result) or j < len(operand):
        first, second = i, j
        left, right = 1, 1
        i, left = (i + 1, result[i]) if i < len(result) else (i, left)
        j, right = (j + 1, operand[j]) if j < len(operand) else (j, right)
        while left != right:
            if left < right:
                left, i = left * result[i], i + 1
            else:
                right, j = right * operand[j], j + 1
        groups.append((range(first, i), range(second, j)))
    return groups


def reshape_map(operand: Sequence[int], result: Sequence[int]) -> IndexingMap:
    """Result index → operand index with the same row-major position."""
    if 0 in result or not operand:
        return IndexingMap.from_shape([Const(0)] * len(operand), result)
    dims = [Dim(i) for i in range(len(result))]
    return IndexingMap.from_shape(reshape_exprs(dims, result, operand), result).simplify()


def bitcast_map(operand: TensorLike, result: TensorLike) -> IndexingMap:
    """Result index → operand index at the same place of the buffer, each through its own layout."""
    source = _major_to_minor(operand)
    target = _major_to_minor(result)
    if prod(result.shape) == 0 or not operand.shape:
        return IndexingMap.from_shape([Const(0)] * len(operand.shape), result.shape)
    physical = reshape_exprs([Dim(d) for d in target], [result.shape[d] for d in target], [operand.shape[d] for d in source])
    exprs: list[Expr] = [Const(0)] * len(source)
    for expr, dim in zip(physical, source, strict=True):
        exprs[dim] = expr
    return IndexingMap.from_shape(exprs, result.shape).simplify()


def _major_to_minor(tensor: TensorLike) -> tuple[int, ...]:
    return tuple(reversed(tensor.layout)) if tensor.layout is not None else tuple(range(len(tensor.shape)))
