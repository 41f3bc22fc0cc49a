"""What strict mode finds beyond what every mode refuses: each class of fault beside the closest program without it."""

from dataclasses import replace

import numpy as np
import pytest
from strict_programs import (
    BARRIER,
    BF16,
    CHIP,
    DONE,
    FP32,
    HALF,
    HALVES,
    INT32,
    OTHER,
    RACE,
    RAW8,
    SCRATCH,
    TILE,
    WAIT_ALL,
    C,
    Case,
    R,
    W,
    add,
    fault_of,
    fill,
    iota,
    load,
    neg,
    program,
    run,
    store,
)

from hlo2tx8.device.faults import FaultKind
from hlo2tx8.device.isa.ct_arith import CtAddVS
from hlo2tx8.device.isa.encoding import Record, Register
from hlo2tx8.device.isa.kc_control import KcEnd, KcEndIf, KcIf, KcLess, KcLoadScalar, KcLoop
from hlo2tx8.device.isa.lsu import TdmaGatherScatter
from hlo2tx8.device.isa.ne import NeGemm
from hlo2tx8.device.program import Buffer, BufferUse, Program


def gemm(dst: int) -> Record:
    sizes = {"rows": 1, "columns": 4, "depth": 4, "batch": 2, "transpose_left": 0, "transpose_right": 0, "accumulate": 0}
    return Record(NeGemm, {"dst": dst, "left": 0, "right": 1024, "psum": 0, **sizes}, BF16, BF16)


