"""Bands of images: what a band reads holds all that its rows need, and the first row of a band is an expression of its number."""

import numpy as np
import pytest

from hlo2tx8.indexing import Dim
from hlo2tx8.indexing.indexing_map import evaluate_expr
from hlo2tx8.schedule.bands import Bands, BandSplit, RowReads

WINDOWS = [
    RowReads(1, 0, 0, 24),
    RowReads(1, -1, 1, 24),
    RowReads(1, -2, 2, 24),
    RowReads(2, 0, 2, 48),
    RowReads(2, -1, 1, 48),
    RowReads(1, 0, 4, 28),
    RowReads(2, 0, 0, 47),
]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 8, 12, 24])
@pytest.mark.parametrize("reads", WINDOWS)
def test_rows_that_are_needed_are_there(count: int, reads: RowReads) -> None:
    bands = Bands.of(24, count)
    read = bands.read(reads)
    for k in range(count):
        rows = range(bands.starts[k], bands.starts[k] + bands.rows)
        needed = {reads.stride * row + offset for row in rows for offset in range(reads.first, reads.last + 1)}
        held = range(read.starts[k], read.starts[k] + read.rows)
        assert {row for row in needed if 0 <= row < reads.height} <= set(held)
        assert held[0] >= 0
        assert held[-1] < reads.height


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8, 12])
@pytest.mark.parametrize("reads", WINDOWS)
def test_starts_are_an_expression(count: int, reads: RowReads) -> None:
    bands = Bands.of(24, count).read(reads)
    start = bands.start_of(Dim(0))
    assert start is not None
    found = evaluate_expr(start, [np.arange(count)], [])
    assert np.broadcast_to(found, count).tolist() == list(bands.starts)


def test_uneven_starts_have_no_expression() -> None:
    assert Bands((0, 3, 5, 9, 12), 4, 16).start_of(Dim(0)) is None


def test_bands_of_two_readers_are_joined() -> None:
    plain = Bands.of(8, 4)
    windows = plain.read(RowReads(1, -1, 1, 8))
    assert windows == Bands((0, 1, 3, 4), 4, 8)
    assert plain.join(windows) == windows


def test_split_covers_each_element_once() -> None:
    shape = (3, 8, 5, 128)
    for count in (1, 2, 4):
        for tiles in (16, 3):
            bands = BandSplit(3, count, tiles)
            split = bands.split(shape, Bands.of(8, count), 64)
            lanes = (2, 8 // count, 5, 64)
            assert split.lane_shape == (lanes if bands.is_even else (1, *lanes)), "a lane says whether there is anything to do"
            assert split.iteration.is_bijection_onto(shape)
