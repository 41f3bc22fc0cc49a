"""Queues and engines of the tiles: what an instruction waits for, when it starts and ends, and the counters of all that."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.timing.bundle import (
    BUSY,
    BYTES,
    DDR_BYTES,
    ELAPSED,
    ENGINE_BUSY,
    ENGINE_INSTRUCTIONS,
    FULL,
    INSTRUCTIONS,
    ISSUE,
    LEAST,
    OPERATIONS,
    PER_ENGINE,
    PER_RECORD,
    PER_TILE,
    WAITING,
    Bundle,
    Issued,
)
from hlo2tx8.device.timing.costs import Range
from hlo2tx8.device.timing.fluid import Fluid, SharedDdr, Transfer
from hlo2tx8.device.timing.noc import LineRates, SharedNoc
from hlo2tx8.device.timing.steps import Step, Steps

Sums: TypeAlias = "tuple[np.ndarray, np.ndarray]"


class Recorder(Protocol):
    """Is told what happens, in cycles since the beginning of a stretch, of which there are `parts`; says how many instructions
    of a stretch are to be followed before turns of a loop may be left out."""

    def begin(self, first_record: int, cycle: float, parts: int) -> int:
        """A part of the program begins at this cycle; returns how many instructions of it are to be followed one by one."""
        ...

    def end(self, ddr: Sequence[tuple[float, float]], noc: Sequence[tuple[float, LineRates]]) -> None:
        """The part is over; samples (cycle, bytes per cycle) of what the DDR moved, and the mesh by row and column."""
        ...

    def instruction(self, tiles: Sequence[int], issued: Issued) -> None:
        """An instruction of these tiles has ended."""
        ...

    def work(self, tiles: Sequence[int], record: int, engine: int, ranges: tuple[Range, ...], start: float, end: float) -> None:
        """The kernel cores of these tiles executed a record from cycle `start` to `end`."""
        ...

    def pause(self, tiles: Sequence[int], record: int, what: str, start: float, end: float, turns: int = 0) -> None:
        """The kernel cores of these tiles waited, for `what`, from cycle `start` to `end`."""
        ...


@dataclass
class TimingEngines:
    """The engines of all tiles. `records` are sums over tiles, `counters` one row per tile."""

    steps: Steps
    chip: Chip
    recorder: Recorder | None = None
    bundles: list[Bundle] = field(default_factory=list[Bundle])
    num_issued: int = 0

    def __post_init__(self) -> None:
        self.ddr = SharedDdr(self.chip, samples=None if self.recorder is None else [])
        self.noc = SharedNoc(self.chip, samples=None if self.recorder is None else [])
        self.fluids: tuple[Fluid, ...] = (self.ddr, self.noc)
        self.records = np.zeros(len(self.no_records()))
        self.counters = np.zeros((self.chip.tiles, PER_TILE))

    def spend(self, b: Bundle, step: Step, cycles: int) -> None:
        """The kernel core of a bundle spends so many cycles on a step."""
        cycles += step.before
        b.now += cycles
        b.counters[ISSUE] += cycles
        b.records[step.record * PER_RECORD + ELAPSED] += cycles

    def wait_until(self, b: Bundle, step: Step, why: int, issued: Issued) -> None:
        """Lets the kernel core of a bundle go on when an instruction has ended; the cycles count as waiting."""
        end = issued.end or 0.0
        if end > b.now:
            b.counters[why + issued.engine] += end - b.now
            b.records[step.record * PER_RECORD + ELAPSED] += end - b.now
            if self.recorder is not None:
                what = "wait" if why == WAITING else "queue full"
                self.recorder.pause(b.tiles, step.record, f"{what}: {issued.engine.name}", b.now, end)
            b.now = end

    def issue(self, b: Bundle, step: Step, key: tuple[int | None, ...]) -> bool:
        """Puts an instruction into its queue; False if the queue is full for a time that is not known yet."""
        queue = b.queues[step.engine]
        oldest = queue[0] if len(queue) == queue.maxlen else None
        if oldest is not None and oldest.end is None:
            b.blocked = oldest
            return False
        shape = step.shapes.get(key) or self.steps.shape(step, key)
        self.spend(b, step, self.chip.cycles.issue)
        if oldest is not None:
            self.wait_until(b, step, FULL, oldest)
        new = Issued(shape, step, step.engine, b.now, b.now, 0.0, step.engine)
        if queue:
            last = queue[-1]
            if last.end is None:
                last.dependents.append((new, True))
                new.missing += 1
            else:
                new.free = last.end
        for other in b.queues:
            if other is queue:
                continue
            for issued in reversed(other):
                if issued.end is not None and issued.end <= b.now:
                    break
                if issued.shape.number in shape.conflicts:
                    if issued.end is None:
                        issued.dependents.append((new, False))
                        new.missing += 1
                    elif issued.end > new.ready:
                        new.ready, new.cause = issued.end, issued.engine
                    break
        queue.append(new)
        self.num_issued += 1
        if not new.missing:
            self.start(b, new)
        return True

    def start(self, b: Bundle, issued: Issued) -> None:
        """An engine begins an instruction: its end is computed, or waits for what its transfer shares."""
        start = issued.start = max(issued.ready, issued.free)
        base = issued.engine * PER_ENGINE
        if issued.ready > issued.issue:
            b.counters[base + issued.cause] += max(issued.ready - max(issued.issue, issued.free), 0.0)
        work = issued.shape.work
        if work.ddr_bytes:
            issued.transfer = Transfer(start + work.cycles, float(work.ddr_bytes), len(b.tiles), (b, issued))
            self.ddr.add(issued.transfer)
        elif work.packet is not None:
            ways = work.packet.ways(b.tiles[0], self.chip)
            flows_at = start + work.cycles + self.chip.cycles.dte_hop * max(map(len, ways), default=0)
            links = tuple(dict.fromkeys(link for links in ways for link in links))
            issued.transfer = Transfer(flows_at, float(work.packet.bytes), 1, (b, issued), links)
            self.noc.add(issued.transfer)
        else:
            self.end(b, issued, start + work.cycles)

    def end(self, b: Bundle, issued: Issued, end: float) -> None:
        """The end of an instruction is known; so are the starts of those that waited for nothing else."""
        assert issued.start is not None
        issued.end, issued.transfer = end, None
        work, base = issued.shape.work, issued.step.record * PER_RECORD
        records = b.records
        records[base + INSTRUCTIONS] += 1
        records[base + BUSY] += end - issued.start
        row = issued.engine * PER_ENGINE
        b.counters[row + ENGINE_INSTRUCTIONS] += 1
        b.counters[row + ENGINE_BUSY] += end - issued.start
        if work.ddr_bytes:
            records[base + DDR_BYTES] += work.ddr_bytes
            records[base + BYTES] += work.bytes
        else:
            records[base + OPERATIONS] += work.operations
            records[base + LEAST] += work.least_cycles
        if self.recorder is not None:
            self.recorder.instruction(b.tiles, issued)
        dependents, issued.dependents = issued.dependents, []
        for other, is_order in dependents:
            if is_order:
                other.free = end
            elif end > other.ready:
                other.ready, other.cause = end, issued.engine
            other.missing -= 1
            if not other.missing:
                self.start(b, other)

    def flush(self, b: Bundle) -> None:
        """Adds a bundle's counters to the sums."""
        self.records += np.array(b.records) * len(b.tiles)
        self.counters[list(b.tiles)] += np.array(b.counters)
        b.records, b.counters = self.no_records(), [0.0] * PER_TILE

    def sums(self) -> Sums:
        """The records' and the counters' sums of everything so far, of all tiles."""
        for b in self.bundles:
            self.flush(b)
        return self.records.copy(), self.counters.copy()

    def repeat(self, before: Sums, times: int) -> None:
        """Counts what happened since `before` that many times more."""
        records, counters = self.sums()
        self.records += (records - before[0]) * times
        self.counters += (counters - before[1]) * times

    def no_records(self) -> list[float]:
        """Counters of all records, zero."""
        return [0.0] * (PER_RECORD * max(len(self.steps.records), 1))
