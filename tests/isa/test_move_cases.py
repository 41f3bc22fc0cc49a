"""Data movement against loops written out in Python: strided boxes of DMA, TDMA gather, scatter and memset, scalar loads."""

from itertools import product

import numpy as np
import pytest
from hand_cases import run_image
from native_cases import CHIP, IMAGE_BYTES

from hlo2tx8.device import interpret, native
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.encoding import Record, Register, encode_records
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcCall,
    KcEnd,
    KcEndIf,
    KcExit,
    KcFloorDiv,
    KcFunction,
    KcHalt,
    KcIf,
    KcLess,
    KcLoadScalar,
    KcLoop,
    KcMax,
    KcMin,
    KcMod,
    KcMul,
    KcReturn,
)
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.device.program import Program, Slot, SlotKind

RUNS = {"definition": lambda p, s: interpret.run(p, s, CHIP), "native": lambda p, s: native.run(p, s, CHIP)}
TIERS = [t for t in RUNS if t == "definition" or native.available()]


def run(records: list[Record], slots: list[np.ndarray], tier: str) -> None:
    code, origins = encode_records(records)
    bound = tuple(Slot(SlotKind.OUTPUT, i, "uint8", (s.size,), s.size) for i, s in enumerate(slots))
    RUNS[tier](Program(code, bound, (), origins, CHIP.spm_bytes), slots)


def ramp() -> np.ndarray:
    return np.random.default_rng(2).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)


BOXES = [
    {"count": 5, "s1": 7, "n1": 3, "s2": 40, "n2": 2, "s3": 100, "n3": 4},
    {"count": 16, "s1": 16, "n1": 4},
    {"count": 1, "s1": 3, "n1": 50},
    {"count": 4, "s1": 0, "n1": 6, "s2": 4, "n2": 2},
    {"count": 3, "s1": 2, "n1": 2},
    {"count": 9, "s3": 10, "n3": 3},
]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("fmt", [Format.INT8, Format.BF16, Format.FP32, Format.INT64, Format.RAW128], ids=lambda f: f.name)
@pytest.mark.parametrize("box", BOXES, ids=str)
def test_dma_boxes(box: dict[str, int], fmt: Format, tier: str) -> None:
    """Strides in elements and the offset in bytes on the side of DDR, dense in SPM; any byte address will do."""
    full = {"s1": 0, "n1": 1, "s2": 0, "n2": 1, "s3": 0, "n3": 1} | box
    data, offset, size = ramp(), 13, fmt.bytes
    starts = [
        offset + (i3 * full["s3"] + i2 * full["s2"] + i1 * full["s1"]) * size
        for i3, i2, i1 in product(range(full["n3"]), range(full["n2"]), range(full["n1"]))
    ]
    run_bytes = full["count"] * size
    dense = b"".join(data[s : s + run_bytes].tobytes() for s in starts)
    out = np.zeros(IMAGE_BYTES, np.uint8)
    whole = {"offset": 0, "count": len(dense)}
    store = Record(Wdma, {"slot": 1, "src": 3, **whole}, Format.RAW8)
    run([Record(Rdma, {"dst": 3, "slot": 0, "offset": offset, **full}, fmt), store], [data, out], tier)
    assert out[: len(dense)].tobytes() == dense
    assert not out[len(dense) :].any()

    scattered = np.zeros(IMAGE_BYTES, np.uint8)
    expected = scattered.copy()
    for turn, start in enumerate(starts):  # where boxes overlap the last turn wins
        expected[start : start + run_bytes] = data[turn * run_bytes : (turn + 1) * run_bytes]
    load = Record(Rdma, {"dst": 5, "slot": 0, **whole}, Format.RAW8)
    run([load, Record(Wdma, {"slot": 1, "offset": offset, "src": 5, **full}, fmt)], [data, scattered], tier)
    assert np.array_equal(scattered, expected)


TDMA = [
    {"run_bytes": 4, "rs1": 64, "rn1": 8, "rs2": 4, "rn2": 16, "ws1": 4, "wn1": 128},  # transpose of words
    {"run_bytes": 2, "rs1": 2, "rn1": 60, "ws1": 4, "wn1": 60},  # spread narrow data to wide slots
    {"run_bytes": 64, "rs1": 0, "rn1": 5, "ws1": 64, "wn1": 5},  # expand
    {"run_bytes": 3, "rs1": 5, "rn1": 2, "rs2": 11, "rn2": 3, "rs3": 50, "rn3": 2, "ws1": 7, "wn1": 12},
    {"run_bytes": 8, "rs1": 8, "rn1": 12, "ws1": 100, "wn1": 2, "ws2": 9, "wn2": 3, "ws3": 300, "wn3": 2},
]


