"""Modelled time of runs whose data decide trip counts and branches: what the run decided makes it exact."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from simulate import simulate

from hlo2tx8.device import native
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.decisions import Decisions
from hlo2tx8.device.emulator import Emulator
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_function import CtExp
from hlo2tx8.device.isa.encoding import Operand, Record, Register, encode_records
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcBarrier,
    KcEnd,
    KcEndIf,
    KcExit,
    KcIf,
    KcLess,
    KcLoadScalar,
    KcLoop,
    KcMod,
    KcWait,
)
from hlo2tx8.device.isa.kc_vector import KcVAdd
from hlo2tx8.device.isa.lsu import Rdma
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing import model
from hlo2tx8.device.timing.model import follow
from hlo2tx8.device.timing.native import time_program
from hlo2tx8.runtime.compile import compile_source

CHIP = load_chip()
SAMPLES = Path(__file__).parents[2] / "hlo_samples" / "control"
WITHIN = 0.02
FOREVER = 1 << 62


def check(program: Program, decisions: Decisions) -> None:
    """Core and definition agree, and both with every event."""
    report, exact = model(program, CHIP, decisions=decisions), simulate(program, CHIP, decisions)
    assert report.trip_counts == "measured"
    assert report.cycles == pytest.approx(exact.cycles, rel=WITHIN)
    for tile, busy, instructions in zip(report.tiles, exact.busy, exact.instructions, strict=True):
        assert {name: c.instructions for name, c in tile.items() if c.instructions} == instructions
        for name, cycles in busy.items():
            assert tile[name].busy_cycles == pytest.approx(cycles, rel=5 * WITHIN)
    found = time_program(program.code, CHIP, decisions) if native.available() else None
    for (*_, timed), (*_, wanted) in zip(found or (), follow(program, CHIP, decisions=decisions), strict=bool(found)):
        assert timed.cycles == pytest.approx(wanted.cycles, rel=1e-9)
        assert (timed.unknown, timed.loaded) == (wanted.unknown, wanted.loaded)
        np.testing.assert_allclose(timed.records, wanted.records, rtol=1e-7, atol=1e-3)


# ------------------------------------------------------------------------------------------------------------------ runs


def arguments(name: str) -> list[Any]:
    rng = np.random.default_rng(len(name))
    match name:
        case "collatz_s32.mlir":
            return [np.int32(2)]
        case "doubling_f32.hlo":
            return [rng.random((6, 10), np.float32), np.array([True, False, True])]
        case _:
            return [np.int32(2), np.bool_(False), *(rng.integers(0, 9, (2, 7, 65)).astype(np.int16))]


@pytest.mark.parametrize("name", ["collatz_s32.mlir", "doubling_f32.hlo", "case_if.mlir"])
def test_samples(name: str) -> None:
    """Loops in loops, branches in them, a case: assumed before the run, measured after it."""
    executable = compile_source(str(SAMPLES / name))
    assumed = executable.report
    assert assumed.trip_counts == "assumed" and "trip counts assumed" in str(assumed)
    results = executable.execute(*arguments(name))
    report = executable.report
    assert report.trip_counts == "measured" and "trip counts measured" in str(report) and not report.unknown
    assert report.as_dict()["trip_counts"] == "measured"
    assert executable.profile().report is report
    facts = executable.trace()["otherData"]
    assert isinstance(facts, dict) and facts["cycles"] == pytest.approx(report.cycles)
    decisions = executable.time.decisions
    assert decisions is not None
    check(executable.program, decisions)
    inputs = [port.to_device(a) for port, a in zip(executable.signature.inputs, map(np.asarray, arguments(name)), strict=True)]
    outputs, other = Emulator(CHIP, mode="definition").run_with_decisions(executable.program, inputs, executable.time.deciding)
    assert other is not None and [len(results), other.rows.tolist()] == [len(outputs), decisions.rows.tolist()]


def counted(n: Any, x: Any) -> Any:
    return jax.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + 1), (0, x))[1]


def test_a_loop_of_many_turns() -> None:
    """Takes as long as all its turns, of which few are followed and little is kept."""
    shapes = (jax.ShapeDtypeStruct((), np.int32), jax.ShapeDtypeStruct((300,), np.float32))
    executable = compile_source(jax.jit(counted).lower(*shapes).as_text())
    x = np.zeros(300, np.float32)
    cycles: dict[int, float] = {}
    for turns in (20, 60, 10_000):
        assert executable.execute(np.int32(turns), x)[0][0] == turns
        decisions = executable.time.decisions
        assert decisions is not None and len(decisions.rows) <= 2 * CHIP.tiles * len(executable.time.deciding)
        cycles[turns] = executable.report.cycles
        if turns < 100:
            check(executable.program, decisions)
    turn = (cycles[60] - cycles[20]) / 40
    assert cycles[10_000] == pytest.approx(cycles[60] + 9_940 * turn, rel=1e-3)


def test_too_much_to_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hlo2tx8.device.decisions.MOST_ROWS", 1)
    executable = compile_source(str(SAMPLES / "collatz_s32.mlir"))
    executable.execute(np.int32(3))
    assert executable.time.decisions is None and executable.report.trip_counts == "assumed"


def test_known_trip_counts_need_no_run() -> None:
    executable = compile_source(str(SAMPLES / "swap_counted_s32.mlir"))
    assert executable.report.trip_counts == "known" and "trip counts" not in str(executable.report)


# ------------------------------------------------------------------------------------------------------- drawn programs


class Drawn:
    """Loops and branches that numbers of any size decide, which are drawn with them."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.records: list[Record] = []
        self.numbers: dict[int, tuple[int, int]] = {}  # by record: the least and the most
        self.is_alike = self.number(0, 3) > 0

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def load(self, rd: int, low: int, high: int) -> Operand:
        self.numbers[len(self.records)] = (low, high)
        self.add(KcLoadScalar, rd=rd, address=1 << 20)
        return Register(rd)

    def add(self, kind: type[Any], fmt: Format = Format.INT32, **fields: Operand) -> None:
        self.records.append(Record(kind, fields, fmt))

    def work(self) -> None:
        at, size = self.number(0, 4) << 16, self.number(1, 100) * 64
        match self.number(0, 4):
            case 0:
                self.add(Rdma, Format.RAW8, dst=at, slot=0, offset=0, count=size)
            case 1:
                self.add(CtExp, Format.BF16, dst=at, src=at, n=size if self.number(0, 2) else self.load(20, 1, 2000))
            case 2:
                self.add(KcVAdd, Format.INT32, dst=at, a=at, b=at, n=self.number(1, 64))
            case _:
                self.add(KcWait, engines=self.number(0, 64))

    def block(self, depth: int) -> None:
        for _ in range(self.number(1, 4)):
            self.work()
        if depth == 3:
            return
        match self.number(0, 3):
            case 0:
                self.add(KcLoop, rd=2 + depth, lo=0, hi=self.load(10 + depth, 0, 12), step=1)
                self.block(depth + 1)
                self.add(KcEnd)
            case 1:
                self.add(KcLoop, rd=2 + depth, lo=0, hi=FOREVER, step=1)
                self.add(KcExit, value=self.load(10 + depth, 0, 2))
                if depth and self.number(0, 2):
                    self.add(KcLess, rd=20, a=Register(1 + depth), b=Register(2 + depth))
                    self.add(KcExit, value=Register(20))
                self.block(depth + 1)
                self.add(KcEnd)
            case _:
                self.add(KcAffine, rd=21, c=self.load(20, 0, 3), r1=Register(1 + depth), k1=1)
                self.add(KcMod, rd=21, a=Register(21), b=2)
                self.add(KcIf, value=Register(21))
                self.block(depth + 1)
                self.add(KcEndIf)

    def decisions(self) -> Decisions:
        """More numbers than anything loads; often the same many times."""
        rows: list[list[int]] = []
        for record, (low, high) in self.numbers.items():
            drawn: list[tuple[int, int]] = []
            for tile in range(CHIP.tiles):
                if not tile or not self.is_alike:
                    drawn = [(self.number(low, high), self.number(1, 40) if self.number(0, 3) else 1) for _ in range(20)]
                    drawn.append((0, FOREVER))
                rows += [[tile, record, number, times] for number, times in drawn]
        return Decisions(np.array(sorted(rows, key=lambda row: row[:2]), np.int64).reshape(-1, 4))


@pytest.mark.parametrize("seed", range(24))
def test_drawn_programs(seed: int) -> None:
    drawn = Drawn(seed)
    for _ in range(drawn.number(1, 3)):
        drawn.block(0)
        drawn.add(KcWait, engines=63)
        drawn.add(KcBarrier)
    code, origins = encode_records(drawn.records)
    check(Program(code, (), (), origins, CHIP.spm_bytes), drawn.decisions())
