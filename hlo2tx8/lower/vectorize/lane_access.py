"""How an index expression moves with the lanes of a box: strides of an access, clips of a constraint.

Within this file `Dim(i)` is the i-th variable that is fixed during one step (tile id, step counters) and `Sym(k)` is lane
dimension k of the box.
"""

from dataclasses import dataclass
from math import prod
from typing import TypeAlias, TypeVar

import numpy as np

from hlo2tx8.indexing import (
    Const,
    Dim,
    Expr,
    FloorDiv,
    IndexingMap,
    Interval,
    Mod,
    Sym,
    Variable,
    simplify_expr,
    split_terms,
)
from hlo2tx8.indexing.expr import from_terms
from hlo2tx8.indexing.indexing_map import evaluate_expr

MOST_POINTS = 4096
"""Values of variables that are looked at one by one."""

T = TypeVar("T")
Constraint: TypeAlias = tuple[Expr, Interval]


@dataclass(frozen=True)
class LaneAccess:
    """offset(l) = base + sum(strides[k] * lk), in elements; `base` has no lanes."""

    base: Expr
    strides: tuple[int, ...]


@dataclass(frozen=True)
class LaneClip:
    """lower <= lane < upper for one lane dimension; bounds are expressions without lanes, several bounds all hold."""

    lane: int
    lower: tuple[Expr, ...] = ()
    upper: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class LaneRegion:
    """The part of a box in which every clip and every `scattered` constraint (one that is no clip) holds.

    An `is_open` region is larger than the lanes meant: which of its lanes belong to it is not expressed.
    """

    clips: tuple[LaneClip, ...] = ()
    scattered: tuple[Constraint, ...] = ()
    is_open: bool = False

    @property
    def is_box(self) -> bool:
        return not self.scattered and not self.is_open

    @property
    def is_whole(self) -> bool:
        return not self.clips and self.is_box

    def clip_of(self, lane: int) -> LaneClip:
        return next((c for c in self.clips if c.lane == lane), LaneClip(lane))

    def intersect(self, other: "LaneRegion") -> "LaneRegion":
        lanes = sorted({c.lane for c in (*self.clips, *other.clips)})
        clips: list[LaneClip] = []
        for lane in lanes:
            mine, theirs = self.clip_of(lane), other.clip_of(lane)
            clips.append(LaneClip(lane, _union(mine.lower, theirs.lower), _union(mine.upper, theirs.upper)))
        return LaneRegion(tuple(clips), _union(self.scattered, other.scattered), self.is_open or other.is_open)

    def without(self, known: "LaneRegion") -> "LaneRegion":
        """The region without the bounds that `known` has too."""
        clips: list[LaneClip] = []
        for clip in self.clips:
            other = known.clip_of(clip.lane)
            lower = tuple(b for b in clip.lower if b not in other.lower)
            upper = tuple(b for b in clip.upper if b not in other.upper)
            if lower or upper:
                clips.append(LaneClip(clip.lane, lower, upper))
        return LaneRegion(tuple(clips), self.scattered, self.is_open)

    def behind(self, num_fixed: int, by: int) -> "LaneRegion":
        """The same region of a box with `by` more lane dimensions in front of its own."""
        dims, syms = [Dim(i) for i in range(num_fixed)], [Sym(by + k) for k in range(64)]
        clips = tuple(LaneClip(c.lane + by, c.lower, c.upper) for c in self.clips)
        return LaneRegion(clips, tuple((e.substitute(dims, syms), i) for e, i in self.scattered), self.is_open)

    def complement_within(self, context: "LaneRegion") -> "LaneRegion":
        """`context` without this region: a region again if this one adds one bound on one lane, else `context`, open."""
        new = [
            (clip.lane, is_upper, bound)
            for clip in self.clips
            for is_upper, bounds in ((False, clip.lower), (True, clip.upper))
            for bound in bounds
            if bound not in (context.clip_of(clip.lane).upper if is_upper else context.clip_of(clip.lane).lower)
        ]
        if len(new) != 1 or self.is_open or any(c not in context.scattered for c in self.scattered):
            return LaneRegion(context.clips, context.scattered, is_open=True)
        lane, is_upper, bound = new[0]
        rest = LaneClip(lane, lower=(bound,)) if is_upper else LaneClip(lane, upper=(bound,))
        return context.intersect(LaneRegion((rest,)))


def _union(a: tuple[T, ...], b: tuple[T, ...]) -> tuple[T, ...]:
    return a + tuple(x for x in b if x not in a)


