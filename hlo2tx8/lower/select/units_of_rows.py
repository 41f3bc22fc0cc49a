"""What each column of rows in channel blocks has once, a scale say, applied by VuV_loop.

box [12, 25, 64]: blocks of columns, rows of which the last step may have fewer, columns of a block
%b = vec.load %p2 {strides = [64, 0, 1]}       RDMA of 768, before the steps
%y = arith.mulf %x, %b                         VuV_loop, a round per block of columns

Spread over the rows it would take as much room as they do. Where steps have different numbers of rows it would lie otherwise in
each, so each would spread it again, and the vector engine wait for that.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from hlo2tx8.device.isa.forms import UNIT_ELEMENTS
from hlo2tx8.dialects import vec
from hlo2tx8.lower.box_levels import BoxLevel
from hlo2tx8.lower.element_format import storage_format
from hlo2tx8.lower.select.channel_blocks import lanes_count
from hlo2tx8.lower.select.padded_step import PaddedStep
from hlo2tx8.lower.select.select_access import constant_start
from hlo2tx8.lower.select.select_rows import is_blocked
from hlo2tx8.lower.select.selector import Selector
from hlo2tx8.lower.select.step_builder import StepBuilder


def unit_lanes(shape: Sequence[int]) -> tuple[int, ...]:
    """The lane dimensions of columns, if those are whole channel blocks, behind which all rows of a block follow; else ()."""
    moving = [lane for lane, size in enumerate(shape) if size > 1]
    ends = (moving[0], moving[-1]) if moving else ()
    return ends if is_blocked(shape, ends) else ()


def load_unit(s: Selector, op: vec.LoadOp, joined: Sequence[int], *, each_step: bool) -> SSAValue | None:
    """The elements of the `joined` lanes, loaded before the steps, or in each; None if a load is none of those."""
    step, strides, start = s.step, vec.ints(op.strides), constant_start(op)
    if isinstance(step, PaddedStep) or not is_blocked(step.shape, joined) or (start is None and not each_step):
        return None
    moving = [lane for lane, size in enumerate(step.shape) if size > 1]
    wanted = [UNIT_ELEMENTS, *[0] * (len(moving) - 2), 1]
    if [strides[lane] for lane in moving] != wanted or set(step.valid) & set(joined) or op.fill is not None or vec.ints(op.clipped):
        return None
    fmt, count = storage_format(op.result.type), step.shape[moving[0]] * UNIT_ELEMENTS
    source = s.slots.get(op.source, op.source)

    def load() -> SSAValue:
        buffer = step.alloc(fmt, count)
        step.load(buffer, source, s.slots[op.offset] if start is None else start, [BoxLevel(count, (1,))], fmt)
        return buffer

    if start is None:
        return load()
    key = ("unit", source, start, fmt, count)
    if key not in s.hoisted:
        s.hoisted[key] = s.in_prologue(load)
    return s.hoisted[key]


def unit_counts(step: StepBuilder, rows: Sequence[int]) -> dict[str, Any]:
    """The counts of a VuV_loop on all lanes of a step, of which these are the rows."""
    return {
        "n": step(lanes_count(step, rows), UNIT_ELEMENTS),
        "u": UNIT_ELEMENTS,
        "full_n": step.count(),
        "full_u": prod(size for lane, size in enumerate(step.shape) if lane not in rows),
    }
