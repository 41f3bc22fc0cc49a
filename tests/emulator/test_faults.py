"""What the emulator refuses, each beside the closest program it takes: kind, place and words of a fault.

What only strict mode refuses beyond unwritten memory is in test_strict.py.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from hlo2tx8.device import native
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.emulator import Emulator, LaunchError, Mode
from hlo2tx8.device.faults import Fault, FaultKind
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import CtAddVV, CtNeg
from hlo2tx8.device.isa.ct_move import CtMaskMove
from hlo2tx8.device.isa.encoding import Record, Register, encode_records
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcBarrier,
    KcEnd,
    KcEndIf,
    KcFloorDiv,
    KcHalt,
    KcIf,
    KcLess,
    KcLoadScalar,
    KcLoop,
    KcMod,
    KcWait,
)
from hlo2tx8.device.isa.kc_move import KcVGather, KcVIota, KcVScatter
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.device.program import Program, Slot, SlotKind

CHIP = replace(load_chip(), tiles=4)
LIMIT = CHIP.spm_limit
SLOT_BYTES = 4096
FP32, INT32, RAW8 = Format.FP32, Format.INT32, Format.RAW8
FAST: tuple[Mode, ...] = ("fast", "definition") if native.available() else ("definition",)
ANY: tuple[Mode, ...] = (*FAST, "strict")
TILE = Register(1)
INPUTS = [np.arange(SLOT_BYTES, dtype=np.uint8)]
WAIT = Record(KcWait, {"engines": 0x3F})


def program(*records: Record) -> Program:
    code, origins = encode_records(records)
    slots = tuple(Slot(kind, 0, "uint8", (SLOT_BYTES,), SLOT_BYTES) for kind in (SlotKind.INPUT, SlotKind.OUTPUT))
    return Program(code, slots, (), origins, CHIP.spm_bytes)


def run(mode: Mode, *records: Record, tiles: int = 4) -> np.ndarray:
    """The output, of which strict mode only wants to see that tile 0 stores all of it in the end."""
    if mode == "strict":
        records = (*records, WAIT, Record(KcLess, {"rd": 60, "a": TILE, "b": 1}), Record(KcIf, {"value": Register(60)}))
        records = (*records, fill(0, SLOT_BYTES), store(count=SLOT_BYTES), Record(KcEndIf), WAIT)
    return Emulator(replace(CHIP, tiles=tiles, mesh=(1, tiles)), mode).run(program(*records), INPUTS)[0]


def fill(address: int, num_bytes: int, value: int = 0) -> Record:
    return Record(TdmaMemset, {"dst": address, "value": value, "n": num_bytes}, RAW8)


def load(**fields: int | Register) -> Record:
    return Record(Rdma, {"dst": 0, "slot": 0, "offset": 0, "count": 16, **fields}, RAW8)


def store(**fields: int | Register) -> Record:
    return Record(Wdma, {"slot": 1, "offset": 0, "src": 0, "count": 16, **fields}, RAW8)


def indices(value: int) -> Record:
    return Record(KcVIota, {"dst": 512, "n": 4, "start": value, "step": 0, "div": 1, "mod": 1}, INT32)


def moved(**fields: int) -> Record:
    return Record(TdmaGatherScatter, {"dst": 256, "src": 0, "run_bytes": 16, **fields}, RAW8)


NEG = {"dst": 256, "src": 0, "n": 4}


@dataclass(frozen=True)
class Case:
    """`bad` is a fault of a kind whose text holds `words`; `good` is not."""

    kind: FaultKind
    words: str
    bad: tuple[Record, ...]
    good: tuple[Record, ...]
    modes: tuple[Mode, ...] = ANY


BOUNDS, DESCRIPTOR = FaultKind.OUT_OF_BOUNDS, FaultKind.BAD_DESCRIPTOR
UNWRITTEN, RUNAWAY = FaultKind.UNWRITTEN_SPM, FaultKind.RUNAWAY
CASES: dict[str, Case] = {
    "dma beyond SPM": Case(BOUNDS, "SPM", (load(dst=LIMIT - 15),), (load(dst=LIMIT - 16),)),
    "wait for an engine that is not there": Case(
        DESCRIPTOR, "engines", (Record(KcWait, {"engines": 128}),), (Record(KcWait, {"engines": 127}),)
    ),
    "wait for engines of a register": Case(
        DESCRIPTOR,
        "engines",
        (Record(KcAffine, {"rd": 5, "c": -1}), Record(KcWait, {"engines": Register(5)})),
        (Record(KcAffine, {"rd": 5, "c": 63}), Record(KcWait, {"engines": Register(5)})),
    ),
    "dma before SPM": Case(BOUNDS, "SPM", (load(dst=-1),), (load(dst=0),)),
    "dma beyond its slot": Case(BOUNDS, "DDR slot 0", (load(offset=SLOT_BYTES - 15),), (load(offset=SLOT_BYTES - 16),)),
    "dma before its slot": Case(BOUNDS, "DDR slot 0", (load(offset=-1),), (load(offset=0),)),
    "dma level beyond its slot": Case(BOUNDS, "DDR slot 0", (load(s2=1361, n2=4),), (load(s2=1360, n2=4),)),
    "store beyond its slot": Case(
        BOUNDS, "DDR slot 1", (fill(0, 16), store(offset=SLOT_BYTES - 15)), (fill(0, 16), store(offset=SLOT_BYTES - 16))
    ),
    "no such slot": Case(BOUNDS, "no DDR slot 2", (load(slot=2),), (load(slot=1),), FAST),
    "negative slot": Case(BOUNDS, "no DDR slot -1", (load(slot=-1),), (load(slot=0),)),
    "vector beyond SPM": Case(
        BOUNDS,
        "SPM",
        (fill(LIMIT - 16, 16), Record(CtNeg, {"dst": 0, "src": LIMIT - 15, "n": 4}, FP32)),
        (fill(LIMIT - 16, 16), Record(CtNeg, {"dst": 0, "src": LIMIT - 16, "n": 4}, FP32)),
    ),
    "vector that wraps around": Case(
        BOUNDS, "SPM", (Record(CtNeg, NEG | {"n": 1 << 62}, FP32),), (fill(0, 16), Record(CtNeg, NEG, FP32))
    ),
    "memset beyond SPM": Case(BOUNDS, "SPM", (fill(LIMIT - 3, 4),), (fill(LIMIT - 4, 4),)),
    "tdma reads beyond SPM": Case(
        BOUNDS, "SPM", (fill(0, 64), moved(src=LIMIT - 8)), (fill(LIMIT - 16, 16), moved(src=LIMIT - 16))
    ),
    "tdma writes beyond SPM": Case(BOUNDS, "SPM", (fill(0, 16), moved(dst=LIMIT - 15)), (fill(0, 16), moved(dst=LIMIT - 16))),
    "scalar beyond SPM": Case(
        BOUNDS,
        "SPM",
        (Record(KcLoadScalar, {"rd": 4, "address": LIMIT - 3}, INT32),),
        (fill(LIMIT - 4, 4), WAIT, Record(KcLoadScalar, {"rd": 4, "address": LIMIT - 4}, INT32)),
    ),
    "gather of a negative index": Case(
        BOUNDS,
        "index -1",
        (fill(0, 16), indices(-1), WAIT, Record(KcVGather, {"dst": 256, "src": 0, "index": 512, "n": 4}, INT32)),
        (fill(0, 16), indices(3), WAIT, Record(KcVGather, {"dst": 256, "src": 0, "index": 512, "n": 4}, INT32)),
    ),
    "scatter beyond SPM": Case(
        BOUNDS,
        "SPM",
        (fill(0, 16), indices(1), WAIT, Record(KcVScatter, {"dst": LIMIT - 4, "src": 0, "index": 512, "n": 4}, INT32)),
        (fill(0, 16), indices(1), WAIT, Record(KcVScatter, {"dst": LIMIT - 8, "src": 0, "index": 512, "n": 4}, INT32)),
    ),
    "elem_count 0": Case(DESCRIPTOR, "", (load(count=0),), (load(count=1),)),
    "negative stride": Case(DESCRIPTOR, "", (load(s1=-1, n1=2),), (load(s1=0, n1=2),)),
    "no turns": Case(DESCRIPTOR, "", (load(n3=0),), (load(n3=1),)),
    "unequal turns": Case(DESCRIPTOR, "", (fill(0, 64), moved(rn1=4, wn1=3)), (fill(0, 64), moved(rn1=4, wn2=4))),
    "division by zero": Case(
        DESCRIPTOR,
        "division by zero",
        (Record(KcFloorDiv, {"rd": 4, "a": 1, "b": Register(0)}),),
        (Record(KcFloorDiv, {"rd": 4, "a": 0, "b": -1}),),
    ),
    "remainder of zero": Case(
        DESCRIPTOR, "division by zero", (Record(KcMod, {"rd": 4, "a": 1, "b": 0}),), (Record(KcMod, {"rd": 4, "a": 1, "b": 1}),)
    ),
    "loop that does not advance": Case(
        RUNAWAY,
        "loop step 0",
        (Record(KcLoop, {"rd": 4, "lo": 0, "hi": 9, "step": 0}), Record(KcEnd)),
        (Record(KcLoop, {"rd": 4, "lo": 0, "hi": 9, "step": 100}), Record(KcEnd)),
    ),
    "loop backwards": Case(
        RUNAWAY,
        "loop step -1",
        (Record(KcLoop, {"rd": 4, "lo": 9, "hi": 0, "step": -1}), Record(KcEnd)),
        (Record(KcLoop, {"rd": 4, "lo": 9, "hi": 0, "step": 1}), Record(KcEnd)),
    ),
    "unwritten vector": Case(
        UNWRITTEN, "SPM byte 0xc ", (fill(0, 12), Record(CtNeg, NEG, FP32)), (fill(0, 16), Record(CtNeg, NEG, FP32)), ("strict",)
    ),
    "unwritten store": Case(UNWRITTEN, "SPM byte 0xf ", (fill(0, 15), store()), (fill(0, 16), store()), ("strict",)),
    "unwritten between strides": Case(
        UNWRITTEN,
        "SPM byte 0x10 ",
        (fill(0, 16), moved(rs1=1, rn1=2, wn1=2)),
        (fill(0, 17), moved(rs1=1, rn1=2, wn1=2)),
        ("strict",),
    ),
    "unwritten element of a gather": Case(
        UNWRITTEN,
        "SPM byte 0xc ",
        (fill(0, 12), indices(3), WAIT, Record(KcVGather, {"dst": 256, "src": 0, "index": 512, "n": 4}, INT32)),
        (fill(0, 12), indices(2), WAIT, Record(KcVGather, {"dst": 256, "src": 0, "index": 512, "n": 4}, INT32)),
        ("strict",),
    ),
    "unwritten old value of a masked move": Case(
        UNWRITTEN,
        "SPM byte 0x100 ",
        (fill(0, 32), Record(CtMaskMove, {"dst": 256, "src": 0, "mask": 16, "n": 4}, FP32)),
        (fill(0, 32), fill(256, 16), Record(CtMaskMove, {"dst": 256, "src": 0, "mask": 16, "n": 4}, FP32)),
        ("strict",),
    ),
    "unwritten scalar": Case(
        UNWRITTEN,
        "SPM byte 0x1 ",
        (fill(0, 1), WAIT, Record(KcLoadScalar, {"rd": 4, "address": 0}, Format.INT16)),
        (fill(0, 2), WAIT, Record(KcLoadScalar, {"rd": 4, "address": 0}, Format.INT16)),
        ("strict",),
    ),
}


@pytest.mark.parametrize(("name", "mode"), [(n, m) for n, c in CASES.items() for m in c.modes])
def test_fault(name: str, mode: Mode) -> None:
    case = CASES[name]
    with pytest.raises(Fault) as caught:
        run(mode, *case.bad, tiles=1)
    assert caught.value.kind is case.kind
    assert case.words in str(caught.value)
    at = len(case.bad) - 1 if case.kind is not RUNAWAY else 0
    assert caught.value.place.record == at
    assert caught.value.place.mnemonic == case.bad[at].kind.MNEMONIC
    run(mode, *case.good, tiles=1)


@pytest.mark.parametrize("mode", FAST)
def test_only_strict_minds_unwritten_memory(mode: Mode) -> None:
    """Elsewhere SPM starts as zeros."""
    for case in CASES.values():
        if case.kind is UNWRITTEN:
            run(mode, *case.bad)


@pytest.mark.parametrize("mode", ANY)
def test_any_byte_address_is_legal(mode: Mode) -> None:
    """256 B is what batches of blocked layouts start at, and what is preferred elsewhere; nothing else is aligned."""
    add = Record(CtAddVV, {"dst": 33, "a": 1, "b": 17, "n": 4}, FP32)
    image = run(mode, load(dst=1, count=32), add, store(src=33), store(src=33, offset=7), tiles=1)
    assert mode == "strict" or image[:7].tobytes() == image[7:14].tobytes()


@pytest.mark.parametrize("mode", ANY)
def test_place_of_a_fault(mode: Mode) -> None:
    """Tiles 2 and 3 go out of bounds in the second turn of the inner loop; the fault is the first one's."""
    origin = "mul.7 at model.py:12"
    address = Record(KcAffine, {"rd": 6, "c": 0, "r1": Register(7), "k1": LIMIT})
    records = (
        Record(KcLoop, {"rd": 4, "lo": 5, "hi": 6, "step": 1}),
        Record(KcLoop, {"rd": 5, "lo": 0, "hi": 4, "step": 2}),
        Record(KcAffine, {"rd": 8, "c": 0, "r1": TILE, "k1": 1, "r2": Register(5), "k2": 1}),
        Record(KcLess, {"rd": 7, "a": 3, "b": Register(8)}),
        address,
        replace(fill(Register(6), 4), origin=origin),  # pyright: ignore[reportArgumentType]
        Record(KcEnd),
        Record(KcEnd),
    )
    with pytest.raises(Fault) as caught:
        run(mode, *records)
    place = caught.value.place
    assert (place.tile, place.record, place.engine, place.mnemonic, place.origin) == (2, 5, "TDMA", "TDMA_memset", origin)
    assert place.counters == (5, 2)
    text = str(caught.value).splitlines()
    assert text[0].startswith("fault out_of_bounds: SPM [0x2f0000, ")
    assert text[1:3] == ["  at tile 2, engine TDMA, record 5 TDMA_memset, loop counters [5, 2]", f"  from {origin}"]
    assert text[3].startswith("  look at ")


