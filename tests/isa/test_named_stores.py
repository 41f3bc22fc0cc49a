"""A store whose slot is in a register is to that slot: what was loaded from there before, and only put off, is as it was then.

Tile 0 loads from a slot; the tiles meet; tile 1 stores to the same slot, whose number is in a register; the tiles meet; tile 0
stores what it has loaded.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from hlo2tx8.device import interpret, native
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.encoding import Operand, Record, Register, encode_records
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
    KcLoadScalar,
    KcLoop,
    KcMin,
    KcReturn,
    KcWait,
)
from hlo2tx8.device.isa.lsu import Rdma, TdmaMemset, Wdma
from hlo2tx8.device.program import Program, Slot, SlotKind

pytestmark = pytest.mark.skipif(not native.available(), reason=f"no native core: {native.why_not()}")

CHIP = replace(load_chip(), tiles=2, mesh=(1, 2))
COUNT = 1 << 15
TARGET = 3
TILE, FLAG, SLOT, COUNTER, OTHER = (Register(n) for n in (1, 20, 21, 22, 23))
MEET = (Record(KcWait, {"engines": 63}), Record(KcBarrier))
END, END_IF = Record(KcEnd), Record(KcEndIf)


def on_tile(number: int, *records: Record) -> list[Record]:
    is_first = Record(KcLess, {"rd": FLAG, "a": TILE, "b": 1})
    is_it = Record(KcAffine, {"rd": FLAG, "c": number, "r1": FLAG, "k1": 1 - 2 * number})
    return [is_first, is_it, Record(KcIf, {"value": FLAG}), *records, END_IF]


def store(slot: Operand) -> Record:
    return Record(Wdma, {"src": 0x40000, "slot": slot, "offset": 0, "count": COUNT}, Format.INT32)


def affine(rd: Register, c: Operand, r1: Operand = 0, k1: Operand = 0) -> Record:
    return Record(KcAffine, {"rd": rd, "c": c, "r1": r1, "k1": k1})


def loop(rd: Register, lo: Operand, hi: Operand, *records: Record, step: int = 1) -> list[Record]:
    return [Record(KcLoop, {"rd": rd, "lo": lo, "hi": hi, "step": step}), *records, END]


IN_REGISTER = store(SLOT)
BEHIND_BRANCH = [Record(KcIf, {"value": 0}), affine(SLOT, 2), END_IF]
LOADED = [
    Record(TdmaMemset, {"dst": 0x80000, "value": TARGET, "n": 1}, Format.INT32),
    Record(KcWait, {"engines": 63}),
    Record(KcLoadScalar, {"rd": SLOT, "address": 0x80000}, Format.INT32),
]
TWICE: dict[str, Operand] = {"rd": SLOT, "c": 1, "r1": COUNTER, "k1": 1, "r2": COUNTER, "k2": 1}
WAYS: dict[str, Sequence[Record]] = {
    "number": [store(TARGET)],
    "constant": [affine(SLOT, TARGET), IN_REGISTER],
    "counter": loop(COUNTER, 2, 4, store(COUNTER)),
    "grows": loop(COUNTER, 0, 2, affine(SLOT, 2, COUNTER, 1), IN_REGISTER),
    "falls": loop(COUNTER, 0, 2, affine(SLOT, TARGET + 1, COUNTER, -1), IN_REGISTER),
    "steps": loop(COUNTER, 0, 4, affine(SLOT, TARGET, COUNTER, 1), IN_REGISTER, step=2),
    "behind the loop": [*loop(COUNTER, 0, 4), affine(SLOT, 0, COUNTER, 1), IN_REGISTER],
    "left early": [*loop(COUNTER, 0, 9, Record(KcLess, {"rd": FLAG, "a": COUNTER, "b": 3}), Record(KcExit, {"value": FLAG})),
                   affine(SLOT, 0, COUNTER, 1), IN_REGISTER],
    "no turn": [*loop(COUNTER, 3, 4), *loop(COUNTER, 5, 5), affine(SLOT, 0, COUNTER, 1), IN_REGISTER],
    "counter never counts": [affine(SLOT, TARGET, COUNTER, 1), IN_REGISTER],
    "two": [*loop(COUNTER, 0, 1), *loop(COUNTER, 2, 3), affine(SLOT, 0, COUNTER, 1), affine(SLOT, 1, COUNTER, 1), IN_REGISTER],
    "loop to a register": [affine(OTHER, 4), *loop(COUNTER, 2, OTHER, affine(SLOT, 0, COUNTER, 1), IN_REGISTER)],
    "tile": [affine(SLOT, 2, TILE, 1), IN_REGISTER],
    "sum in two steps": [affine(OTHER, 2), affine(SLOT, 1, OTHER, 1), IN_REGISTER],
    "factor in a register": [affine(OTHER, 2), *loop(COUNTER, 1, 2, affine(SLOT, 1, COUNTER, OTHER), IN_REGISTER)],
    "two terms": loop(COUNTER, 1, 2, replace(affine(SLOT, 1), fields=TWICE), IN_REGISTER),
    "constant in a register": [affine(OTHER, TARGET), affine(SLOT, OTHER), IN_REGISTER],
    "of other scalars": [Record(KcMin, {"rd": SLOT, "a": 7, "b": TARGET}), IN_REGISTER],
    "loaded": [*LOADED, IN_REGISTER],
    "not written in a branch": [affine(SLOT, TARGET), *BEHIND_BRANCH, IN_REGISTER],
    "in a branch": [*BEHIND_BRANCH, Record(KcIf, {"value": 1}), affine(SLOT, TARGET), IN_REGISTER, END_IF],
    "from the turn before": [affine(SLOT, 2), *loop(COUNTER, 0, 2, IN_REGISTER, affine(SLOT, TARGET))],
    "zero": [*BEHIND_BRANCH, IN_REGISTER],
    "register 0": [store(Register(0))],
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_what_was_loaded_stays(way: str, threads: int):
    source = 0 if way in ("zero", "register 0") else TARGET
    load = Record(Rdma, {"dst": 0x40000, "slot": source, "offset": 0, "count": COUNT}, Format.INT32)
    give = Record(Wdma, {"src": 0x40000, "slot": 1, "offset": 0, "count": COUNT}, Format.INT32)
    fill = Record(TdmaMemset, {"dst": 0x40000, "value": 7, "n": COUNT}, Format.INT32)
    records = [
        *on_tile(0, load),
        *MEET,
        *on_tile(1, fill, *WAYS[way]),
        *MEET,
        *on_tile(0, give),
        *MEET,
    ]
    check(records, source, threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_slot_that_a_function_is_called_with(threads: int):
    load = Record(Rdma, {"dst": 0x40000, "slot": TARGET, "offset": 0, "count": COUNT}, Format.INT32)
    give = Record(Wdma, {"src": 0x40000, "slot": 1, "offset": 0, "count": COUNT}, Format.INT32)
    function = [Record(KcFunction, {"number": 0}), *on_tile(1, IN_REGISTER), *MEET, Record(KcReturn)]
    call = Record(KcCall, {"number": 0})
    records = [*function, *on_tile(0, load), *MEET, affine(SLOT, 2), call, affine(SLOT, TARGET), call, *on_tile(0, give), *MEET]
    check(records, TARGET, threads)


def test_many_stores_by_one_register():
    """What their slots are takes no walk back from each: that took a minute."""
    code, origins = encode_records(
        [affine(SLOT, TARGET), *[Record(Wdma, {**IN_REGISTER.fields, "count": 1}, Format.INT32)] * 100_000]
    )
    slots = tuple(Slot(SlotKind.OUTPUT, n, "int32", (1,), 4) for n in range(6))
    start = time.monotonic()
    native.run(Program(code, slots, (), origins, CHIP.spm_bytes), [np.zeros(4, np.uint8) for _ in slots], CHIP, 1)
    assert time.monotonic() - start < 15


def check(records: Sequence[Record], source: int, threads: int) -> None:
    code, origins = encode_records(records)
    slots = tuple(Slot(SlotKind.OUTPUT, n, "int32", (COUNT,), 4 * COUNT) for n in range(6))
    program = Program(code, slots, (), origins, CHIP.spm_bytes)
    start = [np.full(COUNT, 100 + n, np.int32).view(np.uint8) for n in range(6)]
    defined, found = ([array.copy() for array in start] for _ in range(2))
    interpret.run(program, defined, CHIP)
    native.run(program, found, CHIP, threads)
    assert (defined[1].view(np.int32) == 100 + source).all() and (defined[source].view(np.int32) != 100 + source).all()
    for a, b in zip(defined, found, strict=True):
        np.testing.assert_array_equal(a, b)
