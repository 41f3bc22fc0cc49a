"""The machine of the timing model: kernel cores run ahead until something unknown stops them, transfers share the DDR.

The end of an instruction is known as soon as its start is, except for a transfer, whose end depends on what else moves. So
kernel cores and engines are followed as far as ends are known; then the DDR goes on to the next end of a transfer, which makes
more ends known. Nothing that becomes known then can lie before that cycle.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify
from math import inf
from typing import Any

from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.timing import steady
from hlo2tx8.device.timing.bundle import (
    BARRIER,
    BARRIER_WAIT,
    BUSY,
    ELAPSED,
    ENGINE_BUSY,
    ENGINE_INSTRUCTIONS,
    INSTRUCTIONS,
    LEAST,
    OPERATIONS,
    PER_ENGINE,
    PER_RECORD,
    PER_TILE,
    QUEUED,
    WAITING,
    Bundle,
    Frame,
    Issued,
    apply,
    gathered,
    join,
    known_or_none,
    spread,
)
from hlo2tx8.device.timing.engines import TimingEngines
from hlo2tx8.device.timing.fluid import Fluid
from hlo2tx8.device.timing.functions import Calls, follow_function
from hlo2tx8.device.timing.replay import Replay
from hlo2tx8.device.timing.steps import NUM_REGISTERS, Op, Step, Value, counter, is_not_zero, num_turns

TURN_CYCLES = 2


@dataclass
class TimingMachine(TimingEngines):
    """Runs steps on all tiles from cycle 0; a loop may be taken to be in a steady state once `follow` instructions were issued.
    `replay` gives the numbers that data decide; without it nobody knows them."""

    follow: int = 0
    replay: Replay | None = None
    unknown: set[int] = field(default_factory=set[int])
    calls: Calls = field(default_factory=Calls)

    def run(self, registers: Sequence[Value]) -> float:
        """The cycle in which all is done, for these registers of all tiles."""
        tiles = tuple(range(self.chip.tiles))
        queues = tuple(deque[Issued](maxlen=self.chip.queue_depth) for _ in QUEUED)
        first = Bundle(tiles, [*registers, *self.steps.constants], self.no_records(), [0.0] * PER_TILE, queues=queues)
        self.bundles = [first]
        self._follow_cores()
        while True:
            if self._release_barrier():
                self._follow_cores()
                continue
            fluid = min(self.fluids, key=Fluid.next_event)
            if fluid.next_event() == inf:
                break
            if done := fluid.step():
                for transfer in done:
                    b, issued = transfer.owner
                    self.end(b, issued, fluid.now)
                self._follow_cores()
        for b in self.bundles:
            self.flush(b)
        ends = (i.end for b in self.bundles for queue in b.queues for i in queue if i.end is not None)
        return max(*(b.now for b in self.bundles), *ends, 0.0)

    def final_registers(self) -> list[Value]:
        """What the registers of all tiles hold after a run."""
        return join(self.bundles)[1][:NUM_REGISTERS]

    # ------------------------------------------------------------------------------------------------ kernel cores

    def _follow_cores(self) -> None:
        """Every kernel core as far as what it needs is known; splitting adds bundles behind."""
        for b in self.bundles:
            while not (b.is_done or b.is_at_barrier) and (b.blocked is None or b.blocked.end is not None):
                b.blocked = None
                self._follow(b)

    def _follow(self, b: Bundle) -> None:
        steps = self.steps.steps
        while b.blocked is None:
            step = steps[b.at]
            match step.op:
                case Op.ISSUE:
                    if step.engine is Engine.DTE and len(b.tiles) > 1:  # each goes its own way through the NoC
                        self._split(b, b.tiles)
                    key = self._key(b, step)
                    if key is None or not self.issue(b, step, key):
                        continue
                case Op.SCALAR:
                    inputs = [b.registers[i] for i in step.inputs]
                    b.registers[step.rd] = self._loaded(b, step) if step.is_loaded else apply(step.fold, inputs)
                    b.registers[0] = 0
                    self.spend(b, step, step.cycles)
                case Op.LOOP | Op.END | Op.EXIT:
                    (self._loop if step.op is Op.LOOP else self._turn if step.op is Op.END else self._exit)(b, step)
                    continue
                case Op.IF:
                    is_taken = apply(is_not_zero, (b.registers[step.inputs[0]],))
                    if isinstance(is_taken, tuple):
                        self._split(b, is_taken)
                        continue
                    self.spend(b, step, 1)
                    if not self._known(step, is_taken, 1):
                        b.at = step.target
                case Op.FUNCTION | Op.RETURN | Op.CALL:
                    follow_function(self, b, step)
                    continue
                case Op.JOIN:
                    self.spend(b, step, 0)
                case Op.WORK:
                    key = self._key(b, step)
                    if key is None:
                        continue
                    self._work(b, step, key)
                case Op.WAIT:
                    key = self._key(b, step)
                    if key is None or not self._wait(b, step, key[0] or 0):
                        continue
                case Op.BARRIER:
                    self.spend(b, step, 0)
                    b.is_at_barrier = True
                    return
                case Op.HALT:
                    self.spend(b, step, 0)
                    b.is_done = True
                    return
            b.at += 1

    def _key(self, b: Bundle, step: Step) -> tuple[int | None, ...] | None:
        """The inputs of a step; None if tiles differ in them, which the bundle is then split by."""
        values = tuple([b.registers[i] for i in step.inputs])
        if tuple not in map(type, values):
            return values  # pyright: ignore[reportReturnType]
        self._split(b, list(zip(*(spread(v, b) for v in values), strict=True)))
        return None

    def _known(self, step: Step, value: int | None, assumed: int) -> int:
        if value is None:
            self.unknown.add(step.record)
        return assumed if value is None else value

    def _loaded(self, b: Bundle, step: Step) -> Value:
        return None if self.replay is None else known_or_none([self.replay.take(tile, step.record) for tile in b.tiles])

    def _loop(self, b: Bundle, step: Step) -> None:
        lo, hi, by = (b.registers[i] for i in step.inputs)
        total = apply(num_turns, (lo, hi, by))
        if isinstance(total, tuple) or isinstance(by, tuple):
            self._split(b, [*zip(spread(total, b), spread(by, b), strict=True)])
            return
        turns = self._known(step, total, 1)
        if not turns:
            self.spend(b, step, 0)
            b.at = step.target + 1
            return
        b.frames.append(Frame(b.at, lo, max(by or 1, 1), turns))
        self._begin_turn(b, step)

    def _begin_turn(self, b: Bundle, step: Step) -> None:
        frame = b.frames[-1]
        loop = self.steps.steps[frame.loop]
        if loop.rd:
            b.registers[loop.rd] = apply(counter, (frame.lo, frame.turn, frame.step))
        self.spend(b, step, TURN_CYCLES)
        b.at = frame.loop + 1

    def _turn(self, b: Bundle, step: Step) -> None:
        frame = b.frames[-1]
        frame.turn += 1
        if frame.turn < frame.total and self.num_issued >= self.follow and b is self.lead:
            self.spend(b, step, 0)
            steady.end_turn(self, b, frame)
            step = Step(Op.END, step.record)
        if frame.turn < frame.total:
            self._begin_turn(b, step)
        else:
            b.frames.pop()
            self.spend(b, step, 0)
            b.at += 1

    def _exit(self, b: Bundle, step: Step) -> None:
        goes_on = apply(is_not_zero, (b.registers[step.inputs[0]],))
        if isinstance(goes_on, tuple):
            self._split(b, goes_on)
            return
        self.spend(b, step, 1)
        if goes_on is None:  # nobody knows how many turns: the time of this one
            b.frames[-1].total = b.frames[-1].turn + 1
        if self._known(step, goes_on, 1):
            b.at += 1
            return
        b.frames.pop()
        b.at = step.target + 1

    @property
    def lead(self) -> Bundle | None:
        """The first bundle whose kernel cores run."""
        return next((b for b in self.bundles if not (b.is_done or b.is_at_barrier)), None)

    def _wait(self, b: Bundle, step: Step, engines: int) -> bool:
        last = [b.queues[e][-1] for e in QUEUED if engines >> e & 1 and b.queues[e]]
        for issued in last:
            if issued.end is None:
                b.blocked = issued
                return False
        self.spend(b, step, self.chip.cycles.wait)
        for issued in sorted(last, key=lambda i: i.end or 0.0):
            self.wait_until(b, step, WAITING, issued)
        return True

    def _work(self, b: Bundle, step: Step, key: tuple[int | None, ...]) -> None:
        shape = step.shapes.get(key) or self.steps.shape(step, key)
        work = shape.work
        self.spend(b, step, 0)
        base = step.record * PER_RECORD
        done = {INSTRUCTIONS: 1, BUSY: work.cycles, ELAPSED: work.cycles, OPERATIONS: work.operations, LEAST: work.least_cycles}
        for index, value in done.items():
            b.records[base + index] += value
        b.counters[Engine.KC * PER_ENGINE + ENGINE_INSTRUCTIONS] += 1
        b.counters[Engine.KC * PER_ENGINE + ENGINE_BUSY] += work.cycles
        if self.recorder is not None:
            self.recorder.work(b.tiles, step.record, Engine.KC, shape.ranges, b.now, b.now + work.cycles)
        b.now += work.cycles

    # ------------------------------------------------------------------------------------------- bundles of tiles

    def _split(self, b: Bundle, values: Sequence[Any]) -> None:
        """One bundle per value that tiles differ in."""
        groups: dict[Any, list[int]] = {}
        for index, value in enumerate(values):
            groups.setdefault(value, []).append(index)
        first, *others = groups.values()
        for indices in others:
            other, copies = b.part(indices)
            self.bundles.append(other)
            for fluid in self.fluids:
                for pool in (fluid.flowing, fluid.coming):
                    pool += [copies[t] for t in pool if t.owner[0] is b]
        b.keep(first, b.registers)
        for fluid in self.fluids:
            for transfer in (*fluid.flowing, *fluid.coming):
                transfer.weight = len(transfer.owner[0].tiles)
            heapify(fluid.coming)

    def _release_barrier(self) -> bool:
        """If all kernel cores are at a barrier they go on, those that are alike again as one."""
        waiting = [b for b in self.bundles if not b.is_done]
        if not waiting or not all(b.is_at_barrier for b in waiting):
            return False
        arrived = max(b.now for b in waiting)
        cycle = arrived + self.chip.cycles.barrier
        for b in waiting:
            record = self.steps.steps[b.at].record
            b.counters[BARRIER_WAIT] += arrived - b.now
            b.counters[BARRIER] += self.chip.cycles.barrier
            b.records[record * PER_RECORD + ELAPSED] += cycle - b.now
            if self.recorder is not None:
                self.recorder.pause(b.tiles, record, "barrier", b.now, cycle)
            b.now, b.at, b.is_at_barrier = cycle, b.at + 1, False
        self._merge([b for b in waiting if b.is_drained(cycle)])
        return True

    def _merge(self, bundles: Sequence[Bundle]) -> None:
        alike: dict[Any, list[Bundle]] = {}
        for b in bundles:
            alike.setdefault((b.at, *b.returns, *((f.loop, f.turn, f.total, f.step) for f in b.frames)), []).append(b)
        for group in alike.values():
            if len(group) == 1:
                continue
            first, *others = group
            for b in group:
                self.flush(b)
            lows = [gathered(group, [b.frames[i].lo for b in group]) for i in range(len(first.frames))]
            for frame, low in zip(first.frames, lows, strict=True):
                frame.lo = low
            first.tiles, first.registers = join(group)
            for queue in first.queues:
                queue.clear()
            self.bundles = [b for b in self.bundles if b not in others]