@pytest.mark.parametrize("dst", [4096, 65, 3])
@pytest.mark.parametrize("form", TDMA, ids=str)
def test_gather_and_scatter(form: dict[str, int], dst: int) -> None:
    """All runs are read before one is written, in the order of the turns, level 1 fastest; source and result may overlap."""
    full = {f"{side}{kind}{i}": int(kind == "n") for side in "rw" for kind in "sn" for i in (1, 2, 3)} | form
    image = ramp()

    def starts(side: str) -> list[int]:
        turns = product(*(range(full[f"{side}n{i}"]) for i in (3, 2, 1)))
        return [sum(k * full[f"{side}s{i}"] for k, i in zip(turn, (3, 2, 1), strict=True)) for turn in turns]

    expected, run_bytes = image.copy(), full["run_bytes"]
    for source, target in zip(starts("r"), starts("w"), strict=True):
        expected[dst + target : dst + target + run_bytes] = image[64 + source : 64 + source + run_bytes]
    after = run_image([Record(TdmaGatherScatter, {"dst": dst, "src": 64, **full}, Format.RAW8)], image)
    assert np.array_equal(after, expected)


@pytest.mark.parametrize("fmt", [Format.PRED, Format.BF16, Format.INT32, Format.INT64, Format.RAW128], ids=lambda f: f.name)
def test_memset(fmt: Format) -> None:
    """The low bytes of the value, in a box of elements; zeros above 64 bits; nothing between the lines."""
    value = -0x0123456789ABCDEF
    image = ramp()
    element = (value & (1 << 64) - 1).to_bytes(8, "little")[: fmt.bytes].ljust(fmt.bytes, b"\0")
    expected = image.copy()
    for j, i in product(range(3), range(2)):
        at = 33 + (j * 20 + i * 7) * fmt.bytes
        expected[at : at + 5 * fmt.bytes] = np.frombuffer(element * 5, np.uint8)
    fields = {"dst": 33, "value": value, "n": 5, "s1": 7, "n1": 2, "s2": 20, "n2": 3}
    assert np.array_equal(run_image([Record(TdmaMemset, fields, fmt)], image), expected)


SCALARS = [
    (KcFloorDiv, 7, -2, -4), (KcFloorDiv, -7, 2, -4), (KcFloorDiv, -(2**63), -1, -(2**63)),
    (KcMod, 7, -2, -1), (KcMod, -7, 2, 1), (KcMod, -(2**63), -1, 0),
    (KcMin, -1, 1, -1), (KcMax, -1, 1, 1), (KcMul, 2**62, 2, -(2**63)), (KcMul, -3, 5, -15), (KcLess, -1, 0, 1), (KcLess, 0, 0, 0),
]  # fmt: skip


def observed(records: list[Record], register: int, tier: str) -> int:
    """A register after `records`: stored as the 8 bytes of a memset."""
    out = np.zeros(8, np.uint8)
    show = Record(TdmaMemset, {"dst": 0, "value": Register(register), "n": 1}, Format.INT64)
    run([*records, show, Record(Wdma, {"slot": 0, "offset": 0, "src": 0, "count": 1}, Format.INT64)], [out], tier)
    return int(out.view(np.int64)[0])


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("cls", "a", "b", "result"), SCALARS)
def test_scalars(cls: type, a: int, b: int, result: int, tier: str) -> None:
    assert observed([Record(cls, {"rd": 7, "a": a, "b": b})], 7, tier) == result
    loaded = [Record(KcAffine, {"rd": 8, "c": a}), Record(KcAffine, {"rd": 9, "c": b})]
    assert observed([*loaded, Record(cls, {"rd": 9, "a": Register(8), "b": Register(9)})], 9, tier) == result


