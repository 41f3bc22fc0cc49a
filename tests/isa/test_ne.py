"""Gemm: both tiers against a model that sums with fractions, one product after the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, isinf, isnan, nan

import numpy as np
import pytest
from native_cases import CHIP, run_both

from hlo2tx8.device import interpret
from hlo2tx8.device.faults import Fault, FaultKind
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.encoding import Record, encode_records
from hlo2tx8.device.isa.ne import NE_RESULTS, NeGemm, NeGemmQuantised
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.device.program import Program

FP16, BF16, TF32, FP32 = Format.FP16, Format.BF16, Format.TF32, Format.FP32
INT8, INT32 = Format.INT8, Format.INT32
IMAGE_BYTES = 5 << 18
LEFT, RIGHT, PSUM, DST = 0, 1 << 18, 2 << 18, 3 << 18
# Mantissa bits, least exponent of a unit in the last place, of a format.
SHAPES = {FP32: (23, -149), TF32: (10, -136), BF16: (7, -133), FP16: (10, -24), Format.FP64: (52, -1074)}
LARGEST = {FP16: Fraction(65504)}


@dataclass(frozen=True)
class Number:
    """A float: its value, or an infinity or NaN, and its sign where it is zero."""

    value: Fraction
    special: float = 0.0
    is_minus_zero: bool = False

    @staticmethod
    def of(x: float) -> "Number":
        if not isfinite(x):
            return Number(Fraction(0), x)
        return Number(Fraction(x), 0.0, x == 0 and str(x)[0] == "-")


def rounded(x: Fraction, fmt: Format, toward_zero: bool, is_minus_zero: bool = False) -> Number:
    """x in a format, nearest even or toward zero; `is_minus_zero`: the sign if x is zero."""
    if x == 0:
        return Number(x, 0.0, is_minus_zero)
    mantissa, least = SHAPES[fmt]
    magnitude = abs(x)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - mantissa, least)
    whole = magnitude // unit
    rest = magnitude / unit - whole
    if not toward_zero and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)):
        whole += 1
    most = LARGEST.get(fmt, (2 - Fraction(1, 1 << mantissa)) * Fraction(2) ** 127)
    value = whole * unit
    if fmt is not Format.FP64 and value > most:
        if not toward_zero:
            return Number(Fraction(0), inf if x > 0 else -inf)
        value = most
    return Number(value if x > 0 else -value, 0.0, value == 0 and x < 0)


def is_negative(x: Number) -> bool:
    return x.special < 0 if x.special else x.is_minus_zero or x.value < 0


def multiply(a: Number, b: Number) -> Number:
    """Exact; zeros have the sign of the signs' product."""
    if a.special or b.special:
        return Number(Fraction(0), nan if nan_like(a, b) else inf * (-1 if is_negative(a) != is_negative(b) else 1))
    value = a.value * b.value
    return Number(value, 0.0, value == 0 and is_negative(a) != is_negative(b))


def nan_like(a: Number, b: Number) -> bool:
    """NaN in, or infinity times zero."""
    if isnan(a.special) or isnan(b.special):
        return True
    return (not a.special and a.value == 0) or (not b.special and b.value == 0)


def add(a: Number, b: Number, fmt: Format, toward_zero: bool) -> Number:
    if a.special or b.special:
        if isnan(a.special) or isnan(b.special) or (isinf(a.special) and isinf(b.special) and a.special != b.special):
            return Number(Fraction(0), nan)
        return Number(Fraction(0), a.special or b.special)
    return rounded(a.value + b.value, fmt, toward_zero, a.is_minus_zero and b.is_minus_zero)


def model(left: Sequence[float], right: Sequence[float], psum: float, fmt: Format, result: Format) -> float:
    """One element of a product: blocks of 16, the last one filled with zeros."""
    a, b = ([Number.of(float(x)) for x in row] + [Number(Fraction(0))] * (-len(row) % 16) for row in (left, right))
    acc = Number.of(psum)
    for start in range(0, len(a), 16):
        products = [multiply(x, y) for x, y in zip(a[start : start + 16], b[start : start + 16], strict=True)]
        first = products[0]
        if fmt is FP16:
            s = first
            for product in products[1:]:
                s = add(s, product, Format.FP64, toward_zero=False)
            s = s if s.special else rounded(s.value, FP32, toward_zero=True, is_minus_zero=s.is_minus_zero)
        else:
            s = first if first.special else rounded(first.value, FP32, toward_zero=True, is_minus_zero=first.is_minus_zero)
            for product in products[1:]:
                s = add(s, product, FP32, toward_zero=True)
        acc = add(acc, s, FP32, toward_zero=True)
    out = acc if acc.special else rounded(acc.value, result, toward_zero=False, is_minus_zero=acc.is_minus_zero)
    return out.special or (-0.0 if out.is_minus_zero else float(out.value))


