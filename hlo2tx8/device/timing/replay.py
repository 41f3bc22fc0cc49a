"""What a run decided, handed out again: each record of each tile gets the numbers it loaded, in order."""

from dataclasses import dataclass

from hlo2tx8.device.decisions import Decisions


@dataclass(slots=True)
class Cursor:
    """Rows of (number, times); the next number is of row `at`, of which `used` are gone. `taken` counts all."""

    rows: list[tuple[int, int]]
    at: int = 0
    used: int = 0
    taken: int = 0

    def take(self) -> int | None:
        """The next number; None if the run loaded no more."""
        if self.at < len(self.rows) and self.used == self.rows[self.at][1]:
            self.at, self.used = self.at + 1, 0
        if self.at >= len(self.rows):
            return None
        self.used += 1
        self.taken += 1
        return self.rows[self.at][0]

    @property
    def last(self) -> int | None:
        """The number that was taken last; None before the first."""
        return self.rows[self.at][0] if self.taken and self.at < len(self.rows) else None

    def repeats(self, count: int) -> int:
        """How often the last `count` numbers come again for certain: all of them and those are in one row."""
        return 0 if self.used < count or self.at >= len(self.rows) else (self.rows[self.at][1] - self.used) // count


class Replay:
    """The cursors of records [first, end), by tile and number from `first` on."""

    def __init__(self, decisions: Decisions, first: int, end: int) -> None:
        self.cursors: dict[tuple[int, int], Cursor] = {}
        for tile, record, number, times in decisions.rows.tolist():
            if first <= record < end:
                self.cursors.setdefault((tile, record - first), Cursor([])).rows.append((number, times))

    def take(self, tile: int, record: int) -> int | None:
        """The next number that a record of a tile loads; None if the run does not tell."""
        cursor = self.cursors.get((tile, record))
        return None if cursor is None else cursor.take()

    def last(self, tile: int, record: int) -> int | None:
        """The one before that."""
        cursor = self.cursors.get((tile, record))
        return None if cursor is None else cursor.last

    def taken(self) -> dict[tuple[int, int], int]:
        """How many by tile and record."""
        return {place: cursor.taken for place, cursor in self.cursors.items()}
