"""Runs of launches that follow each other and are equal, but for numbers that grow by the same from each run to the next.

    launches    A  B  C  B  C  B  C  D         three runs of B, C
    slots       0  1  9  2  10 3  11 12        B has 1 + run, C has 9 + run

What may grow are slots, places in them, and constants of address arithmetic.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.encoding import BEGINS, Operand, Record
from hlo2tx8.device.isa.fields import Role
from hlo2tx8.device.isa.kc_control import KcAffine, KcExit
from hlo2tx8.link.assemble import Assembled
from hlo2tx8.link.slot_chains import SlotChains

Numbers: TypeAlias = npt.NDArray[np.int64]
LEAST_RUNS, LEAST_SAVED = 3, 256
"""Fewer runs, or fewer records that are saved, are left as they are."""
MOST_LAUNCHES = 512
"""Of a run."""
MOST_TRIED = 32
"""Of the ways to divide launches into equal runs, those that would save most."""


class EqualRuns(NamedTuple):
    """Records from `first` on: `turns` runs of `size` one behind the other; `launches` are where launches begin in one."""

    first: int
    size: int
    turns: int
    launches: tuple[int, ...]

    @property
    def end(self) -> int:
        """Behind the last run."""
        return self.first + self.size * self.turns

    @property
    def saved(self) -> int:
        """Records of all runs but one."""
        return self.size * (self.turns - 1)


@cache
def growing_fields(kind: type[Instruction]) -> tuple[str, ...]:
    """The fields whose numbers may differ from run to run."""
    if kind is KcAffine:
        return ("c",)
    roles = (Role.SLOT, Role.DDR_READ, Role.DDR_WRITE)
    return tuple(f.name for role in roles for f in kind.FIELDS if f.role is role)


def equal_runs(made: Assembled, num_slots: int) -> tuple[list[EqualRuns], list[int]]:
    """The longest ones, in order, of which none overlap; and the slots in the order in which their numbers have to be for that."""
    blocks = _blocks(made.records, [launch.first for launch in made.launches])
    found = _Finder(made)
    as_they_are = _apart(runs for cuts in blocks for runs in found.of_block(cuts))
    chains = SlotChains()
    for cuts in blocks:
        chains = found.chained(cuts, chains)
    if chains.beside:
        order = chains.order(num_slots)
        found.renumber(order)
        anew = _apart(runs for cuts in blocks for runs in found.of_block(cuts))
        if sum(runs.saved for runs in anew) > sum(runs.saved for runs in as_they_are):
            return anew, order
    return as_they_are, [*range(num_slots)]


def _apart(found: Iterable[EqualRuns]) -> list[EqualRuns]:
    """In order, those that save most of runs that overlap: where a launch holds a loop, there may be equal runs in that too."""
    taken: list[EqualRuns] = []
    for runs in sorted(found, key=lambda runs: -runs.saved):
        if all(runs.first >= other.end or other.first >= runs.end for other in taken):
            taken.append(runs)
    return sorted(taken)


def _blocks(records: Sequence[Record], launches: Sequence[int]) -> list[list[int]]:
    """By block, where the launches that stand in it begin, and where the block ends."""
    begins, found = set(launches), {-1: list[int]()}
    open_blocks = [-1]
    for at, record in enumerate(records):
        if record.kind in BEGINS:
            found[open_blocks.pop()].append(at)
        if at in begins:
            found[open_blocks[-1]].append(at)
        if record.kind in _OPENS:
            open_blocks.append(at)
            found[at] = []
    found[-1].append(len(records))
    return [cuts for cuts in found.values() if len(cuts) > LEAST_RUNS]


_OPENS = frozenset(BEGINS.values())


@dataclass(frozen=True)
class _Finder:
    made: Assembled
    names: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """The numbers of launches, by what equal ones have in common."""
    numbers: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    """The same, by their first records and the ends."""

    @property
    def records(self) -> Sequence[Record]:
        return self.made.records

    @cached_property
    def kinds(self) -> Numbers:
        """The same number for records that differ only in what may grow, and whose operands are in equal buffers."""
        places = [(b.address, b.size_bytes, b.copies, b.stride_bytes) for b in self.made.buffers]
        used: dict[int, list[object]] = {}
        for use in self.made.uses:
            used.setdefault(use.record, []).append((use.operand, places[use.buffer]))
        alike: dict[object, int] = {}
        same: dict[int, int] = {}  # by the record itself, which launches of the same code share
        for record in self.records:
            if id(record) not in same:
                same[id(record)] = alike.setdefault(_without_growing(record), len(alike))
        known: dict[object, int] = {}
        keys = ((same[id(record)], *used.get(at, ())) for at, record in enumerate(self.records))
        return np.array([known.setdefault(key, len(known)) for key in keys], np.int64)

    @cached_property
    def names_slot(self) -> npt.NDArray[np.bool_]:
        """Which records name a slot by its number."""
        return np.array([isinstance(record.fields.get("slot"), int) for record in self.records])

    @cached_property
    def growing(self) -> Numbers:
        """[record, field]: the numbers that may grow, 0 for others; a slot is the first."""
        found = np.zeros((len(self.records), 2), np.int64)
        for at, record in enumerate(self.records):
            for k, name in enumerate(growing_fields(record.kind)):
                value = record.fields.get(name, 0)
                found[at, k] = value if isinstance(value, int) else 0
        return found

    def renumber(self, order: Sequence[int]) -> None:
        """From now on slots have their places in an order as numbers."""
        numbers = np.zeros(len(order), np.int64)
        numbers[order] = np.arange(len(order))
        self.growing[self.names_slot, 0] = numbers[self.growing[self.names_slot, 0]]

    def launches_of(self, cuts: Sequence[int]) -> Numbers:
        """Numbers of launches that begin at `cuts`, the last of which is the end of a block; the same for equal ones."""
        ends = [*pairwise(cuts)]
        for first, end in ends:
            if (first, end) not in self.numbers:
                self.numbers[first, end] = self.names.setdefault(self.key(first, end), len(self.names))
        return np.array([self.numbers[own] for own in ends], np.int64)

    def chained(self, cuts: Sequence[int], chains: SlotChains) -> SlotChains:
        """Chains with what lets equal runs in a block be loops, those first that save most."""
        ways = _Ways.of(self.launches_of(cuts), np.array(cuts))
        while True:
            best: tuple[EqualRuns, SlotChains] | None = None
            for runs in ways.best():
                if best is not None and runs.saved <= best[0].saved:
                    break
                found = self.with_slots(runs, chains)
                if found is not None and (best is None or found[0].saved > best[0].saved):
                    best = found
            if best is None:
                return chains
            taken, chains = best
            ways = ways.without(taken)

    def with_slots(self, runs: EqualRuns, chains: SlotChains) -> tuple[EqualRuns, SlotChains] | None:
        """Chains also with the slots of runs, without some of the first and the last ones; None if few are left."""
        while runs.turns >= LEAST_RUNS and runs.saved >= LEAST_SAVED:
            longer = chains.with_paths(self.paths(runs))
            if not isinstance(longer, int):
                return runs, longer
            first, end = (longer + 1, runs.turns) if 2 * longer < runs.turns else (0, longer + 1)
            runs = runs._replace(first=runs.first + first * runs.size, turns=end - first)
        return None

    def paths(self, runs: EqualRuns) -> list[tuple[int, ...]]:
        """The slots that each record reaches in run after run, if they differ."""
        slots = self.growing[runs.first : runs.end, 0].reshape(runs.turns, -1)
        differ = self.names_slot[runs.first : runs.first + runs.size] & (slots != slots[0]).any(axis=0)
        return [*dict.fromkeys(map(tuple, slots[:, differ].T.tolist()))]

    def of_block(self, cuts: Sequence[int]) -> Iterator[EqualRuns]:
        """Those in a block, whose launches begin at `cuts`; the last of these is its end."""
        launches = self.launches_of(cuts)
        todo = [(0, len(launches))]
        while todo:
            first, end = todo.pop()
            runs = self.longest(launches[first:end], np.array(cuts[first : end + 1]))
            if runs is not None:
                yield runs
                todo += [(first, cuts.index(runs.first)), (cuts.index(runs.end), end)]

    def key(self, first: int, end: int) -> bytes:
        """What equal launches have in common. One that leaves a loop around it is equal to none."""
        depth = 0
        for record in self.records[first:end]:
            depth += (record.kind in _OPENS) - (record.kind in BEGINS)
            if record.kind is KcExit and not depth:
                return first.to_bytes(8, "little")
        return self.kinds[first:end].tobytes()

    def longest(self, launches: Numbers, cuts: Numbers) -> EqualRuns | None:
        """The runs that save most; None if they save little."""
        best: EqualRuns | None = None
        for runs in _Ways.of(launches, cuts).best():
            if best is not None and runs.saved <= best.saved:
                break
            steady = self.steady(runs)
            if steady is not None and steady.saved >= LEAST_SAVED and (best is None or steady.saved > best.saved):
                best = steady
        return best

    def steady(self, runs: EqualRuns) -> EqualRuns | None:
        """The longest part of runs in which what may grow does so by the same each time; None if it is short."""
        numbers = self.growing[runs.first : runs.end].reshape(runs.turns, -1)
        is_steady = (np.diff(numbers, 2, axis=0) == 0).all(axis=1)
        parts = _stretches(is_steady)
        if not parts:
            return None
        start, end = max(parts, key=lambda part: part[1] - part[0])
        return runs._replace(first=runs.first + start * runs.size, turns=end - start + 2)


def _stretches(holds: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """(first, end) of each stretch of what holds."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], holds, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


