"""Random programs of short records on near places: the native core, which makes such records ready before a run, leaves the
same bytes in SPM and DDR as the definition."""

import numpy as np
import pytest
from native_cases import CHIP, DENSE_LEVELS, IMAGE_BYTES, run_both

from hlo2tx8.device import native
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import CtAbs, CtAddVS, CtSubVV
from hlo2tx8.device.isa.ct_move import CtConvert
from hlo2tx8.device.isa.encoding import Record, Register, encode_records
from hlo2tx8.device.isa.kc_control import KcAffine
from hlo2tx8.device.isa.kc_move import KcVConvert, KcVSelect
from hlo2tx8.device.isa.kc_vector import KcVAdd, KcVLt
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.device.program import Program, Slot, SlotKind

pytestmark = pytest.mark.skipif(not native.available(), reason=f"no native core: {native.why_not()}")

PLACES = (0, 32, 64, 128, 130, 256, 512, 1024, 4096)
COUNTS = (16, 16, 8, 5, 64, 200, 1100)  # the last ones are long: their loads are put off


def random_record(rng: np.random.Generator) -> Record:
    n = int(rng.choice(COUNTS))
    dst, a, b, c = (int(v) for v in rng.choice(PLACES, 4))
    offset = Register(5) if rng.random() < 0.5 else int(rng.choice((0, 64, 66)))
    pitch = int(rng.choice((n, n + 3)))
    levels = {**DENSE_LEVELS, "s1": pitch, "n1": int(rng.integers(1, 4)), "s2": 7, "n2": int(rng.integers(1, 3))}
    transfer = {"slot": 1, "offset": offset, "count": n, **(levels if n < 100 else DENSE_LEVELS)}
    if rng.random() < 0.2:
        n = transfer["count"] = Register(6)
    match rng.choice(12):
        case 0:
            return Record(Rdma, {"dst": dst, **transfer, "slot": int(rng.integers(2))}, Format.FP32)
        case 1:
            return Record(Wdma, {"src": a, **transfer}, Format.FP32)
        case 2:
            return Record(CtSubVV, {"dst": dst, "a": a, "b": b, "n": n}, Format.FP32)
        case 3:
            return Record(CtAddVS, {"dst": dst, "a": a, "imm": 0x3FC00000, "n": n}, Format.BF16)
        case 4:
            return Record(CtAbs, {"dst": dst, "src": a, "n": n}, Format.FP32)
        case 5:
            return Record(CtConvert, {"dst": dst, "src": a, "n": n, "zp": 0, "seed": 0}, Format.BF16, Format.FP32)
        case 6:
            return Record(KcVConvert, {"dst": dst, "src": a, "n": n}, Format.INT32, Format.FP32)
        case 7:
            return Record(KcVLt, {"dst": dst, "a": a, "b": b, "n": n, "total": int(rng.integers(2))}, Format.FP32)
        case 8:
            return Record(KcVSelect, {"dst": dst, "pred": c, "a": a, "b": b, "n": n}, Format.INT32)
        case 9:
            return Record(KcVAdd, {"dst": dst, "a": a, "b": b, "n": n}, Format.INT32)
        case 10:
            value = int(rng.choice((0, 0x3F800000, 0xFF800000)))
            return Record(TdmaMemset, {"dst": dst, "value": value, "n": n, "s1": 0, "n1": 1, "s2": 0, "n2": 1}, Format.FP32)
        case _:
            read = {"rs1": int(rng.choice((0, 4, 8))), "rn1": 6, "rs2": 64, "rn2": 3, "rs3": 0, "rn3": 1}
            write = {"ws1": 4, "wn1": 6, "ws2": int(rng.choice((24, 32))), "wn2": 3, "ws3": 0, "wn3": 1}
            return Record(TdmaGatherScatter, {"dst": dst, "src": a, "run_bytes": 4, **read, **write}, Format.RAW8)


@pytest.mark.parametrize("seed", range(4))
def test_equals_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    none = {f"{letter}{i}": 0 for letter in "rk" for i in range(1, 5)}
    for _ in range(50):
        image = rng.uniform(-2, 2, IMAGE_BYTES // 4).astype(np.float32).view(np.uint8)
        place = Record(KcAffine, {"rd": Register(5), "c": int(rng.choice((0, 32, 128))), **none}, Format.INT8)
        size = Record(KcAffine, {"rd": Register(6), "c": int(rng.choice((3, 24, 600))), **none}, Format.INT8)
        records = [place, size, *(random_record(rng) for _ in range(int(rng.integers(2, 30))))]
        expected, actual = run_both(records, image)
        wrong = np.nonzero(expected != actual)[0]
        listing = "\n".join(f"{r.kind.MNEMONIC} {r.fields}" for r in records)
        assert not wrong.size, f"{wrong.size} bytes from {wrong[:1]}\n{listing}"


def test_a_machine_is_not_ready_for_code_that_was_written_to() -> None:
    """Machines are kept between runs, ready for the code they ran last; only what nobody can write is taken for the same."""
    image = np.arange(64, dtype=np.float32).view(np.uint8)
    transfer = {"slot": 0, "offset": 0, "count": 64, **DENSE_LEVELS}
    add = Record(CtAddVS, {"dst": 0, "a": 0, "imm": 0x3F800000, "n": 64}, Format.FP32)
    records = [Record(Rdma, {"dst": 0, **transfer}, Format.FP32), add, Record(Wdma, {"src": 0, **transfer, "slot": 1}, Format.FP32)]
    code, origins = encode_records(records)
    slots = tuple(Slot(kind, 0, "float32", (64,), 256) for kind in (SlotKind.INPUT, SlotKind.OUTPUT))
    program, found = Program(code, slots, (), origins, CHIP.spm_limit), []
    for is_written in (False, False, True):
        if is_written:
            word = np.nonzero(code[1] == 0x3F800000)[0]
            code[1, word] = 0x40000000
        output = np.zeros(64, np.float32)
        native.run(program, [image, output], CHIP, 1)
        found.append(float(output[0]))
    assert found == [1.0, 1.0, 2.0]
