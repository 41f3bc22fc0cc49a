"""CT activations, counts, extremes, conversions with a zero point or by chance; and laws nobody has published."""

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest
from hand_cases import as_array, bits, compute, run_image, unary
from native_cases import CHIP, IMAGE_BYTES

from hlo2tx8.device import interpret, native
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.faults import Fault, FaultKind
from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import INSTRUCTIONS, Instruction, ct_activation
from hlo2tx8.device.isa.ct_auxiliary import CtArgMax, CtArgMin, CtCount
from hlo2tx8.device.isa.ct_move import CtConvert
from hlo2tx8.device.isa.encoding import Record, encode_records
from hlo2tx8.device.program import Program

FP16, BF16, FP32, TF32 = Format.FP16, Format.BF16, Format.FP32, Format.TF32
INT8, INT16, INT32 = Format.INT8, Format.INT16, Format.INT32
FLOATS = (FP16, BF16, FP32, TF32)
NAN = {FP16: 0x7E00, BF16: 0x7FC0, FP32: 0x7FC00000, TF32: 0x7FC00000}


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda f: f.name)
def test_activations(fmt: Format) -> None:
    """The test's chip sets a bound of 6.2 and a slope of 0.01, which are rounded to the format first."""
    x = [-2, -0.0, 0, 1.5, 100, inf, -inf, nan]
    bound, slope = {FP16: (6.19921875, 0.01000213623046875), BF16: (6.1875, 0.010009765625)}.get(fmt, (0, 0))
    if fmt in (FP32, TF32):
        kept = 0xFFFFFFFF if fmt is FP32 else 0xFFFFE000
        nearest = np.array([6.2, 0.01], np.float32).view(np.uint32) + np.uint32(0 if fmt is FP32 else 0x1000)
        bound, slope = (nearest & np.uint32(kept)).view(np.float32).tolist()
    assert bits(unary(ct_activation.CtRelu, x, fmt)) == [*bits(as_array([0, 0, 0, 1.5, 100, inf, 0], fmt)), NAN[fmt]]
    saturated = as_array([0, 0, 0, 1.5, bound, bound, 0], fmt)
    assert bits(unary(ct_activation.CtSatRelu, x, fmt)) == [*bits(saturated), NAN[fmt]]
    leaky = as_array([-2 * slope, -0.0, 0, 1.5, 100, inf, -inf], fmt)
    assert bits(unary(ct_activation.CtLeakyRelu, x, fmt)) == [*bits(leaky), NAN[fmt]]


def test_exponential_of_low_precision() -> None:
    """In FP32 the last 13 bits are zero; elsewhere it is the correctly rounded one."""
    x = np.linspace(-20, 20, 401)
    low = unary(ct_activation.CtExpLowPrecision, x, FP32)
    assert not np.any(low.view(np.uint32) & 0x1FFF)
    assert np.max(np.abs(low / np.exp(x.astype(np.float32).astype(np.float64)) - 1)) < 2**-11 * 1.001
    for fmt in (FP16, BF16):
        half = as_array(np.linspace(-8, 8, 101), fmt)
        exact = np.exp(half.astype(np.float64)).astype(np.float32)
        assert np.array_equal(unary(ct_activation.CtExpLowPrecision, half, fmt), exact.astype(fmt.numpy_dtype))


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda f: f.name)
def test_count(fmt: Format) -> None:
    x = [0, -0.0, nan, 3, -1, inf, 0]
    assert compute(CtCount, {"src": (x, fmt)}, fmt, result=INT32)[0] == 4
    assert compute(CtCount, {"src": (x, fmt)}, fmt, result=INT32, n=0)[0] == 0


EXTREMES = [
    (CtArgMax, [1, 3, 2, 3], 1, 3.0),
    (CtArgMin, [1, -3, 2, -3], 1, -3.0),
    (CtArgMax, [-0.0, 0, 0], 1, 0.0),
    (CtArgMin, [0, -0.0, -0.0], 1, -0.0),
    (CtArgMax, [-inf, -inf], 0, -inf),
    (CtArgMin, [inf, 5, -inf], 2, -inf),
    (CtArgMax, [1, inf, nan, nan], 2, nan),
    (CtArgMin, [-inf, nan], 1, nan),
    (CtArgMin, [7], 0, 7.0),
]


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda f: f.name)
@pytest.mark.parametrize(("cls", "x", "place", "value"), EXTREMES)
def test_extremes(cls: type[Instruction], x: list[float], place: int, value: float, fmt: Format) -> None:
    image = np.zeros(IMAGE_BYTES, np.uint8)
    data = as_array(x, fmt)
    image[256 : 256 + data.nbytes] = data.view(np.uint8)
    after = run_image([Record(cls, {"dst": 0, "index": 64, "src": 256, "n": len(x)}, fmt)], image)
    assert after[64:68].view(np.int32)[0] == place
    assert bits(after[: fmt.bytes].view(fmt.numpy_dtype)) == bits(as_array([value], fmt))


# ---------------------------------------------------------------------------------------------------- conversions


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda f: f.name)
@pytest.mark.parametrize("zp", [-128, -1, 5, 127])
def test_zero_point(fmt: Format, zp: int) -> None:
    """Integers up to 255 in size, which every format holds."""
    values = np.arange(-128, 128)
    result = compute(CtConvert, {"src": (values, INT8)}, fmt, zp=zp)
    assert result.astype(np.float64).tolist() == (values - zp).tolist()


