"""Random programs of TDMA that writes something several times in a row, records that read that, and records that change it: the
native core, which reads one of the copies in place of all, leaves the same bytes as the definition."""

import numpy as np
import pytest
from native_cases import DENSE_LEVELS, IMAGE_BYTES, run_both

from hlo2tx8.device import native
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import CtAddVS, CtAddVV, CtMulVV, CtSubVuV
from hlo2tx8.device.isa.ct_reduce import CtReduceSum, ReduceDim
from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma

pytestmark = pytest.mark.skipif(not native.available(), reason=f"no native core: {native.why_not()}")

PLACES = (0, 16384, 32768, 49152)
COUNTS = (4096, 4096, 4096, 3000, 2048, 1024)


def random_record(rng: np.random.Generator) -> Record:
    dst, a, b = (int(v) for v in rng.choice(PLACES, 3))
    inside = dst + 4 * int(rng.choice((0, 64, 1000, 2048)))
    n = int(rng.choice(COUNTS))
    match rng.choice(9, p=(0.22, 0.26, 0.2, 0.06, 0.06, 0.06, 0.05, 0.05, 0.04)):
        case 0:
            period = int(rng.choice((64, 256, 1024, 2048, 96)))
            times = 4096 // period
            read = {"rs1": 0, "rn1": times, "rs2": 0, "rn2": 1, "rs3": 0, "rn3": 1}
            write = {"ws1": 4 * period, "wn1": times, "ws2": 0, "wn2": 1, "ws3": 0, "wn3": 1}
            src = a + 4 * int(rng.choice((0, 256)))
            return Record(TdmaGatherScatter, {"dst": dst, "src": src, "run_bytes": 4 * period, **read, **write}, Format.RAW8)
        case 1:
            return Record(CtMulVV, {"dst": dst, "a": a, "b": b, "n": n}, Format.FP32)
        case 2:
            return Record(CtAddVV, {"dst": dst, "a": b, "b": dst, "n": n}, Format.FP32)
        case 3:
            return Record(CtSubVuV, {"dst": dst, "a": a, "unit": b + 256, "n": n, "u": 64}, Format.FP32)
        case 4:
            return Record(CtAddVS, {"dst": inside, "a": inside, "imm": 0x3F800000, "n": int(rng.choice((8, 700)))}, Format.FP32)
        case 5:
            return Record(
                Rdma, {"dst": inside, "slot": 0, "offset": 4096, "count": int(rng.choice((100, 2048))), **DENSE_LEVELS}, Format.FP32
            )
        case 6:
            return Record(
                TdmaMemset, {"dst": inside, "value": 0x40000000, "n": 50, "s1": 0, "n1": 1, "s2": 0, "n2": 1}, Format.FP32
            )
        case 7:
            rows = {"batch": 1, "h": 16, "w": 4, "c": 64, "dim": ReduceDim.W}
            return Record(CtReduceSum, {"dst": dst, "src": a, **rows}, Format.FP32)
        case _:
            return Record(Wdma, {"slot": 1, "src": a, "offset": 8192, "count": n, **DENSE_LEVELS}, Format.FP32)


@pytest.mark.parametrize("seed", range(4))
def test_equals_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(50):
        image = rng.uniform(-1, 1, IMAGE_BYTES // 4).astype(np.float32).view(np.uint8)
        records = [random_record(rng) for _ in range(int(rng.integers(2, 24)))]
        expected, actual = run_both(records, image)
        wrong = np.nonzero(expected != actual)[0]
        listing = "\n".join(f"{r.kind.MNEMONIC} {r.fields}" for r in records)
        assert not wrong.size, f"{wrong.size} bytes from {wrong[:1]}\n{listing}"
