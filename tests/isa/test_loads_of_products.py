"""Random programs of strided and dense loads, gemms on them, and what reads or changes the same places of SPM and DDR: the
native core, which packs operands from where they lie in DDR, leaves the same bytes as the definition, which makes every copy."""

import numpy as np
import pytest
from native_cases import DENSE_LEVELS, IMAGE_BYTES, run_both

from hlo2tx8.device import native
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import CtAddVV
from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.isa.kc_control import KcBarrier
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.device.isa.ne import NeGemm

pytestmark = pytest.mark.skipif(not native.available(), reason=f"no native core: {native.why_not()}")

BF16, TF32 = Format.BF16, Format.TF32
ROWS, WIDTH = 13, 64
LEFTS, RIGHTS, SUMS = (0, 4096, 4096 + 128), (16384, 32768, 24576), (8192, 4096, 12288, 16384)


def random_record(rng: np.random.Generator, depth: int, columns: int, fmt: Format) -> Record:
    """Operands are blocks of [ROWS, 64], the last of fewer channels, and one of [depth, columns]; now and then a box has another
    shape."""
    left, right, at, other = (int(rng.choice(places)) for places in (LEFTS, RIGHTS, SUMS, LEFTS + RIGHTS + SUMS))
    slot, offset = int(rng.integers(0, 2)), int(rng.choice((0, 2, 130, 4096)))
    stride, apart = int(rng.choice((64, 128, 130))), int(rng.choice((64, ROWS * 64, 70)))
    sizes = {"rows": ROWS, "columns": columns, "depth": depth, "batch": 1, "transpose_left": 0, "transpose_right": 1}
    match rng.choice(8, p=(0.25, 0.2, 0.3, 0.05, 0.05, 0.05, 0.05, 0.05)):
        case 0:
            blocks = {"s2": apart, "n2": max(depth // WIDTH, 1)}
            levels = {"s1": stride, "n1": ROWS - int(rng.random() < 0.1), **blocks, "s3": 0, "n3": 1}
            run = min(depth, WIDTH)
            return Record(Rdma, {"dst": left, "slot": slot, "offset": offset, "count": run, **levels}, fmt)
        case 1:
            levels = {"s1": stride, "n1": depth - int(rng.random() < 0.1), "s2": 0, "n2": 1, "s3": 0, "n3": 1}
            return Record(Rdma, {"dst": right, "slot": slot, "offset": offset, "count": columns, **levels}, fmt)
        case 2:
            flags = {"accumulate": int(rng.integers(0, 2))}
            places = {"left": left, "right": right, "dst": at, "psum": int(rng.choice((at, other)))}
            return Record(NeGemm, sizes | flags | places, Format(rng.choice((Format.FP32, fmt))), fmt)
        case 3:
            dense = {"offset": offset, "count": depth * columns, **DENSE_LEVELS}
            return Record(Rdma, {"dst": int(rng.choice((right, other))), "slot": slot, **dense}, fmt)
        case 4:
            return Record(Wdma, {"slot": 1, "src": other, "offset": offset, "count": 2100, **DENSE_LEVELS}, Format.BF16)
        case 5:
            return Record(CtAddVV, {"dst": other, "a": left, "b": right, "n": int(rng.choice((40, 1000)))}, Format.FP32)
        case 6:
            return Record(
                TdmaMemset,
                {"dst": other, "value": 0, "n": int(rng.choice((64, 300))), "s1": 0, "n1": 1, "s2": 0, "n2": 1},
                Format.FP32,
            )
        case _:
            return Record(KcBarrier, {}, Format.RAW8)


@pytest.mark.parametrize(("depth", "columns", "fmt"), [(128, 64, BF16), (32, 32, BF16), (30, 64, BF16), (64, 32, TF32)])
@pytest.mark.parametrize("seed", range(3))
def test_equals_definition(seed: int, depth: int, columns: int, fmt: Format) -> None:
    rng = np.random.default_rng((seed, depth))
    for _ in range(25):
        image = (rng.standard_normal(IMAGE_BYTES // 4).astype(np.float32).view(np.uint32) & 0xFFFF0000 | 0x3F80).view(np.uint8)
        records = [random_record(rng, depth, columns, fmt) for _ in range(int(rng.integers(4, 30)))]
        expected, actual = run_both(records, image)
        wrong = np.nonzero(expected != actual)[0]
        listing = "\n".join(f"{r.kind.MNEMONIC} {r.fields}" for r in records)
        assert not wrong.size, f"{wrong.size} bytes from {wrong[:1]}\n{listing}"


def test_rows_that_tdma_interleaved_are_no_operand_in_ddr() -> None:
    """A load of many rows, of which TDMA deals two halves out in turns: it has as many points and blocks as an operand, in another
    order."""
    rows = 40
    load = {"slot": 0, "offset": 0, "count": WIDTH, "s1": 100, "n1": 2 * rows, "s2": 0, "n2": 1, "s3": 0, "n3": 1}
    row = 2 * WIDTH
    read = {"rs1": row, "rn1": rows, "rs2": row * rows, "rn2": 2, "rs3": 0, "rn3": 1}
    write = {"ws1": 2 * row, "wn1": rows, "ws2": row, "wn2": 2, "ws3": 0, "wn3": 1}
    gemm = {
        "rows": rows,
        "columns": WIDTH,
        "depth": 2 * WIDTH,
        "batch": 1,
        "transpose_left": 0,
        "transpose_right": 1,
        "accumulate": 0,
    }
    records = [
        Record(Rdma, {"dst": 8192, **load}, Format.BF16),
        Record(TdmaGatherScatter, {"dst": 0, "src": 8192, "run_bytes": row, **read, **write}, Format.RAW8),
        Record(NeGemm, gemm | {"left": 0, "right": 16384, "dst": 40960, "psum": 40960}, Format.FP32, Format.BF16),
    ]
    image = (
        np.random.default_rng(0).standard_normal(IMAGE_BYTES // 4).astype(np.float32).view(np.uint32) & 0xFFFF0000 | 0x3F80
    ).view(np.uint8)
    expected, actual = run_both(records, image)
    assert expected.tobytes() == actual.tobytes()
