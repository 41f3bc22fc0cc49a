"""Which bytes of a slot each tile's transfers reach, run by run: the scalar records of a kernel executed for one tile.

`footprint` knows what a tile reaches at most, which is enough for barriers. Who fetches bytes must know which tile wrote them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hlo2tx8.device.isa.encoding import Operand, Record, Register, number_of, partners
from hlo2tx8.device.isa.kc_control import KcIf, KcLoop
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.link.records import TILE, ZERO
from hlo2tx8.link.specialize import scalar_value, with_numbers

Runs: TypeAlias = npt.NDArray[np.int64]
"""[n, 2]: first bytes of runs, and those behind their ends."""
MOST_STEPS, MOST_RUNS = 1 << 16, 1 << 14


class UnknownError(Exception):
    """A number depends on data, or there are too many."""


@dataclass
class _Walk:
    records: Sequence[Record]
    partners: Sequence[int]
    slot: int
    known: dict[int, int]
    found: list[Runs] = field(default_factory=list[Runs])
    steps: int = 0
    num_runs: int = 0

    def run(self, at: int, end: int) -> None:
        """The records from `at` to before `end`."""
        while at < end:
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise UnknownError
            record, behind = self.records[at], at + 1
            if record.kind is KcIf:
                behind = self.partners[at] + 1
                if self.number(record.fields["value"]):
                    self.run(at + 1, behind - 1)
            elif record.kind is KcLoop:
                behind = self.partners[at] + 1
                lo, hi, step = (self.number(record.fields[name]) for name in ("lo", "hi", "step"))
                for turn in range(lo, hi, step):
                    self.known[number_of(record.fields["rd"])] = turn
                    self.run(at + 1, behind - 1)
            elif record.kind in (Rdma, Wdma):
                if record.fields["slot"] == self.slot:
                    self.transfer(record)
            elif "rd" in record.fields:
                value = scalar_value(with_numbers(record, self.known))
                target = number_of(record.fields["rd"])
                self.known.pop(target, None)
                if value is not None:
                    self.known[target] = value
            at = behind

    def transfer(self, record: Record) -> None:
        """Note the runs of a transfer."""
        fields, size = record.fields, record.fmt.bytes
        starts = np.array([self.number(fields["offset"])], np.int64)
        for i in "321":
            turns = np.arange(self.number(fields.get(f"n{i}", 1)), dtype=np.int64)
            starts = (starts[:, None] + turns * self.number(fields.get(f"s{i}", 0)) * size).reshape(-1)
            if len(starts) > MOST_RUNS:
                raise UnknownError
        self.num_runs += len(starts)
        if self.num_runs > MOST_RUNS:
            raise UnknownError
        self.found.append(np.stack([starts, starts + self.number(fields["count"]) * size], axis=1))

    def number(self, operand: Operand) -> int:
        if not isinstance(operand, Register):
            return operand
        if operand.number not in self.known:
            raise UnknownError
        return self.known[operand.number]


def runs_of(records: Sequence[Record], slot: int, tile: int) -> Runs | None:
    """The runs of a slot that a tile's transfers reach, in their order; None if that is not known."""
    walk = _Walk(records, partners(records), slot, {ZERO.number: 0, TILE.number: tile})
    try:
        walk.run(0, len(records))
    except UnknownError:
        return None
    return np.concatenate([np.zeros((0, 2), np.int64), *walk.found])
