"""Halves of a load: what each of two tiles loads and sends of it, see `mesh.Sender`.

RDMA_load dst(%a) offset(%o) count(64) s1(512) n1(64) s2(64) n2(2) s3(262144) n3(9) bf16        nine elements of a window

    the first half:    n3(4), and of the fifth element n2(1)
    the second half:   n3(4), offset(%o + 5 * 524288) into %a + 5 * 16384, and of the fifth element the other block

Where the number of what is cut is odd, the one in the middle is cut at the next level, if that can be. Both halves are runs of the
scratchpad.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from hlo2tx8.device.isa.lsu import Rdma
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.load_levels import LEVELS, levels_of
from hlo2tx8.lower.select.step_builder import StepBuilder


@dataclass(frozen=True)
class _Cut:
    """A load of each half: of the level whose count is `level`, the first half has `first` and the second one `second`. They begin
    `start` bytes behind the whole load in DDR and in the scratchpad, the second one `ddr_bytes` and `spm_bytes` more; `fixed`: what
    other levels have."""

    level: str
    start: tuple[int, int]
    first: int
    second: int
    ddr_bytes: int
    spm_bytes: int
    fixed: Mapping[str, int] = field(default_factory=dict[str, int])

    def load(self, step: StepBuilder, op: Rdma, half: SSAValue, mapping: Mapping[SSAValue, SSAValue]) -> Rdma:
        """The load of one half, the number of which is an index; with its operands replaced by `mapping`."""
        values = op.values().items()
        fields: dict[str, Any] = {name: mapping.get(v, v) if isinstance(v, SSAValue) else v for name, v in values}
        fields |= {**self.fixed, self.level: _chosen(step, half, self.first, self.second)}
        ddr, spm = self.start
        fields["offset"] = step.add(fields["offset"], step.add(step(half, self.ddr_bytes), ddr))
        fields["dst"] = step.at(fields["dst"], step.add(step(half, self.spm_bytes), spm))
        return Rdma.make(fmt=op.fmt, origin=op.origin, **fields)


@dataclass(frozen=True)
class Halves:
    """The loads of a half, of `first` elements in the scratchpad, or of `second`, which begin `spm_bytes` behind the others."""

    cuts: tuple[_Cut, ...]
    first: int
    second: int
    spm_bytes: int

    @staticmethod
    def of(op: Rdma) -> "Halves | None":
        """The halves of a load; None if its sizes are not known, or there is but one element."""
        levels, width = levels_of(op) or (), op.fmt.bytes
        places = [place for place, (size, _) in enumerate(levels) if size > 1]
        if not places:
            return None
        inner = [prod(count for count, _ in levels[place + 1 :]) for place in range(len(levels))]
        place, (size, distance) = places[0], levels[places[0]]
        if size % 2 and len(places) > 1 and levels[places[1]][0] % 2 == 0:
            each, next_place = size // 2, places[1]
            count, step = levels[next_place][0] // 2, levels[next_place][1]
            whole = _Cut(LEVELS[place][0], (0, 0), each, each, (each + 1) * distance * width, (each + 1) * inner[place] * width)
            begin = each * distance * width, each * inner[place] * width
            fixed = {LEVELS[place][0]: 1}
            middle = _Cut(
                LEVELS[next_place][0], begin, count, count, count * step * width, count * inner[next_place] * width, fixed
            )
            half = size * inner[place] // 2
            return Halves((whole, middle), half, half, half * width)
        first = -(-size // 2)
        ddr_bytes, spm_bytes = (first * elements * width for elements in (distance, inner[place]))
        cut = _Cut(LEVELS[place][0], (0, 0), first, size - first, ddr_bytes, spm_bytes)
        return Halves((cut,), first * inner[place], (size - first) * inner[place], spm_bytes)

    def loads(self, step: StepBuilder, op: Rdma, half: SSAValue, mapping: Mapping[SSAValue, SSAValue]) -> list[Rdma]:
        """The loads of one half, the number of which is an index; with their operands replaced by `mapping`."""
        return [cut.load(step, op, half, mapping) for cut in self.cuts]

    def sent(self, step: StepBuilder, slot: SSAValue, half: SSAValue) -> tuple[Size, SSAValue]:
        """How many elements a half has, and where it is in a slot."""
        return _chosen(step, half, self.first, self.second), step.at(slot, step(half, self.spm_bytes))


def _chosen(step: StepBuilder, half: SSAValue, first: int, second: int) -> Size:
    """What a half has, the first or the second one."""
    return first if first == second else step.subtract(first, step(half, first - second))
