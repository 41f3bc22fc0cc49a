"""What the columns of a contraction's block have once, the same in all rows: it is computed once per step and applied by VuV.

box [4, 256, 64]: blocks of columns, rows, columns of a block
%b = vec.load %p2 {strides = [64, 0, 1]}       RDMA of [4, 1, 64]
%r = math.rsqrt %b                             on [4, 1, 64]
%y = arith.mulf %x, %r                         VuV_loop, a round per block of columns
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Block, SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.forms import UNIT_ELEMENTS
from hlo2tx8.dialects import vec
from hlo2tx8.lower.element_format import Operand, PerChannel, Splat, storage_format
from hlo2tx8.lower.select.select_box import BoxSelector
from hlo2tx8.lower.select.select_rows import joined_lanes, row_step
from hlo2tx8.lower.select.step_builder import StepBuilder
from hlo2tx8.lower.select.units_of_rows import unit_counts


def rows_beside_columns(block: Block, step: StepBuilder) -> tuple[int, ...]:
    """The lane dimensions of a box's rows, if something is loaded that only its columns have and VuV takes them; else ()."""
    if joined_lanes(block, len(step.shape)) or not any(isinstance(op, vec.VecDotOp) for op in block.walk()):
        return ()
    moving = [lane for lane, size in enumerate(step.shape) if size > 1]
    for op in block.ops:
        if not isinstance(op, vec.LoadOp) or op.fill is not None or vec.ints(op.clipped):
            continue
        strides = vec.ints(op.strides)
        columns, rows = ([lane for lane in moving if bool(strides[lane]) == is_column] for is_column in (True, False))
        if rows and columns and not set(columns) & set(step.valid) and _is_unit(columns, moving, step.shape):
            return tuple(rows)
    return ()


def _is_unit(columns: Sequence[int], moving: Sequence[int], shape: Sequence[int]) -> bool:
    """Are the columns the last lane dimension, or whole blocks: the first and the last?"""
    if columns == moving[-1:]:
        return shape[columns[0]] <= UNIT_ELEMENTS
    return columns == [moving[0], moving[-1]] and shape[columns[1]] == UNIT_ELEMENTS


@dataclass
class ColumnSelector(BoxSelector):
    """Selects a box in which `rows` selects what the columns have once."""

    @staticmethod
    def of(selector: BoxSelector, rows: Sequence[int]) -> "ColumnSelector":
        """The selector of a box with these lane dimensions of rows."""
        once = BoxSelector(row_step(selector.step, rows), selector.slots, selector.hoisted, resident=selector.resident)
        return ColumnSelector(
            selector.step, selector.slots, selector.hoisted, rows=once, joined=tuple(rows), resident=selector.resident
        )

    def within(self, step: StepBuilder) -> BoxSelector:
        assert self.rows is not None
        self.vectors |= {value: found for value, found in self.rows.vectors.items() if isinstance(found, Splat)}
        return super().within(step)

    def operand(self, value: SSAValue) -> Operand:
        """As a unit vector where it has an element per column."""
        found = None if self.rows is None or value in self.vectors else self.rows.vectors.get(value)
        return self.vector(value) if found is None or isinstance(found, Splat) else PerChannel(found, storage_format(value.type))

    def buffer(self, value: Operand) -> SSAValue:
        """The vector in SPM; an element per column is spread over the rows."""
        if isinstance(value, PerChannel) and self.rows is not None:
            value = next(self.vector(own) for own, found in self.rows.vectors.items() if found is value.buffer)
        return super().buffer(value)

    def apply_per_channel(
        self, forms: tuple[type[Instruction], type[Instruction]], a: SSAValue, unit: SSAValue, fmt: Format
    ) -> SSAValue:
        """One instruction on all lanes: `forms` are VuV and VuV_loop, a round per block of columns."""
        step, dst = self.step, self.step.alloc(fmt)
        columns = prod(size for lane, size in enumerate(step.shape) if lane not in self.joined)
        vuv, vuv_loop = forms
        if columns <= UNIT_ELEMENTS:
            step.insert(vuv.make(fmt=fmt, dst=dst, a=a, unit=unit, n=step.count(), u=columns, origin=step.origin))
        else:
            counts = unit_counts(step, self.joined)
            step.insert(vuv_loop.make(fmt=fmt, dst=dst, a=a, unit=unit, origin=step.origin, **counts))
        return dst
