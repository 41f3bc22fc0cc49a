"""A long run of the native core: it can be interrupted, tells where it is, and leaves Python to other threads."""

import signal
import threading
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from hlo2tx8.device import native
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.emulator import Emulator
from hlo2tx8.device.faults import FaultPlace
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_function import CtSin
from hlo2tx8.device.isa.encoding import Record, encode_records
from hlo2tx8.device.isa.kc_control import KcBarrier, KcEnd, KcLoop
from hlo2tx8.device.isa.lsu import TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.device.isa.ne import NeGemm
from hlo2tx8.device.program import Program, Slot, SlotKind

pytestmark = pytest.mark.skipif(not native.available(), reason=f"no native core: {native.why_not()}")
CHIP = replace(load_chip(), tiles=2, mesh=(1, 2))
ENDLESS = Record(KcLoop, {"rd": 2, "lo": 0, "hi": 1 << 60, "step": 1})
GEMM = {"dst": 1 << 20, "left": 0, "right": 1 << 19, "psum": 0, "rows": 512, "columns": 512, "depth": 512, "batch": 1}
GEMM |= {"transpose_left": 0, "transpose_right": 0, "accumulate": 0}
BYTES = {"dst": 0, "src": 1, "run_bytes": 1, "rs1": 2, "rn1": 1 << 20, "ws1": 2, "wn1": 1 << 20}
BODIES = {
    "nothing": (),
    "barriers": (Record(KcBarrier),),
    "functions": (Record(CtSin, {"dst": 0, "src": 0, "n": 1 << 19}, Format.FP32),),
    "bytes": (Record(TdmaGatherScatter, BYTES, Format.RAW8),),
    "products": (Record(NeGemm, GEMM, Format.BF16, Format.BF16),),
}


def endless(*body: Record) -> Program:
    code, origins = encode_records([ENDLESS, *body, Record(KcEnd)])
    return Program(code, (), (), origins, CHIP.spm_bytes)


class EnoughError(Exception):
    """The test has seen what it wants."""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("body", BODIES)
def test_interrupted_within_a_second(body: str, threads: int) -> None:
    def stop(number: int, frame: object) -> None:
        raise EnoughError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    started = time.perf_counter()
    try:
        with pytest.raises(EnoughError):
            native.run(endless(*BODIES[body]), [], CHIP, threads)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.perf_counter() - started < 1.3


def test_progress_tells_the_place() -> None:
    places: list[FaultPlace] = []

    def progress(place: FaultPlace) -> None:
        places.append(place)
        if len(places) == 3:
            raise EnoughError

    with pytest.raises(EnoughError):
        Emulator(CHIP).run(endless(*BODIES["functions"]), [], progress)
    assert [p.tile for p in places] == [0, 0, 0]
    assert all(p.record in (0, 1, 2) for p in places)
    turns = [p.counters[0] for p in places if p.counters]
    assert turns == sorted(turns)
    assert turns[-1] > 0


def test_other_threads_run_meanwhile() -> None:
    turns, is_over = 0, threading.Event()

    def count() -> None:
        nonlocal turns
        while not is_over.is_set():
            turns += 1
            time.sleep(0.001)

    seen: list[int] = []

    def progress(place: FaultPlace) -> None:
        seen.append(turns)
        if len(seen) == 4:
            raise EnoughError

    other = threading.Thread(target=count)
    other.start()
    try:
        with pytest.raises(EnoughError):
            native.run(endless(*BODIES["functions"]), [], CHIP, 1, progress=progress)
    finally:
        is_over.set()
        other.join()
    assert all(later - earlier >= 3 for earlier, later in pairwise(seen))


def test_two_runs_at_once() -> None:
    """Each in its own thread, with its own scratchpads."""
    results: dict[int, bytes] = {}

    def work(value: int) -> None:
        fill = Record(TdmaMemset, {"dst": 0, "value": value, "n": 1 << 16}, Format.RAW8)
        store = Record(Wdma, {"slot": 0, "offset": 0, "src": 0, "count": 1 << 16}, Format.RAW8)
        loop = replace(ENDLESS, fields=ENDLESS.fields | {"hi": 500})
        code, origins = encode_records([loop, fill, Record(KcEnd), store])
        program = Program(code, (Slot(SlotKind.OUTPUT, 0, "uint8", (1 << 16,), 1 << 16),), (), origins, CHIP.spm_bytes)
        results[value] = Emulator(CHIP).run(program, [])[0].tobytes()

    workers = [threading.Thread(target=work, args=(value,)) for value in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == {value: bytes([value]) * (1 << 16) for value in range(4)}
