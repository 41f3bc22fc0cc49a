"""Statistics of rows in all lanes of a step, by the matrix engine: the product of a column and a row of ones.

    [rows][4] as CT reduces them  x  ones [columns]   =   [column blocks][rows][64]

One instruction of an engine that is idle then, a quarter of a cycle per row and block; TDMA takes eight cycles a row to repeat
an element, and CT waits for it. What it gives is exact but for the sign of a zero, which becomes positive: it is used where nobody
can tell.
"""

from collections.abc import Callable
from math import prod

import numpy as np
from xdsl.dialects import arith, math
from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_reduce import CtReduce
from hlo2tx8.device.isa.lsu import TdmaGatherScatter
from hlo2tx8.device.isa.ne import NeGemm
from hlo2tx8.dialects import vec, xla
from hlo2tx8.lower.box_levels import BoxLevel
from hlo2tx8.lower.element_format import Splat
from hlo2tx8.lower.select.instruction_choice import hlo_name
from hlo2tx8.lower.select.select_reduce import PADDED
from hlo2tx8.lower.select.step_builder import StepBuilder

SPREAD_FORMATS = (Format.BF16, Format.FP16)
"""Formats whose elements the engine multiplies and writes without rounding."""


def is_spread_by_product(value: SSAValue, fmt: Format) -> bool:
    """May a value of the rows lose the sign of a zero?"""
    return fmt in SPREAD_FORMATS and (is_not_negative(value) or _only_exponents_of_differences(value))


def is_not_negative(value: SSAValue) -> bool:
    """Is it a sum of exponentials, converted perhaps?"""
    owner = value.owner
    match owner:
        case vec.VecReduceLanesOp():
            first = owner.combiner.block.first_op
            adds = isinstance(first, arith.AddfOp) and first.next_op is owner.combiner.block.last_op
            return adds and all(is_not_negative(element) for element in owner.elements)
        case math.ExpOp():
            return True
        case Operation() if _is(owner, "convert"):
            return is_not_negative(owner.operands[0])
        case _:
            return False


def _only_exponents_of_differences(value: SSAValue) -> bool:
    """Is it only subtracted, and only the exponential of the difference wanted?"""
    for use in value.uses:
        user = use.operation
        if not isinstance(user, arith.SubfOp) or use.index != 1:
            return False
        if not all(isinstance(further.operation, math.ExpOp) for further in user.result.uses):
            return False
    return True


def _is(op: Operation, name: str) -> bool:
    named = isinstance(op, (xla.ElementwiseOp, arith.ExtFOp, arith.TruncFOp))
    return named and hlo_name(op) == name


def spread_rows(
    step: StepBuilder, rows: StepBuilder, value: SSAValue, fmt: Format, ones: Callable[[Splat, int], SSAValue]
) -> SSAValue:
    """[rows] as [column blocks, rows, columns of a block]; `ones` gives a buffer of as many elements, filled before the steps."""
    width = prod(a for a, b in zip(step.shape, rows.shape, strict=True) if a != b)
    count = rows.count()
    padded = _as_reduced(value)
    if padded is None:
        padded = step.alloc(fmt, rows.num_lanes * PADDED)
        step.move(padded, value, [BoxLevel(count, (1, PADDED))], fmt)
    one = int.from_bytes(np.ones((), fmt.numpy_dtype).tobytes(), "little")
    result = step.alloc(fmt)
    step.insert(
        NeGemm.make(
            fmt=fmt,
            fmt2=fmt,
            dst=result,
            left=padded,
            right=ones(Splat(one, fmt), width * PADDED),
            psum=result,
            rows=count,
            columns=width,
            depth=1,
            batch=1,
            transpose_left=0,
            transpose_right=0,
            accumulate=0,
            origin=step.origin,
        )
    )
    return result


def _as_reduced(value: SSAValue) -> SSAValue | None:
    """The rows as CT has reduced them, if TDMA has only put them together since; a move that nobody else needs goes."""
    users = [use.operation for use in value.uses]
    if not users or not isinstance(moved := users[-1], TdmaGatherScatter) or moved.field("dst") is not value:
        return None
    source = moved.field("src")
    makers = [use.operation for use in source.uses] if isinstance(source, SSAValue) else []
    if not isinstance(source, SSAValue) or not any(isinstance(op, CtReduce) and op.field("dst") is source for op in makers):
        return None
    if len(users) == 1:
        moved.detach()
        moved.erase()
    return source
