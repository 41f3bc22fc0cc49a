"""A side of a contraction that is loaded straight into channel blocks, not into a dense vector first: one that is loaded clipped,
as an image with padding, into blocks that hold the fill value; and one whose channels are several whole blocks."""

from xdsl.dialects import arith, func
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.xla_dot import yielded
from hlo2tx8.lower.box_levels import BoxLevel, Size
from hlo2tx8.lower.element_format import Splat, storage_format
from hlo2tx8.lower.select.channel_blocks import SHORT_RUN_BYTES, Matrix, layout_of, whole_and_rest
from hlo2tx8.lower.select.resident import is_resident
from hlo2tx8.lower.select.select_access import constant_start, same_in_all_steps
from hlo2tx8.lower.select.select_memory import Box, clipped_box, clips_of, dense_strides, load_box
from hlo2tx8.lower.select.selector import Selector
from hlo2tx8.lower.select.step_builder import StepBuilder

LEAST_TO_SHORT = 16
"""So many times as long are rows of which a short run more is no matter."""
MOST_APART_BYTES = 65536
"""Of a side that every tile loads for itself."""


def load_padded_blocks(s: Selector, block: Block, matrix: Matrix, multiplied: Format) -> SSAValue | None:
    """The side as the engine reads it; None, with nothing emitted, where it is no such load.

    The last lanes have to be the channels, all of them, and all others rows of the matrix.
    """
    load = yielded(block).owner
    if not isinstance(load, vec.LoadOp) or not _is_padded(s.step, load, matrix, multiplied):
        return None
    fill = Splat(0, storage_format(load.result.type)) if load.fill is None else s.vector(load.fill)
    if not isinstance(fill, Splat) or not _is_alone(load, block):
        return None
    _select_others(s, load, block)
    step, fmt, layout = s.step, fill.fmt, layout_of(s.step, matrix, multiplied)
    count = layout.size_bytes // fmt.bytes
    buffer = s.filled(fill, count, count)
    clips = clips_of(load, s.slots)
    box = clipped_box(step, clips)
    if any(box.extents[clip.lane] == 0 for clip in clips):
        return buffer
    with step.if_positive([box.extents[clip.lane] for clip in clips]):
        source = s.slots.get(load.source, load.source)
        loaded = load_box(step, source, s.slots[load.offset], vec.ints(load.strides), box, fmt)
        _place(step, buffer, loaded, box, matrix, multiplied)
    return buffer


def load_in_blocks(s: Selector, block: Block, matrix: Matrix, multiplied: Format) -> SSAValue | None:
    """The side as the engine reads it, channel block by channel block; None, with nothing emitted, where it is no such load, or its
    channels are no long runs in DDR.

    What is left over behind whole blocks is loaded as wide as its block, from as much in front of it: DMA leaves no gaps in the
    scratchpad, and the matrix begins behind what is too much.
    """
    load, step = yielded(block).owner, s.step
    if not isinstance(load, vec.LoadOp) or not _is_plain(step, load, matrix, multiplied) or not _is_alone(load, block):
        return None
    fmt, width = storage_format(load.result.type), Blocked(multiplied, 1, 1, 1).block_width
    if vec.ints(load.clipped) or load.fill is not None or width * fmt.bytes < SHORT_RUN_BYTES or fmt.bytes != multiplied.bytes:
        return None
    layout = layout_of(step, matrix, multiplied)
    whole, rest = whole_and_rest(layout)
    ahead = 0 if rest is None else rest.width - rest.channels
    if rest is not None and whole == 0 and least_offset(load) < ahead:
        return None
    if rest is not None and whole > 0:
        is_short = rest.width * fmt.bytes < SHORT_RUN_BYTES and layout.channels * fmt.bytes < LEAST_TO_SHORT * SHORT_RUN_BYTES
        if is_short or is_on_mesh(load) or _is_all_at_once(s, load, block):  # what tiles share is one load
            return None
    _select_others(s, load, block)
    rows = [BoxLevel(extent, (stride,)) for extent, stride in zip(step.extents, vec.ints(load.strides), strict=True)][:-1]
    source, offset = s.slots.get(load.source, load.source), s.slots[load.offset]
    first = 0 if whole else ahead
    buffer = step.alloc(fmt, layout.size_bytes // fmt.bytes + first)
    if rest is not None:  # before the whole blocks, the end of which it overwrites
        at = step.add(step(matrix.points, rest.first) if whole else 0, first - ahead)
        levels = [*rows, BoxLevel(rest.width, (1,))]
        step.load(step.at(buffer, step(at, fmt.bytes)), source, step.add(offset, rest.first - ahead), levels, fmt)
    if whole:
        levels = [BoxLevel(whole, (width,)), *rows, BoxLevel(width, (1,))]
        step.load(buffer, source, offset, levels, fmt)
    return step.at(buffer, first * fmt.bytes)


def least_offset(load: vec.LoadOp) -> int:
    """Elements of what is loaded that are in front of it in every step."""
    owner = load.offset.owner
    if not isinstance(owner, xla.ApplyIndexingOp):
        return 0
    map = owner.map.data
    return map.bounds(map.results[owner.results.index(load.offset)]).lo


def is_on_mesh(op: Operation) -> bool:
    """Is it in a kernel whose tiles share what they load?"""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, func.FuncOp):
        parent = parent.parent_op()
    return parent is not None and xla.MESH in parent.attributes


