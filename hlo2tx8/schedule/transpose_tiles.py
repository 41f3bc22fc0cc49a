"""Work split of a transpose: a step has a tile whose rows are contiguous runs of what is written and whose columns are of what is
read, so that both are transfers of long runs.

[4096, 4096] of transpose(x)        tiles of 64 rows, each 128 long, which read 128 rows of x, each 64 long
"""

from collections.abc import Sequence
from math import log2, prod

from hlo2tx8.partitioner.computation import SubgraphFunction
from hlo2tx8.partitioner.iteration_space import LINE_ELEMENTS, IterationSpace
from hlo2tx8.schedule.accesses import AccessAnalysis
from hlo2tx8.schedule.work_split import DEFAULT_STEP_ELEMENTS, WorkSplit, overlapping_elements, split_work

MIN_BOX_ELEMENTS = 256
"""Below this a tile's share of a transpose is not worth addressing by boxes."""


def turned_space(function: SubgraphFunction, accesses: AccessAnalysis) -> bool:
    """Does the loop over the function's roots read a tensor contiguously along another dimension than it writes?"""
    return bool(accesses.space(function).walks)


def split_tiles(function: SubgraphFunction, accesses: AccessAnalysis, step_elements: int = 0, work: int = 1) -> WorkSplit:
    """The split of a loop over the function's roots by such tiles, by contiguous runs where all is read in the order that is
    written; `step_elements` outputs per step at most (0: what fits), for each of which `work` elements are read."""
    space, num_tiles = accesses.space(function), accesses.target.rates.tiles
    limit = step_elements or accesses.step_elements(function)
    is_small = prod(space.shape) * work <= accesses.alone_elements(function)
    tile = () if is_small and prod(space.shape) <= limit else choose_tile(space, limit, num_tiles, work)
    if not tile:
        return accesses.split(function, step_elements, work)
    return split_work(space.shape, space.to_output, limit, num_tiles, work, box=tile)


def choose_tile(space: IterationSpace, step_elements: int, num_tiles: int, work: int = 1) -> tuple[int, ...]:
    """Elements of a tile along each dimension, about `step_elements` at most; () where contiguous runs do as well."""
    shape = space.shape
    if not space.walks or -(-prod(shape) // num_tiles) < MIN_BOX_ELEMENTS:
        return ()
    target = min(step_elements or DEFAULT_STEP_ELEMENTS, overlapping_elements(shape, num_tiles, work))
    return even_box(shape, target, (*space.walks, _written(shape)))


def _written(shape: Sequence[int]) -> tuple[int, ...]:
    """The dimensions, innermost first, along which a line is written."""
    found = [len(shape) - 1]
    while found[-1] > 0 and prod(shape[found[-1] :]) < LINE_ELEMENTS:
        found.append(found[-1] - 1)
    return tuple(found)


def even_box(shape: Sequence[int], target: int, walks: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Runs along each of these walks over dimensions, innermost first, that are equally long as far as they reach; what is left
    goes to the other dimensions, innermost first."""
    box, budget = [1] * len(shape), target
    order = sorted(dict.fromkeys(map(tuple, walks)), key=lambda walk: prod(shape[dim] for dim in walk))
    for position, walk in enumerate(order):
        run = 1 << int(log2(budget) / (len(order) - position))
        for dim in walk:
            if box[dim] == 1:
                box[dim] = _chunk(shape[dim], run)
                budget = max(1, budget // box[dim])
            run = max(1, -(-run // box[dim]))
            if box[dim] < shape[dim]:
                break
    taken = {dim for walk in order for dim in walk}
    for dim in [*(d for d in reversed(range(len(shape))) if d not in taken), *(dim for walk in order for dim in walk)]:
        if budget > 1 and box[dim] < shape[dim]:
            before, box[dim] = box[dim], _chunk(shape[dim], box[dim] * budget)
            budget = max(1, budget * before // box[dim])
    return tuple(box)


def _chunk(size: int, wanted: int) -> int:
    """About so many of the elements along a dimension, whole lines if it is cut: less than one is not cut."""
    count = 1 if size <= LINE_ELEMENTS else -(-size // wanted)
    chunk = -(-size // count)
    if count > 1 and chunk > LINE_ELEMENTS:
        chunk = min(size, -(-chunk // LINE_ELEMENTS) * LINE_ELEMENTS)
    return chunk
