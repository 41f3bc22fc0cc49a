"""CT arithmetic, relations, conversions and moves on values written by hand, and against exact rational arithmetic."""

from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest
from hand_cases import as_array, binary, bits, compute, immediate, unary

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import Instruction, ct_arith, ct_relation
from hlo2tx8.device.isa.ct_move import CtConvert, CtMaskMove

FP16, BF16, FP32, TF32 = Format.FP16, Format.BF16, Format.FP32, Format.TF32
INT8, INT16, INT32 = Format.INT8, Format.INT16, Format.INT32
NAN = {FP16: 0x7E00, BF16: 0x7FC0, FP32: 0x7FC00000, TF32: 0x7FC00000}
FLOATS = tuple(NAN)
NEAREST, ZERO, UP, DOWN = list(Rounding)[:4]


@pytest.mark.parametrize(
    ("fmt", "a", "b", "total"),
    [
        (FP16, [2048, 2050, 65504, 65504, -65504], [1, 1, 15, 16, -16], [2048, 2052, 65504, inf, -inf]),
        (BF16, [256, 258, -258, 3e38], [1, 1, -1, 3e38], [256, 260, -260, inf]),
        (FP32, [16777216, 16777218, 3e38], [1, 1, 3e38], [16777216, 16777220, inf]),
        (TF32, [2048, 2050, 3e38], [1, 1, 3e38], [2048, 2052, inf]),
    ],
)
def test_sums_round_to_nearest_even_and_overflow(fmt: Format, a: list[float], b: list[float], total: list[float]) -> None:
    assert bits(binary(ct_arith.CtAddVV, a, b, fmt)) == bits(as_array(total, fmt))


@pytest.mark.parametrize("fmt", FLOATS)
def test_what_is_no_number(fmt: Format) -> None:
    assert set(bits(binary(ct_arith.CtSubVV, [inf, -inf, nan, 1], [inf, -inf, 1, nan], fmt))) == {NAN[fmt]}
    assert set(bits(binary(ct_arith.CtMulVV, [0, -inf], [inf, 0], fmt))) == {NAN[fmt]}
    assert set(bits(binary(ct_arith.CtDivVV, [0, -inf], [0, inf], fmt))) == {NAN[fmt]}
    assert set(bits(unary(ct_arith.CtSqrt, [-1, -inf], fmt))) == {NAN[fmt]}
    assert set(bits(unary(ct_arith.CtRsqrt, [-1, nan], fmt))) == {NAN[fmt]}


@pytest.mark.parametrize("fmt", FLOATS)
def test_infinities_and_zeros(fmt: Format) -> None:
    quotients = binary(ct_arith.CtDivVV, [1, -1, 1, -1, 0, 5], [0, 0, -0.0, inf, -5, -inf], fmt)
    assert bits(quotients) == bits(as_array([inf, -inf, -inf, -0.0, -0.0, -0.0], fmt))
    assert bits(unary(ct_arith.CtRecip, [0, -0.0, inf, -inf, 4], fmt)) == bits(as_array([inf, -inf, 0, -0.0, 0.25], fmt))
    assert bits(unary(ct_arith.CtSqrt, [0, -0.0, inf, 9], fmt)) == bits(as_array([0, -0.0, inf, 3], fmt))
    assert bits(unary(ct_arith.CtRsqrt, [0, -0.0, inf, 16], fmt)) == bits(as_array([inf, -inf, 0, 0.25], fmt))
    assert bits(binary(ct_arith.CtAddVV, [0, -0.0, -0.0], [-0.0, -0.0, 0], fmt)) == bits(as_array([0, -0.0, 0], fmt))
    assert bits(unary(ct_arith.CtSquare, [-3, -inf, -0.0], fmt)) == bits(as_array([9, inf, 0], fmt))


@pytest.mark.parametrize("fmt", FLOATS)
def test_order_of_zeros_and_nan(fmt: Format) -> None:
    a, b = [0, -0.0, nan, 1, -inf, 2], [-0.0, 0, 1, nan, inf, 3]
    larger, smaller = binary(ct_arith.CtMaxVV, a, b, fmt), binary(ct_arith.CtMinVV, a, b, fmt)
    assert bits(larger) == [0, 0, NAN[fmt], NAN[fmt], *bits(as_array([inf, 3], fmt))]
    negative_zero = bits(as_array([-0.0], fmt))[0]
    assert bits(smaller) == [negative_zero, negative_zero, NAN[fmt], NAN[fmt], *bits(as_array([-inf, 2], fmt))]


