"""Tiles that have done the same at the same times so far, followed as one: registers, loops, queues, counters."""

import copy
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.timing.fluid import Transfer
from hlo2tx8.device.timing.steps import Shape, Step, Value

QUEUED = tuple(e for e in Engine if e is not Engine.KC)
PER_RECORD = 7
INSTRUCTIONS, BUSY, ELAPSED, DDR_BYTES, BYTES, OPERATIONS, LEAST = range(PER_RECORD)
"""Of a record: how often, cycles of its engine, cycles of the kernel core, bytes the DDR spends time on, bytes moved, operations,
cycles they take at peak rate."""
CAUSES = len(Engine)
ENGINE_BUSY, ENGINE_INSTRUCTIONS = (CAUSES + i for i in range(2))
PER_ENGINE = CAUSES + 2
"""Of an engine: cycles its next instruction waited for data of each engine, cycles in which it worked, instructions."""
KC_BASE = PER_ENGINE * len(Engine)
FULL, WAITING = KC_BASE, KC_BASE + CAUSES
BARRIER_WAIT, BARRIER, ISSUE = (KC_BASE + 2 * CAUSES + i for i in range(3))
PER_TILE = ISSUE + 1
"""Of the kernel core beside: cycles before a full queue and in waits by engine, until the others came to a barrier, in barriers,
and in issue and scalars."""


@dataclass(slots=True, eq=False)
class Issued:
    """An instruction in a queue. It is `ready` when it has been issued and all it waits for that is known has ended; `missing`
    counts what is not known yet. `cause` is the engine it waited for last."""

    shape: Shape
    step: Step
    engine: Engine
    issue: float
    ready: float
    free: float
    cause: int
    missing: int = 0
    start: float | None = None
    end: float | None = None
    dependents: "list[tuple[Issued, bool]]" = field(default_factory=list["tuple[Issued, bool]"])
    transfer: Transfer | None = None


@dataclass(slots=True, eq=False)
class Frame:
    """A loop under way: turns done of all turns, and what the ends of turns looked like."""

    loop: int
    lo: Value
    step: int
    total: int
    turn: int = 0
    marks: list[Any] = field(default_factory=list[Any])
    probe: Any = None


@dataclass(eq=False)
class Bundle:
    """Tiles in lockstep. `now` is their kernel cores' clock; `blocked` what it waits for to end; `returns` the steps
    behind the calls under way."""

    tiles: tuple[int, ...]
    registers: list[Value]
    records: list[float]
    counters: list[float]
    at: int = 0
    now: float = 0.0
    frames: list[Frame] = field(default_factory=list[Frame])
    returns: list[int] = field(default_factory=list[int])
    queues: tuple[deque[Issued], ...] = ()
    blocked: Issued | None = None
    is_at_barrier: bool = False
    is_done: bool = False

    def part(self, indices: Sequence[int]) -> "tuple[Bundle, dict[Transfer, Transfer]]":
        """A copy for some of the tiles, and the copies of its transfers by the original."""
        other = copy.copy(self)
        other.records, other.counters = list(self.records), list(self.counters)
        other.keep(indices, self.registers)
        other.returns = list(self.returns)
        other.frames = [replace(frame, marks=[], probe=None) for frame in self.frames]
        copies = {i: copy.copy(i) for queue in self.queues for i in queue}
        other.queues = tuple(deque((copies[i] for i in queue), queue.maxlen) for queue in self.queues)
        other.blocked = None if self.blocked is None else copies[self.blocked]
        transfers: dict[Transfer, Transfer] = {}
        for old, new in copies.items():
            new.dependents = [(copies[i], is_order) for i, is_order in old.dependents]
            if old.transfer is not None:
                transfers[old.transfer] = new.transfer = replace(old.transfer, owner=(other, new))
        return other, transfers

    def keep(self, indices: Sequence[int], registers: Sequence[Value]) -> None:
        """Only these of the tiles, with their values of the registers."""
        self.tiles = tuple(self.tiles[i] for i in indices)
        self.registers = [select(v, indices) for v in registers]

    def is_drained(self, cycle: float) -> bool:
        """Has every engine of the bundle ended what it was given, by this cycle?"""
        return all(i.end is not None and i.end <= cycle for queue in self.queues for i in queue)


def select(value: Value, indices: Sequence[int]) -> Value:
    """A register's value on some of the tiles."""
    return equalised(tuple(value[i] for i in indices)) if isinstance(value, tuple) else value


def equalised(values: tuple[Any, ...]) -> Value:
    """One value if all are the same."""
    return values[0] if all(v == values[0] for v in values) else values


def known_or_none(values: Sequence[int | None]) -> Value:
    """A register's value of a value per tile."""
    known = tuple(v for v in values if v is not None)
    return equalised(known) if len(known) == len(values) else None


def gathered(bundles: Sequence[Bundle], values: Sequence[Value]) -> Value:
    """One value of several bundles, in the order of their tiles."""
    first = values[0]
    if not isinstance(first, tuple) and all(v == first for v in values):
        return first
    of_tile = {tile: v for b, value in zip(bundles, values, strict=True) for tile, v in zip(b.tiles, spread(value, b), strict=True)}
    return equalised(tuple(of_tile[tile] for tile in sorted(of_tile)))


def join(bundles: Sequence[Bundle]) -> tuple[tuple[int, ...], list[Value]]:
    """The tiles of several bundles in order, and their registers."""
    tiles = tuple(sorted(tile for b in bundles for tile in b.tiles))
    return tiles, [gathered(bundles, column) for column in zip(*(b.registers for b in bundles), strict=True)]


def spread(value: Value, bundle: Bundle) -> tuple[Any, ...]:
    """A value per tile."""
    return value if isinstance(value, tuple) else (value,) * len(bundle.tiles)


def apply(fold: Callable[..., int] | None, values: Sequence[Value]) -> Value:
    """A scalar's result: not known if an operand is not, per tile if an operand is."""
    if fold is None or None in values:
        return None
    try:
        if tuple not in map(type, values):
            return fold(*values)
        (size,) = {len(v) for v in values if isinstance(v, tuple)}
        columns = [v if isinstance(v, tuple) else (v,) * size for v in values]
        return equalised(tuple(fold(*row) for row in zip(*columns, strict=True)))
    except ZeroDivisionError:
        return 0  # the emulator faults