@pytest.mark.parametrize("mode", ANY)
def test_barriers(mode: Mode) -> None:
    """All tiles at one barrier, as often as they like; not some, and not at two different ones."""
    is_first = Record(KcLess, {"rd": 4, "a": TILE, "b": 1})
    only_first = (is_first, Record(KcIf, {"value": Register(4)}), Record(KcBarrier), Record(KcEndIf))
    loop = (Record(KcLoop, {"rd": 5, "lo": 0, "hi": 3, "step": 1}), Record(KcBarrier), Record(KcEnd))
    run(mode, *loop, Record(KcBarrier))
    some = (*only_first,)
    different = (*only_first, Record(KcBarrier))
    halted = (is_first, Record(KcIf, {"value": Register(4)}), Record(KcHalt), Record(KcEndIf), Record(KcBarrier))
    for records, waiting in ((some, 2), (different, 2), (halted, 4)):
        with pytest.raises(Fault, match="tiles wait at the barrier") as caught:
            run(mode, *records)
        assert caught.value.kind is FaultKind.UNEQUAL_BARRIER
        assert caught.value.place.record == waiting


@pytest.mark.parametrize("mode", FAST)
def test_stores_before_a_barrier_are_seen_after_it(mode: Mode) -> None:
    """Every tile stores its number, then loads its neighbour's."""
    at = Record(KcAffine, {"rd": 4, "c": 0, "r1": TILE, "k1": 4})
    number = Record(TdmaMemset, {"dst": 0, "value": TILE, "n": 1}, INT32)
    neighbour = (Record(KcAffine, {"rd": 5, "c": 1, "r1": TILE, "k1": 1}), Record(KcMod, {"rd": 5, "a": Register(5), "b": 4}))
    there = Record(KcAffine, {"rd": 6, "c": 0, "r1": Register(5), "k1": 4})
    out = Record(KcAffine, {"rd": 7, "c": 64, "r1": TILE, "k1": 4})
    image = run(
        mode,
        *(at, number, store(offset=Register(4), count=4), Record(KcBarrier), *neighbour, there, out),
        *(load(dst=8, slot=1, offset=Register(6), count=4), store(src=8, offset=Register(7), count=4)),
    )
    assert image[:16].view(np.int32).tolist() == [0, 1, 2, 3]
    assert image[64:80].view(np.int32).tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize("mode", ANY)
