"""Halves of a load: what each of two tiles loads and sends of it, see `mesh.Sender`.

RDMA_load dst(%a) offset(%o) count(64) s1(512) n1(64) s2(64) n2(2) s3(262144) n3(9) bf16        nine elements of a window

    the first half:    n3(5)
    the second half:   n3(4), offset(%o + 5 * 524288) into %a + 5 * 16384
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from hlo2tx8.device.isa.lsu import Rdma
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.load_levels import LEVELS, levels_of
from hlo2tx8.lower.select.step_builder import StepBuilder


@dataclass(frozen=True)
class Halves:
    """A load is cut at the level whose count is `level`: the first half has `first` of them, the second one `second`, of `inner`
    elements each. From the one to the other it is `ddr_bytes` in DDR and `spm_bytes` in the scratchpad."""

    level: str
    first: int
    second: int
    inner: int
    ddr_bytes: int
    spm_bytes: int

    @staticmethod
    def of(op: Rdma) -> "Halves | None":
        """The halves of a load; None if its sizes are not known, or there is but one element."""
        levels = levels_of(op) or ()
        for place, (size, distance) in enumerate(levels):
            if size > 1:
                first = -(-size // 2)
                inner = prod(count for count, _ in levels[place + 1 :])
                ddr_bytes, spm_bytes = (first * elements * op.fmt.bytes for elements in (distance, inner))
                return Halves(LEVELS[place][0], first, size - first, inner, ddr_bytes, spm_bytes)
        return None

    def part_of(self, step: StepBuilder, op: Rdma, half: SSAValue, mapping: Mapping[SSAValue, SSAValue]) -> Rdma:
        """The load of one half, the number of which is an index; with its operands replaced by `mapping`."""
        values = op.values().items()
        fields: dict[str, Any] = {name: mapping.get(v, v) if isinstance(v, SSAValue) else v for name, v in values}
        fields[self.level] = self._num_of(step, half)
        fields["offset"] = step.add(fields["offset"], step(half, self.ddr_bytes))
        fields["dst"] = step.at(fields["dst"], step(half, self.spm_bytes))
        return Rdma.make(fmt=op.fmt, origin=op.origin, **fields)

    def sent(self, step: StepBuilder, slot: SSAValue, half: SSAValue) -> tuple[Size, SSAValue]:
        """How many elements a half has, and where it is in a slot."""
        return step(self._num_of(step, half), self.inner), step.at(slot, step(half, self.spm_bytes))

    def _num_of(self, step: StepBuilder, half: SSAValue) -> Size:
        """What a half has of the level."""
        return self.first if self.first == self.second else step.subtract(self.first, step(half, self.first - self.second))
