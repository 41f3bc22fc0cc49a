"""What a run decided: the numbers it loaded from SPM into registers, of which trip counts, branches and sizes are made.

Whoever knows them follows the run's control without its data. Equal numbers in a row are kept as one, so that a loop of a million
turns, whose condition is loaded as often, is a few rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

MOST_ROWS = 1 << 16
"""Of a tile; of a run that has more nothing is known."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """`rows` are int64[n, 4]: tile, record, number, how often in a row; by tile and record, then in order."""

    rows: np.ndarray


class Log:
    """Keeps what these records load in a run, which `add`s the numbers one by one or gives all rows at its end."""

    def __init__(self, records: Iterable[int]) -> None:
        self.records = frozenset(records)
        self._rows: np.ndarray | None = None
        self._added: list[list[int]] = []
        self._last: dict[tuple[int, int], list[int]] = {}

    def add(self, tile: int, record: int, number: int) -> None:
        """One that was loaded."""
        if record not in self.records:
            return
        last = self._last.get((tile, record))
        if last is not None and last[2] == number:
            last[3] += 1
            return
        self._last[tile, record] = row = [tile, record, number, 1]
        self._added.append(row)

    def give(self, rows: np.ndarray) -> None:
        """Those of Decisions, ordered by tile only."""
        self._rows = rows

    def decisions(self) -> Decisions | None:
        """The register loads recorded during a finished run, or None if the log overflowed."""
        rows = np.array(self._added, np.int64).reshape(-1, 4) if self._rows is None else self._rows
        if (np.bincount(rows[:, 0], minlength=1) > MOST_ROWS).any():
            return None
        return Decisions(rows[np.lexsort((rows[:, 1], rows[:, 0]))])
