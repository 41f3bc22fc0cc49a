"""A block of a reduction as instructions: CT's reductions where there is one, else halves joined until one lane is left.

sum of [R, 4096] floats     CT over W of R x 64 x 64, CT over C of R x 64, the R results moved together
sum of [R, 77] floats       moved to channel blocks, CT over C
outer lanes, [32, C]        16 rows joined with 16, 8 with 8, ...
others, [R, 64]             moved to [64, R] first
"""

from math import prod

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.ct_move import CtConvert
from hlo2tx8.device.isa.ct_reduce import MOST_POINTS, MOST_REDUCED, CtReduceMax, CtReduceMin, CtReduceSum, ReduceDim
from hlo2tx8.dialects import vec, xla
from hlo2tx8.lower.box_levels import BoxLevel, Size
from hlo2tx8.lower.element_format import Splat, Vector, storage_format
from hlo2tx8.lower.select.instruction_tables import CT_FORMATS, hlo_name
from hlo2tx8.lower.select.repeat import repeat
from hlo2tx8.lower.select.selector import Selector
from hlo2tx8.lower.select.step_builder import StepBuilder

CT_REDUCTIONS: dict[str, type[Instruction]] = {"add": CtReduceSum, "maximum": CtReduceMax, "minimum": CtReduceMin}
UNIT = 64
"""Channels of a block, lanes of CT's reduction over C."""
PADDED = 4
"""Elements that a result of a reduction over C takes."""


def select_reduce(s: Selector, op: vec.VecReduceOp) -> list[Vector]:
    """The results of a block."""
    lanes, is_outer = op.num_lanes, op.is_outer is not None
    inner = s.within(with_lanes(s.step, lanes, is_outer))
    inner.select(op.elements.block)
    terminator = op.elements.block.last_op
    assert terminator is not None
    formats = [storage_format(value.type) for value in terminator.operands]
    elements = [inner.buffer(inner.vectors[value]) for value in terminator.operands]
    s.step.origin = inner.step.origin
    combiner = op.combiner.block
    kind = ct_reduction(combiner, formats[0])
    if lanes == 1:
        joined: list[Vector] = [*elements]
    elif kind is not None and not is_outer and lanes <= MOST_REDUCED and s.step.num_lanes <= MOST_POINTS:
        joined = [reduce_rows(s.step, kind, elements[0], lanes, formats[0])]
    else:
        if not is_outer and s.step.num_lanes > 1:
            elements = [to_outer(s.step, value, lanes, fmt) for value, fmt in zip(elements, formats, strict=True)]
        joined = halve(s, combiner, elements, lanes, formats)
    return combine(s, combiner, [*(s.vectors[value] for value in op.init), *joined])


def select_broadcast(s: Selector, op: vec.BroadcastOp) -> Vector:
    """The vector once per lane of the reduction around."""
    value, reduction = s.vectors[op.value], op.parent_op()
    if isinstance(value, Splat):
        return value
    assert isinstance(reduction, vec.VecReduceOp)
    fmt, lanes, is_outer = storage_format(op.result.type), reduction.num_lanes, reduction.is_outer is not None
    shape = s.step.shape[1:] if is_outer else s.step.shape[:-1]
    valid = {lane - is_outer: size for lane, size in s.step.valid.items()}
    rows = StepBuilder(s.step.builder, s.step.prologue, shape, valid).count()
    result = s.step.alloc(fmt)
    levels = (
        [BoxLevel(lanes, (0, rows)), BoxLevel(rows, (1, 1))] if is_outer else [BoxLevel(rows, (1, lanes)), BoxLevel(lanes, (0, 1))]
    )
    repeat(s.step, result, value, levels, fmt, prod(shape))
    return result


def combine(s: Selector, block: Block, arguments: list[Vector]) -> list[Vector]:
    """The combiner on vectors of a box."""
    s.vectors.update(zip(block.args, arguments, strict=True))
    s.select(block)
    terminator = block.last_op
    assert terminator is not None
    return [s.vectors[value] for value in terminator.operands]


def with_lanes(step: StepBuilder, lanes: int, is_outer: bool) -> StepBuilder:
    """The step of the box with one more lane dimension."""
    shape = (lanes, *step.shape) if is_outer else (*step.shape, lanes)
    valid = {lane + is_outer: size for lane, size in step.valid.items()}
    return StepBuilder(step.builder, step.prologue, shape, valid, step.origin)


def ct_reduction(block: Block, fmt: Format) -> type[Instruction] | None:
    """The instruction that joins with the combiner."""
    first = block.first_op
    if fmt not in CT_FORMATS or len(block.args) != 2 or first is None or first.next_op is not block.last_op:
        return None
    terminator = block.last_op
    if not isinstance(first, (arith.AddfOp, arith.MaximumfOp, arith.MinimumfOp, xla.ElementwiseOp)) or terminator is None:
        return None
    joins_both = set(first.operands) == set(block.args) and tuple(terminator.operands) == tuple(first.results)
    return CT_REDUCTIONS.get(hlo_name(first)) if joins_both else None