@dataclass(frozen=True)
class LaneSpace:
    """The variables in scope of a box: those fixed during a step and the lanes."""

    fixed: tuple[Variable, ...]
    lanes: tuple[Variable, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(v.hi + 1 for v in self.lanes)

    def simplify(self, expr: Expr) -> Expr:
        return simplify_expr(expr, [Interval(v.lo, v.hi) for v in self.fixed], [Interval(v.lo, v.hi) for v in self.lanes])

    def bounds(self, expr: Expr) -> Interval:
        """An interval that encloses all values; quotients of the same few variables are looked at together, value by value:
        7 * d0 - (d0 + 1) floordiv 8 is not negative.
        """
        constant, terms = expr.affine_terms()
        quotients = [term for term in terms if isinstance(term, FloorDiv | Mod)]
        leaves = {leaf for term in quotients for leaf in term.leaves()}
        used = sorted(leaf.index for leaf in leaves if isinstance(leaf, Dim))
        sizes = [self.fixed[i].hi - self.fixed[i].lo + 1 for i in used]
        if len(quotients) < 2 or len(used) < len(leaves) or prod(sizes) > MOST_POINTS:
            return self.map_of((expr,)).bounds(expr)
        together = {term: factor for term, factor in terms.items() if term in leaves or term in quotients}
        points: list[np.ndarray] = [np.zeros((), np.int64)] * len(self.fixed)
        for i, grid in zip(used, np.ix_(*(np.arange(size) for size in sizes)), strict=True):
            points[i] = grid + self.fixed[i].lo
        values = evaluate_expr(from_terms(constant, together), points, ())
        rest = from_terms(0, {term: factor for term, factor in terms.items() if term not in together})
        other = self.map_of((rest,)).bounds(rest)
        return Interval(int(values.min()) + other.lo, int(values.max()) + other.hi)

    def largest(self, expr: Expr) -> int:
        """A bound of the size of its values, and of all dividends in it moved up to where they are not negative.

        Sums and products may wrap on the way to such a value.
        """
        bounds = self.bounds(expr)
        sizes = [-bounds.lo, bounds.hi]
        for term in expr.affine_terms()[1]:
            if isinstance(term, FloorDiv | Mod):
                dividend, divisor = self.bounds(term.lhs), self.bounds(term.rhs)
                sizes += [self.largest(term.lhs), dividend.hi - min(dividend.lo, 0) + divisor.hi]
        return max(sizes)

    def map_of(self, results: tuple[Expr, ...], with_lanes: bool = True) -> IndexingMap:
        """The map (fixed)[lanes] -> results over this space."""
        return IndexingMap(self.fixed, self.lanes if with_lanes else (), (), results, ())

    def access(self, offset: Expr) -> LaneAccess | None:
        """The strides of an offset, or None if it is not affine in the lanes."""
        leaves = tuple(Sym(k) for k in range(len(self.lanes)))
        split = split_terms(self.simplify(offset), leaves)
        if split is None:
            return None
        base, coefficients = split
        return LaneAccess(base, tuple(coefficients.get(leaf, 0) for leaf in leaves))

    def region(self, constraints: tuple[Constraint, ...]) -> LaneRegion:
        """The lanes that satisfy all constraints; constraints that always hold vanish."""
        region = LaneRegion()
        for expr, interval in constraints:
            simple = self.simplify(expr)
            bounds = self.bounds(simple)
            if interval.lo <= bounds.lo and bounds.hi <= interval.hi:
                continue
            region = region.intersect(self._one_constraint(simple, interval, bounds))
        return region

    def is_never(self, constraints: tuple[Constraint, ...]) -> bool:
        """Is there a constraint that holds nowhere?"""
        found = ((self.bounds(self.simplify(expr)), interval) for expr, interval in constraints)
        return any(bounds.hi < interval.lo or interval.hi < bounds.lo for bounds, interval in found)

    def _one_constraint(self, expr: Expr, interval: Interval, bounds: Interval) -> LaneRegion:
        access = self.access(expr)
        moving = [] if access is None else [k for k, s in enumerate(access.strides) if s]
        if access is not None and len(moving) > 1:
            return self._of_groups(expr, interval, bounds, access.strides)
        if access is None:
            return LaneRegion(scattered=((expr, interval),))
        check_lower, check_upper = bounds.lo < interval.lo, bounds.hi > interval.hi
        if not moving:
            # A guard of the whole step: lane 0 gets all of its lanes or none.
            extent = self.shape[0] if self.lanes else 1
            guards = [(access.base - interval.lo + 1) * extent] if check_lower else []
            guards += [(Const(interval.hi + 1) - access.base) * extent] if check_upper else []
            return LaneRegion((LaneClip(0, upper=tuple(self.simplify(g) for g in guards)),))
        lane = moving[0]
        stride = access.strides[lane]
        at_least, at_most = interval.lo - access.base, interval.hi - access.base
        if stride < 0:
            stride, at_least, at_most = -stride, -at_most, -at_least
            check_lower, check_upper = check_upper, check_lower
        lower = (self.simplify((at_least + (stride - 1)) // stride),) if check_lower else ()
        upper = (self.simplify(at_most // stride + 1),) if check_upper else ()
        return LaneRegion((LaneClip(lane, lower, upper),))

    def _of_groups(self, expr: Expr, interval: Interval, bounds: Interval, strides: tuple[int, ...]) -> LaneRegion:
        """A constraint on several lanes that begins and ends with whole turns of all but one: 8 * l0 + l1 <= 31 as l0 <= 3."""
        found = LaneRegion()
        sides = ((expr - interval.lo, True), (expr - (interval.hi + 1), False))
        for beyond, is_lower in sides:
            if bounds.lo >= interval.lo if is_lower else bounds.hi <= interval.hi:
                continue
            turns = (self.simplify(beyond // stride) for stride in sorted({abs(s) for s in strides if abs(s) > 1}, reverse=True))
            group = next((turn for turn in turns if self._num_moving(turn) == 1), None)
            if group is None:
                return LaneRegion(scattered=((expr, interval),))
            own = self.bounds(group)
            wanted = Interval(0, max(own.hi, 0)) if is_lower else Interval(min(own.lo, -1), -1)
            found = found.intersect(self._one_constraint(group, wanted, own))
        return found

    def _num_moving(self, expr: Expr) -> int:
        """How many lanes an expression goes along; 0 if it is not affine in them."""
        access = self.access(expr)
        return 0 if access is None else sum(stride != 0 for stride in access.strides)


def fixed_leaf(i: int) -> Expr:
    """The i-th variable that is fixed during a step."""
    return Dim(i)
