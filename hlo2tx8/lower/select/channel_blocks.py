"""Vectors of a box as matrices in channel blocks, and the moves of TDMA between the two where lanes are in another order."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.layouts import LEAST_TAIL, Block, Blocked
from hlo2tx8.errors import CompileError
from hlo2tx8.lower.box_levels import BoxLevel, Size
from hlo2tx8.lower.select.step_builder import StepBuilder

SHORT_RUN_BYTES = 64
"""DDR charges every run of a transfer as if it had at least these."""


class EngineOrderError(CompileError):
    """The matrix engine takes no contraction whose lanes are in such an order; a kernel without it computes the same."""


@dataclass(frozen=True)
class Matrix:
    """Lanes of a vector as the matrix engine sees them: `batch` matrices of `points` rows of `channels`; those of a row next to
    each other in blocks of `inner`, or all of them."""

    batch: Size
    points: Size
    channels: Size
    inner: int
    is_blocked: bool

    def lies_as(self, fmt: Format) -> bool:
        """Is that the layout of the engine in a format?"""
        width = Blocked(fmt, 1, 1, 1).block_width
        if self.is_blocked:
            return self.inner == width
        return LEAST_TAIL <= self.inner <= width and self.inner & (self.inner - 1) == 0


def whole_and_rest(layout: Blocked) -> tuple[int, Block | None]:
    """How many whole channel blocks a matrix has, and what is left over behind them."""
    blocks, whole = list(layout.blocks()), layout.channels // layout.block_width
    return whole, None if whole == len(blocks) else blocks[-1]


def from_lanes(step: StepBuilder, vector: SSAValue, matrix: Matrix, fmt: Format, multiplied: Format) -> SSAValue:
    """A vector as the engine reads it."""
    if matrix.lies_as(multiplied):
        return vector
    layout = layout_of(step, matrix, multiplied)
    buffer = step.alloc(fmt, layout.size_bytes // fmt.bytes)
    for block in layout.blocks():
        levels = [BoxLevel(matrix.points, (layout.channels, block.width)), BoxLevel(block.channels, (1, 1))]
        step.move(_place(step, buffer, matrix, block, fmt), step.at(vector, block.first * fmt.bytes), levels, fmt)
    return buffer


def matrices_from_lanes(step: StepBuilder, vector: SSAValue, matrix: Matrix, fmt: Format, multiplied: Format) -> SSAValue:
    """A vector of matrices that the engine reads one by one, each from where the one before it ends."""
    sizes = (matrix.batch, matrix.points, matrix.channels)
    if matrix.lies_as(multiplied):
        return vector
    batch, points, channels = (size if isinstance(size, int) else 0 for size in sizes)
    if matrix.is_blocked or not batch * points * channels:
        raise EngineOrderError("E3208", f"no moves bring {matrix} into channel blocks")
    layout = Blocked(multiplied, 1, points, channels)
    each = points * layout.aligned_channels
    buffer = step.alloc(fmt, batch * each)
    for block in layout.blocks():
        levels = [BoxLevel(batch, (points * channels, each)), BoxLevel(points, (channels, block.width))]
        source, target = step.at(vector, block.first * fmt.bytes), step.at(buffer, block.offset * fmt.bytes)
        step.move(target, source, [*levels, BoxLevel(block.channels, (1, 1))], fmt)
    return buffer


def to_lanes(step: StepBuilder, buffer: SSAValue, matrix: Matrix, fmt: Format) -> SSAValue:
    """What the engine wrote as a dense vector of the box."""
    if matrix.lies_as(fmt):
        return buffer
    layout = layout_of(step, matrix, fmt)
    vector = step.alloc(fmt)
    for block in layout.blocks():
        levels = [BoxLevel(matrix.points, (block.width, layout.channels)), BoxLevel(block.channels, (1, 1))]
        step.move(step.at(vector, block.first * fmt.bytes), _place(step, buffer, matrix, block, fmt), levels, fmt)
    return vector


def to_turned_lanes(step: StepBuilder, buffer: SSAValue, outer: Size, points: Size, channels: Size, fmt: Format) -> SSAValue:
    """What the engine wrote as [outer, points] of channels, a block at most, as a dense vector [outer, channels, points]."""
    assert isinstance(points, int) and isinstance(channels, int)
    layout = Blocked(fmt, 1, step.num_lanes // channels, channels)
    vector, width = step.alloc(fmt), layout.aligned_channels
    levels = [BoxLevel(outer, (points * width, channels * points)), BoxLevel(channels, (1, points)), BoxLevel(points, (width, 1))]
    step.move(vector, buffer, levels, fmt)
    return vector


def lanes_count(step: StepBuilder, lanes: Sequence[int]) -> Size:
    """Elements of a vector along these lane dimensions."""
    count: Size = prod(step.shape[lane] for lane in lanes if lane not in step.valid)
    for lane in lanes:
        if lane in step.valid:
            count = step(step.valid[lane], count)
    return count


def layout_of(step: StepBuilder, matrix: Matrix, fmt: Format) -> Blocked:
    """The layout of the largest such matrix."""
    if matrix.is_blocked or not isinstance(matrix.channels, int) or matrix.batch != 1:
        raise EngineOrderError("E3208", f"no moves bring {matrix} into channel blocks")
    return Blocked(fmt, 1, max(1, step.num_lanes // matrix.channels), matrix.channels)


def _place(step: StepBuilder, buffer: SSAValue, matrix: Matrix, block: Block, fmt: Format) -> SSAValue:
    """Where a block begins, which depends on the number of points."""
    return step.at(buffer, step(matrix.points, block.first * fmt.bytes))
