"""What the plan and the allocation of a program say of its groups and ops: SPM buffers and barriers, for dev_info and groups.

Ops are numbered before the compiler runs; buffers of the program carry the number of the op that first writes them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hlo2tx8.device.isa.encoding import Record, decode_records
from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.isa.kc_control import KcBarrier
from hlo2tx8.device.program import Buffer, Launch, Program, SlotKind
from hlo2tx8.dialects.tx8be_attributes import DevAttr


@dataclass(frozen=True)
class Kernel:
    """One launch of a program: its records and buffers."""

    records: Sequence[Record]
    buffers: Sequence[Buffer]
    on_engine: frozenset[str]
    """Names of buffers that the neural engine reads or writes, which are in blocks of channels."""
    moved: Mapping[tuple[SlotKind, int], frozenset[Buffer]]
    """The buffers that inputs are loaded to and outputs stored from, by their number."""

    @property
    def spm_bytes(self) -> int:
        """Bytes from its first buffer to the end of its last."""
        return max((b.end for b in self.buffers), default=0) - min((b.address for b in self.buffers), default=0)

    @property
    def has_barrier(self) -> bool:
        """Do the tiles meet in it or behind it?"""
        return any(record.kind is KcBarrier for record in self.records)

    def port_info(self, kind: SlotKind, index: int) -> DevAttr | None:
        """Of an input or output that goes through one buffer; None if it goes through several."""
        found = self.moved.get((kind, index), frozenset())
        return self._info([*found]) if len(found) == 1 else None

    def dev_info(self, name: str) -> DevAttr | None:
        """What an op has: its last buffer is that of its result, the others are scratch; None if it has none."""
        found = sorted((b for b in self.buffers if b.name == name), key=lambda b: (b.first_record, b.address))
        return self._info(found) if found else None

    def _info(self, found: Sequence[Buffer]) -> DevAttr:
        *scratch, own = found
        given = {"imm_size": covered_bytes(scratch), "imm_addr": min(b.address for b in scratch)} if scratch else {}
        layout = {"mem_layout": "Cx"} if own.name in self.on_engine and len(found) == 1 else {}
        several = {"multi_buf_en": True, "multi_buf_num": own.copies} if own.copies > 1 else {}
        addresses = tuple(own.address + k * own.stride_bytes for k in range(own.copies))
        return DevAttr.of(**given, **layout, **several, mem_addr=addresses)


def covered_bytes(buffers: Sequence[Buffer]) -> int:
    """Bytes of SPM that are in one of the buffers at least."""
    total, end = 0, 0
    for buffer in sorted(buffers, key=lambda b: b.address):
        total += max(0, buffer.end - max(end, buffer.address))
        end = max(end, buffer.end)
    return total


@dataclass(frozen=True)
class Figures:
    """A program's launches, in order."""

    program: Program

    @cached_property
    def _records(self) -> list[Record]:
        return decode_records(self.program.code, self.program.origins)

    def kernels(self, origins: Sequence[str]) -> Mapping[int, Kernel]:
        """The kernels of groups that come from these ops, by the number of the group; those without a kernel are left out."""
        found: dict[int, Kernel] = {}
        launches = list(self.program.launches)
        at = 0
        for number, wanted in enumerate(origins):
            hit = next((k for k in range(at, len(launches)) if wanted and launches[k].origin == wanted), None)
            if hit is not None:
                found[number] = self._kernel(launches[hit], launches[hit + 1].first if hit + 1 < len(launches) else None)
                at = hit + 1
        return found

    def launches(self) -> list[Kernel]:
        """The kernels of all launches."""
        ends = [*(launch.first for launch in self.program.launches[1:]), None]
        return [self._kernel(launch, end) for launch, end in zip(self.program.launches, ends, strict=True)]

    def _kernel(self, launch: Launch, end: int | None) -> Kernel:
        last = len(self._records) if end is None else end
        table = self.program.buffers
        engine = {
            table[use.buffer].name
            for use in self.program.uses
            if launch.first <= use.record < last and self._records[use.record].kind.ENGINE is Engine.NE
        }
        buffers = [b for b in table if launch.first <= b.first_record < last]
        moved: dict[tuple[SlotKind, int], frozenset[Buffer]] = {}
        for use in self.program.uses:
            number = self._records[use.record].fields.get("slot") if launch.first <= use.record < last else None
            if isinstance(number, int):
                slot = self.program.slots[number]
                key = slot.kind, slot.index
                moved[key] = moved.get(key, frozenset()) | {table[use.buffer]}
        return Kernel(self._records[launch.first : last], buffers, frozenset(engine), moved)
