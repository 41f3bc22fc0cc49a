"""Work splits of loops over the result of contractions: a step computes a block of rows and columns.

    (tile)[step, lane0, lane1, lane2] -> (row * 256 + lane1, column * 256 + lane0 * 64 + lane2)

Lanes are in the order in which the matrix engine writes: blocks of 64 columns, in them rows, in them the columns of the block.
Columns that are no whole number of blocks are a loop of their own.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from hlo2tx8.device.isa.ne import MOST_CHANNELS
from hlo2tx8.device.rates import Rates, block_width
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Interval, Sym, Variable, delinearize
from hlo2tx8.partitioner.contraction import Role
from hlo2tx8.partitioner.iteration_space import IterationSpace
from hlo2tx8.partitioner.windows import Line
from hlo2tx8.schedule.contraction_estimate import (
    alike_bytes,
    buffer_bytes,
    buffered,
    loaded,
    num_boxes,
    sides_that_stay,
    step_cycles,
)
from hlo2tx8.schedule.contraction_work import (
    BLOCK,
    Blocking,
    ContractionPart,
    ContractionStep,
    ContractionWork,
    inner_shape,
    sides_of,
)
from hlo2tx8.schedule.work_split import WorkSplit

MOST_UNBLOCKED = 4 * BLOCK
"""Columns up to which what is no whole number of blocks is not cut: moving the result is cheaper than reading rows twice. Up to
twice as many either way may be better."""
MOST_DEPTH = 512
"""Products added up by one instruction: enough to hide what starts it, and loads of the next ones."""
LEAST_DEPTH = 64
ABOUT = 1.1
"""What the estimate is good for."""
NEARLY = 1.05
"""The same between ways to cut a plane that windows go over."""
SIZES = (8, 16, 32, 64, 128, 192, 256, 384, 512, 768, 1024, 2048)
"""Rows and columns of a block that are tried."""
PARTS_OF_HEIGHT, PARTS_OF_WIDTH = (2, 4, 8, 16), (2, 4)
"""In which a plane that windows go over is cut, besides cuts in whole lines."""
MOST_EVEN = 8
"""Steps of a tile for which rows that all tiles have equally many of are tried too."""


def parts_of(
    space: IterationSpace, roles: Sequence[Role], operand_bytes: int, *, may_cut: bool, is_other: bool = False
) -> list[ContractionPart]:
    """The space as one part, or as one of whole blocks of columns, of the result and of the operands, and one of what is left.
    `is_other`: the other way of the two, none if it is no good."""
    shape: tuple[int, ...] = space.shape or (1,)
    of_dims: tuple[Role, ...] = tuple(roles) or ("batch",)
    columns = [dim for dim, role in enumerate(of_dims) if role == "column"]
    if not columns:
        return [ContractionPart(shape, of_dims, -1, 0, 1, 1)]
    last = columns[-1]
    size = shape[last]
    whole = size // BLOCK * BLOCK
    if is_other and (whole == size or not may_cut or not block_width(operand_bytes) < size <= 2 * MOST_UNBLOCKED):
        return []
    if whole == size:
        cuts = [(0, size, BLOCK)]
    elif (size <= MOST_UNBLOCKED) is not is_other or not may_cut:
        cuts = [(0, size, size)]
    else:
        whole = size // block_width(operand_bytes) * block_width(operand_bytes)
        cuts = [(0, whole, BLOCK), (whole, size - whole, size - whole)]
    return [ContractionPart(shape, of_dims, last, *cut) for cut in cuts]


def blockings(part: ContractionPart, work: ContractionWork, rates: Rates, spm_bytes: int, most_elements: int) -> list[Blocking]:
    """How a part can be computed in `spm_bytes` of a tile, in steps of `most_elements` at most, 0 for any number; the best first.

    None if windows do not fit; else at least the one of the smallest steps.
    """
    if work.is_backward:
        boxes = _backward_boxes(part, rates, most_elements)
    else:
        boxes = _boxes(part, work.lines, rates, most_elements, keeps_weights=work.keeps_weights)
    boxes = [box for box in boxes if all(box[line.row] > 1 or line.dilation == 1 for line in work.lines)]
    boxes = [box for box in boxes if has_blocks(part, work, box)]
    fitting = [(box, depth) for box in boxes for depth in _depths(part, box, work, spm_bytes, rates)]
    if not fitting and not work.lines:
        fitting = [(boxes[0], LEAST_DEPTH)]
    found: list[Blocking] = []
    for box, depth in fitting:
        cycles, streamed = step_cycles(part, box, depth, work, rates)
        found.append(Blocking(box, depth, cycles, buffer_bytes(part, box, depth, work), streamed=streamed))
    return _best_first(part, found, work, rates)


def split_part(
    part: ContractionPart, blocking: Blocking, to_output: Sequence[Expr], work: ContractionWork, rates: Rates
) -> ContractionStep:
    """How a part is computed in such steps.

    Raises LevelError if the split is not provably a bijection onto the part.
    """
    box, depth = blocking.box, blocking.depth
    kept = [line.row for line in work.lines] if work.is_backward else _planes(part) if work.lines else []
    num_steps = _num_steps(part, blocking, work, rates)
    tile = rates.tiles - 1 - Dim(0) if blocking.is_from_last else Dim(0)
    split, lane_of = _split(part, box, to_output, tile, rates.tiles, num_steps, kept)
    return ContractionStep(split, min(depth, work.depth), lane_of)


def _num_steps(part: ContractionPart, blocking: Blocking, work: ContractionWork, rates: Rates) -> int:
    """Steps of a tile that has most of them."""
    of_all = num_boxes(part, blocking.box)
    all_on_one, _ = step_cycles(part, blocking.box, blocking.depth, work, replace(rates, tiles=1))
    if all_on_one * (of_all - 1) <= work.meeting * of_all:
        return of_all  # the first tile has made the steps of the others before they have all met
    return -(-of_all // rates.tiles)


def num_tiles(part: ContractionPart, blocking: Blocking, work: ContractionWork, rates: Rates) -> int:
    """How many tiles have steps, if tiles share nothing."""
    return -(-num_boxes(part, blocking.box) // _num_steps(part, blocking, work, rates))


def _best_first(part: ContractionPart, found: Sequence[Blocking], work: ContractionWork, rates: Rates) -> list[Blocking]:
    """By their cycles; but of those about as good as the first, one that has work for the most tiles comes before it.

    With windows the cycles count alone: windows go over what a step has of the plane, and a row may be too little. Parts of lines
    that follow each other have to be better than whole lines by what estimates of the two differ in.
    """
    plane = _planes(part) if work.lines else []

    def cycles(blocking: Blocking) -> float:
        high, wide = (blocking.box[dim] for dim in plane) if len(plane) == 2 else (1, 1)
        is_rectangle = high > 1 and wide < part.shape[plane[1]]
        return blocking.cycles * (NEARLY if is_rectangle else 1.0)

    by_cycles = sorted(found, key=cycles)
    if work.lines or not found:
        return by_cycles
    good = [blocking for blocking in found if blocking.cycles <= ABOUT * by_cycles[0].cycles]
    best = min(good, key=lambda blocking: (-min(num_boxes(part, blocking.box), rates.tiles), blocking.cycles))
    return [best, *(blocking for blocking in by_cycles if blocking is not best)]


def _planes(part: ContractionPart) -> list[int]:
    """The two innermost dimensions of rows, or the one: the plane that windows go over."""
    return [dim for dim, role in enumerate(part.roles) if role == "row"][-2:]


def has_blocks(part: ContractionPart, work: ContractionWork, box: Sequence[int], *, in_order: bool = False) -> bool:
    """Are the filters of a box of a convolution, blocks of its result, whole blocks of the operand as well, or a part of one? Then
    weights are multiplied as they lie. `in_order`: several blocks of the operand are lanes of their own."""
    together = block_width(work.operand_bytes) // BLOCK
    if not (work.lines and work.keeps_weights) or together == 1 or part.inner != BLOCK or part.column < 0:
        return True
    count, size = box[part.column], inner_shape(part)[0][part.column]
    return size % count == 0 and (count <= together or (in_order and count % together == size % together == 0))


def _boxes(
    part: ContractionPart, lines: Sequence[Line], rates: Rates, most_elements: int, *, keeps_weights: bool
) -> list[tuple[int, ...]]:
    """Sizes of steps along the dimensions of `inner_shape`, the smallest first; weights stay as they are in memory only if all
    steps have as many rows."""
    shape, roles = inner_shape(part)
    rows = _planes(part) if lines else [dim for dim, role in enumerate(roles) if role == "row"]
    columns = [dim for dim, role in enumerate(roles[:-1]) if role == "column"]
    if part.inner != BLOCK:
        columns = []
    found: dict[tuple[int, ...], None] = {}
    even = _even_sizes(
        [shape[dim] for dim, role in enumerate(roles) if role != "column"] if lines else [shape[dim] for dim in rows],
        rates,
        is_of_lines=bool(lines),
    )
    units = dict.fromkeys(SIZES, rates.product_rows)
    units |= {size: 1 for size in even if size >= rates.product_rows}
    for num_rows in sorted(units):
        for num_columns in SIZES:
            box = [1] * len(shape)
            box[-1] = part.inner
            _fill(box, shape, rows, num_rows, units[num_rows])
            _fill(box, shape, columns, max(1, num_columns // BLOCK), 1)
            if not most_elements or prod(box) <= most_elements or not found:
                found[tuple(box)] = None
    if lines and len(rows) == 2:
        more = _rectangles(found, shape, rows, is_even=keeps_weights)
        found |= dict.fromkeys(box for box in more if not most_elements or prod(box) <= most_elements)
    return list(found)


def _rectangles(
    boxes: Iterable[Sequence[int]], shape: Sequence[int], plane: Sequence[int], *, is_even: bool
) -> Iterator[tuple[int, ...]]:
    """The boxes with parts of a plane that are not as wide as it: they read fewer elements twice than lines do. `is_even`: only
    parts that are all of one size."""
    height, width = (shape[dim] for dim in plane)
    others = dict.fromkeys(tuple(1 if dim in plane else size for dim, size in enumerate(box)) for box in boxes)
    for box in others:
        for high, wide in product(PARTS_OF_HEIGHT, PARTS_OF_WIDTH):
            if not is_even or height % high == width % wide == 0:
                part = list(box)
                part[plane[0]], part[plane[1]] = -(-height // high), -(-width // wide)
                yield tuple(part)


def _even_sizes(sizes: Sequence[int], rates: Rates, *, is_of_lines: bool) -> list[int]:
    """Rows of a step that all tiles have equally many of; with windows whole lines of a plane, and the last tile may have fewer."""
    unit = max(1, sizes[-1]) if is_of_lines else 1
    steps = [n * rates.tiles for n in range(1, MOST_EVEN + 1)]
    count = prod(sizes) // unit
    return [-(-count // n) * unit for n in steps if is_of_lines or count % n == 0]


def _backward_boxes(part: ContractionPart, rates: Rates, most_elements: int) -> list[tuple[int, ...]]:
    """The same for the gradient of weights: a whole kernel or a row of one, and channels of a block at most."""
    shape, roles = inner_shape(part)
    first, second, channels = (dim for dim, role in enumerate(roles) if role == "row")
    found: list[tuple[int, ...]] = []
    for num_channels in range(1, min(BLOCK, shape[channels]) + 1):
        if shape[channels] % num_channels or (num_channels % rates.product_rows and num_channels != shape[channels]):
            continue
        for num_rows in dict.fromkeys((1, shape[first])):
            box = [1] * len(shape)
            box[first], box[second], box[channels], box[-1] = num_rows, shape[second], num_channels, part.inner
            if not most_elements or prod(box) <= most_elements:
                found.append(tuple(box))
    return found


def _fill(box: list[int], shape: Sequence[int], dims: Sequence[int], wanted: int, unit: int) -> None:
    """Makes the box about `wanted` long along the dimensions, from the innermost on, in steps that are
    equally long, or about so."""
    for dim in reversed(dims):
        count = -(-shape[dim] // max(1, wanted))
        chunk = -(-shape[dim] // count)
        if count > 1 and chunk > unit:
            chunk = min(shape[dim], -(-chunk // unit) * unit)
        chunk = next((n for n in range(chunk, chunk // 2, -1) if shape[dim] % n == 0), chunk)
        box[dim] = chunk
        if count > 1:
            return
        wanted //= chunk


def _depth(part: ContractionPart, box: Sequence[int], work: ContractionWork, spm_bytes: int) -> int:
    """Products that an instruction adds up, such that everything fits; 0 if it does not."""
    rows, columns = sides_of(part, box)
    left = spm_bytes - rows * columns * work.kept_bytes
    if work.is_per_channel or work.is_backward:
        return int(left >= sum(loaded(part, box, work)) * work.operand_bytes * work.operand_copies)
    fits = left // (sum(buffered(part, box, work)) * work.operand_copies)
    most = min(fits, MOST_DEPTH)
    if work.depth <= most and not work.run:
        return work.depth
    if work.run:
        return max((n for n in range(min(LEAST_DEPTH, work.run), min(most, work.run) + 1) if work.run % n == 0), default=0)
    unit = block_width(work.operand_bytes)
    most = most // unit * unit
    if most < LEAST_DEPTH:
        return 0
    return next((n for n in range(most, most // 2, -unit) if work.depth % n == 0), most)


def _depths(part: ContractionPart, box: Sequence[int], work: ContractionWork, spm_bytes: int, rates: Rates) -> list[int]:
    """Products that an instruction adds up: as many as fit, and the halves of that, which start sooner; all, if columns that are
    the same in all steps then stay, or something does in a loop around."""
    depth, found = _depth(part, box, work, spm_bytes), list[int]()
    if any(sides_that_stay(part, box, work.depth, work, rates)) and depth < work.depth <= MOST_CHANNELS:
        once = replace(work, operand_copies=1)
        return [work.depth] if buffer_bytes(part, box, work.depth, once) <= spm_bytes else []
    unit = block_width(work.operand_bytes)
    is_alike = 0 < depth < work.depth <= MOST_CHANNELS and alike_bytes(part, box, work.depth, work)
    if is_alike and buffer_bytes(part, box, work.depth, work) <= spm_bytes:
        found.append(work.depth)
    while depth:
        found.append(depth)
        half = depth // 2 // unit * unit if not work.run or depth % (2 * unit) == 0 else 0
        depth = half if half >= LEAST_DEPTH and not (work.is_per_channel or work.is_backward) else 0
    return found


def _split(
    part: ContractionPart,
    box: Sequence[int],
    to_output: Sequence[Expr],
    tile: Expr,
    tiles: int,
    num_steps: int,
    kept: Sequence[int],
) -> tuple[WorkSplit, dict[int, int]]:
    """The work split in so many steps of a tile, the first of which those of `tile` 0 are, and the lane of each dimension that has
    one; those `kept` have one anyway."""
    shape, roles = inner_shape(part)
    counts = [-(-size // step) for size, step in zip(shape, box, strict=True)]
    num_chunks = prod(counts)
    chunk: Expr = tile * num_steps + Sym(0)
    cut = [dim for dim, count in enumerate(counts) if count > 1]
    ragged = [dim for dim in cut if counts[dim] * box[dim] != shape[dim]]
    is_over = num_steps * tiles != num_chunks
    wide = [dim for dim in range(len(shape) - 1) if box[dim] > 1 or dim in kept]
    lanes = [dim for role in ("batch", "column", "row") for dim in wide if roles[dim] == role] + [len(shape) - 1]
    lane_shape = tuple(box[dim] for dim in lanes)
    first = 1
    if is_over:  # a lane of its own says whether there is anything to do: the others keep their sizes
        lane_shape, first = (1, *lane_shape), 2
    coordinates: list[Expr] = [Const(0)] * len(shape)
    for dim, position in zip(cut, delinearize(chunk, [counts[dim] for dim in cut]), strict=True):
        coordinates[dim] = position * box[dim]
    for number, dim in enumerate(lanes):
        coordinates[dim] = coordinates[dim] + Sym(first + number)
    constraints = [(chunk, Interval(0, num_chunks - 1))] if is_over else []
    constraints += [(coordinates[dim], Interval(0, shape[dim] - 1)) for dim in ragged]
    ranges = (Variable(0, num_steps - 1, "step"), *(Variable(0, n - 1, f"lane{i}") for i, n in enumerate(lane_shape)))
    dims = (Variable(0, tiles - 1, "tile"),)
    iteration = IndexingMap(dims, ranges, (), tuple(coordinates), tuple(constraints)).simplify()
    if part.column < 0:
        places: list[Expr] = list(iteration.results[:-1])
    else:
        places = list(iteration.results[:-1])
        places[part.column] = iteration.results[part.column] * part.inner + iteration.results[-1] + part.start
    map = iteration.with_results(tuple(expr.substitute(places, ()) for expr in to_output)).simplify()
    split = WorkSplit(map, iteration, shape, num_steps, lane_shape)
    split.verify()
    return split, {dim: first - 1 + number for number, dim in enumerate(lanes)}
