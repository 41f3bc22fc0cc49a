"""The step of a box whose rows lie in padded channel blocks: see padded_rows."""

from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.lower.box_levels import BoxLevel, Size
from hlo2tx8.lower.select.repeat import repeat
from hlo2tx8.lower.select.step_builder import StepBuilder


@dataclass
class PaddedStep(StepBuilder):
    """Instructions of a box whose vectors lie in padded channel blocks; its last dimension are the columns. Counts have the
    padding, `shape` has not."""

    @property
    def num_lanes(self) -> int:
        return prod(self.shape[:-1]) * self.layout().aligned_channels

    def count(self) -> Size:
        return self(self.num_rows(), self.layout().aligned_channels)

    def num_rows(self) -> Size:
        """Rows of this step."""
        rows: Size = prod(size for lane, size in enumerate(self.shape[:-1]) if lane not in self.valid)
        for valid in self.valid.values():
            rows = self(valid, rows)
        return rows

    def layout(self, fmt: Format = Format.FP32) -> Blocked:
        """Where columns lie; the same in all formats of floats."""
        return Blocked(fmt, 1, prod(self.shape[:-1]), self.shape[-1])

    def expand(self, value: SSAValue, fmt: Format) -> SSAValue:
        """An element per row in all columns of its row and in their padding, by TDMA: one block, of which the others are copies."""
        layout, rows, result = self.layout(fmt), self.num_rows(), self.alloc(fmt)
        first, *others = layout.blocks()
        levels = [BoxLevel(rows, (1, first.width)), BoxLevel(first.width, (0, 1))]
        repeat(self, result, value, levels, fmt, prod(self.shape[:-1]))
        for block in others:
            levels = [BoxLevel(rows, (first.width, block.width)), BoxLevel(block.width, (1, 1))]
            self.move(self.at(result, self(rows, block.first * fmt.bytes)), result, levels, fmt)
        return result
