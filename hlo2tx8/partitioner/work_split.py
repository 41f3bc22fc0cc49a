"""Work split: which tile computes which elements of a tensor in which step, as an indexing map.

    (tile)[step, lane] -> (tile * 786432 + step * 8192 + lane)          one dimension of 12582912 elements

Every step writes a contiguous run of the row-major iteration space: `chunk` coordinates of one dimension and all
of the dimensions inside it. Chunks are numbered tile * num_steps + step, so a tile's chunks follow each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from hlo2tx8.errors import LevelError
from hlo2tx8.indexing import Dim, Expr, IndexingMap, Interval, Sym, Variable, delinearize

DEFAULT_STEP_ELEMENTS = 8192
MIN_CHUNK_ELEMENTS = 64
"""Below this a tensor is not worth splitting over more tiles: one vector unit of CT."""
MIN_STEP_ELEMENTS = 1024
"""Below this a tile's share is not worth splitting into more steps: starting the engines costs more than they overlap."""
OVERLAPPING_STEPS = 6
"""Steps a tile's share is cut into, if they stay large enough: while one is loaded, one is computed, one is stored, and
little is left before the first and behind the last."""


@dataclass(frozen=True)
class Target:
    """What splitting work needs to know: tiles of the chip, bytes of a tile's SPM that buffers may take, and the wanted
    elements of the output per step (0: the split's choice)."""

    tiles: int
    spm_bytes: int
    step_elements: int = 0


@dataclass(frozen=True)
class WorkSplit:
    """`map`: (tile)[step, lanes...] -> output index; `iteration`: the same onto the iteration space.

    `num_lanes` trailing range variables are the lanes of one step. `shape` is the iteration space.
    """

    map: IndexingMap
    iteration: IndexingMap
    shape: tuple[int, ...]
    num_steps: int
    lane_shape: tuple[int, ...]

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


@dataclass(frozen=True)
class Chunks:
    """How a row-major space is cut: `chunk` coordinates of dimension `dim`, with `count` chunks along it."""

    dim: int
    chunk: int
    count: int


def choose_chunks(shape: Sequence[int], step_elements: int, num_tiles: int) -> Chunks:
    """The largest contiguous run of at most about `step_elements` that gives every tile work, and steps that overlap."""
    share = max(-(-prod(shape) // num_tiles), MIN_CHUNK_ELEMENTS)
    overlapping = min(share, max(share // OVERLAPPING_STEPS, MIN_STEP_ELEMENTS))
    limit = step_elements or DEFAULT_STEP_ELEMENTS
    target = min(limit, overlapping)
    dim, inner = len(shape) - 1, 1
    while dim > 0 and inner * shape[dim] <= target:
        inner *= shape[dim]
        dim -= 1
    size = shape[dim]
    if prod(shape[:dim]) > 1:
        count = -(-size // max(1, target // inner))
    elif inner * size <= MIN_CHUNK_ELEMENTS:
        count = 1
    else:
        rows = -(-size // num_tiles)
        steps = max(-(-rows // max(1, limit // inner)), rows * inner // overlapping, 1)
        count = min(size, num_tiles * steps)
    chunk = -(-size // count)
    if inner == 1 and MIN_CHUNK_ELEMENTS < chunk < size:
        chunk = min(size, -(-chunk // MIN_CHUNK_ELEMENTS) * MIN_CHUNK_ELEMENTS)
    elif inner == 1:
        chunk = min(size, max(chunk, MIN_CHUNK_ELEMENTS))
    return Chunks(dim, chunk, -(-size // chunk))


def split_work(
    shape: Sequence[int],
    to_output: Sequence[Expr],
    step_elements: int,
    num_tiles: int,
) -> WorkSplit:
    """The split of a non-empty iteration space; `to_output` are the output's coordinates over its `Dim`s.

    Raises LevelError if the result is not provably a bijection onto the space.
    """
    shape = tuple(shape) or (1,)
    cut = choose_chunks(shape, step_elements, num_tiles)
    outer = (*shape[: cut.dim], cut.count)
    num_chunks = prod(outer)
    num_steps = -(-num_chunks // num_tiles)
    lane_shape = (cut.chunk, *shape[cut.dim + 1 :])
    chunk_id: Expr = Dim(0) * num_steps + Sym(0)
    *coordinates, position = delinearize(chunk_id, outer)
    coordinates.append(position * cut.chunk + Sym(1))
    coordinates.extend(Sym(2 + i) for i in range(len(lane_shape) - 1))
    constraints: list[tuple[Expr, Interval]] = []
    ragged = cut.count * cut.chunk != shape[cut.dim]
    one_constraint = len(outer) == 1 and cut.count > 1 and (ragged or num_steps * num_tiles != num_chunks)
    if num_steps * num_tiles != num_chunks and not one_constraint:
        constraints.append((chunk_id, Interval(0, num_chunks - 1)))
    if ragged or one_constraint:
        constraints.append((coordinates[cut.dim], Interval(0, shape[cut.dim] - 1)))
    dims = (Variable(0, num_tiles - 1, "tile"),)
    ranges = (Variable(0, num_steps - 1, "step"), *_lane_variables(lane_shape))
    iteration = IndexingMap(dims, ranges, (), tuple(coordinates), tuple(constraints)).simplify()
    results = tuple(expr.substitute(iteration.results, ()) for expr in to_output)
    map = iteration.with_results(results)
    split = WorkSplit(map, iteration, shape, num_steps, lane_shape)
    split.verify()
    return split


def _lane_variables(lane_shape: tuple[int, ...]) -> tuple[Variable, ...]:
    if len(lane_shape) == 1:
        return (Variable(0, lane_shape[0] - 1, "lane"),)
    return tuple(Variable(0, size - 1, f"lane{i}") for i, size in enumerate(lane_shape))
