"""Gemm: both tiers against a model that sums with fractions, one product after the other."""

import numpy as np
import pytest
from native_cases import CHIP, run_both
from ne_model import BF16, FP16, FP32, INT8, INT32, TF32, bits, cut, draw, model, quantised, random_int8

from hlo2tx8.device import interpret
from hlo2tx8.device.faults import Fault, FaultKind
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.encoding import Record, encode_records
from hlo2tx8.device.isa.ne import NE_RESULTS, NeGemm, NeGemmQuantised
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.device.program import Program

IMAGE_BYTES = 5 << 18
LEFT, RIGHT, PSUM, DST = 0, 1 << 18, 2 << 18, 3 << 18


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
    x, y = cut(left, fmt), cut(right, fmt)
    expected = [model(list(x[b, i]), list(y[b, j]), float(start[b, i, j]), fmt, result) for b, i, j in np.ndindex(actual.shape)]
    with np.errstate(all="ignore"):
        wanted = np.array(expected).astype(result.numpy_dtype).reshape(actual.shape)
    wrong = np.argwhere(actual.view(f"u{result.bytes}") != bits(wanted, result))
    assert not len(wrong), f"{len(wrong)} differ, {tuple(wrong[0])}: {actual[tuple(wrong[0])]} for {wanted[tuple(wrong[0])]}"


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
@pytest.mark.parametrize(
    "shape", [(41, 75, 100), (45, 16, 40), (23, 45, 170), (270, 9, 20), (2, 1040, 7), (9, 34, 700), (37, 112, 130)], ids=str
)
def test_more_than_is_computed_at_once(fmt: Format, shape: tuple[int, int, int]) -> None:
    """Many rows, columns, or elements along k; some results against the model, all between the tiers."""
    m, n, k = shape
    rng = np.random.default_rng(2)
    left, right = draw(rng, (1, m, k), fmt), draw(rng, (1, n, k), fmt)
    for transpose_left, transpose in ((False, False), (False, True), (True, False), (True, True)):
        actual = run(left, right, fmt, FP32, transpose=transpose, transpose_left=transpose_left)
        for i, j in ((0, 0), (m - 1, n - 1), (m - 2, n // 2), (m // 2, min(n - 1, 64))):
            x, y = cut(left[0, i], fmt), cut(right[0, j], fmt)
            assert actual[0, i, j] == model(list(x), list(y), 0.0, fmt, FP32)


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
        turned = run(left, right, INT8, INT8, kind=NeGemmQuantised, psum=psum, transpose_left=True, transpose=True, **fields)
        assert np.array_equal(turned, actual)
        for i, j in np.ndindex(7, 40):
            total = int(psum[0, i, j]) + sum((int(a) - zp_left) * int(b) for a, b in zip(left[0, i], right[0, j], strict=True))
            assert actual[0, i, j] == quantised(total, q1, q2, scale, zp_out)


@pytest.mark.parametrize("dst", [LEFT, LEFT + 2, RIGHT, PSUM, PSUM + 4, PSUM - 1024])
def test_results_over_operands(dst: int) -> None:
    """Everything is read before it is overwritten, over all batches."""
    rng = np.random.default_rng(8)
    left, right, psum = draw(rng, (2, 11, 150), BF16), draw(rng, (2, 37, 150), BF16), draw(rng, (2, 11, 37), FP32)
    apart = run(left, right, BF16, FP32, psum=psum)
    assert np.array_equal(run(left, right, BF16, FP32, psum=psum, places=(LEFT, RIGHT, PSUM, dst)), apart)


def test_addresses_need_no_alignment() -> None:
    rng = np.random.default_rng(9)
    for fmt in (BF16, FP16, TF32):
        left, right, psum = draw(rng, (1, 13, 150), fmt), draw(rng, (1, 40, 150), fmt), draw(rng, (1, 13, 40), FP32)
        aligned = run(left, right, fmt, FP32, psum=psum)
        for places in ((LEFT + 1, RIGHT + 3, PSUM + 5, DST + 7), (LEFT, RIGHT, PSUM + 2, DST), (LEFT, RIGHT, PSUM, DST + 1)):
            assert np.array_equal(run(left, right, fmt, FP32, psum=psum, places=places), aligned)


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
