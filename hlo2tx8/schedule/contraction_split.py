"""Work splits of loops over the result of contractions: a step computes a block of rows and columns.

    (tile)[step, lane0, lane1, lane2] -> (row * 256 + lane1, column * 256 + lane0 * 64 + lane2)

Lanes are in the order in which the matrix engine writes: blocks of 64 columns, in them rows, in them the columns of the block.
Columns that are no whole number of blocks are a loop of their own.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod

from hlo2tx8.device.alike_loads import is_spread, spread_cycles
from hlo2tx8.device.isa.ne import MOST_CHANNELS
from hlo2tx8.device.rates import Rates, block_width, is_multiplied_in_blocks
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Interval, Sym, Variable, delinearize
from hlo2tx8.partitioner.contraction import Role
from hlo2tx8.partitioner.iteration_space import IterationSpace
from hlo2tx8.partitioner.windows import Line
from hlo2tx8.schedule.work_split import WorkSplit

BLOCK = block_width(2)
"""Columns of a block of the engine's result."""
MOST_UNBLOCKED = 4 * BLOCK
"""Columns up to which what is no whole number of blocks is not cut: moving the result is cheaper than reading rows twice. Up to
twice as many either way may be better."""
MOST_DEPTH = 512
"""Products added up by one instruction: enough to hide what starts it, and loads of the next ones."""
LEAST_DEPTH = 64
MOST_PEELED = 2
"""Turns that are no loop: the last one comes behind it."""
SUM_BYTES = 4
"""Of a partial sum."""
PART_BYTES = 2
"""Of a part of a factor."""
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


