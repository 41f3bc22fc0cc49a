"""Modelled time of a program: one tile's engine queues as a discrete-event model over the rolled program.

Tiles run the same program on equal shares, so the fullest tile, tile 0, stands for all, and every tile gets an equal share of
the DDR bandwidth. A loop is followed for a few turns until two turns cost what the two before cost; the turns between there
and the last ones are added without following them, so the model costs the same for any tensor size.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Engine, Operands, Role
from hlo2tx8.device.isa.encoding import Operand, Record, Register, decode_records
from hlo2tx8.device.isa.forms import KcGatherForm, KcScalar, KcScatterForm
from hlo2tx8.device.isa.kc_control import KcAffine, KcBarrier, KcEnd, KcEndIf, KcHalt, KcIf, KcLoop, KcWait
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.device.program import Program

WARM_UP_TURNS = 6
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


@dataclass(frozen=True)
class _Block:
    """A loop or a branch with its body."""

    record: Record
    body: "tuple[Record | _Block, ...]"


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


def _parse(records: Sequence[Record]) -> tuple[Record | _Block, ...]:
    stack: list[list[Record | _Block]] = [[]]
    heads: list[Record] = []
    for record in records:
        if record.kind in (KcLoop, KcIf):
            heads.append(record)
            stack.append([])
        elif record.kind in (KcEnd, KcEndIf):
            body = stack.pop()
            stack[-1].append(_Block(heads.pop(), tuple(body)))
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

    def run(self, items: Sequence[Record | _Block]) -> None:
        for item in items:
            if isinstance(item, Record):
                self._record(item)
            elif item.record.kind is KcLoop:
                self._loop(item)
            else:
                self.now += 1
                if self._value(item.record.fields["value"]):
                    self.run(item.body)

    def _loop(self, block: _Block) -> None:
        v = self._values(block.record)
        total = max(-(-(v["hi"] - v["lo"]) // max(v["step"], 1)), 0)
        marks: list[_Mark] = []
        turn = 0
        while turn < total:
            self._set(block.record.fields["rd"], v["lo"] + turn * v["step"])
            self.now += 2
            self.run(block.body)
            marks.append(_Mark.of(self))
            turn += 1
            if len(marks) == WARM_UP_TURNS and total - turn > LAST_TURNS + 2:
                # Turns come in pairs because buffers do.
                pairs = (total - turn - LAST_TURNS) // 2
                self._skip(marks[-3], marks[-1], pairs)
                turn += 2 * pairs

    def _skip(self, before: "_Mark", after: "_Mark", times: int) -> None:
        """Advances everything as if what happened between two marks happened `times` more."""
        delta = (after.now - before.now) * times
        self.now += delta
        self.ddr_free += delta
        self.ddr_bytes += (after.ddr_bytes - before.ddr_bytes) * times
        for e in Engine:
            self.free[e] += delta
            self.busy[e] += (after.busy[e] - before.busy[e]) * times
            self.count[e] += (after.count[e] - before.count[e]) * times
            self.queues[e] = deque(t + delta for t in self.queues[e])
        for p in self.pending:
            p.until += delta

    def _value(self, operand: Operand) -> int:
        return self.registers[operand.number] if isinstance(operand, Register) else operand

    def _set(self, operand: Operand, value: int) -> None:
        number = operand.number if isinstance(operand, Register) else operand
        if number:
            self.registers[number] = value

    def _values(self, record: Record) -> dict[str, int]:
        return {name: self._value(operand) for name, operand in record.fields.items()}

    def _record(self, record: Record) -> None:
        kind = record.kind
        if issubclass(kind, KcScalar):
            a, b = self._value(record.fields["a"]), self._value(record.fields["b"])
            self._set(record.fields["rd"], kind.FOLD(a, b))
            self.now += 1
        elif kind is KcAffine:
            v = self._values(record)
            terms = [(v[f"r{i}"], v[f"k{i}"]) for i in range(1, 5)]
            self._set(record.fields["rd"], v["c"] + sum(r * k for r, k in terms))
            self.now += max(sum(1 for _, k in terms if k), 1)
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
        if record.kind in (Rdma, Wdma):
            moved = _rounded_runs(o, o["count"] * o.fmt.bytes, o["s1"] != o["count"], c.dma_min_run_bytes)
            begin = max(start + c.dma_startup, self.ddr_free)
            self.ddr_bytes += moved
            self.ddr_free = begin + moved / self.ddr_rate
            return self.ddr_free
        if record.kind is TdmaGatherScatter:
            turns = o["rn1"] * o["rn2"] * o["rn3"]
            return start + c.tdma_startup + turns * max(o["run_bytes"], c.tdma_min_run_bytes) / c.tdma_bytes_per_cycle
        if record.kind is TdmaMemset:
            run = max(o["n"] * o.fmt.bytes, c.tdma_min_run_bytes)
            return start + c.tdma_startup + o["n1"] * o["n2"] * run / c.tdma_bytes_per_cycle
        widest = max((e - b for b, e, _ in self._ranges(record, o)), default=0)
        beats = -(-widest // c.ct_bytes_per_cycle)
        return start + c.ct_startup + beats * record.kind.COST

    def _kc_cycles(self, record: Record, o: Operands) -> float:
        if issubclass(record.kind, (KcGatherForm, KcScatterForm)):
            return max(o["n"], 1)
        widest = max((e - b for b, e, _ in self._ranges(record, o)), default=Format.INT64.bytes)
        return max(-(-widest // self.chip.cycles.kc_vector_bytes_per_cycle), 1) * record.kind.COST


def _rounded_runs(o: Operands, run: int, is_scattered: bool, min_run: int) -> float:
    """Bytes of a transfer, every contiguous run counted as at least `min_run`."""
    turns = o["n1"] * o["n2"] * o["n3"]
    return turns * (max(run, min_run) if is_scattered or turns == 1 else run)


@dataclass(frozen=True)
class _Mark:
    """Clocks and counters at the end of a turn."""

    now: float
    ddr_bytes: float
    busy: Mapping[Engine, float]
    count: Mapping[Engine, int]

    @staticmethod
    def of(tile: _Tile) -> "_Mark":
        return _Mark(tile.now, tile.ddr_bytes, dict(tile.busy), dict(tile.count))
