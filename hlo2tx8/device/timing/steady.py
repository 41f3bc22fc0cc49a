"""When the turns of a loop cost what the turns before them cost, so that the model need not follow each of them.

At the end of a turn the state of the machine is what is under way and how far ahead of the kernel core it is. A loop is in a
steady state when that repeats, after a turn or a few, and repeats once more in the same time; buffers taken in turns, and
registers that go from turn to turn, have to be back at the first. A loop that does not settle drifts until a queue is full: after
many turns it goes on at the pace of what is slowest. Either way turns are only left out as long as counts and branches stay what
they were.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hlo2tx8.device.timing.bundle import DDR_BYTES, PER_RECORD, Bundle, Frame, Issued, apply, known_or_none
from hlo2tx8.device.timing.replay import Cursor
from hlo2tx8.device.timing.steps import NUM_REGISTERS, Op, Step, Value, counter, is_not_zero, num_turns

if TYPE_CHECKING:
    from hlo2tx8.device.timing.engines import Sums
    from hlo2tx8.device.timing.machine import TimingMachine

PERIODS = (1, 2, 3, 4, 6)  # times the turns after which buffers are back at the first
LONG_PERIOD = 12
MOST_TURNS = 64  # of a loop that does not settle
LAST_TURNS = 2
CLOSE_CYCLES = 1e-3
NUM_PROBES = 8


@dataclass(frozen=True)
class Mark:
    """The end of a turn: what is under way everywhere, and in cycles from the bundle's now."""

    now: float
    structure: tuple[Any, ...]
    ahead: tuple[float, ...]

    def equals(self, other: "Mark") -> bool:
        """Is everything equal, but for a shift in time?"""
        return self.structure == other.structure and all(
            abs(a - b) < CLOSE_CYCLES for a, b in zip(self.ahead, other.ahead, strict=True)
        )


@dataclass(frozen=True)
class Probe:
    """A period being measured, from the end of turn `turn` on. `must_equal` is None for a loop that does not settle."""

    period: int
    turn: int
    must_equal: Mark | None
    cycles: float
    clocks: tuple[float, ...]
    positions: dict[tuple[int, ...], tuple[int, ...]]
    sums: "Sums"
    under_way: tuple[Issued, ...]
    taken: dict[tuple[int, int], int]


