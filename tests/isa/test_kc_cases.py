"""Kernel-core vector operations on values written by hand: HLO's meaning at the edges of every integer type, and of floats."""

from math import inf, nan

import numpy as np
import pytest
from hand_cases import as_array, binary, bits, compute, unary

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Instruction, kc_function, kc_move, kc_vector
from hlo2tx8.device.isa.forms import KC_FLOATS, KC_INTEGERS

SIGNED = [f for f in KC_INTEGERS if f.is_signed]
UNSIGNED = [f for f in KC_INTEGERS if not f.is_signed]
PRED = Format.PRED


def wrap(value: int, fmt: Format) -> int:
    """A Python integer reduced to what `fmt` holds."""
    width = 8 * fmt.bytes
    low = value & ((1 << width) - 1)
    return low - (1 << width) if fmt.is_signed and low >> (width - 1) else low


def limits(fmt: Format) -> tuple[int, int, int]:
    """(least, greatest, width)."""
    width = 8 * fmt.bytes
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1, width) if fmt.is_signed else (0, (1 << width) - 1, width)


def operands(fmt: Format) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of edge values."""
    least, most, width = limits(fmt)
    edges = [least, least + 1, 0, 1, 2, 3, 7, width - 1, width, most - 1, most, *([-1, -2, -7] if fmt.is_signed else [])]
    pairs = np.array([(a, b) for a in edges for b in edges], object)
    return pairs[:, 0].astype(fmt.numpy_dtype), pairs[:, 1].astype(fmt.numpy_dtype)


def quotient(a: int, b: int) -> int:
    """Toward zero; -1 for division by zero, which is all ones where there is no sign."""
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1)


def power(a: int, b: int) -> int:
    if b < 0:
        return a**-b if abs(a) == 1 else 0
    return pow(a, b, 1 << 64)


@pytest.mark.parametrize("fmt", KC_INTEGERS, ids=lambda f: f.name)
def test_integers_against_python(fmt: Format) -> None:
    """Wrapping sums and products, division by zero, shifts by the width and beyond."""
    a, b = operands(fmt)
    width = 8 * fmt.bytes
    mask = (1 << width) - 1

    def in_range(count: int) -> bool:
        return 0 <= count < width

    model = {
        kc_vector.KcVAdd: lambda x, y: x + y,
        kc_vector.KcVSub: lambda x, y: x - y,
        kc_vector.KcVMul: lambda x, y: x * y,
        kc_vector.KcVDiv: quotient,
        kc_vector.KcVRem: remainder,
        kc_vector.KcVMax: max,
        kc_vector.KcVMin: min,
        kc_vector.KcVAnd: lambda x, y: x & y,
        kc_vector.KcVOr: lambda x, y: x | y,
        kc_vector.KcVXor: lambda x, y: x ^ y,
        kc_vector.KcVShiftLeft: lambda x, y: x << y if in_range(y) else 0,
        kc_vector.KcVShiftRightLogical: lambda x, y: (x & mask) >> y if in_range(y) else 0,
        kc_vector.KcVShiftRightArithmetic: lambda x, y: _signed(x, width) >> (y if in_range(y) else width),
        kc_vector.KcVPow: power,
    }
    for cls, f in model.items():
        expected = [wrap(f(int(x), int(y)), fmt) for x, y in zip(a, b, strict=True)]
        assert binary(cls, a, b, fmt).tolist() == expected, cls.MNEMONIC


def _signed(x: int, width: int) -> int:
    return x - (1 << width) if x >> (width - 1) == 1 else x


@pytest.mark.parametrize("fmt", KC_INTEGERS, ids=lambda f: f.name)
def test_integer_functions_against_python(fmt: Format) -> None:
    x = np.unique(operands(fmt)[0])
    width = 8 * fmt.bytes
    mask = (1 << width) - 1
    model = {
        kc_vector.KcVNeg: lambda v: -v,
        kc_vector.KcVAbs: abs,
        kc_vector.KcVNot: lambda v: ~v,
        kc_vector.KcVSign: lambda v: (v > 0) - (v < 0),
        kc_vector.KcVPopCount: lambda v: (v & mask).bit_count(),
        kc_vector.KcVCountLeadingZeros: lambda v: width - (v & mask).bit_length(),
    }
    for cls, f in model.items():
        assert unary(cls, x, fmt).tolist() == [wrap(f(int(v)), fmt) for v in x], cls.MNEMONIC


@pytest.mark.parametrize("fmt", KC_INTEGERS, ids=lambda f: f.name)
def test_integer_comparisons(fmt: Format) -> None:
    a, b = operands(fmt)
    model = {
        kc_vector.KcVEq: np.equal,
        kc_vector.KcVNe: np.not_equal,
        kc_vector.KcVGe: np.greater_equal,
        kc_vector.KcVGt: np.greater,
        kc_vector.KcVLe: np.less_equal,
        kc_vector.KcVLt: np.less,
    }
    for cls, f in model.items():
        assert np.array_equal(binary(cls, a, b, fmt, result=PRED), f(a, b).astype(np.uint8))


def test_truth_values() -> None:
    a, b = [0, 0, 1, 1], [0, 1, 0, 1]
    model: dict[type[Instruction], list[int]] = {
        kc_vector.KcVAnd: [0, 0, 0, 1],
        kc_vector.KcVOr: [0, 1, 1, 1],
        kc_vector.KcVXor: [0, 1, 1, 0],
        kc_vector.KcVAdd: [0, 1, 1, 1],
        kc_vector.KcVMul: [0, 0, 0, 1],
        kc_vector.KcVMax: [0, 1, 1, 1],
        kc_vector.KcVMin: [0, 0, 0, 1],
        kc_vector.KcVLt: [0, 1, 0, 0],
    }
    for cls, expected in model.items():
        assert binary(cls, a, b, PRED).tolist() == expected
    assert unary(kc_vector.KcVNot, [0, 1], PRED).tolist() == [1, 0]


@pytest.mark.parametrize("fmt", KC_FLOATS, ids=lambda f: f.name)
def test_orders_of_floats(fmt: Format) -> None:
    """IEEE order knows no NaN and one zero; the total order has -NaN < -inf < -0 < +0 < inf < NaN."""
    a = np.concatenate([as_array([nan], fmt), as_array([-inf, -1, -0.0, 0, 1, inf, nan], fmt)])
    a[0] = -a[0]
    left, right = (v.ravel() for v in np.meshgrid(np.arange(8), np.arange(8)))
    x, y = a[left], a[right]
    value = [nan, -inf, -1, 0, 0, 1, inf, nan]
    for cls, f in ((kc_vector.KcVLt, np.less), (kc_vector.KcVGe, np.greater_equal), (kc_vector.KcVNe, np.not_equal)):
        ieee = [int(f(value[i], value[j])) for i, j in zip(left, right, strict=True)]
        assert binary(cls, x, y, fmt, result=PRED).tolist() == ieee
        assert binary(cls, x, y, fmt, result=PRED, total=1).tolist() == f(left, right).astype(int).tolist()


@pytest.mark.parametrize("fmt", KC_FLOATS, ids=lambda f: f.name)
def test_float_functions(fmt: Format) -> None:
    x = as_array([2.5, -2.5, 0.5, -0.5, 3.5, -0.0, inf, -inf, 1.25], fmt)
    whole: dict[type[Instruction], list[float]] = {
        kc_function.KcVFloor: [2, -3, 0, -1, 3, -0.0, inf, -inf, 1],
        kc_function.KcVCeil: [3, -2, 1, -0.0, 4, -0.0, inf, -inf, 2],
        kc_function.KcVRoundNearestEven: [2, -2, 0, -0.0, 4, -0.0, inf, -inf, 1],
        kc_function.KcVRoundNearestAfz: [3, -3, 1, -1, 4, -0.0, inf, -inf, 1],
        kc_vector.KcVSign: [1, -1, 1, -1, 1, -0.0, 1, -1, 1],
    }
    for cls, expected in whole.items():
        assert bits(unary(cls, x, fmt)) == bits(as_array(expected, fmt)), cls.MNEMONIC
    assert unary(kc_vector.KcVIsFinite, as_array([1, inf, -inf, nan, 0], fmt), fmt, result=PRED).tolist() == [1, 0, 0, 0, 1]
    a, b = as_array([5.5, -5.5, 5.5, 1, inf, 3], fmt), as_array([2, 2, -2, 0, 2, inf], fmt)
    canonical = bits(as_array([nan], fmt))[0] & ~(1 << (8 * fmt.bytes - 1))
    assert bits(binary(kc_vector.KcVRem, a, b, fmt)) == [
        *bits(as_array([1.5, -1.5, 1.5], fmt)),
        canonical,
        canonical,
        *bits(as_array([3], fmt)),
    ]
    one = as_array([1, 1, 0, 0, -0.0, 2, nan], fmt)
    toward = as_array([2, 0, 1, -1, 0, 2, 1], fmt)
    up = bits(one)[0] + 1
    down = bits(one)[0] - 1
    sign = 1 << (8 * fmt.bytes - 1)
    assert bits(binary(kc_vector.KcVNextAfter, one, toward, fmt)) == [up, down, 1, sign | 1, 0, bits(one)[5], canonical]


def test_conversions() -> None:
    """Float to integer toward zero and saturating; between integers the low bits; to PRED what is not zero."""
    f32, f64, bf16 = Format.FP32, Format.FP64, Format.BF16
    cases: list[tuple[Format, Format, list[float], list[float]]] = [
        (f32, Format.UINT8, [1.9, -1.9, 256, nan, inf, -inf], [1, 0, 255, 0, 255, 0]),
        (f32, Format.INT64, [2.0**63, -(2.0**63), 1.5], [2**63 - 1, -(2**63), 1]),
        (f64, Format.UINT64, [1.8446744073709552e19, 2.0**63, -1], [2**64 - 1, 2**63, 0]),
        (f64, Format.INT32, [2147483647.9, -2147483649.0], [2**31 - 1, -(2**31)]),
        (Format.INT32, Format.INT8, [128, -129, 255, 256], [-128, 127, -1, 0]),
        (Format.INT8, Format.UINT32, [-1, 5], [2**32 - 1, 5]),
        (Format.UINT8, Format.INT16, [255], [255]),
        (f32, PRED, [0, -0.0, 0.5, nan], [0, 0, 1, 1]),
        (Format.INT64, PRED, [0, 1 << 40], [0, 1]),
        (PRED, bf16, [0, 1], [0, 1]),
        (Format.UINT64, f32, [2**64 - 1, (1 << 24) + 1, (1 << 24) + 3], [2.0**64, 1 << 24, (1 << 24) + 4]),
        (f64, f32, [1 + 2**-24, 1 + 2**-24 + 2**-40, 1e39], [1, 1 + 2**-23, inf]),
        (f32, f64, [1e-45], [1.401298464324817e-45]),
    ]
    for source, target, given, expected in cases:
        actual = compute(kc_move.KcVConvert, {"src": (np.array(given, source.numpy_dtype), source)}, target)
        assert bits(actual) == bits(np.array(expected, target.numpy_dtype)), (source.name, target.name)


@pytest.mark.parametrize("target", [Format.BF16, Format.FP16, Format.FP32])
def test_wide_integers_are_rounded_once(target: Format) -> None:
    """Just above a tie, by one bit in 64: rounding by way of FP64 or FP32 would lose it."""
    mantissa = {Format.BF16: 7, Format.FP16: 10, Format.FP32: 23}[target]
    high = 15 if target is Format.FP16 else 62
    tie = (1 << high) + (1 << (high - mantissa - 1))
    values = np.array([tie, tie + 1, -tie, -tie - 1], np.int64)
    low, next_ = 2.0**high, 2.0**high + 2.0 ** (high - mantissa)
    expected = [low, next_, -low, -next_]
    assert compute(kc_move.KcVConvert, {"src": (values, Format.INT64)}, target).astype(float).tolist() == expected


def test_reduced_precision() -> None:
    x = [1 + 2**-4, 1 + 3 * 2**-4, 1e9, -1e9, 1e-9, nan, inf, 65504.0]
    reduced = unary(kc_function.KcVReducePrecision, x, Format.FP32, exponent=5, mantissa=3)
    assert bits(reduced) == bits(as_array([1, 1.25, inf, -inf, 0, nan, inf, inf], Format.FP32))
    full = unary(kc_function.KcVReducePrecision, [1e308, -1e-310, 1 / 3], Format.FP64, exponent=11, mantissa=52)
    assert full.tolist() == [1e308, -1e-310, 1 / 3]
    tiny = [3 * 2.0**-149, -(2.0**-149), 2.0**-126 - 2.0**-149]
    kept = unary(kc_function.KcVReducePrecision, tiny, Format.FP32, exponent=8, mantissa=22)
    assert kept.tolist() == [2.0**-147, -0.0, 2.0**-126]


@pytest.mark.parametrize("fmt", [Format.PRED, Format.INT8, Format.BF16, Format.INT32, Format.FP64, Format.RAW8, Format.RAW128])
def test_select_gather_and_scatter(fmt: Format) -> None:
    rng = np.random.default_rng(1)
    raw = rng.integers(0, 2 if fmt is PRED else 256, (2, 6 * fmt.bytes)).astype(np.uint8)
    a, b = raw[0].view(fmt.numpy_dtype), raw[1].view(fmt.numpy_dtype)
    index = np.array([5, 0, 0, 3, 2, 5], np.int32)
    gathered = compute(kc_move.KcVGather, {"src": (a, fmt), "index": (index, Format.INT32)}, fmt)
    assert gathered.tobytes() == a[index].tobytes()
    scattered = compute(kc_move.KcVScatter, {"src": (a, fmt), "index": (index, Format.INT32)}, fmt)
    expected = np.zeros(6 * fmt.bytes, np.uint8).view(fmt.numpy_dtype)
    for i, value in zip(index, a, strict=True):  # the last one wins
        expected[i] = value
    assert scattered.tobytes() == expected.tobytes()
    if fmt not in (Format.RAW8, Format.RAW128):
        chosen = compute(kc_move.KcVSelect, {"a": (a, fmt), "b": (b, fmt), "pred": ([0, 1, 2, 0, 255, 1], PRED)}, fmt)
        assert chosen.tobytes() == np.where([0, 1, 1, 0, 1, 1], a, b).astype(a.dtype).tobytes()


def test_iota() -> None:
    for fmt in (Format.INT8, Format.UINT64, Format.BF16, Format.FP64):
        counted = compute(kc_move.KcVIota, {}, fmt, num=12, start=100, step=9, div=2, mod=4)
        exact = [100 + i // 2 % 4 * 9 for i in range(12)]
        expected = np.array([wrap(v, fmt) if fmt.is_integer else v for v in exact], object)
        assert bits(counted) == bits(expected.astype(fmt.numpy_dtype))