def run(
    left: np.ndarray,
    right: np.ndarray,
    fmt: Format,
    result: Format,
    *,
    psum: np.ndarray | None = None,
    transpose_left: bool = False,
    transpose: bool = False,
    kind: type[NeGemm | NeGemmQuantised] = NeGemm,
    places: tuple[int, int, int, int] = (LEFT, RIGHT, PSUM, DST),
    **fields: int,
) -> np.ndarray:
    """[batch, M, N] of left [batch, M, K] and right [batch, N, K], by both tiers."""
    (batch, m, k), n = left.shape, right.shape[1]
    image = np.random.default_rng(1).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    stored = right.swapaxes(1, 2) if transpose else right
    sums = NE_RESULTS[fmt][-1]
    # operands lie apart, results may overlap them
    operands = [(places[0], left.swapaxes(1, 2) if transpose_left else left, fmt), (places[1], stored, fmt)]
    operands += [(places[2], psum, sums)] if psum is not None else []
    for at, values, stored_fmt in operands:
        layout = Blocked(stored_fmt, *values.shape)
        data = layout.pack(np.ascontiguousarray(values))
        ones = np.full((*values.shape, stored_fmt.bytes), 1, np.uint8).view(stored_fmt.numpy_dtype)[..., 0]
        here = slice(at, at + data.size)
        image[here] = np.where(layout.pack(ones) != 0, data, image[here])  # padding keeps its random bytes
    given = {"left": places[0], "right": places[1], "psum": places[2], "dst": places[3]}
    given |= {"rows": m, "columns": n, "depth": k, "batch": batch}
    given |= {"transpose_left": int(transpose_left), "transpose_right": int(transpose), "accumulate": int(psum is not None)}
    expected, actual = run_both([Record(kind, given | fields, result, fmt)], image)
    wrong = np.nonzero(expected != actual)[0]
    assert not wrong.size, f"{wrong.size} bytes differ between the tiers, the first at {wrong[0]:#x}"
    layout = Blocked(result, batch, m, n)
    data = expected[places[3] : places[3] + layout.size_bytes]
    for b in range(batch):
        at = b * layout.batch_stride_bytes
        packed = layout.pack(layout.unpack(data))
        assert np.array_equal(packed[at : at + layout.batch_bytes], data[at : at + layout.batch_bytes]), "padding is zero"
    outside = np.ones(IMAGE_BYTES, bool)
    for b in range(batch):
        outside[places[3] + b * layout.batch_stride_bytes :][: layout.batch_bytes] = False
    assert np.array_equal(expected[outside], image[outside]), "nothing else is written"
    return layout.unpack(data)


def check(left: np.ndarray, right: np.ndarray, fmt: Format, result: Format, psum: np.ndarray | None = None, **more: bool) -> None:
    """Every element equals the model, bit for bit."""
    actual = run(left, right, fmt, result, psum=psum, **more)
    start = np.zeros(actual.shape, np.float32) if psum is None else psum
    x, y = (v.astype(np.float64) for v in (left, right))
    if fmt is TF32:
        x, y = ((v.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64) for v in (left, right))
    expected = [model(list(x[b, i]), list(y[b, j]), float(start[b, i, j]), fmt, result) for b, i, j in np.ndindex(actual.shape)]
    with np.errstate(all="ignore"):
        wanted = np.array(expected).astype(result.numpy_dtype).reshape(actual.shape)
    size = result.bytes
    bits, wanted_bits = actual.view(f"u{size}").copy(), wanted.view(f"u{size}").copy()
    canonical = np.array(np.nan, result.numpy_dtype).view(f"u{size}")
    wanted_bits[np.isnan(wanted.astype(np.float64))] = canonical & ((1 << (8 * size - 1)) - 1)
    wrong = np.argwhere(bits != wanted_bits)
    assert not len(wrong), f"{len(wrong)} differ, {tuple(wrong[0])}: {actual[tuple(wrong[0])]} for {wanted[tuple(wrong[0])]}"


def draw(rng: np.random.Generator, shape: tuple[int, ...], fmt: Format, spread: int = 8) -> np.ndarray:
    """Floats of both signs over 2^-spread..2^spread; of TF32 with bits that are dropped."""
    values = rng.uniform(1, 2, shape) * np.exp2(rng.integers(-spread, spread, shape)) * rng.choice([-1, 1], shape)
    return values.astype(fmt.numpy_dtype)


