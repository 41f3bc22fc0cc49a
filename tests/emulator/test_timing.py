"""Modelled time: small programs reckoned by hand, published peaks, and loops that cost what following every turn of them gives."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest

from hlo2tx8.device import timing
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import CtAddVV
from hlo2tx8.device.isa.ct_function import CtExp
from hlo2tx8.device.isa.encoding import Record, Register, encode_records
from hlo2tx8.device.isa.kc_control import KcAffine, KcBarrier, KcEnd, KcEndIf, KcIf, KcLess, KcLoop, KcMin, KcMod, KcMul, KcWait
from hlo2tx8.device.isa.kc_move import KcVGather
from hlo2tx8.device.isa.kc_vector import KcVAdd
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing import Report, steady

CHIP = load_chip()
BF16, RAW8 = Format.BF16, Format.RAW8
ISSUE, WAIT, BARRIER, LAUNCH = 4, 10, 400, 2000
TURN = 2
SHARE = 12.8  # bytes per cycle: 204.8 over 16 tiles
HALF = 1 << 16


def model(*records: Record) -> Report:
    code, origins = encode_records(records)
    return timing.model(Program(code, (), (), origins, CHIP.spm_bytes), CHIP)


def load(dst: int | Register, num_bytes: int, **levels: int) -> Record:
    return Record(Rdma, {"dst": dst, "slot": 0, "offset": 0, "count": num_bytes, **levels}, RAW8)


def store(src: int | Register, num_bytes: int) -> Record:
    return Record(Wdma, {"slot": 1, "offset": 0, "src": src, "count": num_bytes}, RAW8)


def exp(at: int | Register, num_bytes: int | Register) -> Record:
    return Record(CtExp, {"dst": at, "src": at, "n": num_bytes // 2 if isinstance(num_bytes, int) else num_bytes}, BF16)


def loop(turns: int | Register, *body: Record, counter: int = 4) -> tuple[Record, ...]:
    return (Record(KcLoop, {"rd": counter, "lo": 0, "hi": turns, "step": 1}), *body, Record(KcEnd))


def buffer(of: int = 2) -> tuple[Record, ...]:
    """Register 6: one of several buffers in turn."""
    number = Record(KcMod, {"rd": 5, "a": Register(4), "b": of})
    return number, Record(KcAffine, {"rd": 6, "c": 0, "r1": Register(5), "k1": HALF})


# ------------------------------------------------------------------------------------------------- reckoned by hand

VECTOR_CYCLES = [
    (Record(CtAddVV, {"dst": 0, "a": 0, "b": 0, "n": 64}, BF16), 16 + 1),
    (Record(CtAddVV, {"dst": 0, "a": 0, "b": 0, "n": 65}, BF16), 16 + 2),
    (Record(CtAddVV, {"dst": 0, "a": 0, "b": 0, "n": 64}, Format.FP32), 16 + 2),
    (Record(CtExp, {"dst": 0, "src": 0, "n": 640}, BF16), 16 + 4 * 10),
    (Record(TdmaMemset, {"dst": 0, "value": 0, "n": 1280}, RAW8), 32 + 10),
    (Record(TdmaMemset, {"dst": 0, "value": 0, "n": 2, "s1": 64, "n1": 8}, RAW8), 32 + 8 * 16 / 128),
    (Record(TdmaMemset, {"dst": 0, "value": 0, "n": 2, "s1": 2, "n1": 640}, RAW8), 32 + 10),
    (Record(TdmaGatherScatter, {"dst": 0, "src": 0, "run_bytes": 256, "rs1": 256, "rn1": 4, "ws1": 256, "wn1": 4}, RAW8), 32 + 8),
    (Record(TdmaGatherScatter, {"dst": 0, "src": 0, "run_bytes": 4, "rs1": 4, "rn1": 64, "ws1": 4, "wn1": 64}, RAW8), 32 + 2),
    # transposed words: reads of 4 bytes cost 16 each, whatever the dense side costs
    (Record(TdmaGatherScatter, {"dst": 0, "src": 0, "run_bytes": 4, "rs1": 64, "rn1": 64, "ws1": 4, "wn1": 64}, RAW8), 32 + 8),
]


@pytest.mark.parametrize(("record", "cycles"), VECTOR_CYCLES)
def test_one_instruction(record: Record, cycles: float) -> None:
    report = model(record)
    assert report.cycles == LAUNCH + ISSUE + cycles
    assert dict(report.busy) == {record.kind.ENGINE.name: cycles}
    assert dict(report.instructions) == {record.kind.ENGINE.name: 1}


@pytest.mark.parametrize(
    ("shape", "moved"),
    [
        ({}, 4096),
        ({"s1": 4096, "n1": 3}, 3 * 4096),
        ({"s1": 8192, "n1": 3}, 3 * 4096),
        ({"s2": 4096, "n2": 3}, 3 * 4096),
        ({"num_bytes": 16, "s1": 16, "n1": 64}, 1024),  # touching runs are one
        ({"num_bytes": 16, "s1": 32, "n1": 64}, 64 * 64),  # short runs cost 64 bytes each
        ({"num_bytes": 16, "s1": 16, "n1": 2, "s2": 1000, "n2": 5}, 5 * 64),
        ({"num_bytes": 1}, 64),
    ],
)
def test_one_transfer(shape: dict[str, int], moved: int) -> None:
    """Startup, then bytes at the tile's share of the DDR."""
    report = model(load(0, **{"num_bytes": 4096} | shape))
    assert report.cycles == pytest.approx(LAUNCH + ISSUE + 64 + moved / SHARE)
    assert report.ddr_cycles == pytest.approx(moved / SHARE)
    levels = [shape.get(name, 1) for name in ("n1", "n2", "n3")]
    assert report.ddr_bytes == shape.get("num_bytes", 4096) * math.prod(levels) * 16


