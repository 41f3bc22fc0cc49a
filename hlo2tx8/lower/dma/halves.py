"""Halves of a load: what each of two tiles loads and sends of it, see `mesh.Sender`.

RDMA_load dst(%a) offset(%o) count(64) s1(512) n1(64) s2(64) n2(2) s3(262144) n3(9) bf16        nine elements of a window

    the first half:    n3(4), and of the fifth element n2(1)
    the second half:   n3(4), offset(%o + 5 * 524288) into %a + 5 * 16384, and of the fifth element the other block

Where the number of what is cut is odd, the one in the middle is cut at the next level, if that can be. Both halves are runs of the
scratchpad. A step may decide how much there is of a level inside of those that are cut, such as the rows of the last tiles, or of
the one that is cut, such as the lines of an image: then the second half has as much as the first or one less, which may be nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from hlo2tx8.device.isa.lsu import Rdma
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.load_levels import LEVELS, sizes_of
from hlo2tx8.lower.dma.mesh import quotient
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
class _Share:
    """What two halves have of a number: `first` and `second`, which begins behind `ahead` of it; or each a half of a `whole` that a
    step decides, the first one rounded up."""

    first: int = 0
    second: int = 0
    ahead: int = 0
    whole: SSAValue | None = None

    def of(self, step: StepBuilder, half: SSAValue, mapping: Mapping[SSAValue, SSAValue]) -> tuple[Size, SSAValue, int]:
        """How many a half has, the number of which is an index, and how many there are before it: two factors."""
        if self.whole is None:
            more = self.first - self.second
            return step.subtract(self.first, step(half, more)) if more else self.first, half, self.ahead
        whole = mapping.get(self.whole, self.whole)
        count = quotient(step, step.value(step.add(whole, step.subtract(1, half))), 2)
        return count, step.emit(half, quotient(step, step.value(step.add(whole, 1)), 2)), 1


@dataclass(frozen=True)
class _Cut:
    """A load of each half, which has a `share` of the count of `level`. Both begin `start` behind the whole load, in bytes of DDR
    and elements of the scratchpad; one of what is counted is `ddr_bytes` and `spm` long. `fixed`: what other levels have."""

    level: str
    start: tuple[int, SpmRun]
    share: _Share
    ddr_bytes: int
    spm: SpmRun
    fixed: Mapping[str, int] = field(default_factory=dict[str, int])

    def load(self, step: StepBuilder, op: Rdma, half: SSAValue, mapping: Mapping[SSAValue, SSAValue]) -> Rdma:
        """The load of one half, the number of which is an index; with its operands replaced by `mapping`."""
        values = op.values().items()
        fields: dict[str, Any] = {name: mapping.get(v, v) if isinstance(v, SSAValue) else v for name, v in values}
        count, before, factor = self.share.of(step, half, mapping)
        fields |= {**self.fixed, self.level: count}
        ddr, spm = self.start
        fields["offset"] = step.add(fields["offset"], step.add(step(before, factor * self.ddr_bytes), ddr))
        own = self.spm.emit(step, mapping, before, factor * op.fmt.bytes)
        fields["dst"] = step.at(fields["dst"], step.add(own, spm.emit(step, mapping, width=op.fmt.bytes)))
        return Rdma.make(fmt=op.fmt, origin=op.origin, **fields)


@dataclass(frozen=True)
class Halves:
    """The loads of a half, of its `share` of runs of `inner` elements in the scratchpad."""

    cuts: tuple[_Cut, ...]
    share: _Share
    inner: SpmRun
    element_bytes: int

    @staticmethod
    def of(op: Rdma) -> "Halves | None":
        """The halves of a load, of one element the first; None if it is not known what is loaded."""
        levels, width = sizes_of(op) or (), op.fmt.bytes
        if not levels:
            return None
        places = [place for place, (size, _) in enumerate(levels) if size != 1] or [len(levels) - 1]
        inner = [tuple(count for count, _ in levels[place + 1 :]) for place in range(len(levels))]
        place, (size, distance) = places[0], levels[places[0]]
        one = SpmRun(1, inner[place])
        if not isinstance(size, int):
            share = _Share(whole=size)
            return Halves((_Cut(LEVELS[place][0], (0, SpmRun(0, ())), share, distance * width, one),), share, one, width)
        next_size = levels[places[1]][0] if len(places) > 1 else 1
        if size % 2 and isinstance(next_size, int) and next_size % 2 == 0:
            each, next_place = size // 2, places[1]
            count, step = next_size // 2, levels[next_place][1]
            whole = _Cut(LEVELS[place][0], (0, SpmRun(0, ())), _Share(each, each, each + 1), distance * width, one)
            begin = each * distance * width, SpmRun(each, inner[place])
            fixed = {LEVELS[place][0]: 1}
            own = SpmRun(1, inner[next_place])
            middle = _Cut(LEVELS[next_place][0], begin, _Share(count, count, count), step * width, own, fixed)
            return Halves((whole, middle), _Share(size * count, size * count, size * count), own, width)
        share = _Share(-(-size // 2), size // 2, -(-size // 2))
        return Halves((_Cut(LEVELS[place][0], (0, SpmRun(0, ())), share, distance * width, one),), share, one, width)

    @property
    def is_certain(self) -> bool:
        """Has the second half something in every step?"""
        return self.share.whole is None and self.share.second > 0

    def loads(self, step: StepBuilder, op: Rdma, half: SSAValue, mapping: Mapping[SSAValue, SSAValue]) -> list[Rdma]:
        """The loads of one half, the number of which is an index; with their operands replaced by `mapping`."""
        return [cut.load(step, op, half, mapping) for cut in self.cuts]

    def count(self, step: StepBuilder, half: SSAValue, mapping: Mapping[SSAValue, SSAValue]) -> Size:
        """How many elements a half has; with sizes replaced by `mapping`."""
        return self.inner.emit(step, mapping, self.share.of(step, half, mapping)[0])

    def sent(
        self, step: StepBuilder, slot: SSAValue, half: SSAValue, mapping: Mapping[SSAValue, SSAValue]
    ) -> tuple[Size, SSAValue]:
        """How many elements a half has, and where it is in a slot; with sizes replaced by `mapping`."""
        own, before, factor = self.share.of(step, half, mapping)
        begin = self.inner.emit(step, mapping, before, factor * self.element_bytes)
        return self.inner.emit(step, mapping, own), step.at(slot, begin)
