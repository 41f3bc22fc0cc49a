"""Statistics of rows in all lanes of a step, by the matrix engine: the product of a column and a row of ones.

    [rows][4] as CT reduces them  x  ones [columns]   =   [column blocks][rows][64]

One instruction of an engine that is idle then, a quarter of a cycle per row and block; TDMA takes two and more to repeat
an element, and CT waits for it. An FP32 statistic is the sum of three numbers of TF32, by a product of depth three. What this
gives is exact but for the sign of a zero, which becomes positive: it is used where nobody can tell.
"""

from math import prod

from xdsl.dialects import arith, math
from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa.ct_arith import CtSubVV
from hlo2tx8.device.isa.ct_move import CtConvert, CtMaskMove
from hlo2tx8.device.isa.ct_reduce import CtReduce
from hlo2tx8.device.isa.ct_relation import CtEqVV
from hlo2tx8.device.isa.lsu import TdmaGatherScatter
from hlo2tx8.device.isa.ne import NeGemm
from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.vector_instructions import rounds_to_tf32
from hlo2tx8.lower.box_levels import BoxLevel, Size
from hlo2tx8.lower.select.instruction_choice import hlo_name
from hlo2tx8.lower.select.select_reduce import PADDED
from hlo2tx8.lower.select.step_builder import StepBuilder
from hlo2tx8.lower.select.sums_by_product import Filled, insert_product, splat_of

SPREAD_FORMATS = (Format.BF16, Format.FP16, Format.FP32)
"""Formats whose elements the engine multiplies and writes without rounding, FP32 in parts."""
PARTS = 3
"""Numbers of TF32 that have all bits of an FP32 number."""


def is_spread_by_product(value: SSAValue, fmt: Format) -> bool:
    """May a value of the rows lose the sign of a zero?"""
    return fmt in SPREAD_FORMATS and (is_not_negative(value) or _only_exponents_of_differences(value))


def is_not_negative(value: SSAValue) -> bool:
    """Is it a sum of exponentials, converted perhaps, or the reciprocal of a root, which is no negative zero either?"""
    owner = value.owner
    match owner:
        case vec.VecReduceLanesOp():
            first = owner.combiner.block.first_op
            adds = isinstance(first, arith.AddfOp) and first.next_op is owner.combiner.block.last_op
            return adds and all(is_not_negative(element) for element in owner.elements)
        case math.ExpOp() | math.RsqrtOp():
            return True
        case Operation() if _is(owner, "convert") or rounds_to_tf32(owner):
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


def spread_rows(step: StepBuilder, rows: StepBuilder, value: SSAValue, fmt: Format, ones: Filled) -> SSAValue:
    """[rows] as [column blocks, rows, columns of a block]."""
    column = _in_parts(rows, value) if fmt is Format.FP32 else _as_reduced(value)
    if column is None:
        column = step.alloc(fmt, rows.num_lanes * PADDED)
        step.move(column, value, [BoxLevel(rows.count(), (1, PADDED))], fmt)
    return _times_row(step, rows, column, fmt, 1.0, ones)


def subtract_rows(step: StepBuilder, rows: StepBuilder, minuend: SSAValue, value: SSAValue, filled: Filled) -> SSAValue:
    """A vector of FP32 in channel blocks less an element for each row: the engine goes on from it as from a partial sum."""
    return _times_row(step, rows, _in_parts(rows, value), Format.FP32, -1.0, filled, minuend)


def _times_row(
    step: StepBuilder,
    rows: StepBuilder,
    column: SSAValue,
    fmt: Format,
    factor: float,
    filled: Filled,
    start: SSAValue | None = None,
) -> SSAValue:
    """A column, [rows][4] of which one counts, or the parts of FP32, times a row of equal factors, added to `start`."""
    width = prod(a for a, b in zip(step.shape, rows.shape, strict=True) if a != b)
    result, row = step.alloc(fmt), filled(splat_of(factor, fmt), width * PADDED)
    insert_product(step, fmt, result, column, row, (rows.count(), width, PARTS if fmt is Format.FP32 else 1), start)
    return result


def _in_parts(rows: StepBuilder, value: SSAValue) -> SSAValue:
    """[rows][4]: numbers of TF32 whose sum is an FP32 number, which has as many bits as three of them.

    The engine drops the low bits of what it reads: the first part is the number, each other one what is left of the one before, or
    zero if that was infinite.
    """
    count, padded = rows.count(), rows.alloc(Format.FP32, rows.num_lanes * PADDED)
    rows.move(padded, value, [BoxLevel(count, (1, PADDED))], Format.FP32)
    for part in range(1, PARTS):
        upper, rest, is_number = (rows.alloc(Format.FP32) for _ in range(3))
        rows.insert(_upper(upper, value, count, rows.origin))
        rows.insert(CtSubVV.make(fmt=Format.FP32, dst=rest, a=value, b=upper, n=count, origin=rows.origin))
        rows.insert(CtEqVV.make(fmt=Format.FP32, dst=is_number, a=rest, b=rest, n=count, origin=rows.origin))
        value = rows.alloc(Format.FP32)
        rows.fill(value, 0, Format.FP32, count)
        move = CtMaskMove.make
        rows.insert(move(fmt=Format.FP32, fmt2=Format.FP32, dst=value, src=rest, mask=is_number, n=count, origin=rows.origin))
        rows.move(rows.at(padded, part * Format.FP32.bytes), value, [BoxLevel(count, (1, PADDED))], Format.FP32)
    return padded


def _upper(dst: SSAValue, src: SSAValue, count: Size, origin: str) -> Operation:
    """The part of a number that TF32 has."""
    return CtConvert.make(fmt=Format.TF32, fmt2=Format.FP32, rnd=Rounding.TOWARD_ZERO, dst=dst, src=src, n=count, origin=origin)


def _as_reduced(value: SSAValue) -> SSAValue | None:
    """The rows as CT has reduced them, if TDMA has only put them together since; a move that nobody else needs goes."""
    users = [use.operation for use in value.uses]
    if not users or not isinstance(moved := users[-1], TdmaGatherScatter) or moved.field("dst") is not value:
        return None
    source = moved.field("src")
    if not isinstance(source, SSAValue):
        return None
    makers = [use.operation for use in source.uses if isinstance(use.operation, CtReduce | NeGemm)]
    if not any(op.field("dst") is source for op in makers):
        return None
    if len(users) == 1:
        moved.detach()
        moved.erase()
    return source
