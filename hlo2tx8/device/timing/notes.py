"""What happens when in a program on every tile, as rows that the native core writes: the material of the report's page.

A trace follows the program in Python and knows more of it, the bytes each instruction touches; this is some hundred times as quick.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

NOTE = np.dtype(
    [(name, "f8") for name in ("issue", "ready", "start", "end", "amount")]
    + [(name, "i4") for name in ("part", "record")]
    + [(name, "i2") for name in ("what", "tile", "engine", "cause")]
)
"""`struct timed_note` of device/native/timing.h."""


class NoteKind(IntEnum):
    """What a note is of.

    INSTRUCTION of an engine, WORK of a kernel core: issued, ready, started and ended, in cycles; the amount are bytes from or to
    DDR or other tiles; the cause is the engine for whose data it waited, or -1. WAIT, FULL (queue) and BARRIER: the kernel core
    stood still. TURNS: so many turns of a loop are left out, which are like those before. DDR, NOC: bytes per cycle that all
    transfers move from the start on. BYTES: what an engine of a tile moves in all. LINK: what
    goes from a tile over the link to the next (cause 0) or last tile (1) of its row, or of its column (2, 3).
    """

    INSTRUCTION = 0
    WORK = 1
    WAIT = 2
    FULL = 3
    BARRIER = 4
    TURNS = 5
    DDR = 6
    NOC = 7
    BYTES = 8
    LINK = 9


@dataclass
class Notes:
    """At most `most` rows of NOTE in the order in which they were known; `num` is how many there are with those left out. After
    `place` cycles count from the launch's end and records are those of the program.
    """

    most: int
    rows: np.ndarray = field(init=False)
    num: int = 0

    def __post_init__(self) -> None:
        self.rows = np.empty(self.most, NOTE)

    def place(self, num: int, parts: Sequence[tuple[int, int, float]]) -> None:
        """`parts` follow each other: first record, the part that each is like and that was followed, cycles."""
        known = self.rows[: min(num, self.most)]
        at = np.searchsorted(known["part"], np.arange(len(parts) + 1))
        base, found = 0.0, list[np.ndarray]()
        for first, same, cycles in parts:
            rows = known[at[same] : at[same + 1]].copy()
            for name in ("issue", "ready", "start", "end"):
                rows[name] += base
            rows["record"] += first
            found.append(rows)
            base += cycles
        self.rows = np.concatenate([*found, known[:0]])
        self.num = len(self.rows) + max(num - self.most, 0)

    def of(self, *kinds: NoteKind) -> np.ndarray:
        """The rows of some kinds."""
        return self.rows[np.isin(self.rows["what"], kinds)]
