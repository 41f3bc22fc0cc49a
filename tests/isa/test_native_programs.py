"""Random programs of loads, stores and vector records on few, overlapping buffers: the native core, which fuses records and
puts loads off, leaves the same bytes in SPM and DDR as the definition, which does one record after the other."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from native_cases import CHIP, DENSE_LEVELS, IMAGE_BYTES, run_both

from hlo2tx8.device import native
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import (
    CtAddVS,
    CtAddVuV,
    CtAddVV,
    CtDivVV,
    CtMaxVV,
    CtMulVuV,
    CtMulVuVLoop,
    CtMulVV,
    CtSubVuV,
    CtSubVuVLoop,
    CtSubVV,
)
from hlo2tx8.device.isa.ct_move import CtMaskMove
from hlo2tx8.device.isa.ct_reduce import CtReduce, CtReduceAvg, CtReduceMax, CtReduceSum, ReduceDim
from hlo2tx8.device.isa.encoding import Record, encode_records
from hlo2tx8.device.isa.forms import CtVuV, CtVuVLoop, CtVV
from hlo2tx8.device.isa.kc_control import KcBarrier
from hlo2tx8.device.isa.kc_vector import KcVAdd
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, Wdma
from hlo2tx8.device.program import Program, Slot, SlotKind

pytestmark = pytest.mark.skipif(not native.available(), reason=f"no native core: {native.why_not()}")

PLACES = (0, 8192, 16384, 16392, 24576, 32768, 40960, 49152)
COUNTS = (2048, 1100, 3072)  # more than a block of a chain, which is 4 KiB


def random_record(rng: np.random.Generator) -> Record:
    """One record; most have equal counts and few addresses, so that they chain and collide."""
    n = int(COUNTS[0] if rng.random() < 0.7 else rng.choice(COUNTS))
    dst, a, b, mask = (int(v) for v in rng.choice(PLACES, 4))
    slot, offset = int(rng.integers(0, 2)), int(rng.choice((0, 1024, 1030, 2048)))
    transfer = {"offset": offset, "count": n, **DENSE_LEVELS}
    match rng.choice(12, p=(0.2, 0.12, 0.16, 0.08, 0.08, 0.04, 0.04, 0.04, 0.04, 0.06, 0.06, 0.08)):
        case 0:
            return Record(Rdma, {"dst": dst, "slot": slot, **transfer}, Format.FP32)
        case 1:
            return Record(Wdma, {"slot": 1, "src": a, **transfer}, Format.FP32)
        case 2:
            return Record(CtAddVV, {"dst": dst, "a": a, "b": b, "n": n}, Format.FP32)
        case 3:
            return Record(CtMulVV, {"dst": a, "a": a, "b": b, "n": n}, Format.FP32)
        case 4:
            return Record(CtAddVS, {"dst": dst, "a": a, "imm": 0x3FC00000, "n": n}, Format.FP32)
        case 5:
            return Record(KcVAdd, {"dst": dst, "a": a, "b": b, "n": n}, Format.INT32)
        case 6:
            return Record(CtMaskMove, {"dst": dst, "src": a, "mask": mask, "n": n}, Format.FP32)
        case 7:
            levels = {"rs1": 8, "rn1": 512, "rs2": 0, "rn2": 1, "rs3": 0, "rn3": 1}
            levels |= {"ws1": 4, "wn1": 512, "ws2": 0, "wn2": 1, "ws3": 0, "wn3": 1}
            return Record(TdmaGatherScatter, {"dst": dst, "src": a, "run_bytes": 4, **levels}, Format.RAW8)
        case 8:
            return Record(KcBarrier, {}, Format.RAW8)
        case 9:
            u = int(rng.choice((4, 24, 64)))
            return Record(CtMulVuV, {"dst": dst, "a": a, "unit": b + int(rng.choice((0, 4))), "n": n, "u": u}, Format.FP32)
        case 10:
            kind, rows = (CtReduceSum, CtReduceAvg, CtReduceMax)[rng.integers(3)], int(rng.choice((1, 2, 8)))
            sizes = {"batch": 1, "h": rows, "w": n // 64 // rows, "c": 64}
            return Record(kind, {"dst": b, "src": a, "dim": ReduceDim.W, **sizes}, Format.FP32)
        case _:
            rounds = {"n": n // 4, "u": 64, "full_n": n // 4 * 4, "full_u": 64 * 4}
            return Record(CtSubVuVLoop, {"dst": dst, "a": a, "unit": b, **rounds}, Format.FP32)


@pytest.mark.parametrize("seed", range(8))
def test_equals_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(40):
        image = rng.uniform(-2, 2, IMAGE_BYTES // 4).astype(np.float32).view(np.uint8)
        records = [random_record(rng) for _ in range(int(rng.integers(2, 30)))]
        expected, actual = run_both(records, image)
        wrong = np.nonzero(expected != actual)[0]
        listing = "\n".join(f"{r.kind.MNEMONIC} {r.fields}" for r in records)
        assert not wrong.size, f"{wrong.size} bytes from {wrong[:1]}\n{listing}"


FIRSTS = (CtAddVV, CtSubVV, CtMulVV, CtDivVV, CtAddVuV, CtSubVuV, CtMulVuV, CtSubVuVLoop, CtMulVuVLoop)


@pytest.mark.parametrize("first", FIRSTS, ids=lambda kind: kind.MNEMONIC)
def test_second_in_place_equals_definition(first: type[CtVV | CtVuV | CtVuVLoop]) -> None:
    """Two records of which the second replaces what the first wrote run as one where there is a kernel for both."""
    rng = np.random.default_rng(len(first.MNEMONIC))
    image = rng.uniform(-2, 2, IMAGE_BYTES // 4).astype(np.float32)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, 3e38], np.float32)
    image[rng.integers(0, image.size, 400)] = rng.choice(special, 400)
    for second, n, order in product((CtAddVV, CtSubVV, CtMulVV, CtMaxVV), COUNTS[:2], range(4)):
        dst, a, b, other = (int(v) for v in rng.choice(PLACES[:3] + PLACES[4:], 4, replace=False))
        if order == 3:
            dst = a
        operands = {"dst": dst, "a": a, "n": n}
        if issubclass(first, CtVuVLoop):
            operands |= {"unit": b, "n": n // 4, "u": 64, "full_n": n // 4 * 4, "full_u": 64 * 4}
        elif issubclass(first, CtVuV):
            operands |= {"unit": b, "u": int(rng.choice((24, 64)))}
        else:
            operands |= {"b": b}
        left, right = {0: (dst, other), 1: (other, dst), 2: (dst, dst), 3: (dst, other)}[order]
        records = [Record(first, operands, Format.FP32), Record(second, {"dst": dst, "a": left, "b": right, "n": n}, Format.FP32)]
        expected, actual = run_both(records, image.view(np.uint8))
        np.testing.assert_array_equal(actual, expected, f"{second.MNEMONIC} {n} {order}")


@pytest.mark.parametrize("kind", [CtReduceSum, CtReduceAvg, CtReduceMax], ids=lambda kind: kind.MNEMONIC)
def test_reduction_of_what_a_chain_writes_equals_definition(kind: type[CtReduce]) -> None:
    """Rows are reduced as soon as they are computed, unless the result lies where the chain still reads or writes."""
    rng = np.random.default_rng(len(kind.MNEMONIC))
    image = rng.uniform(-2, 2, IMAGE_BYTES // 4).astype(np.float32).view(np.uint8)
    n = 4096
    for rows, source, dst in product((1, 4, 16), (0, 16384), (0, 16384, 32768, 32768 + 4096, 49152, 49152 + 256)):
        records = [
            Record(CtAddVV, {"dst": 0, "a": 32768, "b": 16384, "n": n}, Format.FP32),
            Record(CtMulVuV, {"dst": 16384, "a": 0, "unit": 49152, "n": n, "u": 64}, Format.FP32),
            Record(
                kind, {"dst": dst, "src": source, "dim": ReduceDim.W, "batch": 1, "h": rows, "w": 64 // rows, "c": 64}, Format.FP32
            ),
        ]
        expected, actual = run_both(records, image)
        np.testing.assert_array_equal(actual, expected, f"{rows} {source} {dst}")


@pytest.mark.parametrize("address", [4096, 2 << 20], ids=["cleared", "given back"])
def test_each_run_begins_with_zeros(address: int) -> None:
    """Also where tiles leave their SPM to others at the last barrier, and however much of it they used."""
    transfer = {"offset": 0, "count": 256, **DENSE_LEVELS}
    before = Record(Wdma, {"slot": 1, "src": address, **transfer}, Format.FP32)
    load = Record(Rdma, {"dst": address, "slot": 0, **transfer}, Format.FP32)
    after = Record(CtAddVS, {"dst": address, "a": address, "imm": 0x3F800000, "n": 256}, Format.FP32)
    code, origins = encode_records([before, load, after, Record(KcBarrier, {}, Format.RAW8)])
    slots = tuple(Slot(kind, 0, "float32", (256,), 1024) for kind in (SlotKind.INPUT, SlotKind.OUTPUT))
    program = Program(code, slots, (), origins, CHIP.spm_limit)
    for tiles, threads in product((1, 16), (1, 2, 3)):
        for _ in range(3):
            output = np.full(256, 7, np.float32)
            native.run(program, [np.full(256, 5, np.float32), output], replace(CHIP, tiles=tiles), threads)
            assert not output.any()
