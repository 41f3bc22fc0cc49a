"""Modelled time of a program: one tile's engine queues as a discrete-event model over the rolled program.

Tiles run the same program on equal shares, so the fullest tile, tile 0, stands for all, and every tile gets an equal share of
the DDR bandwidth. A loop is followed until it is in a steady state (see `steady_state`); the turns between there and the last
ones are added without following them, so the model costs the same for any tensor size.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import prod

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Engine, Operands, Role
from hlo2tx8.device.isa.encoding import Operand, Record, Register, decode_records
from hlo2tx8.device.isa.forms import KcGatherForm, KcScatterForm
from hlo2tx8.device.isa.kc_control import KcAffine, KcBarrier, KcEnd, KcEndIf, KcHalt, KcIf, KcLoop, KcWait
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.device.ne_cycles import ne_cycles
from hlo2tx8.device.program import Program
from hlo2tx8.device.steady_state import LONG_PERIOD, MOST_TURNS, Block, Mark, equal_turns, number_of, period, scalar_result

LAST_TURNS = 2


@dataclass(frozen=True)
class Report:
    """Cycles from launch to the end, busy cycles per engine of one tile, DDR bytes of the chip, and what bounds the time."""

    cycles: float
    clock_hz: int
    busy: Mapping[str, float]
    instructions: Mapping[str, int]
    ddr_bytes: int
    ddr_cycles: float

    @property
    def seconds(self) -> float:
        return self.cycles / self.clock_hz

    @property
    def bounds(self) -> tuple[tuple[str, float], ...]:
        """(resource, busy share of the time), the most loaded first."""
        shares = {name: busy / self.cycles for name, busy in self.busy.items() if name not in ("RDMA", "WDMA")}
        shares["DDR"] = self.ddr_cycles / self.cycles
        return tuple(sorted(shares.items(), key=lambda item: (-item[1], item[0])))

    @property
    def bound(self) -> str:
        """The most loaded resource."""
        return self.bounds[0][0]

    @property
    def roofline_ratio(self) -> float:
        """Time over the time the most loaded resource alone would take; 1 is perfect."""
        share = self.bounds[0][1]
        return 1 / share if share else float("inf")

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "cycles": self.cycles,
            "seconds": self.seconds,
            "bound": self.bound,
            "bounds": dict(self.bounds),
            "busy_cycles": dict(self.busy),
            "instructions": dict(self.instructions),
            "ddr_bytes": self.ddr_bytes,
            "roofline_ratio": self.roofline_ratio,
        }

    def __str__(self) -> str:
        loads = ", ".join(f"{name} {share:.0%}" for name, share in self.bounds if share >= 0.005)
        return (
            f"{self.cycles:.0f} cycles = {self.seconds * 1e6:.1f} us modelled; bound by {self.bound}"
            f" ({self.roofline_ratio:.2f}x of its roofline); {loads}"
        )


def model(program: Program, chip: Chip) -> Report:
    """The modelled time of a program that decodes; EncodingError otherwise."""
    tree = _parse(decode_records(program.code, program.origins))
    tile = _Tile(chip)
    tile.now = float(chip.cycles.launch)
    tile.run(tree)
    tile.drain()
    return Report(
        cycles=tile.now,
        clock_hz=chip.clock_hz,
        busy={e.name: tile.busy[e] for e in Engine if tile.busy[e]},
        instructions={e.name: tile.count[e] for e in Engine if tile.count[e]},
        ddr_bytes=int(tile.ddr_bytes) * chip.tiles,
        ddr_cycles=tile.ddr_bytes / tile.ddr_rate,
    )


def _parse(records: Sequence[Record]) -> tuple[Record | Block, ...]:
    stack: list[list[Record | Block]] = [[]]
    heads: list[Record] = []
    for record in records:
        if record.kind in (KcLoop, KcIf):
            heads.append(record)
            stack.append([])
        elif record.kind in (KcEnd, KcEndIf):
            body = stack.pop()
            stack[-1].append(Block(heads.pop(), tuple(body)))
        else:
            stack[-1].append(record)
    return tuple(stack[0])


@dataclass
class _Pending:
    """An access to SPM bytes [start, end) that ends at `until`."""

    start: int
    end: int
    is_write: bool
    engine: Engine
    until: float


@dataclass
class _Tile:
    """Clocks of one tile. `now` is the kernel core's."""

    chip: Chip
    now: float = 0.0
    ddr_free: float = 0.0
    ddr_bytes: float = 0.0
    registers: list[int] = field(default_factory=lambda: [0] * 64)
    free: dict[Engine, float] = field(default_factory=lambda: dict.fromkeys(Engine, 0.0))
    busy: dict[Engine, float] = field(default_factory=lambda: dict.fromkeys(Engine, 0.0))
    count: dict[Engine, int] = field(default_factory=lambda: dict.fromkeys(Engine, 0))
    queues: dict[Engine, deque[float]] = field(default_factory=lambda: {e: deque() for e in Engine})
    pending: list[_Pending] = field(default_factory=list[_Pending])

    @property
    def ddr_rate(self) -> float:
        """Bytes per cycle of this tile's share."""
        return min(self.chip.ddr_bytes_per_cycle / self.chip.tiles, self.chip.cycles.dma_bytes_per_cycle)

    # ------------------------------------------------------------------------------------------------ control

    def run(self, items: Sequence[Record | Block]) -> None:
        for item in items:
            if isinstance(item, Record):
                self._record(item)
            elif item.record.kind is KcLoop:
                self._loop(item)
            else:
                self.now += 1
                if self._value(item.record.fields["value"]):
                    self.run(item.body)

    def _loop(self, block: Block) -> None:
        v = self._values(block.record)
        total = max(-(-(v["hi"] - v["lo"]) // max(v["step"], 1)), 0)
        marks: deque[Mark] = deque(maxlen=MOST_TURNS)
        turn = 0
        while turn < total:
            self._set(block.record.fields["rd"], v["lo"] + turn * v["step"])
            self.now += 2
            self.run(block.body)
            marks.append(self._mark())
            turn += 1
            turns = period(marks)
            most = (total - turn - LAST_TURNS) // turns if turns else 0
            times = equal_turns(block, self.registers, turn, turns, most) if most > 0 else 0
            # A multiple of all periods, so that buffers keep their turn.
            times -= times % (LONG_PERIOD // turns) if turns else 0
            if times:
                self._skip(marks[-1 - turns], marks[-1], times)
                turn += turns * times
                marks.clear()

    def _mark(self) -> Mark:
        under_way = (self.ddr_free, *self.free.values(), *(p.until for p in self.pending), *chain(*self.queues.values()))
        return Mark(
            clocks=(self.now, self.ddr_free, *self.free.values()),
            ahead=tuple(max(t - self.now, 0.0) for t in under_way),
            counters=(self.ddr_bytes, *self.busy.values(), *self.count.values()),
        )

    def _skip(self, before: Mark, after: Mark, times: int) -> None:
        """Advances all that moves as if what happened between two marks happened `times` more, at the pace of the slowest clock."""
        advance = [a - b for a, b in zip(after.clocks, before.clocks, strict=True)]
        done = [(a - b) * times for a, b in zip(after.counters, before.counters, strict=True)]
        delta = max(advance) * times
        # What does not move was issued before the loop.
        shift = {e: delta if moved else 0.0 for e, moved in zip(Engine, advance[2:], strict=True)}
        self.now += delta
        self.ddr_free += delta if advance[1] else 0.0
        self.ddr_bytes += done[0]
        for e, busy, count in zip(Engine, done[1:], done[1 + len(Engine) :], strict=False):
            self.free[e] += shift[e]
            self.busy[e] += busy
            self.count[e] += round(count)
            self.queues[e] = deque(t + shift[e] for t in self.queues[e])
        for p in self.pending:
            p.until += shift[p.engine]

    def _value(self, operand: Operand) -> int:
        return self.registers[operand.number] if isinstance(operand, Register) else operand

    def _set(self, operand: Operand, value: int) -> None:
        number = number_of(operand)
        if number:
            self.registers[number] = value

    def _values(self, record: Record) -> dict[str, int]:
        return {name: self._value(operand) for name, operand in record.fields.items()}

    def _record(self, record: Record) -> None:
        kind = record.kind
        result = scalar_result(record, self._value)
        if result is not None:
            self._set(record.fields["rd"], result)
            self.now += max(sum(1 for i in range(1, 5) if self._value(record.fields[f"k{i}"])), 1) if kind is KcAffine else 1
        elif kind is KcWait:
            mask = self._value(record.fields["engines"])
            self.now += self.chip.cycles.wait
            self.now = max(self.now, *(self.free[e] for e in Engine if mask >> e & 1), 0.0)
        elif kind is KcBarrier:
            self.now += self.chip.cycles.barrier
        elif kind is not KcHalt:
            self._instruction(record)

    def drain(self) -> None:
        """Until every engine is done."""
        self.now = max(self.now, *self.free.values())

    # ------------------------------------------------------------------------------------------- instructions

    def _instruction(self, record: Record) -> None:
        engine = record.kind.ENGINE
        operands = Operands(self._values(record), record.fmt, record.fmt2)
        self.count[engine] += 1
        if engine is Engine.KC:
            cost = self._kc_cycles(record, operands)
            self.now += cost
            self.busy[engine] += cost
            return
        self.now += self.chip.cycles.issue
        queue = self.queues[engine]
        while queue and queue[0] <= self.now:
            queue.popleft()
        if len(queue) >= self.chip.queue_depth:
            self.now = queue.popleft()
        self.pending = [p for p in self.pending if p.until > self.now]
        ranges = self._ranges(record, operands)
        start = max(self.now, self.free[engine])
        for begin, end, is_write in ranges:
            for p in self.pending:
                if p.start < end and begin < p.end and (is_write or p.is_write):
                    start = max(start, p.until)
        end_time = self._finish(record, operands, start)
        self.busy[engine] += end_time - start
        self.free[engine] = end_time
        queue.append(end_time)
        self.pending += [_Pending(b, e, w, engine, end_time) for b, e, w in ranges]

    @staticmethod
    def _ranges(record: Record, o: Operands) -> list[tuple[int, int, bool]]:
        return [
            (o[f.name], o[f.name] + f.num_bytes(o), f.role is Role.SPM_WRITE)
            for f in record.kind.FIELDS
            if f.role in (Role.SPM_READ, Role.SPM_WRITE) and f.num_bytes is not None
        ]

    def _finish(self, record: Record, o: Operands, start: float) -> float:
        c = self.chip.cycles
        size = o.fmt.bytes
        if record.kind in (Rdma, Wdma):
            moved = _moved_bytes(o["count"] * size, [(o[f"s{i}"] * size, o[f"n{i}"]) for i in (1, 2, 3)], c.dma_min_run_bytes)
            begin = max(start + c.dma_startup, self.ddr_free)
            self.ddr_bytes += moved
            self.ddr_free = begin + moved / self.ddr_rate
            return self.ddr_free
        if record.kind is TdmaGatherScatter:
            sides = ([(o[f"{side}s{i}"], o[f"{side}n{i}"]) for i in (1, 2, 3)] for side in "rw")
            moved = max(_moved_bytes(o["run_bytes"], levels, c.tdma_min_run_bytes) for levels in sides)
            return start + c.tdma_startup + moved / c.tdma_bytes_per_cycle
        if record.kind is TdmaMemset:
            moved = _moved_bytes(o["n"] * size, [(o[f"s{i}"] * size, o[f"n{i}"]) for i in (1, 2)], c.tdma_min_run_bytes)
            return start + c.tdma_startup + moved / c.tdma_bytes_per_cycle
        if record.kind.ENGINE is Engine.NE:
            return start + ne_cycles(record.kind, o, c)
        widest = max((e - b for b, e, _ in self._ranges(record, o)), default=0)
        beats = -(-widest // c.ct_bytes_per_cycle)
        return start + c.ct_startup + beats * record.kind.COST

    def _kc_cycles(self, record: Record, o: Operands) -> float:
        if issubclass(record.kind, (KcGatherForm, KcScatterForm)):
            return max(o["n"], 1)
        widest = max((e - b for b, e, _ in self._ranges(record, o)), default=Format.INT64.bytes)
        return max(-(-widest // self.chip.cycles.kc_vector_bytes_per_cycle), 1) * record.kind.COST


def _moved_bytes(run: int, levels: Sequence[tuple[int, int]], min_run: int) -> int:
    """Bytes of a strided transfer of runs; levels are (distance, turns), innermost first.

    Runs that touch are one, and every one counts as at least `min_run`.
    """
    total = run * prod(turns for _, turns in levels)
    for distance, turns in levels:
        if turns > 1 and distance != run:
            break
        run *= turns
    return total // run * max(run, min_run) if run else 0
