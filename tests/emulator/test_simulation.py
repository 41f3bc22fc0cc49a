"""The timing model against the full event simulation: the same cycles, busy cycles and instructions."""

from pathlib import Path

import numpy as np
import pytest
from simulate import simulate

from hlo2tx8.dev.fuzz.draw import draw
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import CtAddVV
from hlo2tx8.device.isa.ct_function import CtExp
from hlo2tx8.device.isa.encoding import Record, Register, encode_records
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcBarrier,
    KcCall,
    KcEnd,
    KcEndIf,
    KcExit,
    KcFunction,
    KcIf,
    KcLess,
    KcLoop,
    KcMin,
    KcMod,
    KcReturn,
    KcWait,
)
from hlo2tx8.device.isa.kc_vector import KcVAdd
from hlo2tx8.device.isa.lsu import Rdma, TdmaMemset, Wdma
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing import model
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_source

CHIP = load_chip()
SAMPLES = Path(__file__).parents[2] / "hlo_samples"
LARGE = ("gelu_bf16.hlo", "gelu_f32.hlo")
DATA_DECIDES = (
    *("calls_f32.mlir", "case_if.mlir", "collatz_s32.mlir", "doubling_f32.hlo", "scatter_add_f32.hlo"),
    "scatter_of_itself.mlir",
)
SMALL = [f for f in sorted(SAMPLES.rglob("*")) if f.suffix in (".hlo", ".mlir") and f.name not in LARGE + DATA_DECIDES]
WITHIN = 0.02
TILE = Register(1)
ALL = (1 << 6) - 1


def check(program: Program, within: float = WITHIN) -> None:
    report, exact = model(program, CHIP), simulate(program, CHIP)
    assert report.cycles == pytest.approx(exact.cycles, rel=within)
    for tile, busy, instructions in zip(report.tiles, exact.busy, exact.instructions, strict=True):
        assert {name: c.instructions for name, c in tile.items() if c.instructions} == instructions
        for name, cycles in busy.items():
            assert tile[name].busy_cycles == pytest.approx(cycles, rel=5 * within)


def program_of(*records: Record) -> Program:
    code, origins = encode_records(records)
    return Program(code, (), (), origins, CHIP.spm_bytes)


@pytest.mark.parametrize("file", SMALL, ids=lambda f: str(f.relative_to(SAMPLES)))
def test_samples(file: Path) -> None:
    check(compile_source(str(file), Options()).program)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int) -> None:
    program = compile_source(draw(seed).graph.to_hlo(), Options(), format="hlo").program
    check(program)


# ---------------------------------------------------------------------------------------------------- drawn programs


