"""Where ops run: temporal epochs of ops that run at once, and for each of them a grid of cores, balanced by their work."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from hlo2tx8.errors import CapacityError
from hlo2tx8.netlist import formats
from hlo2tx8.netlist.emit.build import Step
from hlo2tx8.netlist.shapes import FULL_TILE, Shape

L1_BYTES = 800 << 10
"""Of a core's memory, what buffers of an op may take: what the architecture with least has beside programs."""

WIDEST = 16
"""Tile columns of a product's second factor that a core holds at once, for each tile that is summed up."""


@dataclass(frozen=True)
class Placed:
    """An op with its cores and the blocks that each of them works on; `buffers` is how many blocks of its output it holds."""

    step: Step
    grid: tuple[int, int]
    mblock: tuple[int, int]
    ublock: tuple[int, int]
    buffers: int
    deep: int
    loc: tuple[int, int] = (0, 0)


def epochs_of(
    steps: Sequence[Step], inner: Mapping[str, int], grid: tuple[int, int], dest: Mapping[str, int]
) -> list[list[Placed]]:
    """Ops by epoch, in order. `inner` are the tiles that an op sums up over, or its steps; `dest` the tiles of its ublocks at most.

    CapacityError for an op that does not fit into all cores together.
    """
    found: list[list[Placed]] = []
    at = 0
    while at < len(steps):
        end, best = at, None
        while end < len(steps) and end - at < max(1, prod(grid) // 2):
            least = [_smallest(step, inner[step.name], grid, dest[step.name]) for step in steps[at : end + 1]]
            packed = _packed(least, grid)
            if packed is None:
                break
            end, best = end + 1, packed
        if best is None:
            raise CapacityError("E1005", f"op {steps[at].name} of {steps[at].shape} does not fit into {grid[0]}x{grid[1]} cores")
        found.append(_balanced(best, inner, grid, dest))
        at = end
    return found


def _choices(step: Step, inner: int, grid: tuple[int, int], dest: int) -> Iterator[Placed]:
    """Ways to divide an op, from the fewest cores."""
    shape, is_listed = step.shape, "identity" in step.attributes
    pairs = [(r, c) for r in _divisors(shape.rt, grid[0]) for c in _divisors(shape.ct, grid[1] if step.type != "topk" else 1)]
    for gr, gc in sorted(pairs, key=lambda pair: (prod(pair), abs(pair[0] - pair[1]))):
        core = shape.rt // gr, shape.ct // gc
        ublock = max(
            ((u, v) for u in _divisors(core[0], 1 if is_listed else dest) for v in _divisors(core[1], dest) if u * v <= dest),
            key=lambda pair: (prod(pair), -abs(pair[0] - pair[1])),
        )
        deep = _divisors(inner, 4)[::-1] if step.type == "matmul" and not is_listed else [1]
        fits = (pair for pair in product((2, 1), deep) if _bytes(step, core, ublock, inner, *pair) <= L1_BYTES)
        if found := next(fits, None):
            yield Placed(step, (gr, gc), (core[0] // ublock[0], core[1] // ublock[1]), ublock, *found)


def _smallest(step: Step, inner: int, grid: tuple[int, int], dest: int) -> Placed:
    found = next(_choices(step, inner, grid, dest), None)
    if found is None:
        raise CapacityError("E1005", f"op {step.name} of {step.shape} does not fit into {grid[0]}x{grid[1]} cores")
    return found


def _divisors(size: int, most: int) -> list[int]:
    return [n for n in range(1, min(size, most) + 1) if size % n == 0]


def tile_bytes(df: str) -> int:
    """Of a whole tile in memory, with its header."""
    return formats.tile_bytes(formats.FORMATS[df], FULL_TILE)


def _bytes(step: Step, core: tuple[int, int], ublock: tuple[int, int], inner: int, buffers: int, deep: int) -> int:
    tile = tile_bytes(step.df)
    own = buffers * prod(core) * tile
    if step.type != "matmul":
        return own + 2 * len(step.inputs) * prod(ublock) * tile
    return own + 2 * deep * (core[0] + min(core[1], WIDEST)) * tile


def _balanced(placed: Sequence[Placed], inner: Mapping[str, int], grid: tuple[int, int], dest: Mapping[str, int]) -> list[Placed]:
    """With more cores for the op that takes longest, as long as there are some."""
    best, done = list(placed), set[str]()
    while len(done) < len(best):
        slow = max((one for one in best if one.step.name not in done), key=lambda one: work(one.step, inner) / prod(one.grid))
        name, number = slow.step.name, best.index(slow)
        done.add(name)
        for more in _choices(slow.step, inner[name], grid, dest[name]):
            if prod(more.grid) > prod(slow.grid):
                packed = _packed([*best[:number], more, *best[number + 1 :]], grid)
                if packed is not None:
                    best = packed
                    done.discard(name)
                    break
    return best


def work(step: Step, inner: Mapping[str, int]) -> int:
    """Tiles that an op multiplies or computes."""
    return step.shape.num_tiles * max(1, inner[step.name])


def _packed(placed: Sequence[Placed], grid: tuple[int, int]) -> list[Placed] | None:
    """With places on the grid: in shelves, the highest first; None if there is no room."""
    order = sorted(range(len(placed)), key=lambda at: (-placed[at].grid[0], -placed[at].grid[1], at))
    found = list(placed)
    row = column = height = 0
    for at in order:
        rows, columns = placed[at].grid
        if column + columns > grid[1]:
            row, column, height = row + height, 0, 0
        if row + rows > grid[0] or columns > grid[1]:
            return None
        height = max(height, rows)
        one = placed[at]
        found[at] = Placed(one.step, one.grid, one.mblock, one.ublock, one.buffers, one.deep, (row, column))
        column += columns
    return found


def blocks_of(shape: Shape) -> tuple[tuple[int, int], tuple[int, int]]:
    """mblock and ublock of a tensor in one buffer."""
    u, v = (max(_divisors(size, 4)) for size in (shape.rt, shape.ct))
    return (shape.rt // u, shape.ct // v), (u, v)
