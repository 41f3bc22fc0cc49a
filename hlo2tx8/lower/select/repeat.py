"""Elements that are moved to several places each: TDMA moves runs, and one element is a short one.

[rows] to [rows, 1000]      [rows] to [rows, 4], and that 250 times; for each place by itself a run of an element
"""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.lower.box_levels import BoxLevel, Size, coalesce, dense_strides
from hlo2tx8.lower.select.step_builder import StepBuilder

LEAST_ELEMENTS = 1024
"""Elements of the result from which on two moves take less than one."""


def repeat(step: StepBuilder, dst: SSAValue, src: SSAValue, levels: Sequence[BoxLevel], fmt: Format, distinct: int) -> None:
    """What `step.move` does, of as many elements of `src` at most, in runs as long as the widest element if that is less work."""
    chunk = Format.RAW128.bytes // fmt.bytes
    *outer, last = coalesce(levels, step) or (BoxLevel(1, (0, 1)),)
    if last.strides != (0, 1) or not isinstance(last.extent, int) or last.extent < 2 * chunk or chunk == 1:
        step.move(dst, src, levels, fmt)
        return
    if distinct * last.extent < LEAST_ELEMENTS:
        step.move(dst, src, levels, fmt)
        return
    chunks, own = step.alloc(fmt, distinct * chunk), [level for level in outer if level.strides[0] != 0]
    places = dense_strides([*(level.extent for level in own), chunk], step)[:-1]
    filled = [BoxLevel(level.extent, (level.strides[0], place)) for level, place in zip(own, places, strict=True)]
    step.move(chunks, src, [*filled, BoxLevel(chunk, (0, 1))], fmt)
    reads: dict[int, Size] = {id(level): place for level, place in zip(own, places, strict=True)}
    copied = [BoxLevel(level.extent, (reads.get(id(level), 0), level.strides[1])) for level in outer]
    whole, rest = divmod(last.extent, chunk)
    step.move(dst, chunks, [*copied, BoxLevel(whole, (0, chunk)), BoxLevel(chunk, (1, 1))], fmt)
    if rest:
        step.move(step.at(dst, whole * chunk * fmt.bytes), chunks, [*copied, BoxLevel(rest, (1, 1))], fmt)
