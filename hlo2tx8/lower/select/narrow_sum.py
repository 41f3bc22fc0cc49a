"""Sums in FP32 of 16-bit elements, rounded to 16 bits: one instruction of the vector engine, without conversions.

%w = convert %x : bf16 to f32
%s = vec.reduce_lanes over [0, 2] of %w init 0.0        CT_sum.bf16 %x, which adds up in FP32 and rounds once
%n = convert %s : f32 to bf16
"""

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_reduce import CtReduceSum
from hlo2tx8.dialects import vec, xla
from hlo2tx8.lower.element_format import constant_bits, storage_format
from hlo2tx8.lower.select.instruction_choice import hlo_name
from hlo2tx8.lower.select.select_reduce import ct_reduction, reduce_blocks
from hlo2tx8.lower.select.select_rows import lies_in_blocks
from hlo2tx8.lower.select.spread_rows import is_not_negative
from hlo2tx8.lower.select.step_builder import StepBuilder
from hlo2tx8.lower.select.sums_by_product import Filled, is_summed_by_product, sum_by_product

NEGATIVE_ZERO = 1 << 31
"""The bits of it in FP32."""


@dataclass(frozen=True)
class NarrowSum:
    """A sum in FP32 of what was converted from 16 bits and is converted back: the vector engine adds up 16-bit elements so, in one
    instruction, if it reads them in channel blocks. `source` is what was widened, `result` what is narrowed."""

    source: SSAValue
    widen: Operation
    narrow: Operation

    @property
    def result(self) -> SSAValue:
        return self.narrow.results[0]


def narrow_sums(block: Block, step: StepBuilder) -> dict[Operation, NarrowSum]:
    """The sums of a box that need no conversions."""
    found: dict[Operation, NarrowSum] = {}
    for op in block.ops:
        if not isinstance(op, vec.VecReduceLanesOp) or len(op.elements) != 1 or not lies_in_blocks(step, op.lanes):
            continue
        element, result = op.elements[0], op.res[0]
        kind = ct_reduction(op.combiner.block, storage_format(element.type))
        uses = list(result.uses)
        if kind is not CtReduceSum or len(uses) != 1 or not element.has_one_use():
            continue
        widen, narrow = element.owner, uses[0].operation
        if not isinstance(widen, Operation) or not _is_conversion(widen) or not _is_conversion(narrow):
            continue
        formats = storage_format(widen.operands[0].type), storage_format(narrow.results[0].type)
        if not _starts_from_nothing(op):
            continue
        if formats[0] is formats[1] and formats[0] in (Format.BF16, Format.FP16) and storage_format(element.type) is Format.FP32:
            found[op] = NarrowSum(widen.operands[0], widen, narrow)
    return found


def _is_conversion(op: Operation) -> bool:
    return isinstance(op, (xla.ElementwiseOp, arith.ExtFOp, arith.TruncFOp)) and hlo_name(op) == "convert"


def select_narrow_sum(step: StepBuilder, source: SSAValue, narrow: NarrowSum, num_joined: int, ones: Filled) -> SSAValue:
    """The narrowed sum, as a vector of the rows that `step` has; `source` is the buffer of what was widened."""
    if is_summed_by_product(narrow.source, num_joined):
        return sum_by_product(step, source, num_joined, storage_format(narrow.source.type), ones)
    return reduce_blocks(step, CtReduceSum, source, num_joined, storage_format(narrow.source.type))


def _starts_from_nothing(op: vec.VecReduceLanesOp) -> bool:
    """Does the sum start from a zero that changes nothing? A positive one would make a negative zero positive."""
    owner = op.init[0].owner
    bits = constant_bits(owner.value) if isinstance(owner, vec.SplatOp) else None
    return bits == NEGATIVE_ZERO or (bits == 0 and is_not_negative(op.elements[0]))