def test_short_runs_are_far_from_the_roofline() -> None:
    """They cost the DDR 64 bytes each and move 16."""
    report = model(*loop(1000, load(0, 16, s1=32, n1=512)))
    assert report.ddr_bytes == 1000 * 512 * 16 * 16
    assert report.bounds[0][0] == "DDR"
    assert report.roofline_ratio == pytest.approx(4, rel=0.05)


def test_the_roofline_counts_operations_at_peak_rate_on_all_tiles() -> None:
    short = model(*loop(1000, exp(0, 128)))
    assert short.least_cycles == 1000 * 4
    first_tile = Record(KcLess, {"rd": 4, "a": Register(1), "b": 1}), Record(KcIf, {"value": Register(4)})
    alone = model(*first_tile, exp(0, 1 << 16), Record(KcEndIf))
    assert alone.least_cycles == 4 * (1 << 16) / 128 / 16


def test_kernel_core_work_blocks_issue() -> None:
    """256 bits per cycle on contiguous data, one element per cycle where it is indexed; no queue."""
    add = Record(KcVAdd, {"dst": 0, "a": 0, "b": 0, "n": 100}, Format.INT32)
    gather = Record(KcVGather, {"dst": 0, "src": 0, "index": 4096, "n": 100}, Format.INT32)
    assert model(add).cycles == LAUNCH + 13
    assert model(gather).cycles == LAUNCH + 100
    assert model(add, exp(HALF, 128)).cycles == LAUNCH + 13 + ISSUE + 16 + 4
    assert model(exp(HALF, 12800), add).cycles == LAUNCH + ISSUE + 16 + 400
    assert model(Record(KcMul, {"rd": 4, "a": 1, "b": 1})).cycles == LAUNCH + 1
    assert model(Record(KcBarrier)).cycles == LAUNCH + BARRIER


def test_engines_run_at_once_unless_they_share_bytes() -> None:
    transfer, compute = 64 + 12800 / SHARE, 16 + 4 * 100
    independent = model(load(0, 12800), exp(HALF, 12800))
    assert independent.cycles == pytest.approx(LAUNCH + ISSUE + transfer)
    dependent = model(load(0, 12800), exp(0, 12800))
    assert dependent.cycles == pytest.approx(LAUNCH + ISSUE + transfer + compute)
    touching = model(load(0, 12800), exp(12799 & ~1, 12800))
    assert touching.cycles == dependent.cycles
    behind = model(load(0, 12800), exp(12800, 12800))
    assert behind.cycles == independent.cycles
    waited = model(load(0, 12800), Record(KcWait, {"engines": 1 << 2}), exp(HALF, 12800))
    assert waited.cycles == pytest.approx(LAUNCH + ISSUE + transfer + ISSUE + compute)
    readers = model(exp(0, 128), store(0, 1280), Record(CtAddVV, {"dst": HALF, "a": 0, "b": 0, "n": 64}, BF16))
    assert readers.cycles == pytest.approx(LAUNCH + ISSUE + 20 + 64 + 1280 / SHARE)  # two reads do not wait for each other


def test_loads_and_stores_share_the_ddr() -> None:
    both = model(load(0, 12800), store(HALF, 12800))
    assert both.cycles == pytest.approx(LAUNCH + ISSUE + 64 + 2 * 12800 / SHARE)


def test_queues_hold_six() -> None:
    """The kernel core runs ahead until a queue is full, then issues when an instruction ends."""
    cost = 16 + 4 * 100
    work = [exp(0, 12800) for _ in range(8)]
    scalar = Record(KcMul, {"rd": 4, "a": 1, "b": 1})
    for issued, until in ((6, 6 * ISSUE), (7, ISSUE + cost), (8, ISSUE + 2 * cost)):
        ahead = model(*work[:issued], *loop(2000, scalar))
        assert ahead.cycles == LAUNCH + until + 2000 * (TURN + 1)


