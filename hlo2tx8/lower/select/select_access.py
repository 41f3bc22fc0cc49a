"""Loads at places that data decide, as kernel-core and DMA instructions.

one place     the kernel core reads the shift into a register, RDMA loads the whole box from there
rows          a loop over the lanes along which the shift varies: a register and an RDMA each
elements      few bytes each, of a tensor that fits the scratchpad and is not much larger than what is read of it: the kernel core
              gathers them from a copy of it, or of what a step may read, where places are limited to what is near
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType, Signedness, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.formats import Format
from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.made import for_op, yield_op
from hlo2tx8.indexing import Const
from hlo2tx8.lower.box_levels import BoxLevel, Size, dense_strides
from hlo2tx8.lower.dma.slices import turns_of
from hlo2tx8.lower.select.instruction_tables import hlo_name
from hlo2tx8.lower.select.step_builder import INDEX, StepBuilder

MOST_PER_LANE_BYTES = 512
"""Of what a step may read that had better be loaded at once: DDR gives so many to each tile while one element is read by itself."""
MOST_PER_ROW_BYTES = 4096
"""Of a tensor that had better be copied once, for each row that a tile reads of it: tiles share what they copy."""
MORE_FOR_ITSELF = 3
"""How many times as long tiles take to load bytes each for itself as to load them once and share them."""
MAX_COPY_BYTES = 1 << 20
"""Of a tensor that is copied to be gathered from."""
FACTORS = 2
"""Operands of an operation that limits a place."""
MIN_ROW_BYTES = 64
"""A shorter run costs DMA as much as this many bytes."""


@dataclass(frozen=True)
class Walk:
    """Lanes `0 .. num_outer - 1` are walked one by one; those inside of them make one box, a row."""

    step: StepBuilder
    strides: tuple[int, ...]
    num_outer: int

    @staticmethod
    def of(step: StepBuilder, strides: Sequence[int], varying: Sequence[int]) -> "Walk":
        """The longest rows for a shift that varies along these lanes; DMA does not run backwards."""
        backwards = [k for k, stride in enumerate(strides) if stride < 0]
        apart = [k for k in (*varying, *backwards) if step.shape[k] != 1]
        return Walk(step, tuple(strides), max(apart, default=-1) + 1)

    @property
    def row_elements(self) -> int:
        """Elements of a full row."""
        return prod(self.step.shape[self.num_outer :])

    def copies_whole(self, op: Operation, size_bytes: int) -> bool:
        """Had a tensor better be copied than the rows that `op` reads of it be loaded one by one in each step? As the copy is made
        once, it depends on how many steps there are."""
        turns = _turns_around(op)
        is_read_enough = turns is None or size_bytes <= MOST_PER_ROW_BYTES * turns * prod(self.step.shape[: self.num_outer])
        return size_bytes <= MAX_COPY_BYTES and is_read_enough


def is_sooner_near(op: Operation, near_bytes: int, size_bytes: int) -> bool:
    """Had what each step may read better be loaded by it than the whole tensor, which tiles share, before all of them?"""
    turns = _turns_around(op)
    return turns is not None and near_bytes * turns * MORE_FOR_ITSELF <= size_bytes


def _turns_around(op: Operation) -> int | None:
    """How often the loops around an operation turn; None if nobody knows."""
    turns, parent = 1, op.parent_op()
    while parent is not None:
        own = turns_of(parent) if isinstance(parent, scf.ForOp) else 1
        if own is None:
            return None
        turns, parent = turns * own, parent.parent_op()
    return turns


@dataclass(frozen=True)
class Places:
    """Run-time places: a vector of the lanes of `step`, which may have one lane where the places do not vary."""

    vector: SSAValue
    step: StepBuilder
    fmt: Format


def same_in_all_steps(step: StepBuilder, op: vec.LoadOp) -> int | None:
    """Where a load starts that repeats some elements over lanes and is the same in every step: it is done once, before them."""
    strides = vec.ints(op.strides)
    repeats = any(stride == 0 and size > 1 for stride, size in zip(strides, step.shape, strict=True))
    first = next((lane for lane, size in enumerate(step.shape) if size > 1), 0)
    is_prefix = all(lane == first and strides[lane] == 0 for lane in step.valid)
    return constant_start(op) if repeats and is_prefix else None


def constant_start(op: vec.LoadOp) -> int | None:
    """Where a load of all its lanes starts, if that is the same in every step."""
    owner = op.offset.owner
    if not isinstance(owner, xla.ApplyIndexingOp) or op.fill is not None or vec.ints(op.clipped):
        return None
    start = owner.map.data.results[owner.results.index(op.offset)]
    return start.value if isinstance(start, Const) else None


def largest_place(value: SSAValue) -> int | None:
    """The most that run-time places can be, which are not negative; None if no constants say so."""
    bounds = _bounds(value)
    return bounds[1] if bounds[0] is not None and bounds[0] >= 0 else None


def _bounds(value: SSAValue) -> tuple[int | None, int | None]:
    """The least and the most that integers can be, as far as constants limit them."""
    owner = value.owner
    if isinstance(owner, vec.SplatOp) and isinstance(owner.value.owner, arith.ConstantOp):
        attribute = owner.value.owner.value
        number = attribute.value.data if isinstance(attribute, IntegerAttr) else None
        return number, number
    if not isinstance(owner, xla.ElementwiseOp | arith.MuliOp) or len(owner.operands) != FACTORS:
        return None, None
    (low, high), (other_low, other_high) = (_bounds(operand) for operand in owner.operands)
    lows, highs = [n for n in (low, other_low) if n is not None], [n for n in (high, other_high) if n is not None]
    match hlo_name(owner):
        case "minimum":
            return (min(lows) if len(lows) == FACTORS else None), min(highs, default=None)
        case "maximum":
            return max(lows, default=None), (max(highs) if len(highs) == FACTORS else None)
        case "multiply" if min(lows, default=-1) >= 0 and len(lows) == len(highs) == FACTORS:
            return prod(lows), prod(highs)
        case _:
            return None, None


def load_rows(walk: Walk, source: SSAValue, offset: Size, places: "Places", fmt: Format) -> SSAValue:
    """The rows, each from where its lane of the places says, dense in the order of the lanes."""
    step, dst = walk.step, walk.step.alloc(fmt)
    outer = step.builder
    blocks: list[Block] = []
    dense, dense_of_places = dense_strides(step.extents, step), dense_strides(places.step.extents, step)
    start: Size = offset
    lane: Size = 0
    lane_of_places: Size = 0
    for k in range(walk.num_outer):
        block = Block(arg_types=[INDEX])
        lower, upper, stride = (step.value(bound) for bound in (0, step.extents[k], 1))
        step.insert(for_op(lower, upper, stride, [], Region(block)))
        step.builder = Builder(InsertPoint.at_end(block))
        blocks.append(block)
        start = step.add(start, step(block.args[0], walk.strides[k]))
        lane = step.add(lane, step(block.args[0], dense[k]))
        if places.step.shape[k] != 1:
            lane_of_places = step.add(lane_of_places, step(block.args[0], dense_of_places[k]))
    place = read_scalar(step, places.vector, lane_of_places, places.fmt)
    levels = [BoxLevel(n, (s,)) for n, s in zip(step.extents, walk.strides, strict=True)][walk.num_outer :]
    step.load(step.at(dst, step(lane, fmt.bytes)), source, step.add(start, place), levels, fmt)
    for block in blocks:
        block.add_op(yield_op())
    step.builder = outer
    return dst


def read_scalar(step: StepBuilder, vector: SSAValue, lane: Size, fmt: Format) -> SSAValue:
    """The integer in a lane of a vector, as an index."""
    address = step.at(vector, step(lane, fmt.bytes))
    return step.insert(vec.ReadScalarOp(address, _integer_type(fmt))).result


def _integer_type(fmt: Format) -> Attribute:
    if fmt is Format.PRED:
        return i1
    return IntegerType(8 * fmt.bytes, Signedness.UNSIGNED if fmt.name.startswith("U") else Signedness.SIGNLESS)
