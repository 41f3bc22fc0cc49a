"""How lines are updated in the scratchpad: the boxes of lines that a step has, in how many parts updates go, and what it costs.

Lines are [lines, places, columns], each with so many updates of all of its columns. Where there are fewer than tiles, or
their updates do not fit, columns are shared, or the updates of a line go in parts, each joined with a line of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hlo2tx8.device.rates import Rates

INDEX_BYTES = 4
NUMBERS = 6
"""Vectors of as many bytes per update, from what is loaded to the number of its columns."""
SPM_SHARE = 0.7
"""Of the scratchpad, what the vectors of steps take at most; the rest is for transfers that order elements anew."""
UPDATE_CYCLES = 7
"""Of the kernel core for an update, besides what its columns take: a turn, a load, addresses."""
STEPS = 4
"""Steps of a tile that overlap well enough."""
LEAST_STEP_BYTES = 1 << 14
"""What a step has at least, if there is as much: its transfers have to start, and waits are to be paid."""


@dataclass(frozen=True)
class UpdatedLines:
    """So many lines of so many places, columns and updates, `width` bytes each element; `is_loaded`: they are not constant."""

    lines: int
    places: int
    columns: int
    updates: int
    width: int
    is_loaded: bool

    @staticmethod
    def of(shape: Sequence[int], updates: int, width: int, *, is_loaded: bool) -> "UpdatedLines":
        """Lines of that shape."""
        return UpdatedLines(shape[0], shape[1], shape[2], updates, width, is_loaded)

    def box(self, rates: Rates, wanted: int = 0) -> tuple[int, int, int]:
        """The part of [lines, places, columns] that a step has, with all places; `wanted`: of so many elements, if a line fits."""
        counts = [n for n in range(1, self.columns + 1) if self.columns % n == 0 and self._is_worth_a_transfer(n, rates)]
        columns = min(counts, key=lambda n: (self._step_bytes(1, n, rates) > self._most(rates), self._turns(n, rates), -n))
        share = self._share(columns, rates)
        least = -(-LEAST_STEP_BYTES // (self.places * columns * self.width))
        lines = min(share, self.lines, max(-(-share // STEPS), least))
        if wanted:
            lines = min(lines, max(1, wanted // (self.places * columns)))
        while lines > 1 and self._step_bytes(lines, columns, rates) > self._most(rates):
            lines = -(-lines // 2)
        return lines, self.places, columns

    def fits(self, rates: Rates) -> bool:
        """Is there a box that fits?"""
        lines, _, columns = self.box(rates)
        return self._step_bytes(lines, columns, rates) <= self._most(rates)

    def cycles(self, rates: Rates) -> float:
        """The estimate of a kernel, infinite if no box fits."""
        if not self.fits(rates):
            return float("inf")
        lines, _, columns = self.box(rates)
        num_bytes = self.lines * self.columns * self.width * (self.places * (1 + self.is_loaded) + self.updates)
        num_bytes += self.lines * self.updates * INDEX_BYTES * (self.columns // columns)
        apart = lines * (self.places + self.updates) * columns * self.width / min(rates.transfer, rates.ddr / rates.tiles)
        return rates.kernel + max(num_bytes / rates.ddr, self._turns(columns, rates)) + apart

    def in_parts(self, rates: Rates) -> tuple["UpdatedLines", float]:
        """The lines of parts of their updates, which all begin neutral and are joined afterwards, and the estimate of both."""
        found, parts = list[tuple[float, UpdatedLines]](), 2
        line_bytes = self.columns * self.width
        while parts <= self.updates:
            own = replace(self, lines=self.lines * parts, updates=-(-self.updates // parts), is_loaded=False)
            after = (own.lines + self.lines * (1 + self.is_loaded)) * self.places * line_bytes / rates.ddr + rates.kernel
            padding = 2 * self.lines * self.updates * line_bytes / rates.ddr + rates.kernel if self.updates % parts else 0.0
            found.append((own.cycles(rates) + after + padding, own))
            parts *= 2
        cycles, own = min(found, key=lambda pair: pair[0], default=(float("inf"), self))
        return own, cycles

    def _is_worth_a_transfer(self, columns: int, rates: Rates) -> bool:
        return columns == self.columns or columns * self.width % rates.line_bytes == 0

    def _step_bytes(self, lines: int, columns: int, rates: Rates) -> int:
        """Of the vectors of a step, of two steps if a tile has several."""
        elements = self.places * (1 + self.is_loaded) + self.updates
        buffers = 1 if lines >= self._share(columns, rates) else 2
        return buffers * lines * (elements * columns * self.width + self.updates * INDEX_BYTES * NUMBERS)

    @staticmethod
    def _most(rates: Rates) -> float:
        return SPM_SHARE * rates.spm_bytes

    def _share(self, columns: int, rates: Rates) -> int:
        """Lines, of so many columns, of the tile that has most."""
        return -(-self.lines * (self.columns // columns) // rates.tiles)

    def _turns(self, columns: int, rates: Rates) -> float:
        """Cycles of the kernel core of that tile."""
        own = UPDATE_CYCLES + -(-columns * self.width // rates.kernel_core)
        return self._share(columns, rates) * self.updates * own
