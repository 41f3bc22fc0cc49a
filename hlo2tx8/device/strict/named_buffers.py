"""The table of named buffers as strict mode reads it: which operand means which buffer, and what it may touch there."""

from collections.abc import Sequence
from dataclasses import replace

from hlo2tx8.device.faults import Fault, FaultKind, FaultPlace
from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.program import Buffer, Program
from hlo2tx8.device.touches import Touch

FIRST_TAG = 2  # of buffer 0


class BufferTable:
    """Buffers by record and operand."""

    def __init__(self, program: Program, records: Sequence[Record]) -> None:
        self.buffers = program.buffers
        self.of: dict[tuple[int, str], int] = {}
        for use in program.uses:
            fields = records[use.record].kind.FIELDS if 0 <= use.record < len(records) else ()
            if not (0 <= use.operand < len(fields) and 0 <= use.buffer < len(self.buffers)):
                raise Fault(FaultKind.OUT_OF_BUFFER, f"the buffer table has no sense of {use}", FaultPlace(0, max(use.record, 0)))
            self.of[use.record, fields[use.operand].name] = use.buffer

    def check(self, touch: Touch, place: FaultPlace) -> Touch:
        """The touch with the tag of its buffer and cut to it where its extent depends on data; faults outside of it."""
        number = self.of.get((place.record, touch.field))
        if number is None:
            return touch
        buffer = self.buffers[number]
        if not buffer.first_record <= place.record <= buffer.last_record:
            alive = f"records {buffer.first_record} to {buffer.last_record}"
            raise Fault(FaultKind.DEAD_BUFFER, f"operand {touch.field} is in buffer {buffer.name}, alive in {alive}", place)
        start, end = extent(buffer, touch.start)
        if touch.is_open:
            touch = replace(touch, end=max(end, touch.start + 1))
        if touch.start < start or touch.end > end:
            there = f"operand {touch.field} touches SPM [{touch.start:#x}, {touch.end:#x})"
            detail = f"{there}, its buffer {buffer.name} is [{start:#x}, {end:#x})"
            raise Fault(FaultKind.OUT_OF_BUFFER, detail, place)
        return replace(touch, tag=FIRST_TAG + number)


def extent(buffer: Buffer, address: int) -> tuple[int, int]:
    """[start, end) of the copy of a buffer that an address is in, or that is nearest to it."""
    turn = min(max((address - buffer.address) // max(buffer.stride_bytes, 1), 0), buffer.copies - 1)
    start = buffer.address + turn * buffer.stride_bytes
    return start, start + buffer.size_bytes
