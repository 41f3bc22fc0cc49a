"""Halves of a load: what each of two tiles loads and sends of it, see `mesh.Sender`.

RDMA_load dst(%a) offset(%o) count(64) s1(512) n1(64) s2(64) n2(2) s3(262144) n3(9) bf16        nine elements of a window

    the first half:    n3(4), and of the fifth element n2(1)
    the second half:   n3(4), offset(%o + 5 * 524288) into %a + 5 * 16384, and of the fifth element the other block

Where the number of what is cut is odd, the one in the middle is cut at the next level, if that can be. Both halves are runs of the
scratchpad. A step may decide how much there is of a level inside of those that are cut, such as the rows of the last tiles.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from hlo2tx8.device.isa.lsu import Rdma
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.load_levels import LEVELS, sizes_of
from hlo2tx8.lower.select.step_builder import StepBuilder


@dataclass(frozen=True)
class SpmRun:
    """Elements of the scratchpad: a number times sizes of which a step decides some."""

    number: int
    sizes: tuple[Size, ...]

    def emit(self, step: StepBuilder, mapping: Mapping[SSAValue, SSAValue], times: Size = 1, width: int = 1) -> Size:
        """So many times the product, of elements that are so wide; with sizes replaced by `mapping`."""
        found = step(times, prod([self.number * width, *(size for size in self.sizes if isinstance(size, int))]))
        for size in self.sizes:
            found = step(found, 1 if isinstance(size, int) else mapping.get(size, size))
        return found


@dataclass(frozen=True)
class _Cut:
    """A load of each half: of the level whose count is `level`, the first half has `first` and the second one `second`. They begin
    `start` behind the whole load, in bytes of DDR and elements of the scratchpad, the second one `ddr_bytes` and `spm` more;
    `fixed`: what other levels have."""

    level: str
    start: tuple[int, SpmRun]
    first: int
    second: int
    ddr_bytes: int
    spm: SpmRun
    fixed: Mapping[str, int] = field(default_factory=dict[str, int])

    def load(self, step: StepBuilder, op: Rdma, half: SSAValue, mapping: Mapping[SSAValue, SSAValue]) -> Rdma:
        """The load of one half, the number of which is an index; with its operands replaced by `mapping`."""
        values = op.values().items()
        fields: dict[str, Any] = {name: mapping.get(v, v) if isinstance(v, SSAValue) else v for name, v in values}
        fields |= {**self.fixed, self.level: _chosen(step, half, self.first, self.second)}
        ddr, spm = self.start
        fields["offset"] = step.add(fields["offset"], step.add(step(half, self.ddr_bytes), ddr))
        behind = step.add(self.spm.emit(step, mapping, half, op.fmt.bytes), spm.emit(step, mapping, width=op.fmt.bytes))
        fields["dst"] = step.at(fields["dst"], behind)
        return Rdma.make(fmt=op.fmt, origin=op.origin, **fields)


@dataclass(frozen=True)
class Halves:
    """The loads of a half, of `first` times `inner` elements in the scratchpad, or of `second`, which begin behind the others."""

    cuts: tuple[_Cut, ...]
    first: int
    second: int
    inner: SpmRun
    element_bytes: int

    @staticmethod
    def of(op: Rdma) -> "Halves | None":
        """The halves of a load; None if a step decides the outermost of its sizes, or there is but one element."""
        levels, width = sizes_of(op) or (), op.fmt.bytes
        places = [place for place, (size, _) in enumerate(levels) if size != 1]
        if not places:
            return None
        inner = [tuple(count for count, _ in levels[place + 1 :]) for place in range(len(levels))]
        place, (size, distance) = places[0], levels[places[0]]
        if not isinstance(size, int):
            return None
        next_size = levels[places[1]][0] if len(places) > 1 else 1
        if size % 2 and isinstance(next_size, int) and next_size % 2 == 0:
            each, next_place = size // 2, places[1]
            count, step = next_size // 2, levels[next_place][1]
            others = SpmRun(each + 1, inner[place])
            whole = _Cut(LEVELS[place][0], (0, SpmRun(0, ())), each, each, (each + 1) * distance * width, others)
            begin = each * distance * width, SpmRun(each, inner[place])
            fixed = {LEVELS[place][0]: 1}
            own = SpmRun(count, inner[next_place])
            middle = _Cut(LEVELS[next_place][0], begin, count, count, count * step * width, own, fixed)
            return Halves((whole, middle), size * count, size * count, SpmRun(1, inner[next_place]), width)
        first = -(-size // 2)
        own = SpmRun(first, inner[place])
        cut = _Cut(LEVELS[place][0], (0, SpmRun(0, ())), first, size - first, first * distance * width, own)
        return Halves((cut,), first, size - first, SpmRun(1, inner[place]), width)

    def loads(self, step: StepBuilder, op: Rdma, half: SSAValue, mapping: Mapping[SSAValue, SSAValue]) -> list[Rdma]:
        """The loads of one half, the number of which is an index; with their operands replaced by `mapping`."""
        return [cut.load(step, op, half, mapping) for cut in self.cuts]

    def sent(
        self, step: StepBuilder, slot: SSAValue, half: SSAValue, mapping: Mapping[SSAValue, SSAValue]
    ) -> tuple[Size, SSAValue]:
        """How many elements a half has, and where it is in a slot; with sizes replaced by `mapping`."""
        count = self.inner.emit(step, mapping, _chosen(step, half, self.first, self.second))
        begin = self.inner.emit(step, mapping, half, self.first * self.element_bytes)
        return count, step.at(slot, begin)


def _chosen(step: StepBuilder, half: SSAValue, first: int, second: int) -> Size:
    """What a half has, the first or the second one."""
    return first if first == second else step.subtract(first, step(half, first - second))
