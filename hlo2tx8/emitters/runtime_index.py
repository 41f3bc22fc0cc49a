"""Reads and writes at run-time indices as scalar IR: each index is clamped into its room, then moves the place.

%0 = tensor.extract %p1[%i0]                                    the index of row %i0
%1 = arith.maxsi %0, 0; %2 = arith.minsi %1, room
%3 = xla.extract_at %p0[%c0, %i1] by [0](%2)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects import tensor
from xdsl.dialects.builtin import IntegerType, StringAttr, i1, i32, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.dialects.xla import ElementwiseOp, ExtractAtOp, InsertAtOp
from hlo2tx8.emitters.scalar import location, scalar_constant, scalar_op_named
from hlo2tx8.hlo import numpy_dtype
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.indexed import IndexedAccess
from hlo2tx8.hlo.types import bit_width, integer_limits, is_unsigned
from hlo2tx8.partitioner.instruction import tensor_type

INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class RuntimeIndices:
    """The indices of an op at a `IndexedAccess`, on scalars; each method adds ops to a block."""

    op: Operation
    block: Block

    def read(self, source: SSAValue, indices: Sequence[SSAValue], runtime: Sequence[SSAValue]) -> SSAValue:
        """The element of `source` at `indices`, moved by the clamped `runtime` indices."""
        if not runtime:
            return self._add(tensor.ExtractOp(source, list(indices), tensor_type(source).element_type))
        shifts, _ = self.shifts(source, runtime)
        return self._add(ExtractAtOp(source, indices, IndexedAccess.of(attributes_of(self.op)).dims, shifts))

    def write(
        self,
        value: SSAValue,
        target: SSAValue,
        indices: Sequence[SSAValue],
        shifts: Sequence[SSAValue],
        where: SSAValue | None = None,
    ) -> SSAValue:
        """The tensor with the element at `indices`, moved by the shifts, if `where` holds."""
        if not shifts:
            return self._add(tensor.InsertOp(value, target, list(indices)))
        return self._add(InsertAtOp(value, target, indices, IndexedAccess.of(attributes_of(self.op)).dims, shifts, where))

    def shifts(self, buffer: SSAValue, runtime: Sequence[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
        """The indices clamped into their rooms, as integers that hold any offset into the buffer; whether each was inside."""
        wanted = i32 if prod(tensor_type(buffer).get_shape()) <= INT32_MAX else i64
        rooms = IndexedAccess.of(attributes_of(self.op)).rooms
        pairs = [self._clamped(value, room, wanted) for value, room in zip(runtime, rooms, strict=True)]
        return [shift for shift, _ in pairs], [inside for _, inside in pairs]

    def _clamped(self, value: SSAValue, room: int, wanted: IntegerType) -> tuple[SSAValue, SSAValue]:
        """The index in 0..room, and whether it was there; the way loses no bits."""
        dtype = numpy_dtype(value.type)
        if is_unsigned(dtype):
            limited = self._limit("minimum", value, min(room, integer_limits(dtype)[1]))
        else:
            if bit_width(dtype) < wanted.width.data:
                value = self._convert(value, wanted)
            limited = self._limit("minimum", self._limit("maximum", value, 0), room)
        equal = {"comparison_direction": StringAttr("EQ")}
        inside = self._add(scalar_op_named("stablehlo.compare", [value, limited], i1, equal, location(self.op)))
        return self._convert(limited, wanted), inside

    def _limit(self, name: str, value: SSAValue, limit: int) -> SSAValue:
        constant = self._add(scalar_constant(np.asarray(limit, numpy_dtype(value.type)), value.type))
        return self._add(scalar_op_named(f"stablehlo.{name}", [value, constant], value.type, {}, location(self.op)))

    def _convert(self, value: SSAValue, type_: Attribute) -> SSAValue:
        if value.type == type_:
            return value
        return self._add(ElementwiseOp("stablehlo.convert", [value], type_, location(self.op)))

    def _add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]