@pytest.mark.parametrize(("fmt", "payload", "sign"), [(FP16, 0x7C01, 0x8000), (BF16, 0x7F81, 0x8000), (FP32, 0x7F800001, 1 << 31)])
def test_abs_and_neg_act_on_bits(fmt: Format, payload: int, sign: int) -> None:
    x = np.array([payload, payload | sign, 0, sign, 1, 1 | sign], f"u{fmt.bytes}").view(fmt.numpy_dtype)
    assert bits(unary(ct_arith.CtAbs, x, fmt)) == [payload, payload, 0, 0, 1, 1]
    assert bits(unary(ct_arith.CtNeg, x, fmt)) == [payload | sign, payload, sign, 0, 1 | sign, 1]
    assert bits(binary(ct_arith.CtAddVV, x[:2], as_array([0, 0], fmt), fmt)) == [NAN[fmt]] * 2


@pytest.mark.parametrize("fmt", [FP16, BF16, FP32])
def test_subnormals_are_kept(fmt: Format) -> None:
    tiny = np.array([1, 3, 5], f"u{fmt.bytes}").view(fmt.numpy_dtype)
    assert bits(binary(ct_arith.CtAddVV, tiny, tiny, fmt)) == [2, 6, 10]
    assert bits(compute(ct_arith.CtMulVS, {"a": (tiny, fmt)}, fmt, imm=immediate(0.5))) == [0, 2, 2]
    assert bits(compute(ct_arith.CtDivVS, {"a": (tiny, fmt)}, fmt, imm=immediate(-1.0))) == [
        b | 1 << (8 * fmt.bytes - 1) for b in (1, 3, 5)
    ]


