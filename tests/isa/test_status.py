"""Exception bits: by hand, against exact rational arithmetic, and equal in both tiers for single elements of every instruction."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import inf, isfinite, nan

import numpy as np
import pytest
from hand_cases import as_array, immediate
from native_cases import (
    CHIP,
    DENSE_LEVELS,
    IMAGE_BYTES,
    REGION_BYTES,
    make_fields,
    make_image,
    pairs,
    roundings,
    vector_instructions,
)

from hlo2tx8.device import interpret, native
from hlo2tx8.device.emulator import Emulator
from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import Engine, Instruction, ct_activation, ct_arith, ct_function, ct_relation
from hlo2tx8.device.isa.ct_logic import CtBitsAndBinary
from hlo2tx8.device.isa.ct_move import CtConvert
from hlo2tx8.device.isa.ct_reduce import CtReduceMax, CtReduceSum
from hlo2tx8.device.isa.encoding import Record, Register, encode_records
from hlo2tx8.device.isa.forms import whole_bytes
from hlo2tx8.device.isa.kc_control import KcAffine
from hlo2tx8.device.isa.kc_vector import KcVAdd
from hlo2tx8.device.isa.lsu import Rdma
from hlo2tx8.device.isa.ne import NeGemm
from hlo2tx8.device.isa.ne_conv import NeDepthwise
from hlo2tx8.device.program import Program, Slot, SlotKind
from hlo2tx8.device.status import Status

FP16, BF16, FP32 = Format.FP16, Format.BF16, Format.FP32
INF, NAN, OVER, INEXACT, RANGE = Status.INFINITE, Status.NAN, Status.OVERFLOW, Status.INEXACT, Status.OUT_OF_RANGE
TILES = 20
MANY = replace(CHIP, tiles=TILES, mesh=(1, TILES))


def program(records: list[Record]) -> Program:
    load = Record(Rdma, {"dst": 0, "slot": 0, "count": IMAGE_BYTES, "offset": 0, **DENSE_LEVELS}, Format.RAW8)
    code, origins = encode_records([load, *records])
    return Program(code, (Slot(SlotKind.INPUT, 0, "uint8", (IMAGE_BYTES,), IMAGE_BYTES),), (), origins, CHIP.spm_limit)


def statuses(records: list[Record], image: np.ndarray, tiles: int = 1) -> tuple[Status, ...]:
    """Of every tile; both tiers must agree where there are two."""
    chip = replace(MANY, tiles=tiles, mesh=(1, tiles))
    defined = interpret.run(program(records), [image], chip, keeps_status=True)
    if native.available():
        assert native.run(program(records), [image], chip, keeps_status=True) == defined, records[-1]
    return defined


def status(
    cls: type[Instruction], sources: Mapping[str, list[float]], fmt: Format, *, source: Format | None = None, **fields: int
) -> Status:
    """Of one instruction whose sources hold these values."""
    image = np.zeros(IMAGE_BYTES, np.uint8)
    num, source = 0, fmt if source is None else source
    for name, values in sources.items():
        data = as_array(values, source)
        at = {"src": 1, "a": 1, "b": 2, "unit": 2}[name] * REGION_BYTES
        image[at : at + data.nbytes] = data.view(np.uint8)
        num = num or data.size
    given = make_fields(cls, num, {}) | fields
    (bits,) = statuses([Record(cls, given, fmt, source if cls.FORMATS2 else Format.INT8)], image)
    return bits


BINARY = [
    (ct_arith.CtAddVV, FP32, 1, 2, Status.NONE),
    (ct_arith.CtAddVV, FP32, 1, 2**-30, INEXACT),
    (ct_arith.CtAddVV, FP32, 1e38, 2**-149, INEXACT),
    (ct_arith.CtAddVV, FP32, 2**-149, 2**-149, Status.NONE),
    (ct_arith.CtAddVV, BF16, 3e38, 3e38, INF | OVER | INEXACT),
    (ct_arith.CtAddVV, FP16, inf, 1, INF),
    (ct_arith.CtSubVV, FP16, inf, inf, Status.NONE),
    (ct_arith.CtSubVV, FP16, nan, 1, NAN),
    (ct_arith.CtSubVV, BF16, 256, 1, Status.NONE),
    (ct_arith.CtSubVV, BF16, 512, 1, INEXACT),
    (ct_arith.CtMulVV, FP32, 3, 5, Status.NONE),
    (ct_arith.CtMulVV, FP32, 1 + 2**-23, 1 + 2**-23, INEXACT),
    (ct_arith.CtMulVV, FP32, 2**-100, 2**-100, INEXACT),
    (ct_arith.CtMulVV, FP16, 256, 256, INF | OVER | INEXACT),
    (ct_arith.CtDivVV, FP32, 1, 4, Status.NONE),
    (ct_arith.CtDivVV, FP32, 1, 3, INEXACT),
    (ct_arith.CtDivVV, FP32, 1, 0, INF),
    (ct_arith.CtDivVV, FP32, 0, 0, Status.NONE),
    (ct_arith.CtDivVV, FP32, 1e38, 1e-10, INF | OVER | INEXACT),
    (ct_arith.CtMaxVV, FP32, 1, nan, NAN),
    (ct_arith.CtMaxVV, FP32, inf, 0.1, INF),
    (ct_relation.CtLtVV, FP32, nan, 1, NAN),
    (ct_relation.CtLtVV, FP32, inf, 1, Status.NONE),
]


@pytest.mark.parametrize(("cls", "fmt", "a", "b", "expected"), BINARY)
def test_two_operands(cls: type[Instruction], fmt: Format, a: float, b: float, expected: Status) -> None:
    assert status(cls, {"a": [1, a, 2], "b": [1, b, 2]}, fmt) == expected


UNARY = [
    (ct_arith.CtSqrt, FP32, 2.25, Status.NONE),
    (ct_arith.CtSqrt, FP32, 2, INEXACT),
    (ct_arith.CtSqrt, FP32, -1, Status.NONE),
    (ct_arith.CtSquare, BF16, 15, Status.NONE),
    (ct_arith.CtSquare, BF16, 17, INEXACT),
    (ct_arith.CtRecip, FP16, 0.125, Status.NONE),
    (ct_arith.CtRecip, FP16, 3, INEXACT),
    (ct_arith.CtRecip, FP16, 0, INF),
    (ct_arith.CtRecip, FP16, 2**-24, INF | OVER | INEXACT),
    (ct_arith.CtRsqrt, FP32, 0.25, Status.NONE),
    (ct_arith.CtRsqrt, FP32, 0.5, INEXACT),
    (ct_arith.CtRsqrt, FP32, 1 + 2**-23, INEXACT),
    (ct_arith.CtRsqrt, FP32, 0, INF),
    (ct_arith.CtAbs, FP32, nan, Status.NONE),
    (ct_arith.CtNeg, FP32, inf, Status.NONE),
    (ct_function.CtExp, FP16, 1, INEXACT),
    (ct_function.CtExp, FP16, 0, Status.NONE),
    (ct_function.CtExp, FP32, 100, INF | OVER | INEXACT),
    (ct_function.CtExp, FP32, inf, INF),
    (ct_function.CtLn, FP32, 0, INF),
    (ct_function.CtLn, FP32, -1, Status.NONE),
    (ct_activation.CtSoftplus, FP32, 0, INEXACT),
    (ct_activation.CtRelu, FP32, nan, NAN),
    (ct_activation.CtRelu, FP32, -1, Status.NONE),
    (ct_activation.CtLeakyRelu, FP32, 3, Status.NONE),
    (ct_activation.CtLeakyRelu, FP32, -1 / 3, INEXACT),
    (ct_activation.CtExpLowPrecision, FP32, 2, INEXACT),
]


@pytest.mark.parametrize(("cls", "fmt", "x", "expected"), UNARY)
def test_one_operand(cls: type[Instruction], fmt: Format, x: float, expected: Status) -> None:
    assert status(cls, {"src": [x]}, fmt) == expected


CONVERSIONS = [
    (FP32, BF16, [1, 1.5, -0.0], Status.NONE),
    (FP32, BF16, [1 + 2**-9], INEXACT),
    (FP32, FP16, [65536], INF | OVER | INEXACT),
    (FP32, FP16, [inf, nan], INF | NAN),
    (FP32, Format.INT8, [127, -128], Status.NONE),
    (FP32, Format.INT8, [1.5], INEXACT),
    (FP32, Format.INT8, [128], RANGE),
    (FP32, Format.INT8, [127.25], RANGE),
    (FP32, Format.INT16, [nan], NAN | RANGE),
    (FP32, Format.INT32, [-inf], RANGE),
    (Format.INT32, FP32, [2**24], Status.NONE),
    (Format.INT32, FP32, [2**24 + 1], INEXACT),
    (Format.INT32, FP16, [70000], INF | OVER | INEXACT),
    (Format.INT8, BF16, [-128, 127], Status.NONE),
]


@pytest.mark.parametrize(("source", "target", "values", "expected"), CONVERSIONS)
def test_conversions(source: Format, target: Format, values: list[float], expected: Status) -> None:
    assert status(CtConvert, {"src": values}, target, source=source) == expected


def test_forms_of_operands() -> None:
    """The immediate or the unit element counts that meets an element, no other."""
    assert status(ct_arith.CtAddVS, {"a": [1]}, FP16, imm=immediate(1 + 2**-20)) == Status.NONE  # rounded to the format first
    assert status(ct_arith.CtMulVS, {"a": [0.1]}, FP32, imm=immediate(nan)) == NAN
    assert status(ct_arith.CtDivVuV, {"a": [1, 1], "unit": [2, 4, 0]}, FP32, u=3) == Status.NONE
    assert status(ct_arith.CtDivVuV, {"a": [1, 1, 1], "unit": [2, 4, 0]}, FP32, u=3) == INF
    unit = [1.0] * 64 + [nan] * 64
    shape = {"n": 2, "full_n": 4, "full_u": 128}
    assert status(ct_arith.CtAddVuVLoop, {"a": [1, 1, 1, 1], "unit": unit}, FP32, **shape) == NAN
    assert status(ct_arith.CtAddVuVLoop, {"a": [1, 1, 1, 1], "unit": unit[:66]}, FP32, **shape) == NAN
    assert status(ct_arith.CtAddVuVLoop, {"a": [1, 1, 1, 1], "unit": [*unit[:64], 1, 1, nan]}, FP32, **shape) == Status.NONE


def test_bits_and_the_kernel_core_set_none() -> None:
    assert status(CtBitsAndBinary, {"a": [1], "b": [1]}, Format.BOOL, n=8) == Status.NONE
    assert status(KcVAdd, {"a": [nan, inf], "b": [1, 1]}, FP32) == Status.NONE


def test_bits_stay() -> None:
    """In place too: operands are judged as they were."""
    image = np.zeros(IMAGE_BYTES, np.uint8)
    image[:12] = as_array([3e38, 1, nan], FP32).view(np.uint8)
    place = {"dst": 0, "a": 0, "b": 0}
    double = Record(ct_arith.CtAddVV, place | {"n": 1}, FP32)
    assert statuses([double], image) == (INF | OVER | INEXACT,)
    assert statuses([double, double], image) == (INF | OVER | INEXACT,)
    assert statuses([double, Record(ct_relation.CtEqVV, {"dst": 64, "a": 8, "b": 4, "n": 1}, FP32)], image) == (
        INF | OVER | INEXACT | NAN,
    )
    assert statuses([Record(ct_arith.CtSubVV, {"dst": 0, "a": 4, "b": 4, "n": 1}, FP32)], image) == (Status.NONE,)


REDUCED = [([1, 2, 2**-30], Status.NONE), ([3e38, 3e38], INF | OVER), ([inf, 1], INF), ([nan, 1], NAN), ([inf, -inf], Status.NONE)]


@pytest.mark.parametrize(("x", "expected"), REDUCED)
def test_reductions(x: list[float], expected: Status) -> None:
    fields = {"dst": 0, "src": REGION_BYTES, "batch": 1, "h": 1, "w": len(x), "c": 1, "dim": 1}
    image = np.full(IMAGE_BYTES, 0xFF, np.uint8)  # padding is NaN, which nobody reads
    for i, value in enumerate(x):
        image[REGION_BYTES + 16 * i :][:4] = as_array([value], FP32).view(np.uint8)
    assert statuses([Record(CtReduceSum, fields, FP32)], image) == (expected,)
    has_infinity = any(abs(v) == inf for v in x)
    assert statuses([Record(CtReduceMax, fields, FP32)], image) == ((expected & NAN) | (INF if has_infinity else Status.NONE),)


def test_gemms() -> None:
    fields = {f.name: f.least or 0 for f in NeGemm.FIELDS} | {"dst": 0, "left": 1024, "right": 2048, "psum": 4096, "depth": 4}
    for left, right, expected in (
        ([1, 2, 3, 4], [1, 1, 1, 1 / 3], Status.NONE),
        ([3e38, 0, 0, 0], [3e38, 0, 0, 0], INF | OVER),
        ([inf, 0, 0, 0], [1, 0, 0, 0], INF),
        ([nan, 0, 0, 0], [1, 0, 0, 0], NAN),
    ):
        image = np.full(IMAGE_BYTES, 0xFF, np.uint8)
        for at, values in ((1024, left), (2048, right)):
            image[at : at + 8] = as_array(values, BF16).view(np.uint8)
        assert statuses([Record(NeGemm, fields, BF16, BF16)], image) == (expected,)
    image[4096:4112] = as_array([nan, 0, 0, 0], FP32).view(np.uint8)
    image[1024:1032] = 0
    assert statuses([Record(NeGemm, fields | {"accumulate": 1}, BF16, BF16)], image) == (NAN,)


def test_convolutions() -> None:
    """An operand is all of the image, whether a window reaches it or not."""
    fields = {f.name: f.least or 0 for f in NeDepthwise.FIELDS} | {"dst": 0, "image": 1024, "weight": 2048, "psum": 4096, "h": 2}
    for image_points, weight, expected in (
        ([1, 2], 3, Status.NONE),
        ([3e38, 1], 3e38, INF | OVER),
        ([inf, 1], 1, INF),
        ([1, nan], 1, NAN),
    ):
        image = np.full(IMAGE_BYTES, 0xFF, np.uint8)
        for at, value in ((1024, image_points[0]), (1032, image_points[1]), (2048, weight)):
            image[at : at + 2] = as_array([value], BF16).view(np.uint8)
        assert statuses([Record(NeDepthwise, fields | {"stride_h": 2}, BF16, BF16)], image) == (expected,)


@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div"])
def test_inexact_is_what_rational_arithmetic_says(operation: str) -> None:
    """One pair per tile."""
    cls = {"add": ct_arith.CtAddVV, "sub": ct_arith.CtSubVV, "mul": ct_arith.CtMulVV, "div": ct_arith.CtDivVV}[operation]
    exact = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y}[operation]
    rng = np.random.default_rng(5)
    for fmt in (FP16, BF16, FP32):
        a = as_array(rng.integers(-64, 64, TILES) * 2.0 ** rng.integers(-6, 6, TILES), fmt)
        b = as_array(rng.choice([0.5, 1, 3, 7, 2.0**-9, 0.1], TILES), fmt)
        image = np.zeros(IMAGE_BYTES, np.uint8)
        image[: a.nbytes] = a.view(np.uint8)
        image[4096 : 4096 + b.nbytes] = b.view(np.uint8)
        found = statuses(at_tile({"a": 0, "b": 4096}, cls, {"dst": 8192, "n": 1}, fmt, fmt, Rounding.NEAREST_EVEN), image, TILES)
        with np.errstate(all="ignore"):
            rounded = [float(v) for v in cls.COMPUTE(a.astype(np.float64), b.astype(np.float64)).astype(fmt.numpy_dtype)]
        for x, y, r, bits in zip(a.astype(float).tolist(), b.astype(float).tolist(), rounded, found, strict=True):
            is_exact = isfinite(r) and exact(Fraction(x), Fraction(y)) == Fraction(r)
            assert (INEXACT in bits) != is_exact, (fmt, x, y)


def at_tile(
    addresses: Mapping[str, int], cls: type[Instruction], fields: Mapping[str, int], fmt: Format, source: Format, rnd: Rounding
) -> list[Record]:
    """The instruction on operands that are, on each tile, one element further."""
    records: list[Record] = []
    registers: dict[str, Register] = {}
    for number, (name, address) in enumerate(addresses.items(), 8):
        records.append(Record(KcAffine, {"rd": number, "c": address, "r1": Register(1), "k1": source.bytes}))
        registers[name] = Register(number)
    return [*records, Record(cls, {**fields, **registers}, fmt, source, rnd)]


CLASSES = sorted({cls for cls, _, _ in vector_instructions() if cls.ENGINE is Engine.CT}, key=lambda c: c.OPCODE)


@pytest.mark.skipif(not native.available(), reason=f"no native core: {native.why_not()}")
@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_tiers_agree(cls: type[Instruction]) -> None:
    """Every tile has one element, or eight bits, of edge values."""
    least = 8 if whole_bytes("n").text in (c.text for c in cls.CONSTRAINTS) else 1
    names = {f.name for f in cls.FIELDS}
    for kind, fmt, source in vector_instructions():
        if kind is not cls:
            continue
        image, _ = make_image(cls, fmt, source)
        for place, values in zip((1, 2), pairs(source) if source is not Format.BOOL else (), strict=False):
            image[place * REGION_BYTES :][: values.nbytes] = values.view(np.uint8)
        fields = make_fields(cls, least * 8 if "full_n" in names else least, {})
        if "full_n" in names:
            fields |= {"full_n": 2 * least, "full_u": 128}
        moving = {name: region * REGION_BYTES for name, region in (("src", 1), ("a", 1), ("b", 2), ("unit", 2)) if name in names}
        for rounding in roundings(cls, fmt, source):
            statuses(at_tile(moving, cls, fields, fmt, source, rounding), image, TILES)


def test_emulator() -> None:
    code = program([Record(ct_arith.CtDivVS, {"dst": 4, "a": 0, "imm": immediate(3), "n": 1}, FP32)])
    image = np.zeros(IMAGE_BYTES, np.uint8)
    image[:4] = as_array([1], FP32).view(np.uint8)
    for mode in ("fast", "definition"):
        outputs, found = Emulator(replace(MANY, tiles=2, mesh=(1, 2)), mode).run_with_status(code, [image])
        assert (outputs, found) == ([], (INEXACT, INEXACT))
    with pytest.raises(ValueError, match="strict mode keeps no exception bits"):
        Emulator(CHIP, "strict").run_with_status(code, [image])
