"""The memories a program sees: one scratchpad per tile, DDR as slots."""

from collections.abc import Sequence

import numpy as np

from hlo2tx8.device.faults import Fault, FaultKind, FaultPlace


class Scratchpad:
    """One tile's SPM in bytes, zeros at first."""

    def __init__(self, size_bytes: int) -> None:
        self.data = np.zeros(size_bytes, np.uint8)

    def read(self, address: int, num_bytes: int, place: FaultPlace) -> np.ndarray:
        """A view of the bytes."""
        self.check(address, num_bytes, place)
        return self.data[address : address + num_bytes]

    def write(self, address: int, data: np.ndarray, place: FaultPlace) -> None:
        """Writes bytes."""
        self.check(address, data.size, place)
        self.data[address : address + data.size] = data

    def move(self, targets: np.ndarray, sources: np.ndarray, place: FaultPlace) -> None:
        """Bytes at `sources` to `targets`, all read before any is written; both were checked."""
        self.data[targets] = self.data[sources]

    def readable(self, address: int, num_bytes: int, place: FaultPlace) -> np.ndarray | None:
        """Which of the bytes may be read: bool [num_bytes], None if all."""
        self.check(address, num_bytes, place)
        return None

    def check(self, address: int, num_bytes: int, place: FaultPlace) -> None:
        """Faults where the bytes are not all inside of SPM."""
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