FLOATS = [(fmt, result) for fmt in (BF16, FP16, TF32) for result in NE_RESULTS[fmt]]


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(("fmt", "result"), FLOATS, ids=lambda f: f.name)
def test_odd_shapes(fmt: Format, result: Format, transpose: bool) -> None:
    rng = np.random.default_rng(fmt)
    for m, n, k in ((1, 1, 1), (3, 5, 15), (5, 3, 16), (2, 3, 33), (9, 7, 70), (1, 37, 17), (2, 2, 131)):
        check(draw(rng, (1, m, k), fmt), draw(rng, (1, n, k), fmt), fmt, result, transpose=transpose)


@pytest.mark.parametrize("fmt", [BF16, FP16, TF32])
def test_batches_and_psum(fmt: Format) -> None:
    """K split over two instructions continues the chain: at a multiple of 16 it changes nothing."""
    rng = np.random.default_rng(7)
    left, right = draw(rng, (2, 3, 83), fmt), draw(rng, (2, 5, 83), fmt)
    psum = draw(rng, (2, 3, 5), FP32, 20)
    check(left, right, fmt, FP32, psum)
    check(left, right, fmt, NE_RESULTS[fmt][0], psum)
    first = run(left[..., :48], right[..., :48], fmt, FP32)
    assert np.array_equal(run(left[..., 48:], right[..., 48:], fmt, FP32, psum=first), run(left, right, fmt, FP32))


@pytest.mark.parametrize("fmt", [BF16, FP16, TF32])
def test_special_values(fmt: Format) -> None:
    """Infinities, NaN, both zeros, subnormals, and sums beyond the largest number, which end at it."""
    info = np.finfo(fmt.numpy_dtype) if fmt is not BF16 else None
    large = 3e38 if info is None or fmt is TF32 else float(info.max)
    tiny = 1e-40 if fmt is not FP16 else 6e-8
    values = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, large, -large, tiny, -tiny, 3 * tiny])
    rng = np.random.default_rng(3)
    for k in (1, 2, 16, 18):
        left = rng.choice(values, (1, 12, k)).astype(fmt.numpy_dtype)
        right = rng.choice(values, (1, 9, k)).astype(fmt.numpy_dtype)
        for result in NE_RESULTS[fmt]:
            check(left, right, fmt, result)
            finite = [np.where(np.isfinite(v.astype(np.float64)), v, np.asarray(large, v.dtype)) for v in (left, right)]
            check(finite[0], finite[1], fmt, result, rng.choice([-0.0, 1e-45, -3.4e38, 3.4e38], (1, 12, 9)).astype(np.float32))


@pytest.mark.parametrize("fmt", [BF16, TF32])
def test_far_apart_summands(fmt: Format) -> None:
    """What a double cannot hold still decides the way: 1 - 2^-60 is 1 - 2^-24 toward zero."""
    rng = np.random.default_rng(11)
    check(draw(rng, (1, 4, 40), fmt, 60), draw(rng, (1, 5, 40), fmt, 60), fmt, FP32)
    row = np.array([[[1.0, 2.0**-30]]]).astype(fmt.numpy_dtype)
    other = np.array([[[1.0, -(2.0**-30)]]]).astype(fmt.numpy_dtype)
    assert run(row, other, fmt, FP32)[0, 0, 0] == np.float32(1 - 2.0**-24)