def reduce_rows(
    step: StepBuilder, kind: type[Instruction], source: SSAValue, width: int, fmt: Format, *, is_read_once: bool = False
) -> SSAValue:
    """[rows, width] to [rows]; `is_read_once`: nothing else reads them."""
    rows = step.count()
    channels = min(width & -width, UNIT)
    if channels < PADDED:
        widened = _widened_by(source) if is_read_once and width > UNIT else None
        if widened is not None:
            source, channels = _widened_in_blocks(step, widened, width), width
        else:
            source, channels = _to_blocks(step, source, width, fmt), width
    elif (points := width // channels) > 1:
        partial = step.alloc(fmt, step.num_lanes * channels)
        step.insert(_ct(kind, fmt, partial, source, ReduceDim.W, rows, points, channels, step))
        source = partial
    return reduce_blocks(step, kind, source, channels, fmt)


def reduce_blocks(step: StepBuilder, kind: type[Instruction], source: SSAValue, channels: int, fmt: Format) -> SSAValue:
    """[channel blocks, rows, channels of a block] to [rows]."""
    rows = step.count()
    padded = step.alloc(fmt, step.num_lanes * PADDED)
    step.insert(_ct(kind, fmt, padded, source, ReduceDim.C, rows, 1, channels, step))
    return compacted(step, padded, fmt)


def compacted(step: StepBuilder, padded: SSAValue, fmt: Format) -> SSAValue:
    """[rows][4], of which the first counts, as [rows]."""
    rows = step.count()
    if rows == 1:
        return padded
    result = step.alloc(fmt)
    step.move(result, padded, [BoxLevel(rows, (PADDED, 1))], fmt)
    return result


def _ct(
    kind: type[Instruction], fmt: Format, dst: SSAValue, src: SSAValue, dim: ReduceDim, h: Size, w: int, c: int, step: StepBuilder
) -> Operation:
    return kind.make(fmt=fmt, dst=dst, src=src, batch=1, h=h, w=w, c=c, dim=dim.value, origin=step.origin)


def _to_blocks(step: StepBuilder, source: SSAValue, width: int, fmt: Format) -> SSAValue:
    """[rows, width], dense, in channel blocks; the padding stays as it is."""
    rows, (whole, rest) = step.count(), divmod(width, UNIT)
    is_block = rest > UNIT // 2
    tail = UNIT if is_block else max(PADDED, 1 << max(rest - 1, 0).bit_length())
    blocks = step.alloc(fmt, step.num_lanes * (whole * UNIT + tail))
    if whole:
        levels = [BoxLevel(whole, (UNIT, step(rows, UNIT))), BoxLevel(rows, (width, UNIT)), BoxLevel(UNIT, (1, 1))]
        step.move(blocks, source, levels, fmt)
    if rest:
        start = step.at(blocks, step(rows, whole * UNIT * fmt.bytes))
        step.move(start, step.at(source, whole * UNIT * fmt.bytes), [BoxLevel(rows, (width, tail)), BoxLevel(rest, (1, 1))], fmt)
    return blocks


def _widened_by(vector: SSAValue) -> CtConvert | None:
    """The conversion from 16 bits that a vector is, if nothing else reads it so far."""
    uses = [use.operation for use in vector.uses]
    return uses[0] if len(uses) == 1 and isinstance(uses[0], CtConvert) and uses[0].fmt.bytes > uses[0].fmt2.bytes == 2 else None


def _widened_in_blocks(step: StepBuilder, op: CtConvert, width: int) -> SSAValue:
    """What a conversion makes of [rows, width], in channel blocks, in its place: TDMA moves half as much before it.

    What is left over behind whole blocks is moved with as much in front of it as its block is wider, so that all that is converted
    has been written.
    """
    rows, (whole, rest), source = step.count(), divmod(width, UNIT), op.field("src")
    assert isinstance(source, SSAValue)
    tail = UNIT if rest > UNIT // 2 else max(PADDED, 1 << max(rest - 1, 0).bit_length())
    ahead, size = tail - rest, step.num_lanes * (whole * UNIT + tail)
    narrow, blocks = step.alloc(op.fmt2, size), step.alloc(op.fmt, size)
    start = step.at(narrow, step(step.add(step(rows, whole * UNIT), -ahead), op.fmt2.bytes))
    first = step.at(source, (whole * UNIT - ahead) * op.fmt2.bytes)
    step.move(start, first, [BoxLevel(rows, (width, tail)), BoxLevel(tail, (1, 1))], op.fmt2)
    levels = [BoxLevel(whole, (UNIT, step(rows, UNIT))), BoxLevel(rows, (width, UNIT)), BoxLevel(UNIT, (1, 1))]
    step.move(narrow, source, levels, op.fmt2)
    count = step.add(step(rows, whole * UNIT + tail), -ahead)
    step.insert(CtConvert.make(fmt=op.fmt, fmt2=op.fmt2, dst=blocks, src=narrow, n=count, origin=step.origin))
    op.detach()
    op.erase()
    return blocks


def to_outer(step: StepBuilder, source: SSAValue, lanes: int, fmt: Format) -> SSAValue:
    """[rows, lanes] as [lanes, rows]."""
    rows = step.count()
    result = step.alloc(fmt, step.num_lanes * lanes)
    step.move(result, source, [BoxLevel(lanes, (1, rows)), BoxLevel(rows, (lanes, 1))], fmt)
    return result


def halve(s: Selector, block: Block, values: list[SSAValue], lanes: int, formats: list[Format]) -> list[Vector]:
    """[lanes, rows] to [rows]: the second half joined to the first, what is left over at the end."""
    rows = s.step.count()

    def at(first: int) -> list[Vector]:
        return [s.step.at(value, s.step(rows, first * fmt.bytes)) for value, fmt in zip(values, formats, strict=True)]

    left: list[list[Vector]] = []
    while lanes > 1:
        half = lanes // 2
        if lanes % 2:
            left.append(at(2 * half))
        part = s.within(with_lanes(s.step, half, is_outer=True))
        values = [part.buffer(value) for value in combine(part, block, [*values, *at(half)])]
        lanes = half
    joined: list[Vector] = [*values]
    for rest in left:
        joined = combine(s, block, [*joined, *rest])
    return joined