class Drawn:
    """A program of loops, branches and instructions; what it does differs from tile to tile."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def is_so(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def instruction(self, buffer: Register) -> Record:
        size = self.number(1, 120) * 64
        at = buffer if self.is_so(0.6) else self.number(0, 8) * 4096
        return (
            lambda: Record(Rdma, {"dst": at, "slot": 0, "offset": 0, "count": size}, Format.RAW8),
            lambda: Record(Wdma, {"slot": 1, "offset": 0, "src": at, "count": size}, Format.RAW8),
            lambda: Record(CtExp, {"dst": at, "src": at, "n": size // 2}, Format.BF16),
            lambda: Record(CtAddVV, {"dst": at, "a": at, "b": self.number(0, 8) * 4096, "n": size // 2}, Format.BF16),
            lambda: Record(TdmaMemset, {"dst": at, "value": 0, "n": size}, Format.RAW8),
            lambda: Record(KcVAdd, {"dst": 0, "a": 0, "b": 0, "n": size // 16}, Format.INT32),
            lambda: Record(KcWait, {"engines": self.number(1, ALL + 1)}),
        )[self.number(0, 7)]()

    def body(self, counter: int) -> list[Record]:
        """One buffer out of a few in turn, then instructions."""
        turn, buffer = Register(counter + 1), Register(counter + 2)
        return [
            Record(KcMod, {"rd": turn.number, "a": Register(counter), "b": self.number(1, 4)}),
            Record(KcAffine, {"rd": buffer.number, "c": 0, "r1": turn, "k1": 1 << 16}),
            *(self.instruction(buffer) for _ in range(self.number(1, 5))),
        ]

    def guard(self, register: int, what: Register, bound: int, body: list[Record]) -> list[Record]:
        head = Record(KcLess, {"rd": register, "a": what, "b": bound})
        return [head, Record(KcIf, {"value": Register(register)}), *body, Record(KcEndIf)]

    def loop(self, counter: int, turns: int | Register, body: list[Record]) -> list[Record]:
        return [Record(KcLoop, {"rd": counter, "lo": 0, "hi": turns, "step": 1}), *body, Record(KcEnd)]

    def stretch(self) -> list[Record]:
        body = self.body(4)
        if self.is_so(0.4):
            body += self.guard(10, Register(4), self.number(1, 40), self.body(4)[2:])
        if self.is_so(0.3):
            body += self.loop(12, self.number(1, 30), self.body(12))
        if self.is_so(0.2):
            head = Record(KcLess, {"rd": 14, "a": Register(4), "b": self.number(0, 50)})
            body = [head, Record(KcExit, {"value": Register(14)}), *body]
        turns: int | Register = self.number(1, 60)
        head: list[Record] = []
        if self.is_so(0.4):
            # the last tiles have less to do
            head = [
                Record(KcAffine, {"rd": 20, "c": self.number(20, 120), "r1": TILE, "k1": -self.number(1, 12)}),
                Record(KcMin, {"rd": 20, "a": Register(20), "b": self.number(10, 60)}),
            ]
            turns = Register(20)
        records = [*head, *self.loop(4, turns, body)]
        return self.guard(11, TILE, self.number(1, 16), records) if self.is_so(0.2) else records

    def program(self) -> Program:
        records = self.stretch()
        for _ in range(self.number(0, 3)):
            wait = [Record(KcWait, {"engines": ALL})] if self.is_so(0.7) else []
            records += [*wait, Record(KcBarrier), *self.stretch()]
        if self.is_so(0.3):
            records = self.loop(30, self.number(2, 40), [*records, Record(KcWait, {"engines": ALL}), Record(KcBarrier)])
        return program_of(*records)

    def calls(self, meets: bool) -> Program:
        """Two functions, of which the second calls the first, called in a loop and behind each other."""
        end = [Record(KcWait, {"engines": ALL}), Record(KcBarrier)] if meets else []
        records: list[Record] = []
        for number in range(2):
            calls = [Record(KcCall, {"number": callee}) for callee in range(number)]
            body = [*self.body(4), *end, *calls, *self.loop(4, self.number(2, 9), self.body(4)), *end]
            records += [Record(KcFunction, {"number": number}), *body, Record(KcReturn)]
        first, last = Record(KcCall, {"number": 0}), Record(KcCall, {"number": 1})
        return program_of(*records, *self.body(4), *end, last, *self.loop(40, 2, [first, last]), first, *self.body(4))


@pytest.mark.parametrize("seed", sorted({*range(20)} - {16}))  # 16 takes half a minute
def test_drawn_programs(seed: int) -> None:
    check(Drawn(seed).program())


@pytest.mark.parametrize("seed", range(4))
def test_drawn_functions(seed: int) -> None:
    check(Drawn(100 + seed).calls(meets=seed % 2 == 0))


def test_calls_of_calls_are_not_followed_each() -> None:
    """Sixty functions, each of which calls the one before twice: the time of a call is that of its body."""
    load = Record(Rdma, {"dst": 0, "slot": 0, "offset": 0, "count": 256}, Format.RAW8)
    end = [Record(KcWait, {"engines": ALL}), Record(KcBarrier)]

    def cycles(num: int) -> float:
        records = [Record(KcFunction, {"number": 0}), load, *end, Record(KcReturn)]
        for number in range(1, num):
            twice = [Record(KcCall, {"number": number - 1})] * 2
            records += [Record(KcFunction, {"number": number}), *twice, Record(KcReturn)]
        return model(program_of(*records, Record(KcCall, {"number": num - 1})), CHIP).cycles - 2000

    one = cycles(1)
    assert cycles(2) == 2 * one + 1
    assert cycles(60) == pytest.approx(2**59 * (one + 1), rel=1e-12)


def test_tiles_that_do_different_things_share_the_ddr_as_they_need_it() -> None:
    load = Record(Rdma, {"dst": 0, "slot": 0, "offset": 0, "count": 1 << 16}, Format.RAW8)
    alone = program_of(Record(KcLess, {"rd": 4, "a": TILE, "b": 1}), Record(KcIf, {"value": Register(4)}), load, Record(KcEndIf))
    assert model(alone, CHIP).cycles == pytest.approx(2000 + 2 + 4 + 64 + (1 << 16) / 128)
    assert model(program_of(load), CHIP).cycles == pytest.approx(2000 + 4 + 64 + (1 << 16) / 12.8)
    check(alone, 1e-9)
    most = program_of(
        Record(KcLess, {"rd": 4, "a": TILE, "b": 15}), Record(KcIf, {"value": Register(4)}), load, Record(KcEndIf), load
    )
    check(most, 1e-9)
