"""A scan of lanes as instructions: in log2(n) turns, each lane is joined with the one 1, 2, 4 ... before it.

With the scanned dimension outside of the others, which TDMA brings about where a step has several lines, a turn is one instruction
on two parts of a buffer, [n - d, rows] elements from the start and from d rows on. The initial values are joined last.
"""

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.dialects import vec
from hlo2tx8.lower.box_levels import BoxLevel, dense_strides
from hlo2tx8.lower.element_format import Splat, Vector, storage_format
from hlo2tx8.lower.select.instruction_choice import binary_form
from hlo2tx8.lower.select.select_reduce import combine, with_lanes
from hlo2tx8.lower.select.selector import Selector
from hlo2tx8.lower.select.step_builder import StepBuilder


def select_scan_lanes(s: Selector, rows: Selector, op: vec.VecScanLanesOp) -> list[SSAValue]:
    """The results, as vectors of the box; `rows` selects vectors that have one lane along the one that is scanned."""
    (lane,), step, block = op.lanes, s.step, op.combiner.block
    formats = [storage_format(value.type) for value in op.elements]
    found = [s.buffer(s.vector(value)) for value in op.elements]
    is_outer = all(size == 1 for size in step.shape[:lane])
    if not is_outer:
        found = [_moved(step, lane, value, fmt, to_outer=True) for value, fmt in zip(found, formats, strict=True)]
    size, distance = step.shape[lane], 1
    while distance < size:
        new = [step.alloc(fmt) for fmt in formats]
        for target, value, fmt in zip(new, found, formats, strict=True):
            step.move(target, value, [BoxLevel(step(rows.step.count(), distance), (1, 1))], fmt)
        later = [_at(rows.step, value, distance, fmt) for value, fmt in zip(found, formats, strict=True)]
        targets = [_at(rows.step, value, distance, fmt) for value, fmt in zip(new, formats, strict=True)]
        part = rows.within(with_lanes(rows.step, size - distance, is_outer=True))
        _join(part, block, found, later, targets, formats)
        found, distance = new, 2 * distance
    part = rows.within(with_lanes(rows.step, size, is_outer=True))
    new = [step.alloc(fmt) for fmt in formats]
    starts = [_spread(rows, rows.vector(value), size, fmt) for value, fmt in zip(op.init, formats, strict=True)]
    _join(part, block, starts, found, new, formats)
    if is_outer:
        return new
    return [_moved(step, lane, value, fmt, to_outer=False) for value, fmt in zip(new, formats, strict=True)]


def _join(
    part: Selector,
    block: Block,
    before: Sequence[Vector],
    elements: Sequence[SSAValue],
    targets: Sequence[SSAValue],
    formats: Sequence[Format],
) -> None:
    """What is `before` joined with the elements, to the targets."""
    step, kind = part.step, _one_instruction(block, formats[0])
    if kind is not None and isinstance(before[0], SSAValue):
        (dst,), (b,), (fmt,) = targets, elements, formats
        step.insert(kind.make(fmt=fmt, dst=dst, a=before[0], b=b, n=step.count(), origin=step.origin))
        return
    results = [part.buffer(value) for value in combine(part, block, [*before, *elements])]
    for target, value, fmt in zip(targets, results, formats, strict=True):
        step.move(target, value, [BoxLevel(step.count(), (1, 1))], fmt)


def _one_instruction(block: Block, fmt: Format) -> type[Instruction] | None:
    """The instruction of a combiner that is one operation on its arguments."""
    first, terminator = block.first_op, block.last_op
    if first is None or terminator is None or first.next_op is not terminator or len(block.args) != 2:
        return None
    is_plain = tuple(first.operands) == tuple(block.args) and tuple(terminator.operands) == tuple(first.results)
    return binary_form(first, fmt) if is_plain else None


def _spread(rows: Selector, value: Vector, size: int, fmt: Format) -> Vector:
    """A vector of the rows once per lane, these outside."""
    if isinstance(value, Splat) or size == 1:
        return value
    count = rows.step.count()
    result = rows.step.alloc(fmt, size * rows.step.num_lanes)
    rows.step.move(result, value, [BoxLevel(size, (0, count)), BoxLevel(count, (1, 1))], fmt)
    return result


def _at(step: StepBuilder, buffer: SSAValue, lane: int, fmt: Format) -> SSAValue:
    """Where the elements of a lane of the outer dimension lie."""
    return step.at(buffer, step(step.count(), lane * fmt.bytes))


def _moved(step: StepBuilder, lane: int, source: SSAValue, fmt: Format, *, to_outer: bool) -> SSAValue:
    """The vector with a lane dimension outside of the others, or from there back in its place."""
    order = (lane, *(k for k in range(len(step.shape)) if k != lane))
    inside = dense_strides(step.extents, step)
    outside = dict(zip(order, dense_strides([step.extents[k] for k in order], step), strict=True))
    result = step.alloc(fmt)
    sides = [(inside[k], outside[k]) if to_outer else (outside[k], inside[k]) for k in range(len(step.shape))]
    dims = order if to_outer else range(len(step.shape))
    step.move(result, source, [BoxLevel(step.extents[k], sides[k]) for k in dims], fmt)
    return result