def test_operand_forms() -> None:
    """An immediate is rounded to the format; a unit repeats; a loop takes the next unit every n elements."""
    a = np.arange(8)
    assert compute(ct_arith.CtAddVS, {"a": (a, BF16)}, BF16, imm=immediate(1 + 2**-9)).tolist() == (a + 1).tolist()
    assert compute(ct_arith.CtSubVS, {"a": (a, FP32)}, FP32, imm=immediate(1 + 2**-9)).tolist() == (a - 1 - 2**-9).tolist()
    repeated = compute(ct_arith.CtSubVuV, {"a": (a, FP32), "unit": ([10, 20, 30], FP32)}, FP32, u=3)
    assert repeated.tolist() == [-10, -19, -28, -7, -16, -25, -4, -13]
    unit = np.arange(128) * 1000
    x = np.arange(256)
    shape = {"n": 128, "full_n": 256, "full_u": 128}
    rounds = compute(ct_arith.CtAddVuVLoop, {"a": (x, FP32), "unit": (unit, FP32)}, FP32, **shape)
    assert rounds.tolist() == [int(i + unit[i // 128 * 64 + i % 64]) for i in range(256)]


@pytest.mark.parametrize("fmt", FLOATS)
def test_relations(fmt: Format) -> None:
    a, b = [1, 2, 0, nan, 1, nan, inf, -inf], [1, 1, -0.0, 1, nan, nan, inf, inf]
    expected = {
        ct_relation.CtEqVV: [1, 0, 1, 0, 0, 0, 1, 0],
        ct_relation.CtNeVV: [0, 1, 0, 1, 1, 1, 0, 1],
        ct_relation.CtGeVV: [1, 1, 1, 0, 0, 0, 1, 0],
        ct_relation.CtGtVV: [0, 1, 0, 0, 0, 0, 0, 0],
        ct_relation.CtLeVV: [1, 0, 1, 0, 0, 0, 1, 1],
        ct_relation.CtLtVV: [0, 0, 0, 0, 0, 0, 0, 1],
    }
    for cls, truth in expected.items():
        assert bits(binary(cls, a, b, fmt)) == bits(as_array(truth, fmt))
    assert compute(ct_relation.CtLtVS, {"a": ([0, 1, 2, nan], fmt)}, fmt, imm=immediate(1)).astype(int).tolist() == [1, 0, 0, 0]


HALVES = [2.5, -2.5, 3.5, 0.5, -0.5, 127.4, 127.6, 128, -128.5, -129, 300, nan, inf, -inf]
CONVERSIONS = [
    (FP32, INT8, NEAREST, HALVES, [2, -2, 4, 0, 0, 127, 127, 127, -128, -128, 127, 0, 127, -128]),
    (FP32, INT8, ZERO, HALVES, [2, -2, 3, 0, 0, 127, 127, 127, -128, -128, 127, 0, 127, -128]),
    (FP32, INT8, UP, HALVES, [3, -2, 4, 1, 0, 127, 127, 127, -128, -128, 127, 0, 127, -128]),
    (FP32, INT8, DOWN, HALVES, [2, -3, 3, 0, -1, 127, 127, 127, -128, -128, 127, 0, 127, -128]),
    (FP16, INT16, DOWN, [2.5, -2.5, 65504, -65504], [2, -3, 32767, -32768]),
    (TF32, INT32, UP, [1.5, -1.5, 1e20], [2, -1, 2**31 - 1]),
    (BF16, INT8, NEAREST, [2.5, -3.5, 128, nan], [2, -4, 127, 0]),
    (BF16, INT16, ZERO, [-2.5, 40000], [-2, 32767]),
    (FP32, INT32, ZERO, [2147483520.0, 2147483648.0, -2147483648.0, -3e9], [2147483520, 2**31 - 1, -(2**31), -(2**31)]),
    (INT32, FP32, NEAREST, [16777217, 16777219, -16777217], [16777216, 16777220, -16777216]),
    (INT32, FP32, ZERO, [16777217, 16777219, -16777217], [16777216, 16777218, -16777216]),
    (INT32, FP32, UP, [16777217, 16777219, -16777217], [16777218, 16777220, -16777216]),
    (INT32, FP32, DOWN, [16777217, 16777219, -16777217], [16777216, 16777218, -16777218]),
    (INT32, FP16, NEAREST, [65519, 65520, -65520, 2049], [65504, inf, -inf, 2048]),
    (INT32, FP16, ZERO, [65520, -(2**31), 2051], [65504, -65504, 2050]),
    (INT16, BF16, UP, [257, -257, 32767], [258, -256, 32768]),
    (INT16, FP16, NEAREST, [2049, 2051, -32768], [2048, 2052, -32768]),
    (INT8, BF16, NEAREST, [-128, 127, 0], [-128, 127, 0]),
    (FP32, BF16, NEAREST, [1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 3.4e38, 1e-45], [1, 1 + 2**-6, -1, inf, 0]),
    (FP32, BF16, UP, [1 + 2**-8, -1 - 2**-8, 3.4e38, -3.4e38], [1 + 2**-7, -1, inf, -3.3895313892515355e38]),
    (FP32, BF16, DOWN, [1 + 2**-8, -1 - 2**-8, 3.4e38, -3.4e38], [1, -1 - 2**-7, 3.3895313892515355e38, -inf]),
    (FP32, BF16, ZERO, [1 + 2**-8, -1 - 2**-8, 3.4e38, inf], [1, -1, 3.3895313892515355e38, inf]),
    (FP32, TF32, NEAREST, [1 + 2**-11, 1 + 3 * 2**-11, 3.4028235e38], [1, 1 + 2**-9, inf]),
    (FP32, TF32, UP, [1 + 2**-20, -1 - 2**-20], [1 + 2**-10, -1]),
    (FP16, BF16, DOWN, [1 + 2**-8, -1 - 2**-10], [1, -1 - 2**-7]),
    (FP16, FP32, NEAREST, [2**-24, 65504, -inf], [2**-24, 65504, -inf]),
    (BF16, FP16, NEAREST, [65536, 2**-25, 3 * 2**-25], [inf, 0, 2**-23]),
]


@pytest.mark.parametrize(("source", "target", "rounding", "given", "expected"), CONVERSIONS)
def test_conversions(source: Format, target: Format, rounding: Rounding, given: list[float], expected: list[float]) -> None:
    actual = compute(CtConvert, {"src": (given, source)}, target, rounding=rounding)
    assert bits(actual) == bits(as_array(expected, target))


def test_smallest_numbers_in_every_rounding() -> None:
    tiny = np.array([1, 0x80000001], np.uint32).view(np.float32)
    for rounding, expected in ((NEAREST, [0, 0x8000]), (ZERO, [0, 0x8000]), (UP, [1, 0x8000]), (DOWN, [0, 0x8001])):
        assert bits(compute(CtConvert, {"src": (tiny, FP32)}, FP16, rounding=rounding)) == expected


def test_converted_nan_is_canonical() -> None:
    odd = np.array([0x7F800001, 0xFFC12345], np.uint32).view(np.float32)
    for rounding in (NEAREST, ZERO, UP, DOWN):
        assert bits(compute(CtConvert, {"src": (odd, FP32)}, BF16, rounding=rounding)) == [NAN[BF16]] * 2
        assert bits(compute(CtConvert, {"src": (odd, FP32)}, INT16, rounding=rounding)) == [0, 0]


def test_maskmove_keeps_what_is_not_masked() -> None:
    """Any byte but 0 is true, and of numbers all but zeros; what lay in dst stays elsewhere, bits of NaN included."""
    source = np.array([0x7F81, 0x3F80, 0x4000, 0x4040], np.uint16).view(BF16.numpy_dtype)
    moved = compute(CtMaskMove, {"src": (source, BF16), "mask": ([1, 0, -1, 0], INT8)}, BF16)
    assert bits(moved) == [0x7F81, 0, 0x4000, 0]
    moved = compute(CtMaskMove, {"src": (source, BF16), "mask": ([0, -0.0, nan, 1e-40], BF16)}, BF16)
    assert bits(moved) == [0, 0, 0x4000, 0x4040]


# -------------------------------------------------------------------------------- against exact rational arithmetic


def nearest_even(x: Fraction, mantissa: int, least_exponent: int, greatest: Fraction) -> float:
    """x rounded to `mantissa` + 1 significant bits or a multiple of 2^least_exponent; infinite beyond `greatest`."""
    if x == 0:
        return 0.0
    exponent = max((abs(x).numerator.bit_length() - x.denominator.bit_length()) - mantissa - 1, least_exponent)
    while abs(x) >= Fraction(2) ** (exponent + mantissa + 1):
        exponent += 1
    unit = Fraction(2) ** exponent
    rounded = round(x / unit) * unit  # Python rounds halves to even
    if abs(rounded) > greatest:
        return inf if x > 0 else -inf
    return float(rounded)


SHAPES = {FP16: (10, -24), BF16: (7, -133), FP32: (23, -149)}


@pytest.mark.parametrize("fmt", SHAPES)
@pytest.mark.parametrize("cls", [ct_arith.CtAddVV, ct_arith.CtSubVV, ct_arith.CtMulVV, ct_arith.CtDivVV], ids=lambda c: c.__name__)
def test_results_are_the_exact_ones_rounded_once(cls: type[Instruction], fmt: Format) -> None:
    mantissa, least = SHAPES[fmt]
    rng = np.random.default_rng(cls.OPCODE)
    raw = rng.integers(0, 1 << (8 * fmt.bytes), (2, 600)).astype(f"u{fmt.bytes}").view(fmt.numpy_dtype)
    near = (1 + rng.integers(-64, 64, (2, 300)) * 2.0**-mantissa).astype(fmt.numpy_dtype)
    a, b = (np.concatenate(pair) for pair in zip(raw, near, strict=True))
    with np.errstate(invalid="ignore"):
        usable = np.isfinite(a.astype(float)) & np.isfinite(b.astype(float)) & (b.astype(float) != 0)
    a, b = a[usable], b[usable]
    exact = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y}
    operation = exact[cls.MNEMONIC[-3:]]
    top = Fraction(float(np.array((1 << (8 * fmt.bytes - 1)) - (1 << mantissa) - 1, f"u{fmt.bytes}").view(fmt.numpy_dtype)))
    expected = [
        nearest_even(operation(Fraction(float(x)), Fraction(float(y))), mantissa, least, top) for x, y in zip(a, b, strict=True)
    ]
    actual = binary(cls, a, b, fmt).astype(np.float64).tolist()
    assert actual == expected  # zeros compare equal whatever their sign, which is tested above
