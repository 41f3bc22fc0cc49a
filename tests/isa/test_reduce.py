"""CT reductions: both tiers against a model that joins numbers one by one in the order of the machine."""

from fractions import Fraction

import numpy as np
import pytest
from native_cases import run_both

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.ct_reduce import CtReduceAvg, CtReduceMax, CtReduceMin, CtReduceSum, ReduceDim
from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.isa.forms import CT_FLOATS
from hlo2tx8.device.layouts import Blocked

REDUCTIONS = (CtReduceSum, CtReduceAvg, CtReduceMax, CtReduceMin)
IMAGE_BYTES = 1 << 17
SRC, DST = 0, 1 << 16
DIMS = list(ReduceDim)


def join(cls: type[Instruction], a: np.float32, b: np.float32) -> np.float32:
    if cls in (CtReduceSum, CtReduceAvg):
        return a + b
    if np.isnan(a) or np.isnan(b):
        return np.float32(np.nan)
    first, second = sorted((a, b), key=lambda x: (x, not np.signbit(x)))
    return second if cls is CtReduceMax else first


def chain(cls: type[Instruction], values: list[np.float32]) -> np.float32:
    acc = values[0]
    for value in values[1:]:
        acc = join(cls, acc, value)
    return acc


def lanes(cls: type[Instruction], values: list[np.float32]) -> np.float32:
    """Lane l has the elements l, l + 64, ...; then 0 joins 1, 2 joins 3, and so on."""
    row: list[np.float32 | None] = [chain(cls, values[lane::64]) if values[lane::64] else None for lane in range(64)]
    while len(row) > 1:
        pairs = zip(row[::2], row[1::2], strict=True)
        row = [a if b is None else join(cls, np.float32(0) if a is None else a, b) for a, b in pairs]
    assert row[0] is not None
    return row[0]


def model(cls: type[Instruction], x: np.ndarray, dim: ReduceDim) -> np.ndarray:
    """float64 [batch, h, w, c] with 1 for what is reduced; exact where it is an average."""
    axes = {ReduceDim.C: (3,), ReduceDim.W: (2,), ReduceDim.H: (1,), ReduceDim.HW: (1, 2)}[dim]
    kept = tuple(axis for axis in range(4) if axis not in axes)
    rows = x.transpose(*kept, *axes).reshape(*(x.shape[axis] for axis in kept), -1)
    result = np.empty(rows.shape[:-1])
    for index in np.ndindex(result.shape):
        values = list(rows[index])
        value = lanes(cls, values) if dim is ReduceDim.C else chain(cls, values)
        if cls is CtReduceAvg and np.isfinite(value) and value != 0:
            result[index] = odd(Fraction(float(value)) / len(values))
        else:
            result[index] = value
    return np.expand_dims(result, axes)


