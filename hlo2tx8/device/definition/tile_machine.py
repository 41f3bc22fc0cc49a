"""What one instruction of the definition sees of the machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hlo2tx8.device.definition.memory import DeviceMemory, Scratchpad
from hlo2tx8.device.faults import FaultPlace
from hlo2tx8.device.formats import Format
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.device.status import Status


@dataclass
class TileMachine:
    """One tile's view of the machine while one record executes; `laws` are those of the chip description, `scratchpads` those of
    all tiles.

    Exception bits gather in `status` if they are kept.
    """

    spm: Scratchpad
    ddr: DeviceMemory
    laws: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    scratchpads: Sequence[Scratchpad] = ()
    keeps_status: bool = False
    status: Status = Status.NONE
    place: FaultPlace = field(default_factory=lambda: FaultPlace(0, 0))

    def read(self, address: int, n: int, fmt: Format) -> np.ndarray:
        """n elements of SPM, a copy."""
        return self.spm.read(address, n * fmt.bytes, self.place).view(fmt.numpy_dtype).copy()

    def write(self, address: int, values: np.ndarray, fmt: Format) -> None:
        """Writes the bits of an array at an SPM address; Fault if it does not fit."""
        data = np.ascontiguousarray(values.astype(fmt.numpy_dtype, copy=False))
        self.spm.write(address, data.view(np.uint8).reshape(-1), self.place)

    def read_blocked(self, address: int, layout: Blocked) -> np.ndarray:
        """[batch, points, channels] of a Cx or NCx tensor; its padding is not read."""
        written = self.spm.readable(address, layout.size_bytes, self.place)
        if written is not None:
            for n in range(layout.batch):
                for block in layout.blocks():
                    used = layout.rows(written, n, block)[:, : block.channels * layout.fmt.bytes]
                    if not used.all():
                        start = address + n * layout.batch_stride_bytes + block.offset * layout.fmt.bytes
                        row, column = divmod(int(np.argmin(used)), used.shape[1])
                        self.spm.read(start + row * block.width * layout.fmt.bytes + column, 1, self.place)
        return layout.unpack(self.spm.data[address : address + layout.size_bytes])

    def write_blocked(self, address: int, layout: Blocked, dense: np.ndarray) -> None:
        """Writes a Cx or NCx tensor, its padding as zeros; bytes between batches keep what they have."""
        packed = layout.pack(dense)
        self.spm.check(address, packed.size, self.place)
        for n in range(layout.batch):
            start = n * layout.batch_stride_bytes
            self.spm.write(address + start, packed[start : start + layout.batch_bytes], self.place)
