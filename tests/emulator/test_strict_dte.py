"""What orders DTE, within a tile and between tiles: each race beside the closest program without it."""

import pytest
from strict_programs import (
    BARRIER,
    DONE,
    HALVES,
    INT32,
    RACE,
    TILE,
    WAIT_ALL,
    C,
    Case,
    D,
    R,
    add,
    fault_of,
    iota,
    load,
    neg,
    program,
    run,
    store,
)

from hlo2tx8.device.faults import FaultKind
from hlo2tx8.device.isa.dte import DteGather, DteUnicast
from hlo2tx8.device.isa.encoding import Record, Register
from hlo2tx8.device.isa.kc_control import KcAffine

PEER = Register(4)
HEAD = Record(KcAffine, {"rd": 4, "c": 1, "r1": TILE, "k1": -1})  # of two tiles the other one


def send(dst: int = 128, src: int = 0, n: int = 32) -> Record:
    return Record(DteUnicast, {"dst": dst, "src": src, "n": n, "tile": PEER}, INT32)


def fetch(dst: int = 128, src: int = 0, n: int = 32) -> Record:
    return Record(DteGather, {"dst": dst, "src": src, "count": n, "tile": PEER}, INT32)


CASES: dict[str, Case] = {
    "DTE sends what is loaded": Case(
        RACE, 1, "engine RDMA", (load(), send(), WAIT_ALL, BARRIER, *DONE), (load(), R, send(), WAIT_ALL, BARRIER, *DONE)
    ),
    "what DTE sends is overwritten": Case(
        RACE, 3, "engine DTE", (load(), R, send(), load(), WAIT_ALL, BARRIER, *DONE),
        (load(), R, send(), D, load(), WAIT_ALL, BARRIER, *DONE),
    ),
    "what DTE gathers is used": Case(
        RACE, 4, "engine DTE", (load(), R, BARRIER, fetch(), neg(256, 128), WAIT_ALL, BARRIER, *DONE),
        (load(), R, BARRIER, fetch(), D, neg(256, 128), WAIT_ALL, BARRIER, *DONE),
    ),
    "DTE gathers where something is computed": Case(
        RACE, 4, "engine CT", (load(), R, BARRIER, neg(128, 0), fetch(), WAIT_ALL, BARRIER, *DONE),
        (load(), R, BARRIER, neg(128, 0), C, fetch(), WAIT_ALL, BARRIER, *DONE),
    ),
    "the kernel core uses what DTE gathers": Case(
        RACE, 4, "engine DTE", (load(), R, BARRIER, fetch(), add(128, 128, 128), WAIT_ALL, BARRIER, *DONE),
        (load(), R, BARRIER, fetch(), D, add(128, 128, 128), WAIT_ALL, BARRIER, *DONE),
    ),
    "a tile uses what another sends, without a barrier": Case(
        RACE, 4, "engine WDMA", (load(), R, iota(128), BARRIER, send(), D, store(128), WAIT_ALL),
        (load(), R, iota(128), BARRIER, send(), D, BARRIER, store(128), WAIT_ALL),
    ),
    "a tile uses what another sends, without a wait": Case(
        RACE, 4, "engine DTE", (load(), R, send(), BARRIER, store(128), WAIT_ALL),
        (load(), R, send(), D, BARRIER, store(128), WAIT_ALL),
    ),
    "the kernel core uses what another tile sends": Case(
        RACE, 4, "engine KC", (load(), R, iota(128), BARRIER, send(), add(128, 128, 128), D, BARRIER, *DONE),
        (load(), R, iota(128), BARRIER, send(), D, BARRIER, add(128, 128, 128), *DONE),
    ),
    "a tile writes where another sends": Case(
        RACE, 2, "engine KC", (load(), R, send(), iota(128), D, BARRIER, *DONE),
        (load(), R, send(), D, BARRIER, iota(128), *DONE),
    ),
    "a tile loads what another gathers": Case(
        RACE, 3, "engine DTE", (load(), R, BARRIER, load(), fetch(), WAIT_ALL, BARRIER, *DONE),
        (load(), R, BARRIER, load(), R, BARRIER, fetch(), D, BARRIER, *DONE),
    ),
    "a tile overwrites what another gathers": Case(
        RACE, 3, "engine KC, record 8", (load(), R, BARRIER, fetch(), D, iota(), BARRIER, *DONE),
        (load(), R, BARRIER, fetch(), D, BARRIER, iota(), *DONE),
    ),
    "a barrier without a wait": Case(
        RACE, 6, "engine CT", (load(), R, iota(128), BARRIER, neg(128, 0), BARRIER, send(), WAIT_ALL, BARRIER, *DONE),
        (load(), R, iota(128), BARRIER, neg(128, 0), C, BARRIER, send(), WAIT_ALL, BARRIER, *DONE),
    ),
    "bytes another tile never sent": Case(
        FaultKind.UNWRITTEN_SPM, 5, "SPM byte 0xfc", (load(), R, send(n=31), D, BARRIER, store(128), WAIT_ALL),
        (load(), R, send(), D, BARRIER, store(128), WAIT_ALL),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_with_race(name: str) -> None:
    case = CASES[name]
    fault = fault_of(program(HEAD, *case.bad))
    assert (fault.kind, fault.place.record) == (case.kind, len(HALVES) + 1 + case.at), str(fault)
    assert case.words in str(fault)


@pytest.mark.parametrize("name", CASES)
def test_no_race(name: str) -> None:
    run(program(HEAD, *CASES[name].good))
