"""What the timing model says of a program: time, what bounds it and what would bound it next, counters as a PMU keeps them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.timing.bundle import (
    BARRIER,
    BYTES,
    DDR_BYTES,
    ENGINE_BUSY,
    ENGINE_INSTRUCTIONS,
    ISSUE,
    LEAST,
    OPERATIONS,
    PER_ENGINE,
    PER_RECORD,
    PER_TILE,
)
from hlo2tx8.device.timing.counters import (
    NAMES,
    EngineCounters,
    RecordCost,
    engine_counters,
    engines_of,
    mean_counters,
    record_cost,
)

RESOURCES = ("DDR", "CT", "NE", "TDMA", "DTE", "KC")


class Timed(NamedTuple):
    """Of one stretch: `records` are sums over tiles, `counters` one row per tile; `unknown` records have trip counts or branches
    that depend on data, `loaded` records load numbers that matter; does the program of every tile end in it?"""

    cycles: float
    records: np.ndarray
    counters: np.ndarray
    unknown: frozenset[int]
    loaded: frozenset[int]
    is_end: bool


class Part(NamedTuple):
    """Records [first, end) of a program with their cost: from one barrier to the next."""

    first: int
    end: int
    timed: Timed

    @property
    def cycles(self) -> float:
        """Cycles from the first record's begin to the last one's end."""
        return self.timed.cycles


@dataclass(frozen=True, eq=False)
class Report:
    """Of the words of a program: cycles from launch to the end, counters per tile and engine, costs per record of the program.

    `busy` and `instructions` are those of the busiest tile. `overhead` are the kernel cores' cycles for `issue`, `barrier` and
    `launch`. `unknown` lists records whose trip count or branch depends on data: one turn of them is counted, one branch taken.
    `is_measured`: a run told all that. `parts` follow each other in time. `host_bytes` of inputs and outputs cross PCIe, which no
    cycle counts. `bound_cycles` are the least that any program for the same module takes, 0 if nobody said.
    """

    code: np.ndarray = field(repr=False)
    chip: Chip = field(repr=False)
    parts: tuple[Part, ...] = field(repr=False)
    launch: float
    is_measured: bool = False
    host_bytes: int = 0
    bound_cycles: float = 0.0

    @cached_property
    def cycles(self) -> float:
        """Cycles of the whole program, from launch to the end."""
        return self.launch + sum(part.cycles for part in self.parts)

    @property
    def host_transfer_seconds(self) -> float:
        """Moving all inputs from the host and all outputs to it, over PCIe; no part of `cycles`."""
        return self.host_bytes / self.chip.pcie_bytes_per_second

    @property
    def clock_hz(self) -> int:
        """The chip's clock."""
        return self.chip.clock_hz

    @cached_property
    def _sums(self) -> np.ndarray:
        """[records, PER_RECORD]."""
        sums = np.zeros((len(self.code), PER_RECORD))
        for first, end, timed in self.parts:
            sums[first:end] += timed.records[: (end - first) * PER_RECORD].reshape(-1, PER_RECORD)
        return sums

    @cached_property
    def _counters(self) -> np.ndarray:
        """[tiles, PER_TILE]."""
        return sum((part.timed.counters for part in self.parts), start=np.zeros((self.chip.tiles, PER_TILE)))

    def _of_engines(self, counter: int) -> Mapping[str, float]:
        """The most of any tile."""
        return {name: float(self._counters[:, e * PER_ENGINE + counter].max()) for e, name in NAMES.items()}

    @cached_property
    def records(self) -> tuple[RecordCost, ...]:
        """What each record of the program cost, by index."""
        engines = [NAMES[e] for e in engines_of(self.code).tolist()]
        return tuple(record_cost(name, row, self.chip.tiles) for name, row in zip(engines, self._sums.tolist(), strict=True))

    @cached_property
    def tiles(self) -> tuple[Mapping[str, EngineCounters], ...]:
        """The counters of each tile, by engine."""
        rows = [tuple(row) for row in self._counters.tolist()]
        of_row = {row: {name: engine_counters(e, row, self.cycles) for e, name in NAMES.items()} for row in set(rows)}
        return tuple(of_row[row] for row in rows)

    @property
    def overhead(self) -> Mapping[str, float]:
        """Cycles of the busiest kernel core for issuing, cycles at barriers, and cycles of the launch."""
        issue, barrier = (float(self._counters[:, counter].max()) for counter in (ISSUE, BARRIER))
        return {"issue": issue, "barrier": barrier, "launch": self.launch}

    @property
    def ddr_bytes_per_cycle(self) -> float:
        """Bytes the chip can move per cycle: the DDR's rate, or all tiles' ports together."""
        return min(self.chip.ddr_bytes_per_cycle, self.chip.tiles * self.chip.cycles.dma_bytes_per_cycle)

    @property
    def unknown(self) -> tuple[int, ...]:
        """Records whose trip count or branch depends on data."""
        return tuple(sorted({part.first + record for part in self.parts for record in part.timed.unknown}))

    @property
    def trip_counts(self) -> str:
        """Of loops and branches that depend on data: "assumed" or, after a run, "measured"; "known" if there are none."""
        return "assumed" if self.unknown else "measured" if self.is_measured else "known"

    @property
    def ddr_bytes(self) -> int:
        """Bytes that the chip moves from and to DDR."""
        return self._total(BYTES)

    @property
    def ddr_cycles(self) -> float:
        """Cycles the DDR is needed for; short runs cost it as much as longer ones."""
        return self._total(DDR_BYTES) / self.ddr_bytes_per_cycle

    @property
    def operations(self) -> int:
        """Operations the program does; a multiply-add is two."""
        return self._total(OPERATIONS)

    def _total(self, column: int) -> int:
        return int(np.rint(self._sums[:, column]).sum())

    @property
    def seconds(self) -> float:
        """The modelled time of the whole program."""
        return self.cycles / self.clock_hz

    @cached_property
    def busy(self) -> Mapping[str, float]:
        """Cycles per engine of the tile in which it works longest."""
        return {name: cycles for name, cycles in self._of_engines(ENGINE_BUSY).items() if cycles}

    @property
    def instructions(self) -> Mapping[str, int]:
        """Instructions per engine, of the tile that executes most of them."""
        return {name: count for name, most in self._of_engines(ENGINE_INSTRUCTIONS).items() if (count := round(most))}

    @property
    def engines(self) -> Mapping[str, EngineCounters]:
        """The counters of each engine, as the mean over tiles."""
        return {name: mean_counters([t[name] for t in self.tiles]) for name in NAMES.values()}

    @property
    def alike(self) -> tuple[tuple[tuple[int, ...], Mapping[str, EngineCounters]], ...]:
        """(tiles, their counters) for each set of tiles whose counters are the same."""
        found: list[tuple[list[int], Mapping[str, EngineCounters]]] = []
        for tile, counters in enumerate(self.tiles):
            same = next((tiles for tiles, other in found if other is counters or other == counters), None)
            if same is None:
                found.append(([tile], counters))
            else:
                same.append(tile)
        return tuple((tuple(tiles), counters) for tiles, counters in found)

    @cached_property
    def bounds(self) -> tuple[tuple[str, float], ...]:
        """(resource or overhead, its share of the time), the most loaded first."""
        shares = {name: cycles / self.cycles for name, cycles in self._loads.items() if cycles or name == "DDR"}
        shares |= {name: cycles / self.cycles for name, cycles in self.overhead.items() if cycles}
        return tuple(sorted(shares.items(), key=lambda item: (-item[1], item[0])))

    @property
    def _loads(self) -> Mapping[str, float]:
        """Cycles each resource is needed for."""
        return {"DDR": self.ddr_cycles} | {name: busy for name, busy in self.busy.items() if name in RESOURCES}

    @property
    def bound(self) -> str:
        """What most of the time goes to: a resource, or issue, barriers, the launch."""
        return self.bounds[0][0]

    @property
    def next_bound(self) -> str:
        """What bounds the time once the bound is gone; empty if nothing does."""
        return self.bounds[1][0] if len(self.bounds) > 1 else ""

    @property
    def least_cycles(self) -> float:
        """What the bytes take at the peak of the DDR, or the operations at the peaks of their engines on all tiles."""
        engines = np.bincount(engines_of(self.code), self._sums[:, LEAST], len(Engine)) / self.chip.tiles
        return max(self.ddr_bytes / self.ddr_bytes_per_cycle, float(engines.max()))

    @property
    def moved_ratio(self) -> float:
        """The time divided by what the program's own bytes and operations alone take."""
        least = self.least_cycles
        return self.cycles / least if least else float("inf")

    @property
    def roofline_ratio(self) -> float:
        """The time divided by the least that any program for the module takes, as far as that was said; 1 is perfect."""
        return self.cycles / self.bound_cycles if self.bound_cycles else self.moved_ratio

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "cycles": self.cycles,
            "seconds": self.seconds,
            "bound": self.bound,
            "next_bound": self.next_bound,
            "bounds": dict(self.bounds),
            "busy_cycles": dict(self.busy),
            "instructions": dict(self.instructions),
            "counters": {name: counters.as_dict() for name, counters in self.engines.items()},
            "counters_by_tile": [
                {"tiles": list(tiles), "counters": {name: c.as_dict() for name, c in counters.items()}}
                for tiles, counters in self.alike
            ],
            "overhead_cycles": dict(self.overhead),
            "bytes accessed": self.ddr_bytes,
            "flops": self.operations,
            "roofline_ratio": self.roofline_ratio if self.least_cycles else None,
            "moved_ratio": self.moved_ratio if self.least_cycles else None,
            "lower_bound_cycles": self.bound_cycles or None,
            "is_per_iteration": bool(self.unknown),
            "host_transfer_seconds": self.host_transfer_seconds,
            "trip_counts": self.trip_counts,
        }

    def __str__(self) -> str:
        loads = ", ".join(f"{name} {share:.0%}" for name, share in self.bounds if share >= 0.005)
        after = f", then by {self.next_bound}" if self.next_bound else ""
        roofline = f" ({self.moved_ratio:.2f}x of what it moves and computes)" if self.least_cycles else ""
        if self.bound_cycles:
            roofline = f" ({self.roofline_ratio:.2f}x of its lower bound{roofline.replace(' (', ', ')}"
        per_iteration = {
            "assumed": "; trip counts assumed: loops of unknown length counted once",
            "measured": "; trip counts measured",
        }.get(self.trip_counts, "")
        return (
            f"{self.cycles:.0f} cycles = {self.seconds * 1e6:.1f} us modelled; bound by {self.bound}{after}"
            f"{roofline}; {loads}{per_iteration}"
        )
