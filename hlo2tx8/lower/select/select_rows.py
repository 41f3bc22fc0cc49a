"""A reduction over lanes of a step as instructions, and what is the same in the lanes that were joined.

    %m = vec.reduce_lanes over [1] ...      [8, 1024] to [8] by CT
    %s = arith.divf %m, %n                  on [8]: values that do not vary along the joined lanes have one element for all of them
    %d = arith.subf %x, %s                  [8] to [8, 64] to [8, 1024] by TDMA, then VV

Such a box has two selectors: one for its lanes, and one, `rows`, for boxes that have one lane along the joined dimensions.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.ct_reduce import MOST_POINTS, MOST_REDUCED, CtReduceMax, CtReduceMin, CtReduceSum
from hlo2tx8.dialects import vec
from hlo2tx8.dialects.vector_instructions import is_difference_of_exponents
from hlo2tx8.errors import CompileError
from hlo2tx8.lower.box_levels import BoxLevel, dense_strides
from hlo2tx8.lower.element_format import Splat, Vector, storage_format
from hlo2tx8.lower.select.padded_step import PaddedStep
from hlo2tx8.lower.select.repeat import repeat
from hlo2tx8.lower.select.select_reduce import combine, ct_reduction, halve, reduce_blocks, reduce_rows, to_outer
from hlo2tx8.lower.select.selector import Selector
from hlo2tx8.lower.select.spread_rows import is_spread_by_product, spread_rows, subtract_rows
from hlo2tx8.lower.select.step_builder import StepBuilder
from hlo2tx8.lower.select.sums_by_product import is_summed_by_product, sum_by_product
from hlo2tx8.lower.vectorize.varying_lanes import Known, varying_lanes

NEUTRAL: dict[type[Instruction], float] = {CtReduceSum: -0.0, CtReduceMax: -np.inf, CtReduceMin: np.inf}
CHUNK = 64
"""Channels of a block."""


def joined_lanes(block: Block, rank: int) -> tuple[int, ...]:
    """The lanes that reductions and scans join, else those along which no run-time place of a load or store varies, () if there
    is none; CompileError if reductions do not agree."""
    joining = (op for op in block.ops if isinstance(op, vec.VecReduceLanesOp | vec.VecScanLanesOp))
    found = list(dict.fromkeys(op.lanes for op in joining))
    if len(found) > 1:
        raise CompileError("E3201", f"reductions of one step join different lanes: {found}")
    if found:
        return found[0]
    places = [op.shift for op in block.ops if isinstance(op, (vec.LoadAtOp, vec.StoreAtOp))]
    if not places or any(op.regions for op in block.ops):
        return ()
    known = Known()
    varying = {lane for place in places for lane in varying_lanes(place, known)}
    return tuple(lane for lane in range(rank) if lane not in varying)


def row_step(step: StepBuilder, joined: Sequence[int]) -> StepBuilder:
    """The step with one lane along the dimensions that are joined."""
    shape = tuple(1 if lane in joined else size for lane, size in enumerate(step.shape))
    valid = {lane: size for lane, size in step.valid.items() if lane not in joined}
    return StepBuilder(step.builder, step.prologue, shape, valid, step.origin)


def is_of_rows(op: Operation, joined: Sequence[int], known: Known) -> bool:
    """Is there one element of all that the operation gives or stores for the lanes that are joined?"""
    match op:
        case vec.StoreOp() | vec.StoreAtOp():
            strides = vec.ints(op.strides)
            return not any(strides[lane] for lane in joined)
        case vec.VecReduceLanesOp() | vec.VecScanLanesOp():
            return False
        case _:
            results = [result for result in op.results if isinstance(result.type, VectorType)]
            return bool(results) and not any(set(varying_lanes(result, known)) & set(joined) for result in results)


def select_reduce_lanes(s: Selector, rows: Selector, op: vec.VecReduceLanesOp) -> list[Vector]:
    """The results, as vectors of `rows`."""
    combiner, step = op.combiner.block, rows.step
    formats = [storage_format(value.type) for value in op.elements]
    elements = [s.buffer(s.vector(value)) for value in op.elements]
    lanes, in_blocks = prod(s.step.shape[lane] for lane in op.lanes), lies_in_blocks(s.step, op.lanes)
    is_inner = _is_inner(s.step.shape, op.lanes)
    if not (in_blocks or is_inner or _is_outer(s.step.shape, op.lanes)):
        raise CompileError("E3201", f"the joined lanes {list(op.lanes)} lie between others of the box {list(s.step.shape)}")
    kind = ct_reduction(combiner, formats[0])
    is_product = in_blocks and kind is CtReduceSum and is_summed_by_product(op.elements[0], lanes)
    if is_product and _is_zero(rows.vector(op.init[0])):
        return [sum_by_product(step, elements[0], lanes, formats[0], s.filled_before_steps)]
    if in_blocks and lanes > 1:
        if kind is None or lanes > MOST_REDUCED or step.num_lanes > MOST_POINTS:
            raise CompileError("E3201", "no instruction joins lanes that are in channel blocks so")
        joined: list[Vector] = [reduce_blocks(step, kind, elements[0], lanes, formats[0])]
        if _is_neutral(kind, rows.vector(op.init[0])):
            return joined
    elif lanes == 1:
        joined = [*elements]
    elif kind is not None and is_inner and lanes <= MOST_REDUCED and step.num_lanes <= MOST_POINTS:
        is_read_once = op.elements[0].has_one_use()
        joined = [reduce_rows(step, kind, elements[0], lanes, formats[0], is_read_once=is_read_once)]
        if _is_neutral(kind, rows.vector(op.init[0])):
            return joined
    else:
        if is_inner and step.num_lanes > 1:
            elements = [to_outer(step, value, lanes, fmt) for value, fmt in zip(elements, formats, strict=True)]
        joined = halve(rows, combiner, elements, lanes, formats)
    return combine(rows, combiner, [*(rows.vector(value) for value in op.init), *joined])


def _is_zero(initial: Vector) -> bool:
    """Is it a zero of either sign, which changes no sum of numbers that are not negative?"""
    return isinstance(initial, Splat) and initial.bits in (0, 1 << (8 * initial.fmt.bytes - 1))


def _is_neutral(kind: type[Instruction], initial: Vector) -> bool:
    """Is what CT reduced still the same when it is joined with this?"""
    if not isinstance(initial, Splat):
        return False
    neutral = np.array(NEUTRAL[kind], initial.fmt.numpy_dtype)
    return initial.bits == int.from_bytes(neutral.tobytes(), "little")


def lies_in_blocks(step: StepBuilder, joined: Sequence[int]) -> bool:
    """Do the joined lanes of the vectors of a step lie in channel blocks, padded ones perhaps?"""
    return isinstance(step, PaddedStep) or is_blocked(step.shape, joined)


def is_blocked(shape: Sequence[int], joined: Sequence[int]) -> bool:
    """Are the lanes in the order of channel blocks, [block, row, channel], and the channels joined?"""
    moving = [lane for lane, size in enumerate(shape) if size > 1]
    own = [lane for lane in moving if lane in joined]
    return len(own) == 2 and own == [moving[0], moving[-1]] and len(moving) > 2 and shape[own[1]] == CHUNK


def _is_inner(shape: Sequence[int], joined: Sequence[int]) -> bool:
    """Do the joined lanes lie inside of all others?"""
    moving = [lane for lane, size in enumerate(shape) if size > 1]
    return all(k < j for j in moving if j in joined for k in moving if k not in joined)


def _is_outer(shape: Sequence[int], joined: Sequence[int]) -> bool:
    """Do the joined lanes lie outside of all others?"""
    return _is_inner(shape, [lane for lane in range(len(shape)) if lane not in joined])


def select_difference(s: Selector, rows: Selector, op: Operation) -> SSAValue | None:
    """A vector less an element for each row as a product, None if it is none or anything else."""
    if not is_difference_of_exponents(op) or op.operands[1] not in rows.vectors or op.operands[0] in rows.vectors:
        return None
    minuend, value = s.vector(op.operands[0]), rows.vectors[op.operands[1]]
    changed = [k for k, (a, b) in enumerate(zip(s.step.shape, rows.step.shape, strict=True)) if a != b]
    if isinstance(minuend, Splat) or isinstance(value, Splat) or not lies_in_blocks(s.step, changed):
        return None
    return subtract_rows(s.step, rows.step, minuend, value, s.filled_before_steps)


def expand(s: Selector, rows: Selector, source: SSAValue, fmt: Format) -> Vector:
    """The value `source` of the rows in every lane of the box."""
    value = rows.vectors[source]
    if isinstance(value, Splat) or s.step.num_lanes == rows.step.num_lanes:
        return value
    changed = [k for k, (a, b) in enumerate(zip(s.step.shape, rows.step.shape, strict=True)) if a != b]
    if lies_in_blocks(s.step, changed) and is_spread_by_product(source, fmt):
        return spread_rows(s.step, rows.step, value, fmt, s.filled_before_steps)
    if isinstance(s.step, PaddedStep):
        return s.step.expand(value, fmt)
    step, result = s.step, s.step.alloc(fmt)
    read, write = dense_strides(rows.step.extents, step), dense_strides(step.extents, step)
    is_joined = [a != b for a, b in zip(step.shape, rows.step.shape, strict=True)]
    levels = [BoxLevel(e, (0 if j else r, w)) for e, r, w, j in zip(step.extents, read, write, is_joined, strict=True)]
    joined, distinct = [k for k, j in enumerate(is_joined) if j], rows.step.num_lanes
    if is_blocked(step.shape, joined):
        count = rows.step.count()
        chunks = step.alloc(fmt, distinct * CHUNK)
        repeat(step, chunks, value, [BoxLevel(count, (1, CHUNK)), BoxLevel(CHUNK, (0, 1))], fmt, distinct)
        size = step(count, CHUNK)
        value, levels = chunks, [BoxLevel(prod(step.shape[k] for k in joined) // CHUNK, (0, size)), BoxLevel(size, (1, 1))]
    repeat(step, result, value, levels, fmt, distinct)
    return result
