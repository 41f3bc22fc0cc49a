"""Memory of strict mode: poison where nothing was written, and who may read what is there."""

import mmap
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import IO

import numpy as np

from hlo2tx8.device.definition.memory import Scratchpad
from hlo2tx8.device.faults import Fault, FaultKind, FaultPlace
from hlo2tx8.device.program import Program, Slot, SlotKind
from hlo2tx8.device.touches import Touch, name_of

POISON = 0xA5
NEVER, ANY = 0, 1  # tags of bytes; those of named buffers follow, see `BufferTable`


@lru_cache(maxsize=1)
def _poison_file(size_bytes: int) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as it is known
    file.write(bytes([POISON]) * size_bytes)
    file.flush()
    return file


def poisoned(size_bytes: int) -> np.ndarray:
    """Bytes of poison that may be written; only where they are do they take time and memory of their own."""
    return np.frombuffer(mmap.mmap(_poison_file(size_bytes).fileno(), size_bytes, access=mmap.ACCESS_COPY), np.uint8)


class StrictScratchpad(Scratchpad):
    """SPM that starts as poison. Each byte has the tag of the operand that wrote it; only operands of the same buffer read it.

    `touches` are those of the instruction that executes. `watch` sees every access while the kernel core executes.
    """

    def __init__(self, space: int, size_bytes: int) -> None:
        self.data = poisoned(size_bytes)
        self.space = space
        self.tags = np.zeros(size_bytes, np.int32)
        self.touches: Sequence[Touch] = ()
        self.watch: Callable[[Touch], None] | None = None

    def read(self, address: int, num_bytes: int, place: FaultPlace) -> np.ndarray:
        """Bytes from an address on; Fault if some were never written or lie outside of SPM."""
        readable = self.readable(address, num_bytes, place)
        if not readable.all():
            raise self._unwritten(address + int(np.argmin(readable)), place)
        return self.data[address : address + num_bytes]

    def write(self, address: int, data: np.ndarray, place: FaultPlace) -> None:
        """Writes bytes and notes them as written; Fault outside of SPM."""
        self.check(address, data.size, place)
        tag = self._declared(address, address + data.size, True, place)
        self.data[address : address + data.size] = data
        self.tags[address : address + data.size] = tag

    def move(self, targets: np.ndarray, sources: np.ndarray, place: FaultPlace) -> None:
        """Copies bytes one by one, from `sources` to `targets`; Fault if a source was never written."""
        if not targets.size:
            return
        wanted = self._declared(int(sources.min()), int(sources.max()) + 1, False, place)
        tag = self._declared(int(targets.min()), int(targets.max()) + 1, True, place)
        readable = _matches(self.tags[sources], wanted)
        if not readable.all():
            raise self._unwritten(int(sources[np.argmin(readable)]), place)
        super().move(targets, sources, place)
        self.tags[targets] = tag

    def readable(self, address: int, num_bytes: int, place: FaultPlace) -> np.ndarray:
        """The bytes of a range, of which all must have been written; Fault otherwise."""
        self.check(address, num_bytes, place)
        wanted = self._declared(address, address + num_bytes, False, place)
        return _matches(self.tags[address : address + num_bytes], wanted)

    def _declared(self, start: int, end: int, is_write: bool, place: FaultPlace) -> int:
        """The tag of the operand an access belongs to; what an instruction writes in part it may read."""
        for touch in self.touches:
            if touch.space == self.space and touch.start <= start and end <= touch.end and touch.is_write >= is_write:
                if self.watch is not None:
                    self.watch(Touch(self.space, start, end, is_write, touch.field))
                return touch.tag
        if start == end:
            return ANY
        verb = "writes" if is_write else "reads"
        raise Fault(FaultKind.BAD_DESCRIPTOR, f"{verb} SPM [{start:#x}, {end:#x}), which no operand declares", place)

    def _unwritten(self, byte: int, place: FaultPlace) -> Fault:
        holds = "" if self.tags[byte] == NEVER else " with what its buffer should hold"
        return Fault(FaultKind.UNWRITTEN_SPM, f"SPM byte {byte:#x} is read before it is written{holds}", place)


def _matches(tags: np.ndarray, wanted: int) -> np.ndarray:
    return tags != NEVER if wanted == ANY else tags == wanted


def _is_bound_with_contents(slot: Slot) -> bool:
    return slot.kind in (SlotKind.INPUT, SlotKind.CONSTANT) or slot.takes_over is not None


class DdrState:
    """Which bytes of the slots hold something: inputs, constants and outputs that take over an input do, others once stored to."""

    def __init__(self, program: Program, slots: Sequence[np.ndarray]) -> None:
        self.written = [
            None if _is_bound_with_contents(slot) else np.zeros(data.size, bool)
            for slot, data in zip(program.slots, slots, strict=True)
        ]
        for data, written in zip(slots, self.written, strict=True):
            if written is not None:
                data[:] = POISON

    def before(self, touches: Iterable[Touch], place: FaultPlace) -> None:
        """Faults where an instruction is about to read what was never stored."""
        for touch in touches:
            written = None if touch.space < 0 or touch.is_write else self.written[touch.space]
            if written is not None and not touch.part_of(written).all():
                byte = int(touch.where()[np.argmin(touch.part_of(written))])
                detail = f"byte {byte} of {name_of(touch.space)} is loaded before it is stored"
                raise Fault(FaultKind.UNWRITTEN_DDR, detail, place)

    def after(self, touches: Iterable[Touch]) -> None:
        """Notes what an instruction has stored."""
        for touch in touches:
            written = self.written[touch.space] if touch.space >= 0 and touch.is_write else None
            if written is not None:
                touch.part_of(written)[:] = True

    def end(self, program: Program) -> None:
        """Faults where an output is not all there."""
        for number, (slot, written) in enumerate(zip(program.slots, self.written, strict=True)):
            if slot.kind is SlotKind.OUTPUT and written is not None and not written.all():
                detail = f"byte {int(np.argmin(written))} of output {slot.index} ({name_of(number)}) is never stored"
                raise Fault(FaultKind.UNWRITTEN_DDR, detail, FaultPlace(0, len(program.code) - 1))