def murmur3_finalizer(h: int) -> int:
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ h >> shift) * factor & 0xFFFFFFFF
    return h ^ h >> 16


STOCHASTIC = [
    (FP32, BF16, 1 + 3 * 2.0**-10, 1.0, 1 + 2.0**-7, 3 / 8),
    (FP32, BF16, -1 - 2.0**-9, -1.0, -1 - 2.0**-7, 1 / 4),
    (FP32, TF32, 3 + 2.0**-11, 3.0, 3 + 2.0**-9, 1 / 4),
    (FP32, FP16, 2.0**-26, 0.0, 2.0**-24, 1 / 4),
    (FP32, FP16, 65504 + 8.0, 65504.0, inf, 1 / 4),
    (FP32, INT8, 2.75, 2, 3, 3 / 4),
    (FP32, INT32, -0.5, 0, -1, 1 / 2),
    (FP16, INT16, 1.125, 1, 2, 1 / 8),
    (BF16, INT32, -5.5, -5, -6, 1 / 2),
    (INT32, BF16, 257, 256.0, 258.0, 1 / 2),
    (INT16, BF16, -1027, -1024.0, -1032.0, 3 / 8),
]


@pytest.mark.parametrize(("source", "target", "x", "near", "far", "part"), STOCHASTIC)
def test_stochastic_rounding(source: Format, target: Format, x: float, near: float, far: float, part: float) -> None:
    """Away from zero where the part that is cut off, as a fraction of 32 bits, plus the hash of the element's number carries."""
    num, seed = 700, 12345
    actual = compute(CtConvert, {"src": ([x] * num, source)}, target, rounding=Rounding.STOCHASTIC, seed=seed)
    carried = [int(part * 2**32) + murmur3_finalizer(seed ^ i) >= 1 << 32 for i in range(num)]
    assert bits(actual) == bits(as_array([far if c else near for c in carried], target))
    assert abs(sum(carried) / num - part) < 0.06


def test_exact_numbers_are_not_rounded_by_chance() -> None:
    for target, x in ((BF16, [1, -0.0, inf, -inf, 256]), (INT8, [0, 5, -7, 127, -128])):
        actual = compute(CtConvert, {"src": (x * 40, FP32)}, target, rounding=Rounding.STOCHASTIC, seed=3)
        assert bits(actual) == bits(as_array(x * 40, target))
    beyond = compute(CtConvert, {"src": ([300.5, -1e9, nan, inf], FP32)}, INT8, rounding=Rounding.STOCHASTIC, seed=3)
    assert beyond.tolist() == [127, -128, 0, 127]
    quiet = np.array([0xFF812345], np.uint32).view(np.float32)
    assert bits(compute(CtConvert, {"src": (quiet, FP32)}, FP16, rounding=Rounding.STOCHASTIC)) == [NAN[FP16]]


# ------------------------------------------------------------------------------------------------- unpublished laws

UNPUBLISHED = {
    "CGRATensor_ActOp_V_V_satrelu": "satrelu_bound",
    "CGRATensor_ActOp_V_V_leakyrelu": "leakyrelu_slope",
    "CGRATensor_PeriOp_S_bV_bitcount": "bitcount",
    "CGRATensor_PeriOp_V_V_fp32_factorize": "factorize",
    "CGRATensor_PeriOp_T_T_bilinear": "bilinear",
    "CGRATensor_PeriOp_V_V_lut16": "lut_offset",
    "CGRATensor_PeriOp_V_V_lut32": "lut_offset",
    "CGRATensor_PeriOp_V_rand_gen": "rand_gen",
    "CGRATensor_PeriOp_V_V_elem_mask": "elem_mask",
    "CGRATensor_DataMoveOp_V_V_maskgather": "maskgather",
    "CGRATensor_DataMoveOp_V_bV_maskgather": "maskgather",
}
TIERS = ["definition", pytest.param("native", marks=pytest.mark.skipif(not native.available(), reason=str(native.why_not())))]


def test_instructions_without_a_published_law() -> None:
    assert {cls.MNEMONIC: cls.LAW for cls in INSTRUCTIONS if cls.LAW} == UNPUBLISHED
    assert set(UNPUBLISHED.values()) == set(vars(load_chip().laws))
    assert all(value is None for value in vars(load_chip().laws).values())


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("cls", [cls for cls in INSTRUCTIONS if cls.LAW], ids=lambda c: c.MNEMONIC)
def test_unpublished_laws_are_a_fault(cls: type[Instruction], tier: str) -> None:
    """It decodes; running it says what the chip description lacks."""
    fields = {f.name: 4096 * i if f.num_bytes else 8 for i, f in enumerate(cls.FIELDS)}
    code, origins = encode_records([Record(cls, fields, cls.FORMATS[0], origin="here")])
    program = Program(code, (), (), origins, CHIP.spm_limit)
    run = native.run if tier == "native" else interpret.run
    with pytest.raises(Fault) as caught:
        run(program, [], replace(load_chip(), tiles=1))
    assert caught.value.kind is FaultKind.UNPUBLISHED
    assert f"{cls.MNEMONIC} needs laws.{cls.LAW}" in str(caught.value)
    assert (caught.value.place.record, caught.value.place.origin) == (0, "here")
