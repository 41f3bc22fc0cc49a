"""A tile that faults at the first instruction which makes a NaN or an infinity of operands that had none there."""

from dataclasses import dataclass, field

import numpy as np

from hlo2tx8.device.definition.tile_machine import TileMachine
from hlo2tx8.device.faults import Fault, FaultKind, FaultPlace
from hlo2tx8.device.formats import Format
from hlo2tx8.device.layouts import Blocked


@dataclass
class CheckedMachine(TileMachine):
    """As `TileMachine`; what the instruction at hand has read is kept to be compared with what it writes.

    NaNs and infinities that are only passed on were made elsewhere, or given.
    """

    seen: FaultPlace | None = None
    operands: list[np.ndarray] = field(default_factory=list[np.ndarray])

    def read(self, address: int, n: int, fmt: Format) -> np.ndarray:
        """As a tile reads, and kept."""
        found = super().read(address, n, fmt)
        self._keep(found, fmt)
        return found

    def read_blocked(self, address: int, layout: Blocked) -> np.ndarray:
        """As a tile reads, and kept."""
        found = super().read_blocked(address, layout)
        self._keep(found, layout.fmt)
        return found

    def write(self, address: int, values: np.ndarray, fmt: Format) -> None:
        """As a tile writes; Fault VALUE, before anything is written, on a NaN or infinity that no operand had."""
        self._check(values, fmt)
        super().write(address, values, fmt)

    def write_blocked(self, address: int, layout: Blocked, dense: np.ndarray) -> None:
        """As `write`, in blocks of channels."""
        self._check(dense, layout.fmt)
        super().write_blocked(address, layout, dense)

    def _keep(self, values: np.ndarray, fmt: Format) -> None:
        if self.seen is not self.place:
            self.seen, self.operands = self.place, []
        if fmt.is_float:
            self.operands.append(values.astype(np.float64).reshape(-1))

    def _check(self, values: np.ndarray, fmt: Format) -> None:
        if not fmt.is_float:
            return
        result = values.astype(np.float64).reshape(-1)
        if np.isfinite(result).all():
            return
        given = self.operands if self.seen is self.place else []
        for word, test in (("NaN", np.isnan), ("infinite", np.isinf)):
            new = test(result)
            for operand in given:
                # Where elements do not stand side by side, one that is not finite anywhere may be the cause.
                odd = ~np.isfinite(operand)
                new = new & ~(odd if odd.size == new.size else odd.any())
            if new.any():
                ranges = "; ".join(f"operand {number}: {_range(operand)}" for number, operand in enumerate(given))
                count = f"{np.count_nonzero(new)} of {new.size} elements are {word}"
                where = f"element {int(np.argmax(new))}"
                at = ", ".join(f"{operand[np.argmax(new)]:g}" for operand in given if operand.size == new.size)
                detail = f"{count}, the first {where}{' of ' + at if at else ''}; {ranges or 'no operands'}"
                raise Fault(FaultKind.VALUE, detail, self.place)


def _range(operand: np.ndarray) -> str:
    """Smallest and largest number, and how many are none."""
    finite = operand[np.isfinite(operand)]
    odd = operand.size - finite.size
    numbers = f"{finite.min():g} to {finite.max():g}" if finite.size else "no number"
    return numbers + (f" and {odd} NaN or infinite" if odd else "")
