"""Results of the matrix engine that are stored as they lie, channel block by channel block.

Whole blocks are stored with a stride in DDR; only what is left over behind them, which has gaps in the scratchpad, is moved before,
with the last whole block if its runs would be short.
"""

from dataclasses import dataclass

from xdsl.ir import SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.layouts import Block, Blocked
from hlo2tx8.dialects import vec
from hlo2tx8.lower.box_levels import BoxLevel
from hlo2tx8.lower.select.channel_blocks import SHORT_RUN_BYTES, Matrix, layout_of, whole_and_rest
from hlo2tx8.lower.select.resident import is_resident
from hlo2tx8.lower.select.step_builder import StepBuilder


@dataclass(frozen=True)
class InBlocks:
    """A matrix in a buffer, in the engine's layout."""

    buffer: SSAValue
    matrix: Matrix
    fmt: Format

    def store(self, step: StepBuilder, op: vec.StoreOp, target: SSAValue, offset: SSAValue) -> None:
        """Its rows are all lanes but the last, its channels the last."""
        fmt, layout, points = self.fmt, layout_of(step, self.matrix, self.fmt), self.matrix.points
        whole, moved = _stored_and_moved(layout)
        rows = [BoxLevel(extent, (stride,)) for extent, stride in zip(step.extents, vec.ints(op.strides), strict=True)][:-1]
        if whole:
            levels = [BoxLevel(whole, (layout.block_width,)), *rows, BoxLevel(layout.block_width, (1,))]
            step.store(target, offset, self.buffer, levels, fmt)
        if not moved:
            return
        first, channels = moved[0].first, sum(own.channels for own in moved)
        dense = step.alloc(fmt, layout.points * channels)
        for own in moved:
            levels = [BoxLevel(points, (own.width, channels)), BoxLevel(own.channels, (1, 1))]
            at = step.at(dense, (own.first - first) * fmt.bytes)
            step.move(at, step.at(self.buffer, step(points, own.first * fmt.bytes)), levels, fmt)
        step.store(target, step.add(offset, first), dense, [*rows, BoxLevel(channels, (1,))], fmt)


def _stored_and_moved(layout: Blocked) -> tuple[int, list[Block]]:
    """How many blocks are stored as they lie, and those that are moved before."""
    whole, rest = whole_and_rest(layout)
    is_short = rest is not None and rest.channels * layout.fmt.bytes < SHORT_RUN_BYTES
    whole -= is_short and whole > 0
    return whole, list(layout.blocks())[whole:]


def is_stored_in_blocks(step: StepBuilder, value: SSAValue) -> bool:
    """Is a value only stored, row by row?"""
    users = [use.operation for use in value.uses]
    if len(users) != 1 or not isinstance(op := users[0], vec.StoreOp) or is_resident(op.target):
        return False
    strides = vec.ints(op.strides)
    return strides[-1] == 1 and all(stride > 0 or size == 1 for stride, size in zip(strides, step.shape, strict=True))


def can_be_stored(step: StepBuilder, matrix: Matrix, fmt: Format) -> bool:
    """Has it whole blocks, and lies it otherwise than the box?"""
    if matrix.batch != 1 or matrix.is_blocked or matrix.channels != step.shape[-1] or matrix.lies_as(fmt):
        return False
    return _stored_and_moved(layout_of(step, matrix, fmt))[0] > 0
