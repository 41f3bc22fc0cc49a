"""Proof that a map writes every element of a shape exactly once.

Two kinds of map are proved, any other is tried out up to a limit:

    (t)[s, l] -> (t * 4096 + s * 64 + l)                               a mixed-radix number that counts up to the size
    (t)[s, l0, l1] -> (id floordiv 4 * 8 + l0, id mod 4 * 16 + l1)     a grid of boxes, cut off at the shape's borders
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from hlo2tx8.indexing.expr import Const, Dim, Expr, Interval, Sym
from hlo2tx8.indexing.indexing_map import Constraint, IndexingMap, Variable, linearize
from hlo2tx8.indexing.simplify import Simplifier

ENUMERATION_LIMIT = 1 << 22
"""Points of a domain that are tried out."""


def is_bijection(map: IndexingMap, shape: Sequence[int]) -> bool:
    """True if it is proved that every index of `shape` is the result of exactly one point of the map's domain; False if it is not
    so, or no proof was found.
    """
    if len(shape) != len(map.results):
        return False
    if prod(shape) == 0:
        return map.is_empty
    m = map.simplify()
    return _is_dense_linear(m, shape) or _is_grid_of_boxes(m, shape) or _is_enumerated(m, shape)


def _is_enumerated(m: IndexingMap, shape: Sequence[int]) -> bool:
    sizes = [v.hi - v.lo + 1 for v in (*m.dims, *m.syms)]
    if prod(sizes) > ENUMERATION_LIMIT:
        return False
    grid = np.indices(sizes, dtype=np.int64).reshape(len(sizes), -1)
    points = [g + v.lo for g, v in zip(grid, (*m.dims, *m.syms), strict=True)]
    results, mask = m.evaluate(points[: len(m.dims)], points[len(m.dims) :])
    mask = np.broadcast_to(mask, (prod(sizes),))
    linear = np.zeros(prod(sizes), np.int64)
    for result, n in zip(results, shape, strict=True):
        inside = (result >= 0) & (result < n)
        if not np.all(inside | ~mask):
            return False
        linear = linear * n + np.where(inside, result, 0)
    written = np.sort(linear[mask])
    return written.size == prod(shape) and bool(np.array_equal(written, np.arange(prod(shape))))


@dataclass(frozen=True)
class _Axis:
    """A result as position * size + lane; `lane` None: size 1."""

    position: Expr
    size: int
    lane: Sym | None


def _is_grid_of_boxes(m: IndexingMap, shape: Sequence[int]) -> bool:
    """Whether every result is an axis with a lane of its own, the positions are a bijection onto the grid of boxes, and
    constraints cut off what sticks out of the shape."""
    axes = [_axis(m, result) for result in m.results]
    lanes = [axis.lane for axis in axes if axis and axis.lane]
    if not lanes or len(set(lanes)) != len(lanes):
        return False
    counts = [-(-extent // axis.size) if axis else 0 for axis, extent in zip(axes, shape, strict=True)]
    constraints: list[Constraint] = []
    cut: list[int] = []
    for expr, interval in m.constraints:
        if not any(lane in expr.leaves() for lane in lanes):
            constraints.append((expr, interval))
            continue
        number = next((d for d, result in enumerate(m.results) if _is_border(expr, interval, result, shape[d])), None)
        if number is None:
            return False
        cut.append(number)
    positions: list[Expr] = []
    for number, (axis, extent) in enumerate(zip(axes, shape, strict=True)):
        if axis is None or (number not in cut and counts[number] * axis.size != extent):
            return False
        positions.append(axis.position)
        if number in cut:  # beyond the last box all of its lanes are cut off
            constraints.append((axis.position, Interval(0, counts[number] - 1)))
    ranges = tuple(Variable(0, 0) if Sym(i) in lanes else v for i, v in enumerate(m.ranges))
    grid = IndexingMap(m.dims, ranges, m.runtime, tuple(positions), tuple(constraints))
    return is_bijection(grid, counts)


def _axis(m: IndexingMap, result: Expr) -> _Axis | None:
    constant, terms = result.affine_terms()
    for term, factor in terms.items():
        if not isinstance(term, Sym) or factor != 1 or m.syms[term.index].lo:
            continue
        size = m.syms[term.index].hi + 1
        rest = [(t, f) for t, f in terms.items() if t != term]
        if constant % size == 0 and all(f % size == 0 and term not in t.leaves() for t, f in rest):
            position: Expr = Const(constant // size)
            for other, f in rest:
                position = position + other * (f // size)
            return _Axis(position, size, term)
    return _Axis(result, 1, None)


def _is_border(expr: Expr, interval: Interval, result: Expr, extent: int) -> bool:
    """Does the constraint say no more than 0 <= result < extent, at its upper end exactly that?"""
    constant, terms = (expr - result).affine_terms()
    return not terms and interval.lo <= constant and interval.hi == extent - 1 + constant


def _is_dense_linear(m: IndexingMap, shape: Sequence[int]) -> bool:
    """Whether the row-major position is a mixed-radix number over the variables that counts up to the size, at most cut off."""
    variables = (*m.dims, *m.syms)
    simplifier = Simplifier([v.interval for v in m.dims], [v.interval for v in m.syms])
    for result, n in zip(m.results[1:], shape[1:], strict=True):
        bounds = simplifier.bounds(result)
        if bounds.lo < 0 or bounds.hi >= n:
            return False
    linear = simplifier.simplify(linearize(m.results, shape))
    constant, terms = linear.affine_terms()
    leaves: list[Expr] = [*(Dim(i) for i in range(len(m.dims))), *(Sym(i) for i in range(len(m.syms)))]
    if any(t not in leaves for t in terms):
        return False
    base = constant + sum(v.lo * terms.get(leaf, 0) for leaf, v in zip(leaves, variables, strict=True))
    radix = sorted((terms.get(leaf, 0), v.hi - v.lo + 1) for leaf, v in zip(leaves, variables, strict=True) if v.hi > v.lo)
    weight = 1
    for factor, count in radix:
        if factor != weight:
            return False
        weight *= count
    if base != 0:
        return False
    if not m.constraints:
        return weight == prod(shape)
    # The only constraint may cut the count off at the size.
    if len(m.constraints) != 1 or weight < prod(shape):
        return False
    expr, interval = m.constraints[0]
    cut = simplifier.simplify(expr)
    if interval.lo > simplifier.bounds(cut).lo:
        return False
    if cut == linear:
        return interval.hi == prod(shape) - 1
    first = simplifier.simplify(m.results[0]) if shape else Const(0)
    return bool(shape) and cut == first and interval.hi == shape[0] - 1
