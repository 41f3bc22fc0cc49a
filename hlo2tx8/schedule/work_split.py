"""Work split: which tile computes which elements of a tensor in which step, as an indexing map.

    (tile)[step, lane] -> (tile * 786432 + step * 8192 + lane)          one dimension of 12582912 elements

Every step writes a box of the iteration space: a contiguous run of it, unless the caller wants another. Boxes are numbered
tile * num_steps + step in row-major order, so a tile's boxes follow each other; or step * tiles + tile, if each tile's part of a
tensor is then the same in all steps, so that it is loaded once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from hlo2tx8.device.isa.forms import UNIT_ELEMENTS
from hlo2tx8.device.rates import Rates
from hlo2tx8.errors import LevelError
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Interval, Sym, Variable, delinearize

DEFAULT_STEP_ELEMENTS = 8192
MIN_CHUNK_ELEMENTS = UNIT_ELEMENTS
"""Below this a tensor is not worth splitting over more tiles: one vector unit of CT."""
MIN_STEP_ELEMENTS = 1024
"""Below this a tile's share is not worth splitting into more steps: starting the engines costs more than they overlap."""
MOST_UNEVEN = 1.05
"""Times its share that a tile may have of rows; where it would have more, a step has a number of rows that divides the share."""
OVERLAPPING_STEPS = 6
"""Steps a tile's share is cut into, if they stay large enough: while one is loaded, one is computed, one is stored, and
little is left before the first and behind the last."""


MOST_ALONE_ELEMENTS = 2048
"""More are shared in any case: they take a tile too long to load and to store."""


@dataclass(frozen=True)
class Residence:
    """Of a product that is a phase of several, whose results stay with the tiles that make them: numbers of the `operands` that
    stay; does its own result (`keeps_result`)? What stays takes `kept_bytes` of a tile, a panel has `most_depth` products.
    `is_by_rows`: it may be computed in steps of rows, and nothing that stays is multiplied. Tiles make their rows in `row_steps`
    parts, in turns with those of another phase, if that is more than 1. `in_ring`: tiles multiply what they have made themselves,
    and sums go around the mesh row; all at once, one piece for each tile, if `is_at_once`. `rows_bytes`:
    what the rows take that it multiplies if each tile has those of its mesh row."""

    operands: frozenset[int]
    keeps_result: bool
    kept_bytes: int
    most_depth: int = 0
    is_by_rows: bool = False
    row_steps: int = 1
    in_ring: bool = False
    is_at_once: bool = False
    rows_bytes: int = 0


@dataclass(frozen=True)
class Stays:
    """Numbers of a fusion's operands that may stay through the `turns` of the loop around it, in `kept_bytes` of a tile; its kernel
    has `spm_bytes` with them, beside what stays of others. `is_apart`: a group is better no group, as all its weights may stay."""

    operands: frozenset[int] = frozenset()
    kept_bytes: int = 0
    spm_bytes: int = 0
    turns: int = 1
    is_apart: bool = False


NOTHING = Stays()
"""Of what is in no loop."""


@dataclass(frozen=True)
class Target:
    """What splitting work needs to know: the chip's rates, and the wanted elements of the output per step (0: the split's
    choice); `meeting`: cycles that it takes to meet the tiles of other work, 0
    if there is none; `feeds_batches`: do dots read results batch by batch? `is_searched`: are all ways to compute a kernel wanted,
    not only those that are estimated to be good? `residence`: what stays with tiles, if the work is a phase of products;
    `rows_bytes`: what the rows take that the first of these multiplies, if each tile has those of its mesh row; `is_joined`: are
    kernels judged and timed as a part of larger ones? `stays`: what a loop around reads again in each turn."""

    rates: Rates
    step_elements: int = 0
    meeting: int = 0
    feeds_batches: bool = False
    is_searched: bool = False
    residence: Residence | None = None
    rows_bytes: int = 0
    is_joined: bool = False
    stays: Stays = NOTHING


@dataclass(frozen=True)
class WorkSplit:
    """`map`: (tile)[step, lanes...] -> output index; `iteration`: the same onto the iteration space.

    `num_lanes` trailing range variables are the lanes of one step, along `lane_dims` of the iteration space of that `shape`.
    `in_channel_blocks`: the last lanes are channels, and vectors lie in blocks of them. Each of `others` maps an output index of a
    step to a further one, whose element the step computes too.
    """

    map: IndexingMap
    iteration: IndexingMap
    shape: tuple[int, ...]
    num_steps: int
    lane_shape: tuple[int, ...]
    lane_dims: tuple[int, ...] = ()
    in_channel_blocks: bool = False
    others: tuple[IndexingMap, ...] = ()

    @property
    def num_lanes(self) -> int:
        return len(self.lane_shape)

    @property
    def step_elements(self) -> int:
        """Elements of the output in one full step of one tile."""
        return prod(self.lane_shape)

    def verify(self) -> None:
        """Raise LevelError unless every element of the iteration space is computed exactly once."""
        if not self.iteration.is_bijection_onto(self.shape):
            raise LevelError("E1006", f"work split {self.iteration} is no bijection onto {list(self.shape)}")