def odd(x: Fraction) -> float:
    """x in 40 significant bits, the last one set where it is not exact: rounding that again rounds x once."""
    unit = Fraction(2) ** (abs(x).numerator.bit_length() - x.denominator.bit_length() - 40)
    whole = int(abs(x) // unit)
    value = (whole | (abs(x) != whole * unit)) * unit
    return float(value if x > 0 else -value)


def rounded(x: np.ndarray, fmt: Format) -> np.ndarray:
    """As bits; NaN is the canonical one. float64 to 16 bits goes by float32 rounded to odd."""
    size = fmt.bytes
    with np.errstate(all="ignore"):
        narrow = x.astype(np.float32)
        if fmt in (Format.BF16, Format.TF32, Format.FP16):
            bits = narrow.view(np.uint32).copy()
            back = narrow.astype(np.float64)
            bits[np.isfinite(x) & (np.abs(back) > np.abs(x))] -= 1
            bits[np.isfinite(x) & (back != x)] |= 1
            narrow = bits.view(np.float32)
        if fmt is Format.TF32:
            bits = narrow.view(np.uint32).astype(np.uint64)
            bits = (bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000
            out = np.where(np.isnan(narrow), np.float32(np.nan), bits.astype(np.uint32).view(np.float32))
        else:
            out = narrow.astype(fmt.numpy_dtype)
    bits = np.ascontiguousarray(out).view(f"u{size}").copy()
    canonical = {Format.FP16: 0x7E00, Format.BF16: 0x7FC0}.get(fmt, 0x7FC00000)
    bits[np.isnan(x)] = canonical
    return bits


def run(cls: type[Instruction], x: np.ndarray, dim: ReduceDim, fmt: Format, src: int = SRC, dst: int = DST) -> np.ndarray:
    """Bits [batch, h, w, c] of the result of both tiers."""
    batch, h, w, c = x.shape
    layout = Blocked(fmt, batch, h * w, c)
    image = np.random.default_rng(1).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    ones = layout.pack(np.ones((batch, h * w, c * fmt.bytes), np.uint8).view(fmt.numpy_dtype))
    here = slice(src, src + layout.size_bytes)
    image[here] = np.where(ones != 0, layout.pack(x.reshape(batch, h * w, c)), image[here])
    fields = {"dst": dst, "src": src, "batch": batch, "h": h, "w": w, "c": c, "dim": int(dim)}
    expected, actual = run_both([Record(cls, fields, fmt)], image)
    assert np.array_equal(expected, actual)
    shape = [batch, h, w, c]
    for axis in {ReduceDim.C: (3,), ReduceDim.W: (2,), ReduceDim.H: (1,), ReduceDim.HW: (1, 2)}[dim]:
        shape[axis] = 1
    target = Blocked(fmt, batch, shape[1] * shape[2], shape[3])
    data = expected[dst : dst + target.size_bytes]
    assert dim is not ReduceDim.C or target.aligned_channels == 4
    packed = target.pack(target.unpack(data))
    for n in range(batch):
        at = n * target.batch_stride_bytes
        assert np.array_equal(packed[at : at + target.batch_bytes], data[at : at + target.batch_bytes]), "padding is zero"
    return np.ascontiguousarray(target.unpack(data)).view(f"u{fmt.bytes}").reshape(shape)


def check(cls: type[Instruction], x: np.ndarray, dim: ReduceDim, fmt: Format) -> None:
    with np.errstate(all="ignore"):
        wanted = rounded(model(cls, x.astype(np.float32), dim), fmt)
    assert np.array_equal(run(cls, x, dim, fmt), wanted)


@pytest.mark.parametrize("dim", DIMS, ids=lambda d: d.name)
@pytest.mark.parametrize("fmt", CT_FLOATS, ids=lambda f: f.name)
@pytest.mark.parametrize("cls", REDUCTIONS, ids=lambda c: c.__name__)
def test_order(cls: type[Instruction], fmt: Format, dim: ReduceDim) -> None:
    rng = np.random.default_rng(dim)
    for shape in ((2, 3, 5, 1), (1, 2, 3, 37), (2, 4, 3, 100), (1, 1, 1, 131), (1, 3, 2, 200)):
        values = rng.standard_normal(shape) * np.exp2(rng.integers(-9, 9, shape))
        check(cls, values.astype(fmt.numpy_dtype), dim, fmt)


@pytest.mark.parametrize("dim", DIMS, ids=lambda d: d.name)
@pytest.mark.parametrize("cls", REDUCTIONS, ids=lambda c: c.__name__)
def test_special_values(cls: type[Instruction], dim: ReduceDim) -> None:
    """Infinities, NaN, both zeros, subnormals, sums that overflow."""
    rng = np.random.default_rng(4)
    for fmt, values in (
        (Format.FP32, [0.0, -0.0, 1e-45, -3e-45, 1.0, 3.4e38, -3.4e38]),
        (Format.FP32, [0.0, -0.0, np.inf, -np.inf, np.nan, 2.0, 5.0, 7.0]),
        (Format.FP16, [0.0, -0.0, 6e-8, -6e-8, 65504.0, 1.0]),
        (Format.BF16, [-0.0]),
        (Format.TF32, [1e-40, -1.2345678, 1.2345678]),
    ):
        check(cls, rng.choice(np.array(values), (2, 2, 3, 70)).astype(fmt.numpy_dtype), dim, fmt)


@pytest.mark.parametrize("channels", [1, 3, 4, 5, 16, 17, 32, 33, 48, 63, 64, 65])
def test_channels_of_points_at_once(channels: int) -> None:
    """One block or tail of each width, points in numbers that pair up and that do not; max and min of zeros too."""
    rng = np.random.default_rng(channels)
    for cls, fmt, points in (
        (CtReduceSum, Format.FP32, 19),
        (CtReduceMax, Format.TF32, 5),
        (CtReduceMin, Format.BF16, 3),
        (CtReduceMax, Format.FP32, 16),
    ):
        values = rng.standard_normal((1, points, 1, channels)) * rng.integers(0, 2, (1, points, 1, channels))
        values[rng.random(values.shape) < 0.02] = np.nan
        check(cls, values.astype(np.float32).astype(fmt.numpy_dtype), ReduceDim.C, fmt)


@pytest.mark.parametrize("dim", DIMS, ids=lambda d: d.name)
@pytest.mark.parametrize("shift", [0, 2, 6, 256, -128])
def test_results_over_sources(dim: ReduceDim, shift: int) -> None:
    """Everything is read before anything is written; addresses need no alignment."""
    x = np.random.default_rng(5).standard_normal((2, 3, 4, 70)).astype(np.float16)
    src = 1024 + 1
    assert np.array_equal(run(CtReduceSum, x, dim, Format.FP16, src, src + shift), run(CtReduceSum, x, dim, Format.FP16))


def test_a_long_row() -> None:
    """The order decides: one after the other, ones added to 2^24 are lost; 64 lanes keep them."""
    x = np.ones((1, 1, 1, 16384), np.float32)
    x[..., 0] = 2.0**24
    total = run(CtReduceSum, x, ReduceDim.C, Format.FP32).view(np.float32)
    assert total == 2.0**24 + 16384 - 256
    points = x.reshape(1, 128, 128, 1)[:, :4, :4]
    assert run(CtReduceSum, points, ReduceDim.HW, Format.FP32).view(np.float32) == 2.0**24
    assert run(CtReduceMin, points, ReduceDim.HW, Format.FP32).view(np.float32) == 1