@pytest.mark.parametrize("fmt", [BF16, FP16, TF32])
@pytest.mark.parametrize("shape", [(41, 75, 100), (270, 9, 20), (2, 1040, 7), (9, 34, 700)], ids=str)
def test_more_than_is_computed_at_once(fmt: Format, shape: tuple[int, int, int]) -> None:
    """Many rows, columns, or elements along k; some results against the model, all between the tiers."""
    m, n, k = shape
    rng = np.random.default_rng(2)
    left, right = draw(rng, (1, m, k), fmt), draw(rng, (1, n, k), fmt)
    for transpose_left, transpose in ((False, False), (False, True), (True, False), (True, True)):
        actual = run(left, right, fmt, FP32, transpose=transpose, transpose_left=transpose_left)
        for i, j in ((0, 0), (m - 1, n - 1), (m - 2, n // 2), (m // 2, min(n - 1, 64))):
            x, y = (v.astype(np.float64) for v in (left[0, i], right[0, j]))
            if fmt is TF32:
                x, y = ((v.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for v in (left[0, i], right[0, j]))
            assert actual[0, i, j] == model(list(x), list(y), 0.0, fmt, FP32)


def random_int8(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


@pytest.mark.parametrize(("transpose_left", "transpose"), [(False, False), (True, False), (False, True), (True, True)])
def test_int8(transpose_left: bool, transpose: bool) -> None:
    rng = np.random.default_rng(5)
    transposed = {"transpose_left": transpose_left, "transpose": transpose}
    for batch, m, n, k in ((1, 1, 1, 1), (2, 3, 5, 7), (1, 9, 70, 129), (1, 13, 34, 64), (2, 2, 111, 200), (1, 300, 33, 515)):
        left, right = random_int8(rng, batch, m, k), random_int8(rng, batch, n, k)
        psum = rng.integers(-(1 << 31), 1 << 31, (batch, m, n)).astype(np.int32)
        exact = np.einsum("bmk,bnk->bmn", left.astype(np.int64), right.astype(np.int64))
        assert np.array_equal(run(left, right, INT8, INT32, **transposed), exact)
        assert np.array_equal(run(left, right, INT8, INT8, **transposed), np.clip(exact, -128, 127))
        with np.errstate(over="ignore"):
            assert np.array_equal(run(left, right, INT8, FP16, **transposed), exact.astype(np.float16))
        assert np.array_equal(run(left, right, INT8, INT32, psum=psum), (exact + psum).astype(np.int32))


def test_int8_quantised() -> None:
    rng = np.random.default_rng(6)
    left, right = random_int8(rng, 1, 7, 65), random_int8(rng, 1, 40, 65)
    psum = rng.integers(-(1 << 16), 1 << 16, (1, 7, 40)).astype(np.int32)
    settings = ((0, 0, 1, 0, 0), (3, 7, 19, -128, 5), (1, 15, -32768, 127, -128), (31, 31, 32767, 3, 127))
    for q1, q2, scale, zp_left, zp_out in settings:
        fields = {"q1": q1, "q2": q2, "scale": scale, "zp_left": zp_left, "zp_out": zp_out}
        actual = run(left, right, INT8, INT8, kind=NeGemmQuantised, psum=psum, **fields)
        for i, j in np.ndindex(7, 40):
            total = int(psum[0, i, j]) + sum((int(a) - zp_left) * int(b) for a, b in zip(left[0, i], right[0, j], strict=True))
            narrow = min(max(total >> q1, -32768), 32767)
            nine = min(max(narrow * scale >> q2, -256), 255)
            assert actual[0, i, j] == min(max(nine + zp_out, -128), 127)


@pytest.mark.parametrize("dst", [LEFT, LEFT + 2, RIGHT, PSUM, PSUM + 4, PSUM - 1024])
def test_results_over_operands(dst: int) -> None:
    """Everything is read before it is overwritten, over all batches."""
    rng = np.random.default_rng(8)
    left, right, psum = draw(rng, (2, 11, 40), BF16), draw(rng, (2, 37, 40), BF16), draw(rng, (2, 11, 37), FP32)
    apart = run(left, right, BF16, FP32, psum=psum)
    assert np.array_equal(run(left, right, BF16, FP32, psum=psum, places=(LEFT, RIGHT, PSUM, dst)), apart)


def test_addresses_need_no_alignment() -> None:
    rng = np.random.default_rng(9)
    for fmt in (BF16, FP16, TF32):
        left, right, psum = draw(rng, (1, 3, 20), fmt), draw(rng, (1, 6, 20), fmt), draw(rng, (1, 3, 6), FP32)
        places = (LEFT + 1, RIGHT + 3, PSUM + 5, DST + 7)
        assert np.array_equal(run(left, right, fmt, FP32, psum=psum, places=places), run(left, right, fmt, FP32, psum=psum))


def test_what_was_never_written_is_not_read() -> None:
    """In strict mode the operands' elements must have been written, their padding need not."""
    fields = {"left": 0, "right": 4096, "psum": 0, "dst": 8192, "rows": 1, "columns": 1, "depth": 4, "batch": 1}
    record = Record(NeGemm, fields | {"transpose_left": 0, "transpose_right": 0, "accumulate": 0}, BF16, BF16)
    with pytest.raises(Fault) as caught:
        interpret.run_strict(Program(*encode_program([record])), [], CHIP)
    assert caught.value.kind is FaultKind.UNWRITTEN_SPM


def encode_program(records: list[Record]) -> tuple[np.ndarray, tuple[()], tuple[()], tuple[str, ...], int]:
    code, origins = encode_records(records)
    return code, (), (), origins, CHIP.spm_bytes