def choose_box(
    shape: Sequence[int], step_elements: int, num_tiles: int, work: int = 1, alone: int = 0, least_step: int = MIN_STEP_ELEMENTS
) -> tuple[int, ...]:
    """Elements of one step along each dimension, a contiguous run of the row-major space: about `step_elements` at most, that give
    every tile work, in steps that overlap.

    `work`: elements that are read for each; up to `alone` of them are one tile's. Steps that overlap have `least_step` of them.
    """
    limit = step_elements or DEFAULT_STEP_ELEMENTS
    if prod(shape) * work <= alone and prod(shape) <= limit:
        return tuple(shape)
    least = max(1, MIN_CHUNK_ELEMENTS // work)
    overlapping = overlapping_elements(shape, num_tiles, work, least_step)
    return _contiguous_box(shape, limit, overlapping, num_tiles, least)


def overlapping_elements(shape: Sequence[int], num_tiles: int, work: int = 1, least_step: int = MIN_STEP_ELEMENTS) -> int:
    """Elements of a step such that a tile has several of them, which overlap, if they stay large enough."""
    share = max(-(-prod(shape) // num_tiles), MIN_CHUNK_ELEMENTS // work, 1)
    return min(share, max(share // OVERLAPPING_STEPS, least_step // work, 1))


def _contiguous_box(shape: Sequence[int], limit: int, overlapping: int, num_tiles: int, least: int) -> tuple[int, ...]:
    """Some coordinates of one dimension, and all of the dimensions inside it."""
    target = min(limit, overlapping)
    dim, inner = len(shape) - 1, 1
    while dim > 0 and inner * shape[dim] <= target:
        inner *= shape[dim]
        dim -= 1
    size = shape[dim]
    if prod(shape[:dim]) > 1:
        count = -(-size // max(1, target // inner))
    elif inner * size <= least:
        count = 1
    else:
        rows = -(-size // num_tiles)
        steps = max(-(-rows // max(1, limit // inner)), rows * inner // overlapping, 1)
        count = min(size, num_tiles * steps)
    chunk = -(-size // count)
    if inner == 1 and least < chunk < size:
        chunk = min(size, -(-chunk // least) * least)
    elif inner == 1:
        chunk = min(size, max(chunk, least))
    if prod(shape[:dim]) == 1 and size % num_tiles == 0:  # no step has less than others
        share = size // num_tiles
        if inner > 1:
            chunk = next((n for n in range(chunk, chunk // 2, -1) if share % n == 0), chunk)
        elif least == 1 and -(-size // (chunk * num_tiles)) * chunk > MOST_UNEVEN * share:
            near = (*range(chunk, min(limit, chunk * 3 // 2) + 1), *range(chunk - 1, chunk // 2, -1))
            chunk = next((n for n in near if share % n == 0), chunk)
    elif prod(shape[:dim]) == 1 and inner == least == 1:
        share = -(-size // num_tiles)
        if -(-share // chunk) * chunk > MOST_UNEVEN * share:
            taken = {n: -(-share // n) * n for n in range(chunk, min(limit, chunk * 3 // 2) + 1)}
            chunk = max((n for n, own in taken.items() if own <= MOST_UNEVEN * min(taken.values())), default=chunk)
    return (*(1 for _ in shape[:dim]), chunk, *shape[dim + 1 :])


def split_work(
    shape: Sequence[int],
    to_output: Sequence[Expr],
    step_elements: int,
    num_tiles: int,
    work: int = 1,
    box: Sequence[int] = (),
    alone: int = 0,
    *,
    by_turns: bool = False,
) -> WorkSplit:
    """The split of a non-empty iteration space; `to_output` are the output's coordinates over its `Dim`s, `work` and `alone` as
    in `choose_box`, which chooses the `box` of a step if none is given. Tiles have boxes that follow each other, or take turns.

    Raises LevelError if the result is not provably a bijection onto the space.
    """
    shape = tuple(shape) or (1,)
    box = tuple(box) or choose_box(shape, step_elements, num_tiles, work, alone)
    counts = tuple(-(-size // chunk) for size, chunk in zip(shape, box, strict=True))
    num_chunks = prod(counts)
    num_steps = -(-num_chunks // num_tiles)
    chunk_id: Expr = Sym(0) * num_tiles + Dim(0) if by_turns else Dim(0) * num_steps + Sym(0)
    first = next((dim for dim, chunk in enumerate(box) if chunk > 1), len(shape) - 1)
    lanes = [dim for dim in range(first, len(shape)) if box[dim] > 1 or dim == first]
    cut = [dim for dim, count in enumerate(counts) if count > 1]
    coordinates: list[Expr] = [Const(0)] * len(shape)
    for dim, position in zip(cut, delinearize(chunk_id, [counts[dim] for dim in cut]), strict=True):
        coordinates[dim] = position * box[dim]
    for lane, dim in enumerate(lanes):
        coordinates[dim] = coordinates[dim] + Sym(1 + lane)
    constraints: list[tuple[Expr, Interval]] = []
    ragged = [dim for dim in cut if counts[dim] * box[dim] != shape[dim]]
    is_over = num_steps * num_tiles != num_chunks
    if is_over and len(cut) == 1:
        ragged = cut  # the check of that coordinate holds the steps beyond the last chunk too
    elif is_over:
        constraints.append((chunk_id, Interval(0, num_chunks - 1)))
    constraints.extend((coordinates[dim], Interval(0, shape[dim] - 1)) for dim in ragged)
    lane_shape = tuple(box[dim] for dim in lanes)
    dims = (Variable(0, num_tiles - 1, "tile"),)
    ranges = (Variable(0, num_steps - 1, "step"), *_lane_variables(lane_shape))
    iteration = IndexingMap(dims, ranges, (), tuple(coordinates), tuple(constraints)).simplify()
    results = tuple(expr.substitute(iteration.results, ()) for expr in to_output)
    map = iteration.with_results(results)
    split = WorkSplit(map, iteration, shape, num_steps, lane_shape, tuple(lanes))
    split.verify()
    return split


def _lane_variables(lane_shape: tuple[int, ...]) -> tuple[Variable, ...]:
    if len(lane_shape) == 1:
        return (Variable(0, lane_shape[0] - 1, "lane"),)
    return tuple(Variable(0, size - 1, f"lane{i}") for i, size in enumerate(lane_shape))
