"""Costs of one record and counters of one engine, as a PMU keeps them, from the sums that the timing model keeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from hlo2tx8.device.isa import BY_OPCODE
from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.timing.bundle import (
    BARRIER,
    BARRIER_WAIT,
    ENGINE_BUSY,
    ENGINE_INSTRUCTIONS,
    FULL,
    ISSUE,
    PER_ENGINE,
    QUEUED,
    WAITING,
)

NAMES = {e: e.name for e in Engine}


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


@cache
def _engine_of_opcode() -> np.ndarray:
    found = np.full(1 << 16, Engine.KC, np.uint8)
    for opcode, kind in BY_OPCODE.items():
        found[opcode] = kind.ENGINE
    return found


def engines_of(code: np.ndarray) -> np.ndarray:
    """Numbers of the engines of a program's records."""
    return _engine_of_opcode()[code[:, 0] & np.uint64(0xFFFF)]


def record_cost(engine: str, sums: Sequence[float], tiles: int) -> RecordCost:
    """The cost of a record from its sums over all tiles."""
    count, busy, elapsed, charged, moved, operations, least = sums
    mean = (count / tiles, busy / tiles, elapsed / tiles, least / tiles)
    return RecordCost(engine, *mean, round(moved), round(charged), round(operations))


def engine_counters(engine: Engine, row: Sequence[float], cycles: float) -> EngineCounters:
    """The counters of an engine from those of a tile that ran for `cycles`."""
    base = engine * PER_ENGINE
    causes: dict[str, float] = {}
    if engine is Engine.KC:
        causes = {"barrier": row[BARRIER] + row[BARRIER_WAIT], "issue": row[ISSUE]}
        for e in QUEUED:
            causes[f"{NAMES[e]} queue"], causes[f"wait for {NAMES[e]}"] = row[FULL + e], row[WAITING + e]
    else:
        causes = {NAMES[e]: row[base + e] for e in QUEUED}
    blocked = {name: value for name, value in causes.items() if value}
    busy = row[base + ENGINE_BUSY]
    return EngineCounters(round(row[base + ENGINE_INSTRUCTIONS]), busy, blocked, max(cycles - busy - sum(blocked.values()), 0.0))


def mean_counters(counters: Sequence[EngineCounters]) -> EngineCounters:
    """The counters of an engine as the mean over tiles."""
    n = len(counters)
    causes = sorted({cause for c in counters for cause in c.blocked_cycles})
    return EngineCounters(
        sum(c.instructions for c in counters) / n,
        sum(c.busy_cycles for c in counters) / n,
        {cause: sum(c.blocked_cycles.get(cause, 0.0) for c in counters) / n for cause in causes},
        sum(c.idle_cycles for c in counters) / n,
    )
