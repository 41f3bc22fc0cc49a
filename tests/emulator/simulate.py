"""The full simulation: every instruction of every tile, event after event. The reference that the model is held to; slow.

It shares the costs of single instructions with the model and nothing else.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from simulate_noc import Noc

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.decisions import Decisions
from hlo2tx8.device.isa.encoding import Operand, Record, Register, decode_records, partners
from hlo2tx8.device.isa.fields import Engine, Operands
from hlo2tx8.device.isa.forms import KcScalar
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcBarrier,
    KcCall,
    KcEnd,
    KcEndIf,
    KcExit,
    KcFunction,
    KcHalt,
    KcIf,
    KcLoadScalar,
    KcLoop,
    KcReturn,
    KcWait,
)
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing.costs import Range, Work, launch_cycles, spm_ranges, work_of
from hlo2tx8.device.timing.replay import Replay

NO_BYTES = 1e-6
Steps = Generator["float | Callable[[], bool]", None, None]
"""What a kernel core does: cycles that pass, and conditions that it waits for."""


TERMS = tuple((f"r{i}", f"k{i}") for i in (1, 2, 3, 4))


@dataclass(frozen=True)
class Simulated:
    """Cycles of the whole program, and per tile busy cycles and instructions of each engine."""

    cycles: float
    busy: tuple[dict[str, float], ...]
    instructions: tuple[dict[str, int], ...]


def simulate(program: Program, chip: Chip, decisions: Decisions | None = None) -> Simulated:
    """Every event of a program whose control flow is known without running it, or by the decisions of a run."""
    records = decode_records(program.code, program.origins)
    machine = _Machine(chip, records, None if decisions is None else Replay(decisions, 0, len(records)))
    cycles = machine.run(launch_cycles(program.code, chip))
    named = [{e.name: t.busy[e] for e in Engine if t.busy[e]} for t in machine.tiles]
    return Simulated(cycles, tuple(named), tuple({e.name: t.issued[e] for e in Engine if t.issued[e]} for t in machine.tiles))


@dataclass(eq=False)
class _Job:
    """An instruction in a queue or under way."""

    engine: Engine
    work: Work
    ranges: Sequence[Range]
    rest: float = 0.0
    started: float = 0.0


@dataclass(eq=False)
class _Tile:
    number: int
    registers: list[int]
    queues: dict[Engine, deque[_Job]] = field(default_factory=lambda: {e: deque[_Job]() for e in Engine})
    running: dict[Engine, _Job] = field(default_factory=dict[Engine, _Job])
    in_order: list[_Job] = field(default_factory=list[_Job])
    busy: dict[Engine, float] = field(default_factory=lambda: dict.fromkeys(Engine, 0.0))
    issued: dict[Engine, int] = field(default_factory=lambda: dict.fromkeys(Engine, 0))
    steps: Steps | None = None
    condition: Callable[[], bool] | None = None
    is_at_barrier: bool = False
    is_halted: bool = False

    def value(self, operand: Operand) -> int:
        return self.registers[operand.number] if isinstance(operand, Register) else operand

    def set(self, operand: Operand, value: int) -> None:
        number = operand.number if isinstance(operand, Register) else operand
        if number:
            self.registers[number] = value

    def is_idle(self, mask: int) -> bool:
        return not any(mask >> job.engine & 1 for job in self.in_order)


class _Machine:
    def __init__(self, chip: Chip, records: Sequence[Record], replay: Replay | None) -> None:
        self.chip, self.records, self.targets, self.replay = chip, records, partners(records), replay
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = count()
        self.tiles = [_Tile(t, [0, t, *[0] * 62]) for t in range(chip.tiles)]
        self.noc = Noc(chip, self.after)
        self.works: dict[tuple[int, ...], tuple[Work, Sequence[Range]]] = {}
        """By record and the values of its operands, which are the same on many tiles and in many turns."""
        self.flowing: list[tuple[_Tile, _Job]] = []
        self.flow_version = 0
        self.flow_from = 0.0

    def run(self, launch: float) -> float:
        for tile in self.tiles:
            tile.steps = self._core(tile)
            self.after(launch, lambda tile=tile: self._resume(tile))
        while self.events:
            self.now, _, happen = heappop(self.events)
            self.noc.now = self.now
            happen()
        return self.now

    def after(self, cycles: float, happen: Callable[[], None]) -> None:
        heappush(self.events, (self.now + cycles, next(self.numbers), happen))

    # ------------------------------------------------------------------------------------------------ kernel core

    def _resume(self, tile: _Tile) -> None:
        """Lets a kernel core go on until it passes time, or waits for what does not hold."""
        assert tile.steps is not None
        tile.condition = None
        for step in tile.steps:
            if isinstance(step, float):
                if step:
                    self.after(step, lambda: self._resume(tile))
                    return
            elif not step():
                tile.condition = step
                return

    def _changed(self, tile: _Tile) -> None:
        """Something of the tile has ended: engines and the kernel core may go on."""
        self._start_engines(tile)
        if tile.condition is not None and tile.condition():
            self._resume(tile)

    def _core(self, tile: _Tile) -> Steps:
        at = 0
        loops: list[tuple[int, int, int, int]] = []
        returns: list[int] = []
        while at < len(self.records) and self.records[at].kind is not KcHalt:
            record, target = self.records[at], self.targets[at]
            at += 1
            if record.kind is KcLoop:
                lo, hi, step = (tile.value(record.fields[name]) for name in ("lo", "hi", "step"))
                if lo >= hi:
                    at = target + 1
                    continue
                loops.append((at, lo, hi, max(step, 1)))
                tile.set(record.fields["rd"], lo)
                yield 2.0
            elif record.kind is KcEnd:
                start, counter, hi, step = loops.pop()
                if counter + step < hi:
                    loops.append((start, counter + step, hi, step))
                    tile.set(self.records[target].fields["rd"], counter + step)
                    at = start
                    yield 2.0
            elif record.kind is KcIf:
                yield 1.0
                at = at if tile.value(record.fields["value"]) else target + 1
            elif record.kind is KcCall:
                yield 1.0
                returns.append(at)
                at = target + 1
            elif record.kind is KcFunction:
                at = target + 1
            elif record.kind is KcReturn:
                at = returns.pop()
            elif record.kind is KcExit:
                yield 1.0
                if not tile.value(record.fields["value"]):
                    loops.pop()
                    at = target + 1
            elif record.kind is not KcEndIf:
                yield from self._record(tile, at - 1, record)
        tile.is_halted = True
        self._meet()

    def _record(self, tile: _Tile, at: int, record: Record) -> Steps:
        kind, fields = record.kind, record.fields
        if issubclass(kind, KcScalar):
            tile.set(fields["rd"], kind.FOLD(tile.value(fields["a"]), tile.value(fields["b"])))
            yield 1.0
        elif kind is KcAffine:
            terms = [(tile.value(fields[r]), tile.value(fields[k])) for r, k in TERMS]
            tile.set(fields["rd"], tile.value(fields["c"]) + sum(r * k for r, k in terms))
            yield float(max(sum(1 for _, k in terms if k), 1))
        elif kind is KcLoadScalar:
            loaded = None if self.replay is None else self.replay.take(tile.number, at)
            tile.set(fields["rd"], loaded or 0)  # of what is not known nothing may depend on it
            yield 1.0
        elif kind is KcWait:
            mask = tile.value(fields["engines"])
            yield float(self.chip.cycles.wait)
            yield lambda: tile.is_idle(mask)
        elif kind is KcBarrier:
            tile.is_at_barrier = True
            self._meet()
            yield lambda: not tile.is_at_barrier
        else:
            work, ranges = self._work(at, record, [tile.value(operand) for operand in fields.values()])
            job = _Job(kind.ENGINE, work, () if kind.ENGINE is Engine.DTE else ranges)
            tile.issued[job.engine] += 1
            if job.engine is Engine.KC:
                tile.busy[job.engine] += job.work.cycles
                yield float(job.work.cycles)
                return
            yield float(self.chip.cycles.issue)
            yield lambda: sum(j.engine == job.engine for j in tile.in_order) < self.chip.queue_depth
            tile.in_order.append(job)
            tile.queues[job.engine].append(job)
            self._start_engines(tile)

    def _work(self, at: int, record: Record, values: list[int]) -> tuple[Work, Sequence[Range]]:
        """What an instruction with these values of its operands does."""
        key = (at, *values)
        if key not in self.works:
            o = Operands(dict(zip(record.fields, values, strict=True)), record.fmt, record.fmt2)
            ranges = spm_ranges(record.kind, o)
            self.works[key] = work_of(record.kind, o, self.chip, ranges), ranges
        return self.works[key]

    def _meet(self) -> None:
        """Once all kernel cores are at the barrier they go on together."""
        waiting = [t for t in self.tiles if not t.is_halted]
        if waiting and all(t.is_at_barrier for t in waiting):
            self.after(float(self.chip.cycles.barrier), lambda: self._release(waiting))

    def _release(self, tiles: Sequence[_Tile]) -> None:
        for tile in tiles:
            tile.is_at_barrier = False
        for tile in tiles:
            self._resume(tile)

    # --------------------------------------------------------------------------------------------------- engines

    def _start_engines(self, tile: _Tile) -> None:
        """An engine takes the head of its queue once nothing that was issued before it works on the same bytes."""
        for engine, queue in tile.queues.items():
            if engine in tile.running or not queue:
                continue
            job = queue[0]
            if tile.in_order[0] is not job and any(
                a.conflicts_with(b) for other in tile.in_order[: tile.in_order.index(job)] for a in other.ranges for b in job.ranges
            ):
                continue
            queue.popleft()
            tile.running[engine] = job
            job.started = self.now
            cycles, then = job.work.cycles, self._flow if job.work.ddr_bytes else self.end
            if job.work.packet is not None:
                cycles += self.chip.cycles.dte_hop * self.noc.farthest(tile.number, job.work.packet)
                then = self._send
            self.after(cycles, lambda then=then, job=job: then(tile, job))

    def end(self, tile: _Tile, job: _Job) -> None:
        tile.busy[job.engine] += self.now - job.started
        del tile.running[job.engine]
        tile.in_order.remove(job)
        self._changed(tile)

    def _send(self, tile: _Tile, job: _Job) -> None:
        assert job.work.packet is not None
        self.noc.flow(tile.number, job.work.packet, lambda: self.end(tile, job))

    # ------------------------------------------------------------------------------------------------------- DDR

    def _flow(self, tile: _Tile, job: _Job) -> None:
        """The bytes of a transfer begin to flow, which leaves less for the others."""
        self._count_flow()
        job.rest = float(job.work.ddr_bytes)
        self.flowing.append((tile, job))
        self._await_flow()

    @property
    def _rate(self) -> float:
        return min(self.chip.ddr_bytes_per_cycle / len(self.flowing), self.chip.cycles.dma_bytes_per_cycle)

    def _count_flow(self) -> None:
        """Up to now."""
        if self.flowing:
            moved = self._rate * (self.now - self.flow_from)
            for _, job in self.flowing:
                job.rest -= moved
        self.flow_from = self.now

    def _await_flow(self) -> None:
        self.flow_version += 1
        if self.flowing:
            version, least = self.flow_version, min(job.rest for _, job in self.flowing)
            self.after(max(least, 0.0) / self._rate, lambda: self._drain(version))

    def _drain(self, version: int) -> None:
        if version != self.flow_version:
            return
        self._count_flow()
        done = [(tile, job) for tile, job in self.flowing if job.rest <= NO_BYTES]
        self.flowing = [(tile, job) for tile, job in self.flowing if job.rest > NO_BYTES]
        self._await_flow()
        for tile, job in done:
            self.end(tile, job)
