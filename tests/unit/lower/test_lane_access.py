"""Regions of a box: what a guard already says is not said again."""

from hlo2tx8.indexing import Const, Dim
from hlo2tx8.lower.lane_access import LaneClip, Region


def test_bounds_a_guard_has_are_dropped():
    rest = Const(100) - Dim(0)
    guard = Region((LaneClip(1, upper=(rest,)),))
    region = Region((LaneClip(0, lower=(Const(3),)), LaneClip(1, lower=(Const(1),), upper=(rest, Const(7)))))
    assert region.without(guard) == Region((LaneClip(0, lower=(Const(3),)), LaneClip(1, lower=(Const(1),), upper=(Const(7),))))
    assert guard.without(guard).is_whole


def test_other_bounds_of_the_same_lane_stay():
    region = Region((LaneClip(0, upper=(Const(5),)),))
    assert region.without(Region((LaneClip(0, upper=(Const(6),)),))) == region
    assert region.without(Region((LaneClip(1, upper=(Const(5),)),))) == region
