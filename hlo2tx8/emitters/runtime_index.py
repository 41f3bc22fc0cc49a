"""Reads and writes at run-time indices as scalar IR: each index is clamped into its room, then moves the place.

%0 = tensor.extract %p1[%i0]                                    the index of row %i0
%1 = arith.maxsi %0, 0; %2 = arith.minsi %1, room
%3 = xla.extract_at %p0[%c0, %i1] by [0](%2)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerType, StringAttr, i1, i32, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.dialects.made import extract_op, insert_op
from hlo2tx8.dialects.xla import ElementwiseOp, ExtractAtOp, InsertAtOp
from hlo2tx8.emitters.scalar import location, scalar_constant, scalar_op_named
from hlo2tx8.hlo import numpy_dtype
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.indexed import IndexedAccess
from hlo2tx8.hlo.types import bit_width, integer_limits, is_unsigned
from hlo2tx8.indexing import Const
from hlo2tx8.partitioner.instruction import tensor_type

INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class RuntimeIndices:
    """The indices of an op at a `IndexedAccess`, on scalars; each method adds ops to a block."""

    op: Operation
    block: Block

    def read(self, source: SSAValue, indices: Sequence[SSAValue], runtime: Sequence[SSAValue]) -> SSAValue:
        """The element of `source` at `indices`, moved by the clamped `runtime` indices."""
        return self.read_shifted(source, indices, self.shifts(source, runtime)[0] if runtime else ())

    def read_shifted(self, source: SSAValue, indices: Sequence[SSAValue], shifts: Sequence[SSAValue]) -> SSAValue:
        """The element of `source` at `indices`, moved by the shifts."""
        if not shifts:
            return self._add(extract_op(source, list(indices), tensor_type(source).element_type))
        return self._add(ExtractAtOp(source, indices, self._access.dims, shifts))

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
            return self._add(insert_op(value, target, list(indices)))
        return self._add(InsertAtOp(value, target, indices, self._access.dims, shifts, where))

    def shifts(self, buffer: SSAValue, runtime: Sequence[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
        """The indices clamped into their rooms, as integers that hold any offset into the buffer; whether each was inside."""
        wanted = i32 if prod(tensor_type(buffer).get_shape()) <= INT32_MAX else i64
        pairs = [self._clamped(value, room, wanted) for value, room in zip(runtime, self._access.rooms, strict=True)]
        return [shift for shift, _ in pairs], [inside for _, inside in pairs]

    def is_own(self, indices: Sequence[SSAValue], shifts: Sequence[SSAValue], tile: SSAValue, num_tiles: int) -> SSAValue:
        """Is the place in the op's result one of the tile's? Tiles take turns along the dimensions that the shifts move."""
        type_, sizes = shifts[0].type, tensor_type(self.op.results[0]).get_shape()
        place: SSAValue | None = None
        for dim, shift in zip(self._access.dims, shifts, strict=True):
            at = shift
            if self._access.map.results[dim] != Const(0):
                at = self._compute("add", at, self._convert(indices[dim], type_))
            outer = None if place is None else self._compute("multiply", place, self._number(sizes[dim], type_))
            place = at if outer is None else self._compute("add", outer, at)
        assert place is not None
        owner = self._compute("remainder", place, self._number(num_tiles, type_))
        return self._is_equal(owner, self._convert(tile, type_))

    def all_of(self, checks: Sequence[SSAValue]) -> SSAValue | None:
        """Whether all checks hold; None if there is none."""
        return reduce(lambda a, b: self._compute("and", a, b), checks) if checks else None

    @property
    def _access(self) -> IndexedAccess:
        return IndexedAccess.of(attributes_of(self.op))

    def _clamped(self, value: SSAValue, room: int, wanted: IntegerType) -> tuple[SSAValue, SSAValue]:
        """The index in 0..room, and whether it was there; the way loses no bits."""
        dtype = numpy_dtype(value.type)
        if is_unsigned(dtype):
            limited = self._limit("minimum", value, min(room, integer_limits(dtype)[1]))
        else:
            if bit_width(dtype) < wanted.width.data:
                value = self._convert(value, wanted)
            limited = self._limit("minimum", self._limit("maximum", value, 0), room)
        inside = self._is_equal(value, limited)
        return self._convert(limited, wanted), inside

    def _limit(self, name: str, value: SSAValue, limit: int) -> SSAValue:
        return self._compute(name, value, self._number(limit, value.type))

    def _compute(self, name: str, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._add(scalar_op_named(f"stablehlo.{name}", [a, b], a.type, {}, location(self.op)))

    def _is_equal(self, a: SSAValue, b: SSAValue) -> SSAValue:
        equal = {"comparison_direction": StringAttr("EQ")}
        return self._add(scalar_op_named("stablehlo.compare", [a, b], i1, equal, location(self.op)))

    def _number(self, value: int, type_: Attribute) -> SSAValue:
        return self._add(scalar_constant(np.asarray(value, numpy_dtype(type_)), type_))

    def _convert(self, value: SSAValue, type_: Attribute) -> SSAValue:
        if value.type == type_:
            return value
        return self._add(ElementwiseOp("stablehlo.convert", [value], type_, location(self.op)))

    def _add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]
