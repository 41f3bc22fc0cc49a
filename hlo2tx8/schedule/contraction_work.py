"""A contraction that is split: what its steps cost, the part of its result that they make, and the ways to cut that."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hlo2tx8.device.rates import block_width, is_multiplied_in_blocks
from hlo2tx8.partitioner.contraction import Role
from hlo2tx8.partitioner.windows import Line
from hlo2tx8.schedule.work_split import WorkSplit

BLOCK = block_width(2)
"""Columns of a block of the engine's result."""
SUM_BYTES = 4
"""Of a partial sum."""
PART_BYTES = 2
"""Of a part of a factor."""


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
        return is_multiplied_in_blocks((depth, self.depth % depth or depth), self.operand_bytes)


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


def inner_shape(part: ContractionPart) -> tuple[tuple[int, ...], tuple[Role, ...]]:
    """The part's dimensions, the last column dimension as blocks and what is inside of one."""
    return part.dimensions


def sides_of(part: ContractionPart, box: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of a step."""
    return part.cut(box).sides


def is_even(part: ContractionPart, box: Sequence[int]) -> bool:
    """Are all steps as large?"""
    return all(size % step == 0 for size, step in zip(inner_shape(part)[0], box, strict=True))


def is_even_beside(part: ContractionPart, box: Sequence[int], lines: Sequence[Line]) -> bool:
    """Are they, apart from the lines that windows go over, and from filters that are cut one by one?"""
    others = {line.row for line in lines} | ({part.column} if part.inner == 1 else set[int]())
    sizes = zip(inner_shape(part)[0], box, strict=True)
    return all(size % step == 0 or dim in others for dim, (size, step) in enumerate(sizes))
