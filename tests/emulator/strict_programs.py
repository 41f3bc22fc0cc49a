"""Programs of two tiles for strict mode, each tile with its half of an input and an output."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from hlo2tx8.device import interpret
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.faults import Fault, FaultKind
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import CtNeg
from hlo2tx8.device.isa.encoding import Record, Register, encode_records
from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.isa.kc_control import KcAffine, KcBarrier, KcWait
from hlo2tx8.device.isa.kc_move import KcVIota
from hlo2tx8.device.isa.kc_vector import KcVAdd
from hlo2tx8.device.isa.lsu import Rdma, TdmaMemset, Wdma
from hlo2tx8.device.program import Program, Slot, SlotKind

CHIP = replace(load_chip(), tiles=2, mesh=(1, 2))
SLOT_BYTES = 256
INT32, FP32, BF16, RAW8 = Format.INT32, Format.FP32, Format.BF16, Format.RAW8
TILE, HALF = Register(1), Register(2)
# r2 = the tile's half of the output, r3 the other's
HALVES = (
    Record(KcAffine, {"rd": 2, "c": 0, "r1": TILE, "k1": 128}),
    Record(KcAffine, {"rd": 3, "c": 128, "r1": TILE, "k1": -128}),
)
OTHER = Register(3)
BARRIER = Record(KcBarrier)
INPUT, OUTPUT, SCRATCH = range(3)


def wait(*engines: Engine) -> Record:
    return Record(KcWait, {"engines": sum(1 << e for e in engines)})


WAIT_ALL = wait(*Engine)
R, W, C, D = (wait(e) for e in (Engine.RDMA, Engine.WDMA, Engine.CT, Engine.DTE))


def load(dst: int = 0, slot: int = INPUT, offset: int | Register = HALF, n: int = 32) -> Record:
    return Record(Rdma, {"dst": dst, "slot": slot, "offset": offset, "count": n}, INT32)


def store(src: int = 0, slot: int = OUTPUT, offset: int | Register = HALF, n: int = 32) -> Record:
    return Record(Wdma, {"slot": slot, "offset": offset, "src": src, "count": n}, INT32)


def neg(dst: int, src: int, n: int = 32) -> Record:
    return Record(CtNeg, {"dst": dst, "src": src, "n": n}, FP32)


def add(dst: int, a: int, b: int, n: int = 32) -> Record:
    return Record(KcVAdd, {"dst": dst, "a": a, "b": b, "n": n}, INT32)


def iota(dst: int = 0, n: int = 32) -> Record:
    return Record(KcVIota, {"dst": dst, "n": n, "start": 0, "step": 1, "div": 1, "mod": n}, INT32)


def fill(dst: int, n: int) -> Record:
    return Record(TdmaMemset, {"dst": dst, "value": 7, "n": n}, RAW8)


def program(*records: Record) -> Program:
    code, origins = encode_records((*HALVES, *records))
    kinds = (SlotKind.INPUT, SlotKind.OUTPUT, SlotKind.SCRATCH)
    return Program(code, tuple(Slot(kind, 0, "uint8", (SLOT_BYTES,), SLOT_BYTES) for kind in kinds), (), origins, CHIP.spm_bytes)


def run(code: Program, checks: bool = True) -> np.ndarray:
    """The output, from the input 0, 1, 2, ..."""
    slots = [np.arange(SLOT_BYTES, dtype=np.uint8), *(np.zeros(SLOT_BYTES, np.uint8) for _ in range(2))]
    interpret.run_strict(code, slots, CHIP, checks)
    return slots[OUTPUT]


def fault_of(code: Program) -> Fault:
    with pytest.raises(Fault) as caught:
        run(code)
    return caught.value


@dataclass(frozen=True)
class Case:
    """`bad` is a fault of `kind` at record `at` (from 0, after the common ones) whose text holds `words`; `good` is none."""

    kind: FaultKind
    at: int
    words: str
    bad: tuple[Record, ...]
    good: tuple[Record, ...]


DONE = (store(), W)
RACE = FaultKind.RACE
