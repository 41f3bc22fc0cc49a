"""Regions of a box: what a guard already says is not said again; constraints on several lanes."""

from itertools import product

import pytest

from hlo2tx8.indexing import Const, Dim, Interval, Sym, Variable, simplify_expr
from hlo2tx8.lower.vectorize.lane_access import LaneClip, LaneRegion, LaneSpace


def test_bounds_a_guard_has_are_dropped():
    rest = Const(100) - Dim(0)
    guard = LaneRegion((LaneClip(1, upper=(rest,)),))
    region = LaneRegion((LaneClip(0, lower=(Const(3),)), LaneClip(1, lower=(Const(1),), upper=(rest, Const(7)))))
    assert region.without(guard) == LaneRegion((LaneClip(0, lower=(Const(3),)), LaneClip(1, lower=(Const(1),), upper=(Const(7),))))
    assert guard.without(guard).is_whole


def test_other_bounds_of_the_same_lane_stay():
    region = LaneRegion((LaneClip(0, upper=(Const(5),)),))
    assert region.without(LaneRegion((LaneClip(0, upper=(Const(6),)),))) == region
    assert region.without(LaneRegion((LaneClip(1, upper=(Const(5),)),))) == region


def test_whole_turns_of_inner_lanes_are_one_lane():
    """8 * l0 + l1 <= 31 and >= 16 say what l0 may be; <= 30 does not."""
    space = LaneSpace((), (Variable(0, 5, "a"), Variable(0, 7, "b")))
    place = Sym(0) * 8 + Sym(1)
    assert space.region(((place, Interval(0, 31)),)) == LaneRegion((LaneClip(0, upper=(Const(4),)),))
    assert space.region(((place, Interval(16, 31)),)) == LaneRegion((LaneClip(0, lower=(Const(2),), upper=(Const(4),)),))
    assert space.region(((place - 32, Interval(0, 15)),)) == LaneRegion((LaneClip(0, lower=(Const(4),)),))
    assert not space.region(((place, Interval(0, 30)),)).is_box
    assert not space.region(((place, Interval(3, 31)),)).is_box


@pytest.mark.parametrize(("low", "high"), [(0, 11), (4, 19), (6, 23), (1, 30)])
def test_the_region_of_several_lanes_is_what_the_constraint_says(low, high):
    """Every lane of a box with two strides and a step that moves it."""
    space = LaneSpace((Variable(0, 2, "step"),), (Variable(0, 2, "a"), Variable(0, 1, "b"), Variable(0, 3, "c")))
    expr = Dim(0) * 4 + Sym(0) * 8 + Sym(1) * 4 + Sym(2)
    region = space.region(((expr, Interval(low, high)),))
    for step, *lanes in product(range(3), range(3), range(2), range(4)):
        is_inside = all(_value(e, step, lanes) in range(i.lo, i.hi + 1) for e, i in region.scattered)
        for clip in region.clips:
            is_inside &= all(lanes[clip.lane] >= _value(bound, step, lanes) for bound in clip.lower)
            is_inside &= all(lanes[clip.lane] < _value(bound, step, lanes) for bound in clip.upper)
        assert is_inside == (low <= _value(expr, step, lanes) <= high)


def _value(expr, step, lanes):
    found = simplify_expr(expr.substitute([Const(step)], [Const(lane) for lane in lanes]), [], [])
    assert isinstance(found, Const)
    return found.value


def test_bounds_of_quotients_of_the_same_variables() -> None:
    space = LaneSpace((Variable(0, 15, "tile"), Variable(0, 3, "turn")), (Variable(0, 8, "row"),))
    band = (Dim(0) * 4 + Dim(1)) % 8
    first = band * 7 - (band + 7) // 8 - (band + 1) // 8
    assert space.bounds(first + Sym(0)) == Interval(0, 55)
    assert space.bounds(space.simplify(first + Sym(0))) == Interval(0, 55)
