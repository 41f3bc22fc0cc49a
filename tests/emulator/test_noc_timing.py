"""DTE in the timing model: ways, shared links, and packets of tiles that go different ways, held to the full simulation."""

import numpy as np
import pytest
from simulate import simulate

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_function import CtExp
from hlo2tx8.device.isa.dte import DteGather, DteMulticast, DteUnicast
from hlo2tx8.device.isa.encoding import Operand, Record, Register, encode_records
from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.isa.kc_control import KcAffine, KcBarrier, KcEnd, KcEndIf, KcIf, KcLess, KcLoop, KcMod, KcWait
from hlo2tx8.device.isa.lsu import Rdma
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing import model
from hlo2tx8.device.timing.model import follow

CHIP = load_chip()
TILE = Register(1)
LAUNCH, ISSUE, SETUP, SIZE = 2000, 4, 200, 6400
ALONE = SIZE / 32
NEXT = Register(9)


def program_of(*records: Record) -> Program:
    code, origins = encode_records(records)
    return Program(code, (), (), origins, CHIP.spm_bytes)


def cycles_of(*records: Record) -> float:
    """The modelled cycles, which the simulation agrees with."""
    program = program_of(*records)
    cycles = model(program, CHIP).cycles
    assert cycles == pytest.approx(LAUNCH + sum(timed.cycles for *_, timed in follow(program, CHIP)), rel=1e-9)
    assert cycles == pytest.approx(simulate(program, CHIP).cycles, rel=1e-6)
    return cycles


def send(tile: Operand, size: int = SIZE) -> Record:
    return Record(DteUnicast, {"dst": 1 << 16, "src": 0, "n": size, "tile": tile}, Format.RAW8)


def pull(tile: Operand, size: int = SIZE) -> Record:
    levels = {f"{kind}{i}": int(kind == "n") for kind in "sn" for i in (1, 2, 3)}
    return Record(DteGather, {"dst": 1 << 16, "tile": tile, "src": 0, "count": size, **levels}, Format.RAW8)


def on(first: int, end: int, *records: Record) -> list[Record]:
    """On tiles from `first` up to `end`; costs four cycles before the records."""
    return [
        Record(KcLess, {"rd": 20, "a": TILE, "b": first}),
        Record(KcLess, {"rd": 21, "a": TILE, "b": end}),
        Record(KcLess, {"rd": 22, "a": Register(20), "b": Register(21)}),
        Record(KcIf, {"value": Register(22)}),
        *records,
        Record(KcEndIf),
    ]


GUARD = 4


@pytest.mark.parametrize(("target", "hops"), [(1, 1), (3, 3), (4, 1), (15, 6)])
def test_a_packet_takes_its_way(target: int, hops: int) -> None:
    assert cycles_of(*on(0, 1, send(target))) == LAUNCH + GUARD + ISSUE + SETUP + hops + ALONE
    assert cycles_of(*on(0, 1, pull(target))) == LAUNCH + GUARD + ISSUE + SETUP + hops + ALONE


def test_a_packet_for_many_takes_each_link_once() -> None:
    packet = Record(DteMulticast, {"dst": 1 << 16, "src": 0, "n": SIZE, "tiles": 0xFFFE}, Format.RAW8)
    assert cycles_of(*on(0, 1, packet)) == LAUNCH + GUARD + ISSUE + SETUP + 6 + ALONE


def test_links_are_shared() -> None:
    """Tiles 0 and 1 send to tile 2: both take the link from 1 to 2, the packet of tile 0 a cycle later."""
    assert cycles_of(*on(0, 2, send(2))) == LAUNCH + GUARD + ISSUE + SETUP + 2 + 2 * ALONE - 1
    neighbours = [Record(KcAffine, {"rd": NEXT, "c": 4, "r1": TILE, "k1": 1}), send(NEXT)]
    assert cycles_of(*on(0, 12, *neighbours)) == LAUNCH + GUARD + 1 + ISSUE + SETUP + 1 + ALONE


def test_dte_waits_for_nobody_and_nobody_for_it() -> None:
    """But in its own queue; other engines and the same bytes do not matter, waits do."""
    load = Record(Rdma, {"dst": 0, "slot": 0, "offset": 0, "count": SIZE}, Format.RAW8)
    loaded = LAUNCH + GUARD + ISSUE + 64 + SIZE / 128
    wait = [Record(KcWait, {"engines": 1 << e}) for e in (Engine.RDMA, Engine.DTE)]
    assert cycles_of(*on(0, 1, load, send(1))) == LAUNCH + GUARD + 2 * ISSUE + SETUP + 1 + ALONE
    assert cycles_of(*on(0, 1, load, wait[0], send(1))) == loaded + ISSUE + SETUP + 1 + ALONE
    assert cycles_of(*on(0, 1, send(1), send(1))) == LAUNCH + GUARD + ISSUE + 2 * (SETUP + 1 + ALONE)


@pytest.mark.parametrize("seed", range(6))
def test_drawn_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def number(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    def body() -> list[Record]:
        far = [
            Record(KcAffine, {"rd": 8, "c": number(1, 16), "r1": TILE, "k1": 1}),
            Record(KcMod, {"rd": NEXT.number, "a": Register(8), "b": 16}),
        ]
        choices = (
            [*far, send(NEXT, number(1, 300) * 64)],
            [*far, pull(NEXT, number(1, 300) * 64)],
            [Record(CtExp, {"dst": 0, "src": 0, "n": number(1, 100) * 64}, Format.BF16)],
            [Record(Rdma, {"dst": 1 << 17, "slot": 0, "offset": 0, "count": number(1, 100) * 64}, Format.RAW8)],
            [Record(KcWait, {"engines": number(1, 64)})],
        )
        return [r for _ in range(number(1, 5)) for r in choices[number(0, len(choices))]]

    records: list[Record] = []
    for _ in range(number(1, 3)):
        turns = [Record(KcLoop, {"rd": 4, "lo": 0, "hi": number(1, 30), "step": 1}), *body(), Record(KcEnd)]
        records += [*(on(number(0, 4), number(4, 17), *turns) if number(0, 3) == 0 else turns), Record(KcWait, {"engines": 63})]
        records.append(Record(KcBarrier))
    program = program_of(*records)
    report, exact = model(program, CHIP), simulate(program, CHIP)
    assert report.cycles == pytest.approx(exact.cycles, rel=0.02)
    for part, (*_, timed) in zip(report.parts, follow(program, CHIP), strict=True):
        assert part.cycles == pytest.approx(timed.cycles, rel=1e-9)
        np.testing.assert_allclose(part.timed.counters, timed.counters, rtol=1e-7, atol=1e-3)
    for tile, busy in zip(report.tiles, exact.busy, strict=True):
        assert tile["DTE"].busy_cycles == pytest.approx(busy.get("DTE", 0.0), rel=0.1)