EACH_TURN = Record(KcLoop, {"rd": 4, "lo": 0, "hi": 3, "step": 1})
CASES: dict[str, Case] = {
    "kernel core reads what is loaded": Case(
        RACE, 1, "engine RDMA, record 2 RDMA_load", (load(), add(0, 0, 0), *DONE), (load(), R, add(0, 0, 0), *DONE)
    ),
    "kernel core reads what is computed": Case(
        RACE, 2, "engine CT, record 3", (load(), neg(128, 0), add(128, 128, 128), store(128), W),
        (load(), neg(128, 0), C, add(128, 128, 128), store(128), W),
    ),
    "kernel core writes what is stored": Case(
        RACE, 3, "engine WDMA, record 4 WDMA_store", (load(), R, store(), iota(), W), (load(), R, store(), W, iota())
    ),
    "kernel core writes what is loaded too": Case(
        RACE, 1, "which writes them", (load(), iota(), R, *DONE), (load(), R, iota(), *DONE)
    ),
    "kernel core loads a scalar": Case(
        RACE, 1, "engine RDMA", (load(), Record(KcLoadScalar, {"rd": 5, "address": 4}, INT32), *DONE),
        (load(), R, Record(KcLoadScalar, {"rd": 5, "address": 4}, INT32), *DONE),
    ),
    "wait for another engine": Case(RACE, 2, "engine RDMA", (load(), W, add(0, 0, 0), *DONE), (load(), R, add(0, 0, 0), *DONE)),
    "wait for an engine that waited": Case(
        RACE, 4, "engine RDMA", (load(), iota(128), neg(256, 128), C, add(0, 0, 0), *DONE),
        (load(), iota(128), neg(256, 0), C, add(0, 0, 0), *DONE),
    ),
    "wait in the turn before": Case(
        RACE, 3, "loop counters [0]", (EACH_TURN, R, load(), iota(), Record(KcEnd), R, *DONE),
        (EACH_TURN, load(), R, iota(), Record(KcEnd), *DONE),
    ),
    "between the strides": Case(
        RACE, 4, "bytes [0x100, 0x104)",
        (load(), Record(TdmaGatherScatter, {"dst": 256, "src": 0, "run_bytes": 4, "rs1": 4, "rn1": 4, "ws1": 8, "wn1": 4}, RAW8),
         fill(1024, 4), iota(260, 1), iota(256, 2), WAIT_ALL, *DONE),
        (load(), Record(TdmaGatherScatter, {"dst": 256, "src": 0, "run_bytes": 4, "rs1": 4, "rn1": 4, "ws1": 8, "wn1": 4}, RAW8),
         fill(1024, 4), iota(260, 1), iota(268, 1), WAIT_ALL, *DONE),
    ),
    "two tiles store the same bytes": Case(
        RACE, 2, "tile 0, engine WDMA", (iota(), store(), store(offset=0), W), (iota(), store(), store(offset=HALF), W)
    ),
    "a tile loads what another stored, without a barrier": Case(
        RACE, 3, "DDR slot 2", (iota(), store(slot=SCRATCH), W, load(slot=SCRATCH, offset=0), *DONE, WAIT_ALL),
        (iota(), store(slot=SCRATCH), W, BARRIER, load(slot=SCRATCH, offset=0), *DONE, WAIT_ALL),
    ),
    "a tile loads what another stored, without a wait": Case(
        RACE, 3, "engine WDMA", (iota(), store(slot=SCRATCH), BARRIER, load(slot=SCRATCH, offset=0), *DONE, WAIT_ALL),
        (iota(), store(slot=SCRATCH), W, BARRIER, load(slot=SCRATCH, offset=OTHER), *DONE, WAIT_ALL),
    ),
    "a tile stores what another still loads": Case(
        RACE, 4, "record 7 WDMA_store, which writes them",
        (iota(), store(slot=SCRATCH), W, BARRIER, load(slot=SCRATCH, offset=0, n=64), store(slot=SCRATCH), *DONE, WAIT_ALL),
        (iota(), store(slot=SCRATCH), W, BARRIER, load(slot=SCRATCH, offset=0, n=64), R, BARRIER, store(slot=SCRATCH), *DONE, R),
    ),
    "bytes nobody wrote": Case(
        FaultKind.UNWRITTEN_SPM, 1, "SPM byte 0x7c", (load(n=31), store(), WAIT_ALL), (load(), store(), WAIT_ALL)
    ),
    "scratch nobody stored": Case(
        FaultKind.UNWRITTEN_DDR, 0, "byte 0 of DDR slot 2", (load(slot=SCRATCH), *DONE, WAIT_ALL),
        (iota(), store(slot=SCRATCH), load(slot=SCRATCH), *DONE, WAIT_ALL),
    ),
    "the end of the output": Case(
        FaultKind.UNWRITTEN_DDR, 2, "byte 124 of output 0", (load(), store(n=31), WAIT_ALL), (load(), *DONE, R)
    ),
    "no wait at the end": Case(FaultKind.UNFINISHED, 1, "nothing has waited", (load(), store(), R), (load(), store(), W)),
    "batches that begin anywhere": Case(
        FaultKind.MISALIGNED, 3, "operand dst has batches",
        (fill(0, 4096), load(8192), store(8192), gemm(4104), WAIT_ALL),
        (fill(0, 4096), load(8192), store(8192), gemm(4096), WAIT_ALL),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_with_fault(name: str) -> None:
    case = CASES[name]
    fault = fault_of(program(*case.bad))
    assert fault.kind is case.kind
    assert fault.place.record == len(HALVES) + case.at
    assert case.words in str(fault)


@pytest.mark.parametrize("name", CASES)
def test_without_fault(name: str) -> None:
    run(program(*CASES[name].good))


def test_late_is_as_late_as_legal() -> None:
    """Without checks a missing wait shows as old data, and what the queues order does not."""
    ordered = program(load(), neg(128, 0), store(128), WAIT_ALL)
    assert run(ordered, checks=False).tobytes() == run(ordered).tobytes()
    racy = program(iota(), load(), add(0, 0, 0), R, *DONE)
    late = run(racy, checks=False).view(np.int32)[:32]
    assert late.tolist() == np.arange(128, dtype=np.uint8).view(np.int32).tolist()  # the load came after the sum
    unwaited = program(load(), store(slot=SCRATCH), BARRIER, load(slot=SCRATCH, offset=OTHER), *DONE)
    assert (run(unwaited, checks=False)[:128] == 0xA5).all()  # the other tile's store has not happened


def test_a_full_queue_goes_on() -> None:
    """The queue's depth makes room, but orders nothing."""
    records = [Record(CtAddVS, {"dst": 0, "a": 0, "imm": 0x3F800000, "n": 32}, FP32) for _ in range(4 * CHIP.queue_depth)]
    run(program(load(), *records, *DONE))
    assert fault_of(program(load(), *records, iota(), *DONE)).kind is RACE


def test_place_of_a_race() -> None:
    """Both accesses with tile, engine, record, turn and origin."""
    records = (
        Record(KcLoop, {"rd": 4, "lo": 0, "hi": 3, "step": 1}),
        replace(load(), origin="load of x"),
        replace(add(0, 0, 0), origin="add.3 at model.py:7"),
        Record(KcEnd),
    )
    text = str(fault_of(program(*records, R, *DONE))).splitlines()
    assert text == [
        "fault race: reads bytes [0x0, 0x80) of SPM of tile 0, unordered with the access of tile 0, engine RDMA, record 3"
        " RDMA_load, loop counters [0], from load of x, which writes them",
        "  at tile 0, engine KC, record 4 KC_VV_add, loop counters [0]",
        "  from add.3 at model.py:7",
        "  look at the wait between the two accesses, and the barrier if they are of two tiles",
    ]


def test_one_tile_alone_races_with_nobody() -> None:
    """Tile 0 stores all of the output, tile 1 nothing."""
    first = (Record(KcLess, {"rd": 5, "a": TILE, "b": 1}), Record(KcIf, {"value": Register(5)}))
    run(program(*first, iota(n=64), store(offset=0, n=64), W, Record(KcEndIf)))


# -------------------------------------------------------------------------------------------------- named buffers

X = Buffer("x", 0, 128, 2, 256, 2, 4)
Y = Buffer("y", 512, 128, 1, 256, 3, 4)
USES = (BufferUse(2, 0, 0), BufferUse(3, 0, 1), BufferUse(3, 1, 0), BufferUse(4, 2, 1))


def named(*records: Record, buffers: tuple[Buffer, ...] = (X, Y), uses: tuple[BufferUse, ...] = USES) -> Program:
    code = program(*records)
    return replace(code, buffers=buffers, uses=tuple(use for use in uses if use.record < len(code.code) or use.record == NOWHERE))


NOWHERE = 99
NEW_LIFE = (Buffer("old", 0, 128, 1, 256, 2, 2), X, Y)
OUT, DEAD = FaultKind.OUT_OF_BUFFER, FaultKind.DEAD_BUFFER
BUFFER_CASES: dict[str, tuple[FaultKind, str, Program]] = {
    "beyond": (OUT, "operand src touches SPM [0x40, 0xc0), its buffer x is [0x0, 0x80)", named(load(), neg(512, 64))),
    "in another": (OUT, "its buffer y is [0x200, 0x280)", named(load(), neg(0, 0))),
    "far away": (OUT, "its buffer x is [0x100, 0x180)", named(load(512), neg(512, 0))),
    "too small": (OUT, "its buffer x", named(load(), neg(512, 0), buffers=(replace(X, size_bytes=124), Y))),
    "too early": (DEAD, "buffer x, alive in records 3 to 4", named(load(), buffers=(replace(X, first_record=3), Y))),
    "too late": (
        DEAD,
        "buffer y, alive in records 3 to 3",
        named(load(), neg(512, 0), store(512), buffers=(X, replace(Y, last_record=3))),
    ),
    "what another left there": (
        FaultKind.UNWRITTEN_SPM,
        "with what its buffer should hold",
        named(load(), neg(512, 0), WAIT_ALL, buffers=NEW_LIFE, uses=(BufferUse(2, 0, 0), BufferUse(3, 0, 2), BufferUse(3, 1, 1))),
    ),
    "other records": (OUT, "no sense", named(load(), uses=(BufferUse(NOWHERE, 0, 0),))),
}


@pytest.mark.parametrize("name", BUFFER_CASES)
def test_with_fault_of_a_buffer(name: str) -> None:
    kind, words, code = BUFFER_CASES[name]
    fault = fault_of(code)
    assert fault.kind is kind
    assert words in str(fault)


def test_without_fault_of_a_buffer() -> None:
    run(named(load(), neg(512, 0), store(512), WAIT_ALL))
    run(named(load(256), neg(512, 256), store(512), WAIT_ALL))
    run(replace(named(load(), neg(512, 0), store(512), WAIT_ALL), uses=()))
