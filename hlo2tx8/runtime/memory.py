"""Where the memory of a program goes: values in slots of DDR and when they are there, buffers of the scratchpad at its fullest."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hlo2tx8.device.isa.encoding import decode_records
from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.program import Buffer, Launch, Program, Slot, SlotKind
from hlo2tx8.runtime.named_slots import named_slots
from hlo2tx8.runtime.origin import split_origin


@dataclass(frozen=True)
class SlotLife:
    """A slot of DDR: `values` that are written to it, by instruction and kernel; the numbers of the `first` and the `last` launch
    that touch it, -1 if only a register names it of which nothing is known."""

    slot: Slot
    values: tuple[str, ...]
    first: int
    last: int


@dataclass(frozen=True)
class ScratchpadPeak:
    """The buffers of a tile that are alive at once where they are most: their bytes, and the launch."""

    launch: int
    size_bytes: int
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True)
class MemoryUse:
    """Of a program: its launches, its slots, the most bytes of scratch slots alive at once and the launch of that, and the
    scratchpad's peak, None if nobody named its buffers."""

    launches: tuple[Launch, ...]
    slots: tuple[SlotLife, ...]
    scratch_bytes: int
    scratch_launch: int
    scratchpad: ScratchpadPeak | None

    def of(self, kind: SlotKind) -> tuple[SlotLife, ...]:
        """The slots of one kind, the largest first."""
        return tuple(sorted((s for s in self.slots if s.slot.kind is kind), key=lambda s: -s.slot.size_bytes))

    def launch_name(self, number: int) -> str:
        """The kernel of a launch, "" if there is no such launch."""
        return self.launches[number].name if 0 <= number < len(self.launches) else ""


def memory_use(program: Program) -> MemoryUse:
    """What the records of a program say about its memory."""
    launches = tuple(sorted(program.launches, key=lambda launch: launch.first))
    starts = [launch.first for launch in launches]
    lives = _slot_lives(program, launches, starts)
    scratch = [life for life in lives if life.slot.kind is SlotKind.SCRATCH and life.first >= 0]
    at = [sum(s.slot.size_bytes for s in scratch if s.first <= n <= s.last) for n in range(max(1, len(launches)))]
    most = max(range(len(at)), key=at.__getitem__)
    return MemoryUse(launches, lives, at[most], most, _peak(program.buffers, starts))


def _slot_lives(program: Program, launches: Sequence[Launch], starts: Sequence[int]) -> tuple[SlotLife, ...]:
    touched: list[list[int]] = [[] for _ in program.slots]
    written: list[dict[int, None]] = [{} for _ in program.slots]
    records = decode_records(program.code, program.origins)
    for position, numbers in named_slots(records):
        launch = bisect_right(starts, position) - 1
        for number in numbers:
            touched[number].append(launch)
            if records[position].kind.ENGINE is Engine.WDMA and launch >= 0:
                written[number][launch] = None
    results = Counter(launch for slot in written for launch in slot)
    return tuple(
        SlotLife(
            slot,
            tuple(dict.fromkeys(_value(launches[n], is_only=results[n] == 1) for n in makers)),
            min(numbers, default=-1),
            max(numbers, default=-1),
        )
        for slot, makers, numbers in zip(program.slots, written, touched, strict=True)
    )


def _value(launch: Launch, *, is_only: bool) -> str:
    """What a launch writes: the kernel, and its instruction if it writes one thing only."""
    hlo = split_origin(launch.origin).get("hlo", "")
    return f"{hlo} ({launch.name})" if hlo and is_only else launch.name


def _peak(buffers: Sequence[Buffer], starts: Sequence[int]) -> ScratchpadPeak | None:
    """Tried where a buffer's life begins: there the most are alive."""
    used = [buffer for buffer in buffers if buffer.last_record >= buffer.first_record]
    if not used:
        return None
    found = [
        (sum(_size(b) for b in used if b.first_record <= begin <= b.last_record), begin)
        for begin in sorted({buffer.first_record for buffer in used})
    ]
    size, begin = max(found, key=lambda pair: pair[0])
    alive = [b for b in used if b.first_record <= begin <= b.last_record]
    return ScratchpadPeak(bisect_right(starts, begin) - 1, size, tuple(sorted(alive, key=lambda b: -_size(b))))


def _size(buffer: Buffer) -> int:
    return buffer.size_bytes * buffer.copies
