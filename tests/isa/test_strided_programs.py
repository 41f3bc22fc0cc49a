"""Random programs of strided loads and what moves their elements on: the native core, which puts such loads off and lets TDMA and
WDMA read DDR in their place, leaves the same bytes in SPM and DDR as the definition, which does one record after the other."""

import numpy as np
import pytest
from native_cases import DENSE_LEVELS, IMAGE_BYTES, run_both

from hlo2tx8.device import native
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import CtAddVV
from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.isa.kc_control import KcBarrier
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma

pytestmark = pytest.mark.skipif(not native.available(), reason=f"no native core: {native.why_not()}")

PLACES = (0, 8192, 8256, 16384, 24576)
SHAPES = ((32, 48, 1), (24, 32, 1), (32, 40, 1), (7, 33, 1), (4, 20, 12), (2, 64, 3))  # rows, columns, planes


def box(rng: np.random.Generator) -> tuple[int, int, int]:
    """Mostly the same shape, so that loads are replaced by their equals and read as a whole."""
    rows, columns, planes = SHAPES[0 if rng.random() < 0.4 else int(rng.integers(len(SHAPES)))]
    return rows, columns, planes


def transfer(rng: np.random.Generator, rows: int, columns: int, planes: int) -> dict[str, int]:
    """Rows apart in DDR, sometimes over each other."""
    pitch = int(rng.choice((columns, columns + 3, 64, 100)))
    levels = {"s1": pitch, "n1": rows, "s2": 7 * pitch, "n2": planes, "s3": 0, "n3": 1}
    return {"offset": int(rng.choice((0, 4, 1024))), "count": columns, **levels}


def short_record(rng: np.random.Generator) -> Record:
    """A few elements in the midst of what may be a load put off, or behind it."""
    n, places = (
        int(rng.integers(1, 200)),
        [int(rng.choice(PLACES)) + 4 * int(rng.integers(0, 600) * (rng.random() < 0.5)) for _ in range(3)],
    )
    match rng.integers(4):
        case 0:
            return Record(CtAddVV, {"dst": places[0], "a": places[1], "b": places[2], "n": n}, Format.FP32)
        case 1:
            return Record(TdmaMemset, {"dst": places[0], "value": n, "n": n, "s1": 0, "n1": 1, "s2": 0, "n2": 1}, Format.FP32)
        case 2:
            return Record(
                Rdma, {"dst": places[0], "slot": int(rng.integers(2)), "offset": 4 * n, "count": n, **DENSE_LEVELS}, Format.FP32
            )
        case _:
            return Record(Wdma, {"slot": 1, "src": places[0], "offset": 4 * n, "count": n, **DENSE_LEVELS}, Format.FP32)


def random_record(rng: np.random.Generator) -> Record:
    rows, columns, planes = box(rng)
    size = rows * columns * planes
    dst, a, b = (int(v) for v in rng.choice(PLACES, 3))
    match rng.choice(7, p=(0.35, 0.2, 0.15, 0.05, 0.05, 0.15, 0.05)):
        case 0:
            return Record(Rdma, {"dst": dst, "slot": int(rng.integers(2)), **transfer(rng, rows, columns, planes)}, Format.FP32)
        case 1:  # a transposition of all, of some, or of what is no box
            skip = int(rng.choice((0, 0, 0, 4, 4 * columns)))
            turns = {"rs1": 4 * columns, "rn1": rows - (skip > 4), "rs2": 4, "rn2": columns - (skip == 4)}
            write = {"ws1": 4, "wn1": turns["rn1"], "ws2": 4 * turns["rn1"], "wn2": turns["rn2"]}
            none = {"rs3": 0, "rn3": 1, "ws3": 0, "wn3": 1}
            return Record(TdmaGatherScatter, {"dst": dst, "src": a + skip, "run_bytes": 4, **turns, **write, **none}, Format.RAW8)
        case 2:
            dense = {"offset": int(rng.choice((0, 1024, 8192))), "count": size, **DENSE_LEVELS}
            turned = transfer(rng, columns, rows, planes)  # the rows of what was transposed
            levels = (dense, transfer(rng, rows, columns, planes), turned)[rng.choice(3, p=(0.5, 0.2, 0.3))]
            return Record(Wdma, {"slot": 1, "src": a, **levels}, Format.FP32)
        case 3:
            return Record(Rdma, {"dst": dst, "slot": 0, "offset": 512, "count": size, **DENSE_LEVELS}, Format.FP32)
        case 4:
            return Record(CtAddVV, {"dst": dst, "a": a, "b": b, "n": 1500}, Format.FP32)
        case 5:
            return short_record(rng)
        case _:
            return Record(KcBarrier, {}, Format.RAW8)


@pytest.mark.parametrize("seed", range(4))
def test_equals_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(50):
        image = rng.uniform(-2, 2, IMAGE_BYTES // 4).astype(np.float32).view(np.uint8)
        records = [random_record(rng) for _ in range(int(rng.integers(2, 24)))]
        expected, actual = run_both(records, image)
        wrong = np.nonzero(expected != actual)[0]
        listing = "\n".join(f"{r.kind.MNEMONIC} {r.fields}" for r in records)
        assert not wrong.size, f"{wrong.size} bytes from {wrong[:1]}\n{listing}"