def _is_all_at_once(s: Selector, load: vec.LoadOp, block: Block) -> bool:
    """Is a side the same on all tiles, and all of it, and so large that each had better load a part for all (`spread-loads`)?"""
    dot, size_bytes = block.parent_op(), s.step.num_lanes * storage_format(load.result.type).bytes
    is_alike = isinstance(dot, vec.VecDotOp) and dot.init not in s.sums and constant_start(load) is not None
    return is_alike and size_bytes > MOST_APART_BYTES


def _is_alone(load: vec.LoadOp, block: Block) -> bool:
    """Is there nothing but arithmetic on indices beside it?"""
    return all(isinstance(op, _SCALARS) for op in block.ops if op is not load)


def _select_others(s: Selector, load: vec.LoadOp, block: Block) -> None:
    for op in block.ops:
        if op is not load:
            s.select_one(op)


_SCALARS = (xla.ApplyIndexingOp, vec.ExtentOp, arith.ConstantOp, xla.ConstantOp, xla.YieldOp)


def _is_padded(step: StepBuilder, load: vec.LoadOp, matrix: Matrix, multiplied: Format) -> bool:
    clipped = vec.ints(load.clipped)
    return bool(clipped) and len(step.shape) - 1 not in clipped and _is_plain(step, load, matrix, multiplied)


def _is_plain(step: StepBuilder, load: vec.LoadOp, matrix: Matrix, multiplied: Format) -> bool:
    """Is it a load whose last lanes are all channels, which are next to each other in DDR and not as the engine has them?"""
    last = len(step.shape) - 1
    is_plain = matrix.batch == 1 and not matrix.is_blocked and matrix.channels == step.shape[last]
    is_dense = vec.ints(load.strides)[last] == 1 and all(stride > 0 for stride in vec.ints(load.strides)[:last])
    is_read_once = not is_resident(load.source) and same_in_all_steps(step, load) is None and load.result.has_one_use()
    return is_plain and is_dense and is_read_once and not matrix.lies_as(multiplied)


def _place(step: StepBuilder, buffer: SSAValue, loaded: SSAValue, box: Box, matrix: Matrix, multiplied: Format) -> None:
    """Moves a dense box to its place in each block."""
    fmt_bytes, layout = multiplied.bytes, layout_of(step, matrix, multiplied)
    read, points = dense_strides(step, box.extents)[:-1], dense_strides(step, step.extents[:-1])
    first: Size = 0
    for start, stride in zip(box.starts, points, strict=False):
        first = step.add(first, step(start, stride))
    for block in layout.blocks():
        at = step.add(step(first, block.width * fmt_bytes), step(matrix.points, block.first * fmt_bytes))
        rows = zip(box.extents, read, points, strict=False)
        levels = [BoxLevel(extent, (source, step(point, block.width))) for extent, source, point in rows]
        levels.append(BoxLevel(block.channels, (1, 1)))
        step.move(step.at(buffer, at), step.at(loaded, block.first * fmt_bytes), levels, multiplied)