def end_turn(machine: "TimingMachine", b: Bundle, frame: Frame) -> None:
    """Leaves out turns of the loop if it is in a steady state: `frame.turn` and all clocks and counters go on."""
    if frame.probe is not None:
        probe: Probe = frame.probe
        if frame.turn < probe.turn + probe.period:
            return
        frame.probe = None
        if _repeats(probe, _mark(machine, b)):
            _skip(machine, b, frame, probe)
            frame.marks = []
            return
    if frame.total - frame.turn <= LAST_TURNS + 2 or machine.steps.steps[frame.loop].has_calls:
        return
    mark, marks = _mark(machine, b), frame.marks
    marks.append(mark)
    turns = machine.steps.steps[frame.loop].rotation
    period = next((p * turns for p in PERIODS if len(marks) > p * turns and mark.equals(marks[-1 - p * turns])), 0)
    if period:
        frame.probe = _probe(machine, b, frame, period, mark, mark.now - marks[-1 - period].now)
    elif len(marks) >= MOST_TURNS:
        frame.probe = _probe(machine, b, frame, -(-LONG_PERIOD // turns) * turns, None, 0.0)
        frame.marks = []


def _repeats(probe: Probe, mark: Mark) -> bool:
    if probe.must_equal is None:
        return True
    return mark.equals(probe.must_equal) and abs(mark.now - probe.must_equal.now - probe.cycles) < CLOSE_CYCLES


def _mark(machine: "TimingMachine", lead: Bundle) -> Mark:
    base = lead.now
    structure: list[Any] = []
    ahead: list[float] = []
    for b in machine.bundles:
        is_idle = b.is_at_barrier or b.is_done
        structure.append((b.tiles, b.at, tuple(f.loop for f in b.frames), is_idle))
        structure += [b.registers[i] for f in b.frames for i in machine.steps.steps[f.loop].carried]
        if not is_idle:
            ahead.append(b.now - base)
        past = base if is_idle else b.now
        for queue in b.queues:
            for issued in reversed(queue):
                if issued.end is not None:
                    if issued.end <= past:
                        break
                    structure.append(issued.step.record)
                    ahead.append(issued.end - base)
                    continue
                structure.append((issued.step.record, issued.missing))
                ahead.append((issued.ready if issued.start is None else issued.start) - base)
                if issued.transfer is not None:
                    ahead.append(issued.transfer.rest)
    ahead += [fluid.now - base for fluid in machine.fluids if fluid.flowing]
    return Mark(base, tuple(structure), tuple(ahead))


def _clocks(machine: "TimingMachine", b: Bundle) -> tuple[float, ...]:
    ends = ([i.end for i in queue if i.end is not None] for queue in b.queues)
    return b.now, *(fluid.now for fluid in machine.fluids), *(max(known, default=0.0) for known in ends)


def _probe(machine: "TimingMachine", b: Bundle, frame: Frame, period: int, mark: Mark | None, cycles: float) -> Probe:
    positions = {other.tiles: tuple(f.turn for f in other.frames) for other in machine.bundles}
    under_way = tuple(i for other in machine.bundles for queue in other.queues for i in queue)
    taken = {} if machine.replay is None else machine.replay.taken()
    return Probe(period, frame.turn, mark, cycles, _clocks(machine, b), positions, machine.sums(), under_way, taken)


def _skip(machine: "TimingMachine", lead: Bundle, frame: Frame, probe: Probe) -> None:
    """Everything that happened since the probe happens again, as often as it is sure to."""
    moved = _moved_frames(machine, lead, probe)
    if not moved or (probe.must_equal is None and any(machine.steps.steps[f.loop].carried for _, f, _ in moved)):
        return
    # The lead has ended its turn, others are in the middle of theirs.
    firsts = [f.turn + (b is not lead) for b, f, _ in moved]
    times = min((f.total - first - LAST_TURNS) // turns for first, (_, f, turns) in zip(firsts, moved, strict=True))
    loaded = list(_loaded(machine, moved, probe))
    times = min([times, *(cursor.repeats(count) for cursor, count in loaded)])
    for first, (b, f, turns) in zip(firsts, moved, strict=True):
        times = equal_turns(machine, b, f, first, turns, times) if times > 0 else 0
    pace = max(after - before for before, after in zip(probe.clocks, _clocks(machine, lead), strict=True))
    old = [i for i in probe.under_way if i.end is None or i.end > lead.now]
    if probe.must_equal is not None:
        pace, old = lead.now - probe.clocks[0], []
    elif old:
        times = min(times, int(min(_cycles_left(machine, i, lead.now) for i in old) // max(pace, 1)))
    if times <= 0:
        return
    cycles = pace * times
    machine.repeat(probe.sums, times)
    if machine.recorder is not None:
        for b, f, turns in moved:
            record = machine.steps.steps[f.loop].record
            machine.recorder.pause(b.tiles, record, "steady", b.now, b.now + cycles, turns * times)
        moved_bytes = (machine.records - probe.sums[0])[DDR_BYTES::PER_RECORD].sum()  # of `times` periods and the probed one
        machine.ddr.flow_evenly(moved_bytes / (cycles + pace))
        machine.noc.repeat(machine.noc.now - pace)
    for b, f, turns in moved:
        f.turn += turns * times
        b.now += cycles
    for cursor, count in loaded:
        cursor.used, cursor.taken = cursor.used + count * times, cursor.taken + count * times
    _delay(machine, cycles, old)


def _moved_frames(machine: "TimingMachine", lead: Bundle, probe: Probe) -> list[tuple[Bundle, Frame, int]] | None:
    """The loop that each running bundle is in, with its turns since the probe; None if one of them did anything else."""
    moved: list[tuple[Bundle, Frame, int]] = []
    for b in machine.bundles:
        if b.is_done or (b.is_at_barrier and all(f.loop != lead.frames[-1].loop for f in b.frames)):
            continue
        before, now = probe.positions.get(b.tiles, ()), [f.turn for f in b.frames]
        if len(before) != len(now):
            return None
        changed = [(f, turn - old) for f, turn, old in zip(b.frames, now, before, strict=True) if turn != old]
        if len(changed) != 1 or changed[0][1] < 0:
            return None
        moved.append((b, *changed[0]))
    return moved


def _loaded(machine: "TimingMachine", moved: Sequence[tuple[Bundle, Frame, int]], probe: Probe) -> Iterator[tuple[Cursor, int]]:
    """What the loops have loaded since the probe, and how often."""
    for b, f, _ in moved if machine.replay is not None else ():
        for step in machine.steps.steps[f.loop + 1 : machine.steps.steps[f.loop].target]:
            for place in ((tile, step.record) for tile in b.tiles) if step.is_loaded else ():
                cursor = machine.replay.cursors.get(place) if machine.replay is not None else None
                if cursor is not None and cursor.taken > probe.taken[place]:
                    yield cursor, cursor.taken - probe.taken[place]


def _cycles_left(machine: "TimingMachine", issued: Issued, now: float) -> float:
    """Until an instruction from before the loop ends, as far as that can be told."""
    if issued.end is not None:
        return issued.end - now
    transfer = issued.transfer
    fluid = next((f for f in machine.fluids if transfer in f.flowing), None)
    if transfer is None or fluid is None:
        return 0.0
    return transfer.rest / fluid.rate_of(transfer) - (now - fluid.now)


def _delay(machine: "TimingMachine", cycles: float, old: Sequence[Issued]) -> None:
    """Instructions under way happen that much later, but those from before the loop."""
    for b in machine.bundles:
        for queue in b.queues:
            for i in queue:
                if i in old:
                    if i.transfer is not None:
                        fluid = next(f for f in machine.fluids if i.transfer in f.flowing)
                        i.transfer.rest -= fluid.rate_of(i.transfer) * cycles
                    continue
                i.issue, i.ready, i.free = i.issue + cycles, i.ready + cycles, i.free + cycles
                i.start = None if i.start is None else i.start + cycles
                i.end = None if i.end is None else i.end + cycles
    for fluid in machine.fluids:
        fluid.shift(cycles)


# ------------------------------------------------------------------------------------------- do turns stay what they were?


def equal_turns(machine: "TimingMachine", b: Bundle, frame: Frame, first: int, turns: int, most: int) -> int:
    """How many times, at most `most`, the `turns` turns before turn `first` repeat: branches, trip counts, counts and strides.

    What was loaded last is loaded again. Conditions are taken to change once: after the last turn found equal by bisection,
    with some probes between.
    """
    steps = machine.steps.steps
    if not steps[frame.loop].varies:
        return most

    def loaded(step: Step) -> Value:
        return None if machine.replay is None else known_or_none([machine.replay.last(tile, step.record) for tile in b.tiles])

    def signature(turn: int) -> tuple[Value, ...]:
        registers = list(b.registers)
        registers[steps[frame.loop].rd] = apply(counter, (frame.lo, turn, frame.step))
        found: list[Value] = []
        _walk(steps, frame.loop + 1, steps[frame.loop].target, registers, found, loaded)
        return tuple(found)

    before = [signature(first - turns + i) for i in range(turns)]

    def is_equal(times: int) -> bool:
        return all(signature(first + (times - 1) * turns + i) == before[i] for i in range(turns))

    probes = [most, *range(1, most, max(most // NUM_PROBES, 1))]
    different = [p for p in probes if not is_equal(p)]
    if not different:
        return most
    low, high = 0, min(different)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_equal(middle) else (low, middle)
    return low


def _walk(
    steps: Sequence[Step], at: int, end: int, registers: list[Value], found: list[Value], loaded: Callable[[Step], Value]
) -> None:
    """Follows scalars and branches only; of inner loops the first and the last turn."""
    while at < end:
        step = steps[at]
        at += 1
        if step.op is Op.SCALAR:
            if step.decides_counts:
                inputs = [registers[i] for i in step.inputs]
                registers[step.rd] = loaded(step) if step.is_loaded else apply(step.fold, inputs)
                registers[0] = 0
            continue
        if step.op is Op.LOOP:
            lo, hi, by = (registers[i] for i in step.inputs)
            total = apply(num_turns, (lo, hi, by))
            found.append(total)
            turns = {0, total - 1} if isinstance(total, int) and total > 0 else set[int]()
            for turn in sorted(turns):
                registers[step.rd] = apply(counter, (lo, turn, by))
                _walk(steps, at, step.target, registers, found, loaded)
            at = step.target + 1
        elif step.op is Op.IF:
            is_taken = apply(is_not_zero, (registers[step.inputs[0]],))
            found.append(is_taken)
            if is_taken == 0:
                at = step.target
        else:
            found += [registers[i] for i in step.counts if i < NUM_REGISTERS]
