"""What the timing model says of a program: time, what bounds it and what would bound it next, counters as a PMU keeps them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

RESOURCES = ("DDR", "CT", "NE", "TDMA", "DTE", "KC")


@dataclass(frozen=True)
class EngineCounters:
    """Of one engine of one tile, or the mean over tiles: instructions; cycles in which it worked, in which its next instruction
    waited, by what it waited for, and in which it was done or had not been given any."""

    instructions: float
    busy_cycles: float
    blocked_cycles: Mapping[str, float]
    idle_cycles: float

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "instructions": self.instructions,
            "busy_cycles": self.busy_cycles,
            "blocked_cycles": dict(self.blocked_cycles),
            "idle_cycles": self.idle_cycles,
        }


@dataclass(frozen=True)
class RecordCost:
    """One instruction of the program, summed over its executions and averaged over tiles: executions, cycles on its engine,
    cycles of the kernel core until it went on, cycles its operations take at the engine's peak rate; and for the chip DDR
    bytes, the bytes it costs the DDR as much as, operations."""

    engine: str
    instructions: float
    busy_cycles: float
    elapsed_cycles: float
    least_cycles: float
    bytes: int
    charged_bytes: int
    operations: int


@dataclass(frozen=True, eq=False)
class Part:
    """The records from `first` to `end` ran on their own, between barriers; sums as the model keeps them."""

    first: int
    end: int
    cycles: float
    records: np.ndarray
    counters: np.ndarray


@dataclass(frozen=True)
class Report:
    """Cycles from launch to the end, counters per tile and engine, costs per record of the program.

    `busy` and `instructions` are those of the busiest tile. `overhead` are the kernel cores' cycles for `issue`, `barrier` and
    `launch`. `unknown` lists records whose trip count or branch depends on data: one turn of them is counted, one branch taken.
    `parts` follow each other in time.
    """

    cycles: float
    clock_hz: int
    tiles: tuple[Mapping[str, EngineCounters], ...]
    records: tuple[RecordCost, ...]
    overhead: Mapping[str, float]
    ddr_bytes_per_cycle: float
    unknown: tuple[int, ...] = ()
    parts: tuple[Part, ...] = field(default=(), repr=False)

    @property
    def ddr_bytes(self) -> int:
        """Bytes that the chip moves from and to DDR."""
        return sum(r.bytes for r in self.records)

    @property
    def ddr_cycles(self) -> float:
        """Cycles the DDR is needed for; short runs cost it as much as longer ones."""
        return sum(r.charged_bytes for r in self.records) / self.ddr_bytes_per_cycle

    @property
    def operations(self) -> int:
        return sum(r.operations for r in self.records)

    @property
    def seconds(self) -> float:
        return self.cycles / self.clock_hz

    @property
    def busy(self) -> Mapping[str, float]:
        """Cycles per engine of the tile in which it works longest."""
        return {name: cycles for name in self._engines if (cycles := max(t[name].busy_cycles for t in self.tiles))}

    @property
    def instructions(self) -> Mapping[str, int]:
        """Per engine of the tile that gets most."""
        return {name: count for name in self._engines if (count := round(max(t[name].instructions for t in self.tiles)))}

    @property
    def engines(self) -> Mapping[str, EngineCounters]:
        """The mean over tiles."""
        return {name: _mean([t[name] for t in self.tiles]) for name in self._engines}

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

    @property
    def _engines(self) -> tuple[str, ...]:
        return tuple(self.tiles[0])

    @property
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
        engines: dict[str, float] = {}
        for record in self.records:
            engines[record.engine] = engines.get(record.engine, 0.0) + record.least_cycles
        return max(self.ddr_bytes / self.ddr_bytes_per_cycle, *engines.values(), 0.0)

    @property
    def roofline_ratio(self) -> float:
        """Time over the time that bytes and operations need at least; 1 is perfect."""
        least = self.least_cycles
        return self.cycles / least if least else float("inf")

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
            "is_per_iteration": bool(self.unknown),
        }

    def __str__(self) -> str:
        loads = ", ".join(f"{name} {share:.0%}" for name, share in self.bounds if share >= 0.005)
        after = f", then by {self.next_bound}" if self.next_bound else ""
        roofline = f" ({self.roofline_ratio:.2f}x of its roofline)" if self.least_cycles else ""
        per_iteration = "; loops of unknown length counted once" if self.unknown else ""
        return (
            f"{self.cycles:.0f} cycles = {self.seconds * 1e6:.1f} us modelled; bound by {self.bound}{after}"
            f"{roofline}; {loads}{per_iteration}"
        )


def _mean(counters: list[EngineCounters]) -> EngineCounters:
    n = len(counters)
    causes = sorted({cause for c in counters for cause in c.blocked_cycles})
    return EngineCounters(
        sum(c.instructions for c in counters) / n,
        sum(c.busy_cycles for c in counters) / n,
        {cause: sum(c.blocked_cycles.get(cause, 0.0) for c in counters) / n for cause in causes},
        sum(c.idle_cycles for c in counters) / n,
    )
