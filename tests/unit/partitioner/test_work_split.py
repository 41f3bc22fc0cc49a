"""The chooser covers every element once, gives all tiles work, and writes contiguous runs."""

from math import prod

import numpy as np
import pytest

from hlo2tx8.indexing import Dim
from hlo2tx8.partitioner.iteration_space import IterationSpace
from hlo2tx8.schedule.transpose_tiles import MIN_BOX_ELEMENTS, choose_tile
from hlo2tx8.schedule.work_split import WorkSplit, split_work

SHAPES = [(), (1,), (5,), (64,), (1000,), (1 << 20,), (1000003,), (33, 100), (4, 4096), (3, 1_000_000), (7, 5, 3), (1000, 7, 3)]


def make(shape: tuple[int, ...], step_elements: int = 8192) -> WorkSplit:
    return split_work(shape, [Dim(i) for i in range(len(shape))], step_elements, 16)


def indices(split: WorkSplit) -> tuple[np.ndarray, np.ndarray]:
    """Row-major positions per (tile, step, lane), and where they are valid."""
    shape = [16, *(v.hi + 1 for v in split.iteration.ranges)]
    grid = list(np.indices(shape))
    results, mask = split.iteration.evaluate(grid[:1], grid[1:])
    linear = np.zeros(shape, np.int64)
    for result, size in zip(results, split.shape, strict=True):
        linear = linear * size + result
    mask = np.broadcast_to(mask, shape)
    return linear.reshape(*shape[:2], -1), mask.reshape(*shape[:2], -1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("step_elements", [100, 16384])
def test_covers_once_in_contiguous_steps(shape: tuple[int, ...], step_elements: int) -> None:
    split = make(shape, step_elements)
    linear, mask = indices(split)
    assert np.array_equal(np.sort(linear[mask]), np.arange(prod(shape)))
    valid = mask.sum(axis=2)
    for tile in range(16):
        for step in range(split.num_steps):
            run = linear[tile, step][mask[tile, step]]
            assert np.array_equal(run, np.arange(valid[tile, step]) + (run[0] if run.size else 0))


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if prod(shape) >= 1024])
def test_all_tiles_have_work(shape: tuple[int, ...]) -> None:
    _, mask = indices(make(shape))
    assert mask.any(axis=(1, 2)).sum() >= 11
    assert mask.sum(axis=(1, 2)).max() <= 2.2 * prod(shape) / 16


@pytest.mark.parametrize("shape", [(4096, 4096), (64, 96), (33, 47), (1003, 1000), (20, 160, 170), (7, 5, 41), (1, 500), (5000, 3)])
@pytest.mark.parametrize("walks", [((0,),), ((1,),), ((0,), (1,)), ((0, 1),), ((1, 0),)])
@pytest.mark.parametrize("step_elements", [0, 100])
def test_boxes_of_a_transpose_cover_once_and_reach_both_ways(
    shape: tuple[int, ...], walks: tuple[tuple[int, ...], ...], step_elements: int
) -> None:
    walks = tuple(walk for walk in walks if max(walk) < len(shape) - 1)
    space = IterationSpace(shape, tuple(Dim(i) for i in range(len(shape))), walks=walks)
    box = choose_tile(space, step_elements, 16)
    if not walks or prod(shape) < 16 * MIN_BOX_ELEMENTS:
        assert box == ()  # one contiguous range does as well
        return
    split = split_work(shape, [Dim(i) for i in range(len(shape))], step_elements, 16, box=box)
    if prod(shape) < 1 << 20:
        linear, mask = indices(split)
        assert np.array_equal(np.sort(linear[mask]), np.arange(prod(shape)))
    assert prod(box) <= 2 * (step_elements or 8192)
    for walk in (*walks, (len(shape) - 1,)):
        run, most = (prod(sizes[dim] for dim in walk) for sizes in (box, shape))
        assert 2 * run >= min(most, 4 if step_elements else 8)


def test_gelu_split_reads_as_expected() -> None:
    split = make((6 * 512 * 4096,))
    assert str(split.map).startswith("(tile)[step, lane] -> (tile * 786432 + step * 8192 + lane), domain: tile in")
    assert split.num_steps == 96


def test_a_tiles_share_is_cut_into_steps_that_overlap() -> None:
    assert make((6 * 64 * 512,)).num_steps == 6
    assert make((16 * 2048,)).num_steps == 2
    assert make((16 * 1000,)).num_steps == 1
    assert make((33, 100)).num_steps == 1


@pytest.mark.parametrize(("shape", "alone", "tiles"), [((32, 32), 0, 16), ((32, 32), 1024, 1), ((32, 32), 1000, 16), ((), 1024, 1)])
def test_few_elements_are_one_tiles(shape: tuple[int, ...], alone: int, tiles: int) -> None:
    split = split_work(shape, [Dim(i) for i in range(len(shape))], 8192, 16, alone=alone)
    _, mask = indices(split)
    assert np.count_nonzero(mask.any(axis=(1, 2))) == tiles