def test_double_buffering() -> None:
    """Alternating buffers hide the shorter of transfer and compute; one buffer serialises them."""
    turns, size = 400, 12800
    transfer, compute = size / SHARE, 16 + 4 * 100
    one = model(*loop(turns, load(0, size), exp(0, size)))
    two = model(*loop(turns, *buffer(2), load(Register(6), size), exp(Register(6), size)))
    assert one.cycles == pytest.approx(turns * (64 + transfer + compute), rel=0.01)
    assert two.cycles == pytest.approx(LAUNCH + ISSUE + TURN + 2 + turns * (64 + transfer) + compute)
    assert two.bound == "DDR"
    assert two.bounds[0] == ("DDR", pytest.approx(turns * transfer / two.cycles))
    assert two.bounds[1] == ("CT", pytest.approx(turns * compute / two.cycles))
    assert two.roofline_ratio == pytest.approx(two.cycles / (turns * transfer))
    heavy = model(*loop(turns, *buffer(2), load(Register(6), size // 4), *[exp(Register(6), size)] * 2))
    assert (heavy.bound, heavy.bounds[1][0]) == ("CT", "DDR")
    assert heavy.cycles == pytest.approx(turns * 2 * compute, rel=0.01)


# -------------------------------------------------------------------------------------------------- published peaks


def test_pure_copy_reaches_the_ddr_peak() -> None:
    """200 GB/s, shared by all tiles."""
    copy = model(*loop(4000, *buffer(2), load(Register(6), 1 << 15), store(Register(6), 1 << 15)))
    assert copy.ddr_bytes == 4000 * 2 * (1 << 15) * 16
    assert copy.ddr_bytes / copy.seconds == pytest.approx(200e9, rel=0.02)
    assert copy.bound == "DDR"


def test_ct_reaches_64_lanes() -> None:
    work = model(*loop(1000, Record(CtAddVV, {"dst": 0, "a": 0, "b": 0, "n": HALF // 2}, BF16)))
    assert 1000 * HALF // 2 / work.cycles == pytest.approx(64, rel=0.05)
    assert (work.bound, work.instructions["CT"]) == ("CT", 1000)


def test_short_instructions_are_bound_by_their_startup() -> None:
    short = model(*loop(1000, exp(0, 128)))
    assert short.cycles == LAUNCH + 1000 * 20 + ISSUE + TURN


def test_other_chips() -> None:
    code, origins = encode_records(loop(100, *buffer(2), load(Register(6), 1 << 15)))
    program = Program(code, (), (), origins, CHIP.spm_bytes)
    slow = timing.model(program, replace(CHIP, ddr_bytes_per_second=CHIP.ddr_bytes_per_second // 2))
    assert slow.ddr_cycles == 2 * timing.model(program, CHIP).ddr_cycles
    alone = timing.model(program, replace(CHIP, tiles=1))
    assert alone.cycles - LAUNCH == pytest.approx(100 * (64 + (1 << 15) / 128), rel=0.01)  # a tile's own port, not the DDR


# ------------------------------------------------------------------------------------------- loops without following


def follow_every_turn(monkeypatch: pytest.MonkeyPatch, *records: Record) -> Report:
    with monkeypatch.context() as patch:
        patch.setattr(steady, "end_turn", lambda *_: None)
        return model(*records)


def assert_same(quick: Report, exact: Report) -> None:
    assert quick.cycles == pytest.approx(exact.cycles, rel=2e-3)
    assert quick.ddr_bytes == exact.ddr_bytes
    assert dict(quick.instructions) == dict(exact.instructions)
    assert {k: v for k, v in quick.busy.items() if k in ("CT", "KC")} == pytest.approx(
        {k: v for k, v in exact.busy.items() if k in ("CT", "KC")}
    )


IS_EARLY = (Record(KcLess, {"rd": 7, "a": Register(4), "b": 301}), Record(KcIf, {"value": Register(7)}))
REST = (
    Record(KcAffine, {"rd": 7, "c": 64 * 700, "r1": Register(4), "k1": -64}),
    Record(KcMin, {"rd": 7, "a": Register(7), "b": 6400}),
)
# registers that go from turn to turn
TOGGLE = (
    Record(KcAffine, {"rd": 8, "c": 1, "r1": Register(8), "k1": -1}),
    Record(KcAffine, {"rd": 7, "c": 640, "r1": Register(8), "k1": 64000}),
)
GROW = (Record(KcAffine, {"rd": 8, "c": 64, "r1": Register(8), "k1": 1}),)
LOOPS: dict[str, tuple[Record, ...]] = {
    "compute": loop(900, exp(0, HALF)),
    "drifting queue": loop(900, exp(0, 128), *[Record(KcMul, {"rd": 7, "a": 1, "b": 1})] * 13),
    "one buffer": loop(900, load(0, 4096), exp(0, 4096), store(0, 4096)),
    "two buffers": loop(900, *buffer(2), load(Register(6), 4096), exp(Register(6), 4096), store(Register(6), 4096)),
    "three buffers": loop(901, *buffer(3), load(Register(6), 4096), exp(Register(6), 8192), store(Register(6), 4096)),
    "explicit waits": loop(900, load(0, 4096), Record(KcWait, {"engines": 4}), exp(0, 4096)),
    "kernel core": loop(
        900, load(0, 4096), Record(KcWait, {"engines": 4}), Record(KcVAdd, {"dst": 0, "a": 0, "b": 0, "n": 9}, Format.INT32)
    ),
    "branch that ends": loop(900, *IS_EARLY, exp(0, 4096), Record(KcEndIf), load(HALF, 640)),
    "triangle": loop(150, *loop(Register(4), exp(0, 1024), counter=8)),
    "shrinking rest": loop(700, *REST, exp(0, Register(7))),
    "nest": loop(40, *loop(50, *buffer(2), load(Register(6), 4096), store(Register(6), 4096)), Record(KcBarrier), counter=8),
    "toggle": loop(901, *TOGGLE, exp(0, Register(7)), load(HALF, 6400)),
    "growing": (Record(KcAffine, {"rd": 8, "c": 64}), *loop(301, *GROW, exp(0, Register(8)))),
    "few turns": loop(5, load(0, 4096), exp(0, 4096)),
    "no turns": loop(0, load(0, 4096)),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_cost_what_their_turns_cost(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_same(model(*LOOPS[name]), follow_every_turn(monkeypatch, *LOOPS[name]))


@pytest.mark.parametrize("seed", range(25))
def test_random_loops(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)

    def instruction() -> Record:
        size, at = int(rng.integers(1, 200)) * 64, Register(6) if rng.random() < 0.7 else int(rng.integers(0, 8)) * 8192
        choices = (load(at, size), store(at, size), exp(at, size), Record(TdmaMemset, {"dst": at, "value": 0, "n": size}, RAW8))
        return choices[int(rng.integers(len(choices)))]

    body = [instruction() for _ in range(int(rng.integers(1, 6)))]
    if rng.random() < 0.3:
        body.insert(int(rng.integers(len(body))), Record(KcWait, {"engines": int(rng.integers(1, 32))}))
    records = loop(int(rng.integers(100, 700)), *buffer(int(rng.integers(1, 5))), *body)
    assert_same(model(*records), follow_every_turn(monkeypatch, *records))


def test_the_model_costs_the_same_for_any_size() -> None:
    def seconds(turns: int) -> float:
        records = loop(
            turns, *loop(turns, *buffer(2), load(Register(6), 4096), exp(Register(6), 4096), store(Register(6), 4096)), counter=8
        )
        best = float("inf")
        for _ in range(3):
            started = time.perf_counter()
            report = model(*records)
            best = min(best, time.perf_counter() - started)
            assert report.instructions["CT"] == turns * turns
        return best

    assert seconds(100_000) < 3 * seconds(100) + 0.02


# ---------------------------------------------------------------------------------------------------------- report


def test_report() -> None:
    report = model(*loop(100, *buffer(2), load(Register(6), 1 << 15), exp(Register(6), 4096)))
    assert report.seconds == report.cycles / 976_562_500
    shares = dict(report.bounds)
    assert set(shares) == {"DDR", "CT", "issue", "launch"}
    assert shares["CT"] == report.busy["CT"] / report.cycles == 100 * (16 + 4 * 32) / report.cycles
    assert [name for name, _ in report.bounds[:2]] == ["DDR", "CT"]
    assert (report.bound, report.next_bound) == ("DDR", "CT")
    assert report.roofline_ratio == pytest.approx(1 / shares["DDR"])
    plain = report.as_dict()
    assert plain["cycles"] == report.cycles
    assert plain["bound"] == "DDR"
    assert plain["instructions"] == {"CT": 100, "RDMA": 100}
    assert str(report).startswith(f"{report.cycles:.0f} cycles = {report.seconds * 1e6:.1f} us modelled; bound by DDR")
    assert ", then by CT (1.0" in str(report)
    assert "CT 5%" in str(report)


def test_empty_program() -> None:
    report = model()
    assert report.cycles == LAUNCH
    assert report.bounds == (("launch", 1.0), ("DDR", 0.0))
    assert report.roofline_ratio == float("inf")