@dataclass(frozen=True)
class _Ways:
    """Ways to divide launches that begin at `cuts` into equal runs, where numbers are not looked at, those first that save most.
    `ways` are [way, launch that begins the first run, launches of a run, runs]; of all launches there are some ten thousands."""

    cuts: Numbers
    ways: Numbers

    @staticmethod
    def of(launches: Numbers, cuts: Numbers) -> "_Ways":
        """All that there are of launches with these numbers."""
        found = [np.zeros((0, 3), np.int64)]
        for period in range(1, min(MOST_LAUNCHES, len(launches) // LEAST_RUNS) + 1):
            is_equal = launches[period:] == launches[:-period]
            for start, end in _stretches(is_equal):
                count = (end - start) // period + 1
                if count >= LEAST_RUNS:
                    own = np.full((end - start + 1 - (count - 1) * period, 3), (0, period, count), np.int64)
                    own[:, 0] = np.arange(start, start + len(own))
                    found.append(own)
        ways = np.concatenate(found)
        saved = (cuts[ways[:, 0] + ways[:, 1]] - cuts[ways[:, 0]]) * (ways[:, 2] - 1)
        order = np.argsort(-saved, kind="stable")
        return _Ways(cuts, ways[order[saved[order] >= LEAST_SAVED]])

    def best(self) -> Iterator[EqualRuns]:
        """The first few."""
        for first, period, count in self.ways[:MOST_TRIED].tolist():
            inner = self.cuts[first : first + period + 1] - self.cuts[first]
            yield EqualRuns(int(self.cuts[first]), int(inner[-1]), count, tuple(inner[:-1].tolist()))

    def without(self, taken: EqualRuns) -> "_Ways":
        """Those of which no launch is in some runs."""
        firsts, ends = self.ways[:, 0], self.ways[:, 0] + self.ways[:, 1] * self.ways[:, 2]
        return _Ways(self.cuts, self.ways[(self.cuts[firsts] >= taken.end) | (self.cuts[ends] <= taken.first)])


def _without_growing(record: Record) -> tuple[object, ...]:
    names = growing_fields(record.kind)
    fields: list[tuple[str, Operand | None]] = [
        (name, None if name in names and isinstance(value, int) else value) for name, value in record.fields.items()
    ]
    return (record.kind, record.fmt, record.fmt2, record.rounding, *fields)
