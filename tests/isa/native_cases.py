"""Programs of one instruction on an image of SPM, run by the definition and by the native core."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from hlo2tx8.device import interpret, native
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import INSTRUCTIONS, Instruction
from hlo2tx8.device.isa.ct_pool import CtPoolForm
from hlo2tx8.device.isa.ct_reduce import CtReduce
from hlo2tx8.device.isa.encoding import Record, encode_records
from hlo2tx8.device.isa.fields import Engine, Role
from hlo2tx8.device.isa.forms import KcScalar, whole_bytes
from hlo2tx8.device.isa.kc_control import KC_CONTROL, KcAffine, KcLoadScalar
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.program import Program, Slot, SlotKind

CHIP = replace(load_chip(), tiles=1)
# With constants where instructions want some: neither is a number of a 16-bit format.
CHIP = replace(CHIP, laws=replace(CHIP.laws, satrelu_bound=6.2, leakyrelu_slope=0.01))
IMAGE_BYTES = 1 << 16
REGION_BYTES = 1 << 13
DENSE_LEVELS = {"s1": 0, "n1": 1, "s2": 0, "n2": 1, "s3": 0, "n3": 1}

FLOAT_EDGES: dict[Format, list[int]] = {
    Format.FP16: [0, 1, 0x3FF, 0x400, 0x3C00, 0x3C01, 0x3800, 0x4248, 0x5640, 0x7BFF, 0x7C00, 0x7C01, 0x7E00, 0x7FFF],
    Format.BF16: [0, 1, 0x7F, 0x80, 0x3F80, 0x3F81, 0x3F00, 0x4049, 0x42C8, 0x7F7F, 0x7F80, 0x7F81, 0x7FC0, 0x7FFF],
    Format.FP32: [
        0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x3F800001, 0x3F000000, 0x40490FDB, 0x42B17218, 0x4B000001, 0x5F000000,
        0x33800000, 0x477FF000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF,
    ],
    Format.FP64: [
        0, 1, 0xFFFFFFFFFFFFF, 0x10000000000000, 0x3FF0000000000000, 0x3FF0000000000001, 0x3FE0000000000000, 0x400921FB54442D18,
        0x40862E42FEFA39EF, 0x4330000000000001, 0x43E0000000000000, 0x41DFFFFFFFC00000, 0x47EFFFFFE0000000, 0x47EFFFFFF0000000,
        0x36A0000000000000, 0x3690000000000001, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FF0000000000001, 0x7FF8000000000000,
    ],
}  # fmt: skip
FLOAT_EDGES[Format.TF32] = FLOAT_EDGES[Format.FP32]


def edges(fmt: Format) -> np.ndarray:
    """Edge values and some random bits of a format, as bytes-compatible unsigned integers."""
    width = fmt.bytes * 8
    unsigned = np.dtype(f"u{fmt.bytes}")
    rng = np.random.default_rng(fmt.value)
    if fmt is Format.PRED:
        return np.array([0, 1, 1, 0, 1], np.uint8)
    if fmt.is_float:
        positive = np.array(FLOAT_EDGES[fmt], unsigned)
        random = rng.integers(0, 1 << min(width, 63), 40, dtype=np.uint64).astype(unsigned)
        near_one = fmt.numpy_dtype.type(1).view(unsigned) + rng.integers(-999, 999, 12).astype(unsigned)
        return np.concatenate([positive, positive | unsigned.type(1 << (width - 1)), random, near_one])
    half = 1 << (width - 1)
    values = [0, 1, 2, 3, 7, width - 1, width, width + 1, half - 1, half, half + 1, 2 * half - 1, 2 * half - 2]
    random = rng.integers(0, 1 << min(width, 63), 20, dtype=np.uint64).astype(unsigned)
    return np.concatenate([np.array(values, np.uint64).astype(unsigned), random])


def pairs(fmt: Format) -> tuple[np.ndarray, np.ndarray]:
    """Every edge value against every other."""
    values = edges(fmt)
    left, right = np.meshgrid(values, values)
    limit = REGION_BYTES // fmt.bytes - 8
    picks = np.random.default_rng(1).permutation(left.size)[:limit]
    return np.ascontiguousarray(left.ravel()[picks]), np.ascontiguousarray(right.ravel()[picks])


def run_both(records: list[Record], image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """SPM after `records` on `image`, by the definition and by the native core; twice by the definition if there is no core."""
    whole = {"count": image.size, "offset": 0, **DENSE_LEVELS}
    program_records = [
        Record(Rdma, {"dst": 0, "slot": 0, **whole}, Format.RAW8),
        *records,
        Record(Wdma, {"slot": 1, "src": 0, **whole}, Format.RAW8),
    ]
    code, origins = encode_records(program_records)
    slots = tuple(Slot(kind, 0, "uint8", (image.size,), image.size) for kind in (SlotKind.INPUT, SlotKind.OUTPUT))
    program = Program(code, slots, (), origins, CHIP.spm_limit)
    results: list[np.ndarray] = []
    definition, core = (lambda s: interpret.run(program, s, CHIP), lambda s: native.run(program, s, CHIP))
    for run in (definition, core) if native.available() else (definition,):
        output = np.zeros(image.size, np.uint8)
        run([image, output])
        results.append(output)
    return results[0], results[-1]


def vector_instructions() -> Iterator[tuple[type[Instruction], Format, Format]]:
    """(instruction, format, source format) of everything that computes on vectors in SPM and is not refused for want of a law."""
    for cls in INSTRUCTIONS:
        if cls in KC_CONTROL or issubclass(cls, KcScalar) or cls in (KcAffine, KcLoadScalar, Rdma, Wdma):
            continue
        if cls.LAW and vars(CHIP.laws)[cls.LAW] is None:
            continue
        if cls.MNEMONIC.startswith("TDMA") or issubclass(cls, (CtReduce, CtPoolForm)) or cls.ENGINE in (Engine.NE, Engine.DTE):
            continue
        for fmt in cls.FORMATS:
            for source in cls.FORMATS2 or (fmt,):
                if cls.takes(fmt, source, Rounding.NEAREST_EVEN):
                    yield cls, fmt, source


def make_image(cls: type[Instruction], fmt: Format, source: Format) -> tuple[np.ndarray, int]:
    """(SPM image with operands in regions 1, 2, 3 behind the result's region 0, element count)."""
    image = np.random.default_rng(5).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    names = {f.name for f in cls.FIELDS}
    if fmt in (Format.RAW8, Format.RAW128):
        left = right = np.random.default_rng(6).integers(0, 256, 300 * fmt.bytes, dtype=np.uint8)
        n = 300
    else:
        left, right = pairs(source)
        n = left.size
    n = min(n, REGION_BYTES // max(fmt.bytes, source.bytes) - 8)
    if whole_bytes("n").text in (c.text for c in cls.CONSTRAINTS):
        n &= ~63
    image[REGION_BYTES : REGION_BYTES + left.nbytes] = left.view(np.uint8)
    image[2 * REGION_BYTES : 2 * REGION_BYTES + right.nbytes] = right.view(np.uint8)
    flags = np.random.default_rng(7).integers(0, 3, REGION_BYTES, dtype=np.uint8)
    if names & {"pred", "mask"}:
        image[3 * REGION_BYTES : 4 * REGION_BYTES] = flags
    if "index" in names:
        n = min(n, REGION_BYTES // 4, 300)
        index = np.random.default_rng(8).integers(0, n, REGION_BYTES // 4).astype(np.int32)
        image[3 * REGION_BYTES : 4 * REGION_BYTES] = index.view(np.uint8)
    return image, n


def make_fields(cls: type[Instruction], n: int, addresses: Mapping[str, int]) -> dict[str, int]:
    """Field values: addresses as given, by default region 0 for dst, 1 and 2 for sources, 3 for masks and indices."""
    regions = {"dst": 0, "src": 1, "a": 1, "b": 2, "unit": 2, "pred": 3, "mask": 3, "index": 3}
    rest = {
        "n": n,
        "u": 64,
        "imm": 0x3FC01234,
        "exponent": 5,
        "mantissa": 4,
        "total": 0,
        "start": -3,
        "step": 7,
        "div": 3,
        "mod": 5,
        "zp": 0,
        "seed": 77,
    }
    if "full_n" in {f.name for f in cls.FIELDS}:
        n = n // 8
        rest |= {"n": n, "full_n": n * 7, "full_u": 64 * 7}
    fields: dict[str, int] = {}
    for f in cls.FIELDS:
        if f.role in (Role.SPM_READ, Role.SPM_WRITE):
            fields[f.name] = addresses.get(f.name, regions[f.name] * REGION_BYTES)
        else:
            fields[f.name] = rest[f.name]
    return fields


def roundings(cls: type[Instruction], fmt: Format, source: Format) -> tuple[Rounding, ...]:
    return tuple(rounding for rounding in Rounding if cls.takes(fmt, source, rounding))