def test_damaged_code_is_refused_before_it_runs(mode: Mode) -> None:
    good = program(fill(0, 4), store(count=4))
    for word, value, words in ((0, 0xFFFF, "illegal opcode 65535"), (0, 177 | 99 << 16, "99 is not a valid Format")):
        code = good.code.copy()
        code[1, word] = value
        with pytest.raises(Fault, match=f"record 1: .*{words}") as caught:
            Emulator(CHIP, mode).run(replace(good, code=code), [np.zeros(SLOT_BYTES, np.uint8)])
        assert caught.value.kind is FaultKind.ILLEGAL_OPCODE
    unclosed = replace(good, code=program(Record(KcLoop, {"rd": 4, "lo": 0, "hi": 1, "step": 1}), Record(KcEnd)).code[:1])
    with pytest.raises(Fault, match="a block has no end"):
        Emulator(CHIP, mode).run(unclosed, [np.zeros(SLOT_BYTES, np.uint8)])
    forged = program(Record(KcLoop, {"rd": 4, "lo": 0, "hi": 3, "step": 1}), Record(KcEnd), fill(0, 4), store(count=4))
    forged.code[:, 3] = 77  # the partner of a block is found, not believed
    Emulator(CHIP, "fast" if mode == "strict" else mode).run(forged, [np.zeros(SLOT_BYTES, np.uint8)])


@pytest.mark.parametrize("mode", FAST)
def test_inputs_must_fit(mode: Mode) -> None:
    emulator, code = Emulator(CHIP, mode), program(fill(0, 4))
    emulator.run(code, [np.zeros((2, SLOT_BYTES // 8), np.float32)])
    with pytest.raises(LaunchError, match="input 0 has 8 bytes, the program wants 4096"):
        emulator.run(code, [np.zeros(8, np.uint8)])
    with pytest.raises(LaunchError, match="the program wants 1 inputs, given 0"):
        emulator.run(code, [])