@dataclass(frozen=True)
class ContractionWork:
    """What a step costs: `depth` products per element, in each turn of the other counters that are added up, of which there are
    `loops`; bytes per element that is multiplied, that is kept in SPM besides the
    operands, and that is read or written besides them; products of an element that the engine multiplies in a cycle.
    `lines`: of rows with windows, whose elements `depth` does not count; `is_per_channel`: each column has rows of its own;
    `is_backward`: the last rows are channels, and products of one image after the other are added up.
    `tile_products`: multiply-adds of elements in a cycle, fewer where an element takes several.
    `passes`: vector instructions that an epilogue needs, `passed_cycles` what they take of an element together.
    `kept_once`: bytes per element that is kept if what is stored has one buffer; `is_cut`: the epilogue may go over
    a result in sets of columns.
    `meeting`: cycles that it takes to meet the tiles of other work.
    `keeps_weights`: a convolution is a product per element of its windows, on weights as they are in memory.
    `column_operands`: so many operands are multiplied by the same rows, or by others, of which there are `row_operands`; they are
    made of the same bytes, if `are_of_same_bytes`.
    `parts`: of a factor, which are multiplied apart; then each block of products is added to the sums by a vector instruction if
    `is_added_apart`.
    `rows_stay`: tiles of the mesh have made the rows, and send them, or sums of what they multiply themselves (`in_ring`).
    `has_rows`: each tile has all rows of its mesh row already.
    `stores_sums`: the result is stored from where it was added up, before the next step's sums.
    `read_bytes`: of an element of rows and of columns in memory, where they are not multiplied as they are there; then more
    vector instructions may make of it what is multiplied (`made_passes`), with other factors behind each `run` of products.
    `may_stay`: may rows, and columns, stay from one turn of a loop around to the next, in `stay_bytes` of a tile? It makes
    `turns_around`."""

    depth: int
    operand_bytes: int
    kept_bytes: int
    moved_bytes: int
    tile_products: int
    operand_copies: int
    lines: tuple[Line, ...] = ()
    is_per_channel: bool = False
    is_backward: bool = False
    passes: int = 0
    passed_cycles: float = 0.0
    meeting: int = 0
    kept_once: int = 0
    is_cut: bool = False
    keeps_weights: bool = False
    column_operands: int = 1
    parts: int = 1
    is_added_apart: bool = False
    rows_stay: bool = False
    in_ring: bool = False
    has_rows: bool = False
    stores_sums: bool = False
    loops: int = 1
    read_bytes: tuple[int, int] | None = None
    made_passes: tuple[float, float] = (0.0, 0.0)
    run: int = 0
    may_stay: tuple[bool, bool] = (False, False)
    stay_bytes: int = 0
    turns_around: int = 1
    row_operands: int = 1
    are_of_same_bytes: bool = False

    @property
    def in_memory(self) -> tuple[float, float]:
        """Bytes in memory of an element of rows and of one of columns, its part of those that others are made of too."""
        rows, columns = self.read_bytes or (self.operand_bytes, self.operand_bytes)
        return rows, columns / self.column_operands if self.are_of_same_bytes else columns

    @property
    def is_converted(self) -> tuple[bool, bool]:
        """Are elements of rows, and of columns, converted after they are loaded?"""
        rows, columns = self.in_memory
        return rows != self.operand_bytes, columns != self.operand_bytes

    @property
    def conversions(self) -> tuple[float, float]:
        """Vector instructions that go over each element of rows, and of columns, after they are loaded."""
        rows, columns = (is_other + more for is_other, more in zip(self.is_converted, self.made_passes, strict=True))
        return rows, columns

    @property
    def is_narrowed(self) -> tuple[bool, bool]:
        """Are they so before they are sent to other tiles?"""
        rows, columns = self.in_memory
        return rows > self.operand_bytes, columns > self.operand_bytes

    @property
    def products(self) -> int:
        """Products per element, and element of a window, of all turns."""
        return self.depth * self.loops

    def turns(self, depth: int) -> int:
        """In how many turns they are added up, so many in each."""
        return self.loops * -(-self.depth // depth)

    @property
    def sent_bytes(self) -> tuple[float, float]:
        """Of an element of rows and of columns as tiles share it: itself, or its parts, the first of them also without
        infinities."""
        if self.parts > 1:
            return PART_BYTES * (self.parts + 1), PART_BYTES * (self.parts + 1)
        rows, columns = self.in_memory
        return min(rows, self.operand_bytes), min(columns, self.operand_bytes)

    @property
    def transfers(self) -> int:
        """Of an operand that is sent: its parts, and the first of them without infinities."""
        return 1 if self.parts == 1 else self.parts + 1

    @property
    def split_passes(self) -> int:
        """Vector instructions that make the parts of a factor: the first one, what is finite, and three for each that is left."""
        return 4 + 3 * (self.parts - 1) if self.parts > 1 else 0

    @property
    def split_buffers(self) -> int:
        """Buffers that those need besides."""
        return 2 * self.parts if self.parts > 1 else 0

    def is_tap_by_tap(self, depth: int, *, is_even: bool) -> bool:
        """Is a convolution a product per element of its windows, if an instruction adds up so many products? `is_even`: all steps
        have as many rows, apart from the lines that windows go over."""
        if not self.lines or not self.keeps_weights or not is_even:
            return False
        sizes, is_dense = (depth, self.depth % depth or depth), any(line.stride > 1 for line in self.lines)
        return is_multiplied_in_blocks(sizes, self.operand_bytes, is_dense=is_dense)


@dataclass(frozen=True)
class ContractionStep:
    """How a part is computed: its work split, how many products one instruction adds up per element of a window, and the lanes of
    the dimensions of the loop's space."""

    split: WorkSplit
    depth: int
    lane_of: dict[int, int]


@dataclass(frozen=True)
class Pace:
    """Cycles of a step on the mesh: of the `turns` of one that loads all it needs, of one for which some panels have stayed
    (`others`), what the vector engine takes `after` its products, what the first panels take to arrive (`start`) and what is left
    at the `end` of the last one. So many steps are `alike` in their rows. `in_order`: the part of the turns in which tiles may
    still make the rows that are read, since that is in order."""

    turns: float
    others: float
    after: float
    start: float
    end: float
    num_steps: int
    alike: int
    in_order: float = 0.0


@dataclass(frozen=True)
class Blocking:
    """A way to cut a part into steps: sizes of a step along the part's dimensions, products that an instruction adds up, and what
    that is estimated to cost: cycles, and bytes of a tile's buffers. `is_shared`: tiles share what they load, see mesh_split;
    `is_by_columns`: then the steps of some columns come one after the other, not those of some rows; `is_in_runs`: all rows of a
    tile follow each other, and all columns; `pace` of steps whose panels tiles share; `stays`: some of what is loaded does, from
    one turn of a loop around to the next; `is_from_last`: the last tiles have the first steps, so that another part's may be done
    by the first tiles at the same time; `streamed`: cycles of DDR, of steps for which tiles share nothing."""

    box: tuple[int, ...]
    depth: int
    cycles: float
    spm_bytes: int
    is_shared: bool = False
    is_by_columns: bool = False
    is_in_runs: bool = False
    pace: "Pace | None" = None
    stays: bool = False
    is_from_last: bool = False
    streamed: float = 0.0

    def __str__(self) -> str:
        shared = (" on the mesh" + ", by columns" * self.is_by_columns) if self.is_shared else " that stay" * self.stays
        return f"blocks of {list(self.box)}, {self.depth} deep{shared}" + " from the last tile on" * self.is_from_last


@dataclass(frozen=True)
class ContractionPart:
    """A part of the iteration space: all of it but along the last column dimension, of which it has `size` from `start` on, in
    blocks of `inner`."""

    shape: tuple[int, ...]
    roles: tuple[Role, ...]
    column: int
    start: int
    size: int
    inner: int

    @cached_property
    def dimensions(self) -> tuple[tuple[int, ...], tuple[Role, ...]]:
        """The sizes of its dimensions, the last column dimension as blocks and what is inside of one, and their roles."""
        if self.column < 0:
            return (*self.shape, 1), (*self.roles, "column")
        shape = (*self.shape[: self.column], self.size // self.inner, *self.shape[self.column + 1 :], self.inner)
        return shape, (*self.roles, "column")

    @cached_property
    def boxes(self) -> "dict[tuple[int, ...], PartBoxes]":
        """What was asked of boxes so far: all of a box's estimates ask the same."""
        return {}

    def width(self, box: Sequence[int]) -> int:
        """Columns of a box that lie next to each other: of a block, or all if they are cut one by one."""
        return box[self.column] if self.inner == 1 and self.column >= 0 else self.inner

    def cut(self, box: Sequence[int]) -> "PartBoxes":
        """What boxes of that shape are."""
        key = tuple(box)
        if key not in self.boxes:
            self.boxes[key] = PartBoxes.of(self, key)
        return self.boxes[key]


@dataclass(frozen=True)
class PartBoxes:
    """Boxes that a part is cut into: how many there are along each dimension, the rows and columns of one, and how many there are
    of other rows, of other columns and of other batches."""

    counts: tuple[int, ...]
    sides: tuple[int, int]
    of_rows: int
    of_columns: int
    of_batches: int

    @staticmethod
    def of(part: ContractionPart, box: tuple[int, ...]) -> "PartBoxes":
        """Boxes of that shape."""
        shape, roles = part.dimensions
        counts = tuple([-(-size // step) for size, step in zip(shape, box, strict=True)])
        sides, numbers = {"row": 1, "column": 1, "batch": 1}, {"row": 1, "column": 1, "batch": 1}
        for size, count, role in zip(box, counts, roles, strict=True):
            if role in sides:
                sides[role] *= size
                numbers[role] *= count
        return PartBoxes(counts, (sides["row"], sides["column"]), numbers["row"], numbers["column"], numbers["batch"])


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
        cycles, streamed = _cycles(part, box, depth, work, rates)
        found.append(Blocking(box, depth, cycles, _buffers(part, box, depth, work), streamed=streamed))
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
    of_all = _num_boxes(part, blocking.box)
    all_on_one, _ = _cycles(part, blocking.box, blocking.depth, work, replace(rates, tiles=1))
    if all_on_one * (of_all - 1) <= work.meeting * of_all:
        return of_all  # the first tile has made the steps of the others before they have all met
    return -(-of_all // rates.tiles)


def num_tiles(part: ContractionPart, blocking: Blocking, work: ContractionWork, rates: Rates) -> int:
    """How many tiles have steps, if tiles share nothing."""
    return -(-_num_boxes(part, blocking.box) // _num_steps(part, blocking, work, rates))


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
    best = min(good, key=lambda blocking: (-min(_num_boxes(part, blocking.box), rates.tiles), blocking.cycles))
    return [best, *(blocking for blocking in by_cycles if blocking is not best)]


def _buffers(part: ContractionPart, box: Sequence[int], depth: int, work: ContractionWork) -> int:
    """Estimated bytes of a tile's buffers."""
    rows, columns = sides_of(part, box)
    deep = 1 if work.is_per_channel or work.is_backward else depth
    once = alike_bytes(part, box, depth, work)
    of_rows, of_columns = buffered(part, box, work)
    several = (of_rows + (0 if once else of_columns)) * deep
    return rows * columns * work.kept_bytes + several * work.operand_copies + once


def alike_bytes(part: ContractionPart, box: Sequence[int], depth: int, work: ContractionWork) -> int:
    """Bytes of columns that are the same in all steps of all tiles, because a step has all columns and all products: in a turn, or
    in two, which are no loop."""
    shape, roles = inner_shape(part)
    is_cut = any(own != "row" and step < size for own, step, size in zip(roles, box, shape, strict=True))
    if is_cut or depth < work.depth or work.loops > MOST_PEELED or work.is_per_channel or work.is_backward:
        return 0
    return int(loaded(part, box, work)[1] * work.products * work.in_memory[1])


def sides_that_stay(
    part: ContractionPart, box: Sequence[int], depth: int, work: ContractionWork, rates: Rates
) -> tuple[bool, bool]:
    """Do rows, and columns, stay from one turn of a loop around to the next? A tile has them all at once then, in one step."""
    if not any(work.may_stay) or depth < work.depth or _num_boxes(part, box) > rates.tiles:
        return False, False
    kept = sum(own * depth for own, may in zip(buffered(part, box, work), work.may_stay, strict=True) if may)
    return work.may_stay if kept * (1 + work.split_buffers) <= work.stay_bytes else (False, False)


def _alike_beside(part: ContractionPart, box: Sequence[int], stay: tuple[bool, bool], work: ContractionWork) -> int:
    """Bytes that all tiles load alike beside what stays."""
    shape, roles = inner_shape(part)
    side = stay.index(False) if any(stay) and not all(stay) else -1
    is_cut = any(own != ("column", "row")[side] and n < size for own, n, size in zip(roles, box, shape, strict=True))
    return 0 if side < 0 or is_cut else int(loaded(part, box, work)[side] * work.depth * work.in_memory[side])


def is_even(part: ContractionPart, box: Sequence[int]) -> bool:
    """Are all steps as large?"""
    return all(size % step == 0 for size, step in zip(inner_shape(part)[0], box, strict=True))


def is_even_beside(part: ContractionPart, box: Sequence[int], lines: Sequence[Line]) -> bool:
    """Are they, apart from the lines that windows go over, and from filters that are cut one by one?"""
    others = {line.row for line in lines} | ({part.column} if part.inner == 1 else set[int]())
    sizes = zip(inner_shape(part)[0], box, strict=True)
    return all(size % step == 0 or dim in others for dim, (size, step) in enumerate(sizes))


def _num_boxes(part: ContractionPart, box: Sequence[int]) -> int:
    """Steps of all tiles."""
    return prod(part.cut(box).counts)


def _planes(part: ContractionPart) -> list[int]:
    """The two innermost dimensions of rows, or the one: the plane that windows go over."""
    return [dim for dim, role in enumerate(part.roles) if role == "row"][-2:]


def inner_shape(part: ContractionPart) -> tuple[tuple[int, ...], tuple[Role, ...]]:
    """The part's dimensions, the last column dimension as blocks and what is inside of one."""
    return part.dimensions


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


def sides_of(part: ContractionPart, box: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of a step."""
    return part.cut(box).sides


def loaded(part: ContractionPart, box: Sequence[int], work: ContractionWork) -> tuple[int, int]:
    """Elements of rows and of columns that are loaded for each product of an element of a window."""
    rows, columns = sides_of(part, box)
    rows, columns = rows * work.row_operands, columns * work.column_operands
    for line in work.lines:
        rows = rows // box[line.row] * line.extent(box[line.row])
        columns *= line.taps
    return (rows * sides_of(part, box)[1], columns) if work.is_per_channel else (rows, columns)


def buffered(part: ContractionPart, box: Sequence[int], work: ContractionWork) -> tuple[int, int]:
    """Bytes of buffers of rows and of columns for each product of an element of a window: as they are multiplied, and as they are
    in memory if that is another type."""
    rows, columns = loaded(part, box, work)
    of_rows, of_columns = (
        work.operand_bytes + own * is_other for own, is_other in zip(work.in_memory, work.is_converted, strict=True)
    )
    return int(rows * of_rows), int(columns * of_columns)


def conversion_cycles(part: ContractionPart, box: Sequence[int], depth: int, work: ContractionWork, rates: Rates) -> float:
    """What the vector engine takes to convert so many products of a step's rows and columns."""
    each = zip(loaded(part, box, work), work.conversions, strict=True)
    return sum(passes * (count * depth * work.operand_bytes / rates.vector + rates.vector_pass) for count, passes in each)


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
        return [work.depth] if _buffers(part, box, work.depth, once) <= spm_bytes else []
    unit = block_width(work.operand_bytes)
    is_alike = 0 < depth < work.depth <= MOST_CHANNELS and alike_bytes(part, box, work.depth, work)
    if is_alike and _buffers(part, box, work.depth, work) <= spm_bytes:
        found.append(work.depth)
    while depth:
        found.append(depth)
        half = depth // 2 // unit * unit if not work.run or depth % (2 * unit) == 0 else 0
        depth = half if half >= LEAST_DEPTH and not (work.is_per_channel or work.is_backward) else 0
    return found


def moved_bytes(part: ContractionPart, box: Sequence[int], depth: int, work: ContractionWork) -> float:
    """Bytes that TDMA moves in a step with windows besides its weights: padding is filled, and vectors whose channels are no block
    of the engine's layout go there and back. Where weights are not turned, windows that move by several points need planes of their
    own, and lines of the result are brought together.
    """
    if not work.lines or work.is_backward:
        return 0.0
    rows, columns = sides_of(part, box)
    image = loaded(part, box, work)[0] * (work.loops if work.is_per_channel else work.products) * work.operand_bytes
    laid_out = image + rows * columns * SUM_BYTES if is_laid_out(part, box, work) else 0
    if work.is_tap_by_tap(depth, is_even=is_even_beside(part, box, work.lines)) and not work.is_per_channel:
        return image * (1 if max(line.stride for line in work.lines) == 1 else 3) + rows * columns * work.operand_bytes
    return image + laid_out


def is_laid_out(part: ContractionPart, box: Sequence[int], work: ContractionWork) -> bool:
    """Do the vectors of a convolution go to the engine's layout and back, because their channels are no block of it?"""
    width = part.width(box)
    return bool(work.lines) and not (width <= BLOCK and width & (width - 1) == 0)


def turned_bytes(part: ContractionPart, box: Sequence[int], depth: int, work: ContractionWork, rates: Rates) -> float:
    """Bytes of weights that TDMA turns element by element for a step with windows; 0 if they stay as they are in memory."""
    stay = work.is_backward or work.is_per_channel or work.is_tap_by_tap(depth, is_even=is_even_beside(part, box, work.lines))
    if not work.lines or stay:
        return 0.0
    return loaded(part, box, work)[1] * work.products * max(work.operand_bytes, rates.move_run_bytes)


def rows_with_gaps(part: ContractionPart, box: Sequence[int], work: ContractionWork) -> int:
    """Rows of a product per element of a window: from the first result to the last one, points of the image one after the other."""
    pitch, found, of_row = 1, 1, {line.row: line for line in work.lines}
    for dim in reversed([dim for dim, role in enumerate(inner_shape(part)[1]) if role == "row"]):
        line = of_row.get(dim)
        found += (box[dim] - 1) * pitch
        pitch *= box[dim] if line is None else -(-line.extent(box[dim]) // line.stride)
    return found


def _cycles(part: ContractionPart, box: Sequence[int], depth: int, work: ContractionWork, rates: Rates) -> tuple[float, float]:
    """Estimated cycles: the busiest of DDR, a tile's transfers and its engine; then what nothing overlaps. And DDR's alone."""
    rows, columns = sides_of(part, box)
    chunks = _num_boxes(part, box)
    steps, active = -(-chunks // rates.tiles), min(chunks, rates.tiles)
    loads = sum(count * size for count, size in zip(loaded(part, box, work), work.in_memory, strict=True))
    taps = prod(line.taps for line in work.lines)
    alike = once = alike_bytes(part, box, depth, work)
    stay, before = sides_that_stay(part, box, depth, work, rates), 0.0
    if any(stay):
        sides = list(zip(loaded(part, box, work), work.in_memory, stay, strict=True))
        loads = sum(count * size for count, size, stays in sides if not stays)
        before = active * work.depth * sum(count * size for count, size, stays in sides if stays) / rates.ddr
        alike = once = _alike_beside(part, box, stay, work)
    if not is_spread(alike, active, rates):
        alike = 0
    own = loads * work.products + rows * columns * work.moved_bytes - alike
    turns = work.turns(depth)
    is_by_tap = work.is_tap_by_tap(depth, is_even=is_even_beside(part, box, work.lines))
    own_rows = rows_with_gaps(part, box, work) if is_by_tap else rows
    height, width = (-(-n // unit) * unit for n, unit in ((own_rows, rates.product_rows), (columns, rates.product_columns)))
    engine = height * width * (work.products * taps + rates.product_depth - 1) / work.tile_products
    engine += turns * (rates.product_start + rates.move_start)
    if is_by_tap:
        engine += taps * work.turns(min(depth, block_width(work.operand_bytes))) * rates.product_start
    engine += work.passes * rates.vector_pass + rows * columns * work.passed_cycles
    engine += work.split_passes * (loads * work.products / rates.vector + 2 * turns * rates.vector_pass)
    engine += turns * conversion_cycles(part, box, min(depth, work.depth), work, rates)
    if work.is_added_apart:
        engine += turns * (rows * columns * SUM_BYTES / rates.vector + rates.vector_pass)
    first = (loads * depth - alike) * active
    start = max((first + alike) / rates.ddr, spread_cycles(alike, rates)) if alike else first / rates.ddr
    ends = start + rows * columns * work.moved_bytes * active / rates.ddr
    last = engine / turns + (work.meeting if active > 1 else 0)
    alone = 2 * (rates.transfer_start + rates.issue) + rates.product_start + rates.move_start
    moved, turned = moved_bytes(part, box, depth, work) / rates.move, turned_bytes(part, box, depth, work, rates) / rates.move
    in_each = moved if once else moved + turned  # weights that are alike are turned once
    if is_laid_out(part, box, work) and not work.is_per_channel:
        busy = steps * (engine + alone + in_each) + ends  # the engine waits for moves before and after its products
    else:
        busy = steps * max(engine + alone, in_each) + ends
    busy += (moved + turned) / turns  # a panel is between its zeros before it is multiplied
    # while tiles send each other what they have alike, steps are loaded as far as there are buffers; of guarded ones one
    ahead = min(steps, 1 if chunks % active else 2) * first
    busy += before / work.turns_around
    last += before / work.turns_around
    streamed = max((chunks * own + alike) / rates.ddr, start + (chunks * own - ahead) / rates.ddr if alike else 0.0)
    streamed += steps * rates.transfer_start  # tiles that are in step all start a transfer at the same time
    return max(busy, streamed + last, steps * own / rates.transfer + last), streamed


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
