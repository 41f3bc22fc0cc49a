"""Halves of loads of which the vector engine makes parts: what each of two tiles of a line loads, and makes parts of.

    load(%a) 256 rows; split(%b, %a)      ⟶      load(%a) 128 rows, the tile's half; split(%b + %half * 128 rows, %a)

What is loaded, and what is made of it on the way, lies at the beginning of its buffer, which is as large as a half. The parts are
where the engine reads them, on the tile that makes them and on those it sends them to. Rows that a step decides are halved there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from hlo2tx8.device.isa.ct_move import CtConvert
from hlo2tx8.device.isa.forms import CtV, CtVS, CtVV
from hlo2tx8.device.isa.lsu import Rdma
from hlo2tx8.device.mesh_sends import is_split_in_halves
from hlo2tx8.device.rates import Rates
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.epilogue_parts import is_product
from hlo2tx8.lower.dma.load_levels import LEVELS, levels_of, sizes_of
from hlo2tx8.lower.dma.mesh import quotient
from hlo2tx8.lower.dma.panels import Load, Panels
from hlo2tx8.lower.select.step_builder import StepBuilder

ELEMENTWISE = (CtV, CtVV, CtVS, CtConvert)


@dataclass(frozen=True)
class SplitHalves:
    """A load whose level `place` is cut: of `most` at most, `inner` elements each."""

    load: Load
    place: int
    most: int
    inner: int

    @staticmethod
    def of(load: Load) -> "SplitHalves | None":
        """The halves of a load; None if they are no runs of the scratchpad, or not all is made element by element."""
        levels, sizes = levels_of(load.op, at_most=True) or (), sizes_of(load.op) or ()
        place = next((place for place, (count, _) in enumerate(levels) if count > 1), len(levels) - 1)
        if not levels or any(isinstance(size, SSAValue) for size, _ in sizes[place + 1 :]):
            return None
        inner = prod(count for count, _ in levels[place + 1 :])
        if not all(isinstance(op, ELEMENTWISE) and is_product(op.field("n"), inner, sizes[place][0]) for op in load.split):
            return None
        return SplitHalves(load, place, levels[place][0], inner)

    def share(self, num_bytes: int) -> int:
        """What a half has at most of so many bytes of all."""
        return num_bytes // self.most * -(-self.most // 2)

    @property
    def is_certain(self) -> bool:
        """Has each half something in every step?"""
        return isinstance(self.size, int) and self.size > 1

    @property
    def size(self) -> Size:
        """How much there is of what is cut."""
        return (sizes_of(self.load.op) or ())[self.place][0]

    def run(self, step: StepBuilder, half: SSAValue, mapping: Mapping[SSAValue, SSAValue]) -> tuple[Size, Size]:
        """How many elements a half has, the number of which is an index, and how many are before it."""
        count, begin = self._cut(step, half, mapping)
        return step(count, self.inner), step(begin, self.inner)

    def loaded(self, step: StepBuilder, half: SSAValue, slot: SSAValue, mapping: Mapping[SSAValue, SSAValue]) -> Rdma:
        """The load of a half to the beginning of a slot; with its operands replaced by `mapping`."""
        op, (count, begin) = self.load.op, self._cut(step, half, mapping)
        fields: dict[str, Any] = {name: mapping.get(v, v) if isinstance(v, SSAValue) else v for name, v in op.values().items()}
        distance = (sizes_of(op) or ())[self.place][1] * op.fmt.bytes
        fields |= {LEVELS[self.place][0]: count, "dst": slot, "offset": step.add(fields["offset"], step(begin, distance))}
        return Rdma.make(fmt=op.fmt, origin=op.origin, **fields)

    def made(self, step: StepBuilder, half: SSAValue, mapping: Mapping[SSAValue, SSAValue], parts: Sequence[SSAValue]) -> SSAValue:
        """Makes what is multiplied of a half, in the buffers that `mapping` has; where the last of it begins. `parts`: what is
        sent."""
        count, begin = self.run(step, half, mapping)
        last: SSAValue | None = None
        for op in self.load.split:
            values: dict[str, Any] = {}
            for name, value in op.values().items():
                values[name] = mapping.get(value, value) if isinstance(value, SSAValue) else value
                if isinstance(value, SSAValue) and value in parts:
                    values[name] = step.at(values[name], step(begin, self.load.split[-1].fmt.bytes))
            values["n"] = count
            step.insert(type(op).make(fmt=op.fmt, fmt2=op.fmt2, rnd=op.rounding, origin=op.origin, **values))
            last = values["dst"]
        assert last is not None
        return last

    def _cut(self, step: StepBuilder, half: SSAValue, mapping: Mapping[SSAValue, SSAValue]) -> tuple[Size, Size]:
        """How much a half has of what is cut, and how much is before it."""
        size = mapping.get(self.size, self.size) if isinstance(self.size, SSAValue) else self.size
        if isinstance(size, int) and size % 2 == 0:
            return size // 2, step(half, size // 2)
        more = step.add(size, 1)
        first = more // 2 if isinstance(more, int) else quotient(step, more, 2)
        return step.subtract(first, step(half, step.subtract(step(first, 2), size))), step(half, first)


def split_halves(panels: Panels, rates: Rates) -> dict[Load, SplitHalves]:
    """The halves of all loads, if all are split in parts, and the mesh has lines of tiles that can make one each; {} if not."""
    loads = [load for site in panels.sites for load in site.loads.values()]
    if not is_split_in_halves(rates) or any(len(load.moved) < 2 or not load.split for load in loads):
        return {}
    found = {load: halves for load in loads if (halves := SplitHalves.of(load))}
    return found if len(found) == len(set(loads)) else {}
