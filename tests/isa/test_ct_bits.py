"""CT logic, relations as packed bools and conversions of them, by hand: element i is bit i mod 8 of byte i div 8."""

from math import inf, nan

import numpy as np
import pytest
from hand_cases import as_array, bits, compute, immediate

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Instruction, ct_logic
from hlo2tx8.device.isa import ct_relation_bits as relation
from hlo2tx8.device.isa.ct_auxiliary import CtBitToFloat

FLOATS = (Format.FP16, Format.BF16, Format.FP32, Format.TF32)
BOOL = Format.BOOL
A, B = [1, 2, 0, nan, 1, nan, inf, -inf], [1, 1, -0.0, 1, nan, nan, inf, inf]
RELATIONS: list[tuple[type[Instruction], int]] = [
    (relation.CtBitsEqVV, 0b01000101),
    (relation.CtBitsNeVV, 0b10111010),
    (relation.CtBitsGeVV, 0b01000111),
    (relation.CtBitsGtVV, 0b00000010),
    (relation.CtBitsLeVV, 0b11000101),
    (relation.CtBitsLtVV, 0b10000000),
]
TRUTH: list[tuple[type[Instruction], list[int]]] = [
    (ct_logic.CtAndVV, [0, 0, 0, 1, 0, 1, 0]),
    (ct_logic.CtOrVV, [1, 0, 1, 1, 1, 1, 1]),
    (ct_logic.CtXorVV, [1, 0, 1, 0, 1, 0, 1]),
]


def bitwise(cls: type[Instruction], n: int, **sources: list[int]) -> list[int]:
    """The first bytes of dst, as many as a source has, after n packed bools."""
    return compute(cls, {name: (np.array(s, np.uint8), BOOL) for name, s in sources.items()}, BOOL, n=n).tolist()


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda f: f.name)
@pytest.mark.parametrize(("cls", "byte"), RELATIONS)
def test_relations(cls: type[Instruction], byte: int, fmt: Format) -> None:
    result = compute(cls, {"a": (A * 3, fmt), "b": (B * 3, fmt)}, fmt, result=BOOL, n=16)
    assert result[:3].tolist() == [byte, byte, 0]


def test_forms_of_relations() -> None:
    x = np.arange(16)
    bf16, fp32 = Format.BF16, Format.FP32
    assert compute(relation.CtBitsLtVS, {"a": (x, bf16)}, bf16, result=BOOL, imm=immediate(3)).tolist()[:2] == [0b111, 0]
    repeated = compute(relation.CtBitsGeVuV, {"a": (x, fp32), "unit": ([0, 1, 100], fp32)}, fp32, result=BOOL, u=3)
    assert repeated.tolist()[:2] == [0b11011011, 0b10110110]
    unit = np.arange(128)
    shape = {"n": 128, "full_n": 256, "full_u": 128}
    looped = compute(relation.CtBitsEqVuVLoop, {"a": (np.arange(256), fp32), "unit": (unit, fp32)}, fp32, result=BOOL, **shape)
    assert looped.tolist()[:32] == [255] * 8 + [0] * 24  # of round 1 the unit holds 64 .. 127, the elements 128 .. 255


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda f: f.name)
@pytest.mark.parametrize(("cls", "expected"), TRUTH)
def test_truth(cls: type[Instruction], expected: list[int], fmt: Format) -> None:
    """Zeros are false; NaN, infinity and the smallest subnormal number are true."""
    tiny = float(np.array(1, f"u{fmt.bytes}").view(fmt.numpy_dtype)) if fmt is not Format.TF32 else 2.0**-126
    a, b = [0, -0.0, nan, inf, tiny, -3, 1], [1, 0, -0.0, nan, 0, tiny, -0.0]
    assert bits(compute(cls, {"a": (a, fmt), "b": (b, fmt)}, fmt)) == bits(as_array(expected, fmt))


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda f: f.name)
def test_not_and_units(fmt: Format) -> None:
    assert compute(ct_logic.CtNot, {"src": ([0, -0.0, nan, 2], fmt)}, fmt).tolist() == [1, 1, 0, 0]
    x = [0, 1, 2, 0, 0, 5]
    assert compute(ct_logic.CtAndVuV, {"a": (x, fmt), "unit": ([1, 0], fmt)}, fmt, u=2).tolist() == [0, 0, 1, 0, 0, 0]
    assert compute(ct_logic.CtOrVuV, {"a": (x, fmt), "unit": ([1, 0], fmt)}, fmt, u=2).tolist() == [1, 1, 1, 0, 1, 1]
    shape = {"n": 64, "full_n": 128, "full_u": 128}
    halves = np.repeat([0, 1], 64)
    looped = compute(ct_logic.CtXorVuVLoop, {"a": (np.ones(128), fmt), "unit": (halves, fmt)}, fmt, **shape)
    assert looped.tolist() == [1] * 64 + [0] * 64


def test_bitwise() -> None:
    a, b = [0b11001100, 0xFF, 0x0F], [0b10101010, 0x00, 0xF0]
    assert bitwise(ct_logic.CtBitsAndBinary, 24, a=a, b=b) == [0b10001000, 0, 0]
    assert bitwise(ct_logic.CtBitsOrBinary, 24, a=a, b=b) == [0b11101110, 255, 255]
    assert bitwise(ct_logic.CtBitsXorBinary, 16, a=a, b=b) == [0b01100110, 255, 0]
    assert bitwise(ct_logic.CtBitsNot, 16, src=a) == [0b00110011, 0, 0]


def test_bitwise_units() -> None:
    source = {"a": (np.array([0xFF, 0x0F, 0xF0, 0x3C, 0x81], np.uint8), BOOL)}
    unit = {"unit": (np.array([0xAA, 0x0F], np.uint8), BOOL)}
    ands = compute(ct_logic.CtBitsAndUnit, source | unit, BOOL, n=40, u=16)
    assert ands.tolist() == [0xAA, 0x0F, 0xA0, 0x0C, 0x80]
    xors = compute(ct_logic.CtBitsXorUnit, source | unit, BOOL, n=40, u=8)
    assert xors.tolist() == [0x55, 0xA5, 0x5A, 0x96, 0x2B]
    rounds = {"a": (np.arange(32, dtype=np.uint8), BOOL), "unit": (np.repeat([0, 0x80], 8).astype(np.uint8), BOOL)}
    looped = compute(ct_logic.CtBitsOrUnitLoop, rounds, BOOL, n=128, u=64, full_n=256, full_u=128)
    assert looped.tolist() == [*range(16), *(i | 0x80 for i in range(16, 32))]


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda f: f.name)
def test_bits_to_numbers(fmt: Format) -> None:
    result = compute(CtBitToFloat, {"src": (np.array([0b10000101, 0xFF, 0xFF], np.uint8), BOOL)}, fmt, num=16, n=16)
    assert result.tolist() == [1, 0, 1, 0, 0, 0, 0, 1, *[1] * 8]