@pytest.mark.parametrize("tier", TIERS)
def test_registers(tier: str) -> None:
    """Register 0 stays 0, 1 is the tile, sums wrap at 64 bits."""
    assert observed([Record(KcAffine, {"rd": 0, "c": 5})], 0, tier) == 0
    assert observed([], 1, tier) == 0
    terms = {"r1": Register(5), "k1": 3, "r2": Register(5), "k2": -1, "r4": 2**62, "k4": 2}
    affine = [Record(KcAffine, {"rd": 5, "c": 10}), Record(KcAffine, {"rd": 6, "c": 2**63 - 1, **terms})]
    assert observed(affine, 6, tier) == 2**63 - 1 + 20 - 2**63


def _call(number: int) -> Record:
    return Record(KcCall, {"number": number})


@pytest.mark.parametrize("tier", TIERS)
def test_control(tier: str) -> None:
    """Loops run lo, lo + step, ... below hi, or not at all, or until an exit; branches take all but 0; halt ends all."""
    add = Record(KcAffine, {"rd": 5, "c": 0, "r1": Register(5), "k1": 100, "r2": Register(4), "k2": 1})
    loop = [Record(KcLoop, {"rd": 4, "lo": 2, "hi": 8, "step": 3}), add, Record(KcEnd)]
    assert observed(loop, 5, tier) == 205
    assert observed([Record(KcLoop, {"rd": 4, "lo": 2, "hi": 2, "step": 3}), add, Record(KcEnd)], 5, tier) == 0
    nested = [Record(KcLoop, {"rd": 6, "lo": 0, "hi": 2, "step": 1}), *loop, Record(KcEnd)]
    assert observed(nested, 5, tier) == 2050205
    below = Record(KcLess, {"rd": 7, "a": Register(4), "b": 7})
    left = [loop[0], below, Record(KcExit, {"value": Register(7)}), add, Record(KcExit, {"value": 1}), Record(KcEnd)]
    assert observed([Record(KcLoop, {**loop[0].fields, "hi": 2**63 - 1}), *left[1:]], 5, tier) == 205
    again = [Record(KcLoop, {"rd": 6, "lo": 0, "hi": 2, "step": 1}), *left, Record(KcEnd)]
    assert observed(again, 5, tier) == 2050205
    assert observed([loop[0], Record(KcExit, {"value": 0}), add, Record(KcEnd)], 5, tier) == 0
    functions = [Record(KcFunction, {"number": 0}), add, Record(KcReturn)]
    for number in range(1, 5):  # each calls the one before three times
        twice = [Record(KcLoop, {"rd": 10 + number, "lo": 0, "hi": 2, "step": 1}), _call(number - 1), Record(KcEnd)]
        functions += [Record(KcFunction, {"number": number}), *twice, _call(number - 1), Record(KcReturn)]
    one = Record(KcAffine, {"rd": 5, "c": 1, "r1": Register(5), "k1": 1})
    functions[1] = one
    assert observed([*functions, one, _call(4), _call(0)], 5, tier) == 1 + 3**4 + 1
    leaves = [Record(KcFunction, {"number": 0}), *left, Record(KcReturn)]
    assert observed([*leaves, _call(0), one], 5, tier) == 206
    for value, result in ((0, 0), (1, 7), (-5, 7)):
        branch = [Record(KcIf, {"value": value}), Record(KcAffine, {"rd": 5, "c": 7}), Record(KcEndIf)]
        assert observed(branch, 5, tier) == result
    out = np.zeros(4, np.uint8)
    store = Record(Wdma, {"slot": 0, "offset": 0, "src": 0, "count": 4}, Format.RAW8)
    fill = Record(TdmaMemset, {"dst": 0, "value": 9, "n": 4}, Format.RAW8)
    run([fill, Record(KcHalt), store], [out], tier)
    assert not out.any()


@pytest.mark.parametrize("tier", TIERS)
def test_loaded_scalars_keep_their_sign(tier: str) -> None:
    for fmt, expected in (
        (Format.INT8, -2), (Format.UINT8, 254), (Format.PRED, 254), (Format.INT16, -2), (Format.UINT16, 65534),
        (Format.INT32, -2), (Format.UINT32, 2**32 - 2), (Format.INT64, -2),
    ):  # fmt: skip
        fill = Record(TdmaMemset, {"dst": 1, "value": -2, "n": 1}, Format.INT64)
        assert observed([fill, Record(KcLoadScalar, {"rd": 6, "address": 1}, fmt)], 6, tier) == expected
