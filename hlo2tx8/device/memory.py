"""The memories a program sees: one scratchpad per tile, DDR as slots."""

from collections.abc import Sequence

import numpy as np

from hlo2tx8.device.faults import Fault, FaultKind, FaultPlace

POISON = 0xA5


class Scratchpad:
    """One tile's SPM in bytes. With `strict`, bytes never written are poison and reading them is a fault."""

    def __init__(self, size_bytes: int, strict: bool) -> None:
        self.data = np.full(size_bytes, POISON, np.uint8) if strict else np.zeros(size_bytes, np.uint8)
        self.written = np.zeros(size_bytes, bool) if strict else None

    def read(self, address: int, num_bytes: int, place: FaultPlace) -> np.ndarray:
        """A view of the bytes."""
        self.check(address, num_bytes, place)
        if self.written is not None and not self.written[address : address + num_bytes].all():
            first = address + int(np.argmin(self.written[address : address + num_bytes]))
            raise Fault(FaultKind.UNWRITTEN_SPM, f"SPM byte {first:#x} is read before it is written", place)
        return self.data[address : address + num_bytes]

    def write(self, address: int, data: np.ndarray, place: FaultPlace) -> None:
        """Writes bytes."""
        self.check(address, data.size, place)
        self.data[address : address + data.size] = data
        if self.written is not None:
            self.written[address : address + data.size] = True

    def move(self, targets: np.ndarray, sources: np.ndarray, place: FaultPlace) -> None:
        """Bytes at `sources` to `targets`, all read before any is written."""
        if self.written is not None and not self.written[sources].all():
            first = int(sources[np.argmin(self.written[sources])])
            raise Fault(FaultKind.UNWRITTEN_SPM, f"SPM byte {first:#x} is read before it is written", place)
        self.data[targets] = self.data[sources]
        if self.written is not None:
            self.written[targets] = True

    def check(self, address: int, num_bytes: int, place: FaultPlace) -> None:
        if num_bytes < 0 or address < 0 or address + num_bytes > self.data.size:
            detail = f"SPM [{address:#x}, {address + num_bytes:#x}) outside of [0, {self.data.size:#x})"
            raise Fault(FaultKind.OUT_OF_BOUNDS, detail, place)


class DeviceMemory:
    """DDR as the slots of one launch, each a flat array of bytes."""

    def __init__(self, slots: Sequence[np.ndarray]) -> None:
        self.slots = tuple(slots)

    def slot(self, number: int, first: int, last: int, place: FaultPlace) -> np.ndarray:
        """The slot, whose bytes first..last-1 are about to be accessed."""
        if not 0 <= number < len(self.slots):
            raise Fault(FaultKind.OUT_OF_BOUNDS, f"no DDR slot {number}", place)
        data = self.slots[number]
        if first < 0 or last > data.size:
            detail = f"bytes [{first}, {last}) of DDR slot {number}, which has {data.size}"
            raise Fault(FaultKind.OUT_OF_BOUNDS, detail, place)
        return data
