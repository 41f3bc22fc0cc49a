"""Convolutions of the matrix engine: both tiers against sums with fractions over windows written out one by one."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from native_cases import CHIP, run_both
from ne_model import BF16, FP16, FP32, INT8, INT32, TF32, bits, cut, draw, model, quantised, random_int8

from hlo2tx8.device import interpret, native
from hlo2tx8.device.faults import Fault, FaultKind
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.encoding import Record, encode_records
from hlo2tx8.device.isa.ne import NE_RESULTS
from hlo2tx8.device.isa.ne_conv import (
    NeConv,
    NeConvBackwardImage,
    NeConvBackwardWeight,
    NeConvForm,
    NeConvQuantised,
    NeDepthwise,
    NeDepthwiseQuantised,
)
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.device.program import Program

IMAGE_BYTES = 1 << 20
FIRST, SECOND, PSUM, DST = 1, (1 << 18) + 2, (2 << 18) + 3, (3 << 18) + 1  # no alignment is needed
FORWARD = (NeConv, NeConvQuantised)
DEPTHWISE = (NeDepthwise, NeDepthwiseQuantised)
SAMPLES = 14
PLAIN = {"batch": 1, "h": 1, "w": 1, "c": 1, "filters": 1, "kernel_h": 1, "kernel_w": 1, "stride_h": 1, "stride_w": 1}
PLAIN |= {"dilation_h": 1, "dilation_w": 1, "pad_top": 0, "pad_bottom": 0, "pad_left": 0, "pad_right": 0}
# What differs from one 1 x 1 window over one point.
SHAPES: tuple[dict[str, int], ...] = (
    {},
    {
        "h": 5,
        "w": 4,
        "c": 6,
        "filters": 3,
        "kernel_h": 3,
        "kernel_w": 3,
        "pad_top": 1,
        "pad_bottom": 1,
        "pad_left": 1,
        "pad_right": 1,
    },
    {"batch": 2, "h": 7, "w": 9, "c": 5, "filters": 37, "kernel_h": 3, "kernel_w": 2, "stride_h": 2, "stride_w": 3, "pad_left": 1},
    {
        "batch": 3,
        "h": 6,
        "w": 8,
        "c": 33,
        "filters": 4,
        "kernel_h": 2,
        "kernel_w": 3,
        "dilation_h": 3,
        "dilation_w": 2,
        "pad_bottom": 2,
    },
    {
        "h": 2,
        "w": 3,
        "c": 70,
        "filters": 2,
        "kernel_h": 5,
        "kernel_w": 4,
        "pad_top": 4,
        "pad_bottom": 3,
        "pad_left": 9,
        "pad_right": 1,
    },
    {"batch": 2, "h": 9, "w": 1, "c": 4, "filters": 65, "kernel_h": 4, "stride_h": 4, "dilation_h": 2, "pad_top": 5},
    {"h": 17, "w": 19, "c": 131, "filters": 7, "kernel_w": 3, "stride_h": 5, "pad_right": 1},
    {"batch": 2, "h": 6, "w": 9, "c": 6, "filters": 5, "kernel_h": 2, "kernel_w": 3},
    {"h": 9, "w": 16, "c": 20, "filters": 18, "kernel_h": 3, "kernel_w": 2, "stride_w": 3, "dilation_h": 2, "pad_top": 1},
    {"h": 8, "w": 9, "c": 16, "filters": 6, "kernel_h": 2, "kernel_w": 5},
    {"h": 5, "w": 6, "c": 40, "filters": 9, "kernel_h": 2, "kernel_w": 3},
)


def windows(g: dict[str, int]) -> tuple[int, int]:
    reach = [(g[f"kernel_{a}"] - 1) * g[f"dilation_{a}"] + 1 for a in "hw"]
    room = (g["h"] + g["pad_top"] + g["pad_bottom"] - reach[0], g["w"] + g["pad_left"] + g["pad_right"] - reach[1])
    return room[0] // g["stride_h"] + 1, room[1] // g["stride_w"] + 1


def padded(channels: int, fmt: Format) -> int:
    block = 128 if fmt is INT8 else 64
    whole, rest = divmod(channels, block)
    tail = next((t for t in (0, 4, 8, 16, 32, 64) if t >= rest), block)
    return (whole + 1) * block if rest > block // 2 else whole * block + tail


def shapes(kind: type[NeConvForm], g: dict[str, int]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Of dst and of the operands, unblocked."""
    image = (g["batch"], g["h"], g["w"], g["c"])
    if kind in DEPTHWISE:
        return (g["batch"], *windows(g), g["c"]), image, (g["kernel_h"], g["kernel_w"], 1, g["c"])
    forward = (g["batch"], *windows(g), g["filters"])
    weight = (g["kernel_h"], g["kernel_w"], g["filters"], g["c"])
    if kind is NeConvBackwardImage:
        return image, forward, weight
    return (weight, forward, image) if kind is NeConvBackwardWeight else (forward, image, weight)


def summands(
    kind: type[NeConvForm], g: dict[str, int], a: np.ndarray, b: np.ndarray, at: tuple[int, ...], fmt: Format
) -> Iterator[tuple[float, float]]:
    """The pairs that make up dst[at], in order; what is not there is (0, the other one), padding (0, 0)."""
    taps = list(product(range(g["kernel_h"]), range(g["kernel_w"])))

    def point(oy: int, ox: int, ky: int, kx: int) -> tuple[int, int] | None:
        p = oy * g["stride_h"] + ky * g["dilation_h"] - g["pad_top"]
        q = ox * g["stride_w"] + kx * g["dilation_w"] - g["pad_left"]
        return (p, q) if 0 <= p < g["h"] and 0 <= q < g["w"] else None

    if kind in FORWARD:
        n, oy, ox, o = at
        for ky, kx in taps:
            under = point(oy, ox, ky, kx)
            yield from ((a[n, *under, c] if under else 0.0, b[ky, kx, o, c]) for c in range(g["c"]))
            yield from [(0.0, 0.0)] * (padded(g["c"], fmt) - g["c"])
    elif kind in DEPTHWISE:
        n, oy, ox, c = at
        for ky, kx in taps:
            under = point(oy, ox, ky, kx)
            yield a[n, *under, c] if under else 0.0, b[ky, kx, 0, c]
    elif kind is NeConvBackwardImage:
        n, y, x, c = at
        over = {(point(oy, ox, ky, kx), ky, kx): (oy, ox) for oy, ox in np.ndindex(windows(g)) for ky, kx in taps}
        for ky, kx in taps:
            window = over.get(((y, x), ky, kx))
            yield from ((a[n, *window, o] if window else 0.0, b[ky, kx, o, c]) for o in range(g["filters"]))
            yield from [(0.0, 0.0)] * (padded(g["filters"], fmt) - g["filters"])
    else:
        ky, kx, o, c = at
        for n, oy, ox in np.ndindex(g["batch"], *windows(g)):
            under = point(oy, ox, ky, kx)
            yield a[n, oy, ox, o], b[n, *under, c] if under else 0.0


def blocked(shape: tuple[int, ...], fmt: Format, is_weight: bool) -> Blocked:
    batch = 1 if is_weight else shape[0]
    return Blocked(fmt, batch, int(np.prod(shape[:-1])) // batch, shape[-1])


def run(
    kind: type[NeConvForm],
    g: dict[str, int],
    a: np.ndarray,
    b: np.ndarray,
    fmt: Format,
    result: Format,
    psum: np.ndarray | None = None,
    places: tuple[int, int, int, int] = (FIRST, SECOND, PSUM, DST),
    **more: int,
) -> np.ndarray:
    """dst of both tiers, in its shape."""
    shape, first, second = shapes(kind, g)
    image = np.random.default_rng(1).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    sums = NE_RESULTS[fmt][-1]
    is_backward_weight = kind is NeConvBackwardWeight
    given = [(places[0], a, first, fmt, False), (places[1], b, second, fmt, not is_backward_weight)]
    given += [(places[2], psum, shape, sums, is_backward_weight)] if psum is not None else []
    for at, values, its_shape, its_fmt, is_weight in given:
        layout = blocked(its_shape, its_fmt, is_weight)
        dense = (layout.batch, layout.points, layout.channels)
        data = layout.pack(values.reshape(dense))
        ones = layout.pack(np.full((*dense, its_fmt.bytes), 1, np.uint8).view(its_fmt.numpy_dtype)[..., 0])
        here = slice(at, at + data.size)
        image[here] = np.where(ones != 0, data, image[here])  # padding keeps its random bytes
    names = [f.name for f in kind.FIELDS][:4]
    fields = {name: value for name, value in g.items() if name != "filters" or kind not in DEPTHWISE}
    fields |= (
        dict(zip((names[0], *names[1:]), (places[3], *places[:3]), strict=True)) | {"accumulate": int(psum is not None)} | more
    )
    expected, actual = run_both([Record(kind, fields, result, fmt)], image)
    wrong = np.nonzero(expected != actual)[0]
    assert not wrong.size, f"{wrong.size} bytes differ between the tiers, the first at {wrong[0]:#x}"
    layout = blocked(shape, result, is_backward_weight)
    data = expected[places[3] : places[3] + layout.size_bytes]
    outside = np.ones(IMAGE_BYTES, bool)
    packed = layout.pack(layout.unpack(data))
    for n in range(layout.batch):
        here = slice(n * layout.batch_stride_bytes, n * layout.batch_stride_bytes + layout.batch_bytes)
        assert np.array_equal(packed[here], data[here]), "padding is zero"
        outside[places[3] + here.start : places[3] + here.stop] = False
    assert np.array_equal(expected[outside], image[outside]), "nothing else is written"
    return layout.unpack(data).reshape(shape)


def some(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Both ends and others."""
    picks = np.random.default_rng(4).integers(0, int(np.prod(shape)), SAMPLES)
    flat = sorted({0, int(np.prod(shape)) - 1, *picks.tolist()})
    return [tuple(int(i) for i in np.unravel_index(at, shape)) for at in flat]


FLOAT_KINDS = (NeConv, NeDepthwise, NeConvBackwardImage, NeConvBackwardWeight)


@pytest.mark.parametrize("fmt", [BF16, FP16, TF32], ids=lambda f: f.name)
@pytest.mark.parametrize("kind", FLOAT_KINDS, ids=lambda k: k.__name__)
def test_floats(kind: type[NeConvForm], fmt: Format) -> None:
    """Samples of each shape, with and without partial sums, in both result formats."""
    rng = np.random.default_rng(fmt)
    for number, more in enumerate(SHAPES):
        g = PLAIN | more
        shape, first, second = shapes(kind, g)
        a, b = draw(rng, first, fmt), draw(rng, second, fmt)
        psum = draw(rng, shape, FP32, 20) if number % 2 else None
        result = NE_RESULTS[fmt][number % 3 > 0]
        actual = run(kind, g, a, b, fmt, result, psum)
        x, y = cut(a, fmt), cut(b, fmt)
        for at in some(shape):
            left, right = zip(*summands(kind, g, x, y, at, fmt), strict=True)
            wanted = np.array([model(left, right, 0.0 if psum is None else float(psum[at]), fmt, result)]).astype(
                result.numpy_dtype
            )
            assert actual[at].reshape(1).view(f"u{result.bytes}") == bits(wanted, result), (g, at)


@pytest.mark.parametrize("kind", FLOAT_KINDS, ids=lambda k: k.__name__)
def test_special_values(kind: type[NeConvForm]) -> None:
    """A zero outside of the image times an infinite weight is NaN; zeros keep their sign; sums end at the largest number."""
    rng = np.random.default_rng(3)
    g = PLAIN | SHAPES[1]
    shape, first, second = shapes(kind, g)
    for fmt, large, tiny in ((BF16, 3e38, 1e-40), (FP16, 65504.0, 6e-8), (TF32, 3e38, 1e-40)):
        for values in ([0.0, -0.0, 1.0, -1.0, np.inf, tiny], [0.0, -0.0, large, -large, tiny, -tiny, 1.0], [-0.0, 1.0]):
            a, b = (rng.choice(np.array(values), s).astype(fmt.numpy_dtype) for s in (first, second))
            actual = run(kind, g, a, b, fmt, FP32)
            x, y = cut(a, fmt), cut(b, fmt)
            for at in some(shape):
                left, right = zip(*summands(kind, g, x, y, at, fmt), strict=True)
                wanted = np.array([model(left, right, 0.0, fmt, FP32)], np.float32)
                assert actual[at].reshape(1).view(np.uint32) == bits(wanted, FP32), (fmt, at)


@pytest.mark.parametrize("kind", FLOAT_KINDS, ids=lambda k: k.__name__)
def test_int8(kind: type[NeConvForm]) -> None:
    rng = np.random.default_rng(5)
    for more in SHAPES:
        g = PLAIN | more
        shape, first, second = shapes(kind, g)
        a, b = random_int8(rng, *first), random_int8(rng, *second)
        psum = rng.integers(-(1 << 31), 1 << 31, shape).astype(np.int32)
        plain, sums, narrow = run(kind, g, a, b, INT8, INT32), run(kind, g, a, b, INT8, INT32, psum), run(kind, g, a, b, INT8, INT8)
        half = run(kind, g, a, b, INT8, FP16)
        for at in some(shape):
            total = sum(int(x) * int(y) for x, y in summands(kind, g, a, b, at, INT8))
            assert plain[at] == total
            assert sums[at] == np.array(total + int(psum[at])).astype(np.int32)
            assert narrow[at] == min(max(total, -128), 127)
            with np.errstate(over="ignore"):
                assert half[at] == np.array(total, np.float64).astype(np.float16)


@pytest.mark.parametrize("kind", [NeConvQuantised, NeDepthwiseQuantised], ids=lambda k: k.__name__)
def test_int8_quantised(kind: type[NeConvForm]) -> None:
    """What is outside of the image is the zero point: it adds nothing."""
    rng = np.random.default_rng(6)
    settings = ((0, 0, 1, 0, 0), (3, 7, 19, -128, 5), (1, 15, -32768, 127, -128), (31, 31, 32767, 3, 127))
    for more, (q1, q2, scale, zp_image, zp_out) in zip(SHAPES[1:5], settings, strict=True):
        g = PLAIN | more
        shape, first, second = shapes(kind, g)
        a, b = random_int8(rng, *first), random_int8(rng, *second)
        psum = rng.integers(-(1 << 16), 1 << 16, shape).astype(np.int32)
        fields = {"q1": q1, "q2": q2, "scale": scale, "zp_image": zp_image, "zp_out": zp_out}
        actual = run(kind, g, a, b, INT8, INT8, psum, **fields)
        for at in some(shape):
            pairs = summands(kind, g, a.astype(np.int64) - zp_image, b, at, INT8)
            assert actual[at] == quantised(int(psum[at]) + sum(int(x) * int(y) for x, y in pairs), q1, q2, scale, zp_out)


@pytest.mark.parametrize("kind", FLOAT_KINDS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("dst", [FIRST, FIRST + 3, SECOND, PSUM, PSUM - 1024])
def test_results_over_operands(kind: type[NeConvForm], dst: int) -> None:
    """Everything is read before it is overwritten."""
    rng = np.random.default_rng(8)
    g = PLAIN | SHAPES[2]
    shape, first, second = shapes(kind, g)
    a, b, psum = draw(rng, first, BF16), draw(rng, second, BF16), draw(rng, shape, FP32)
    apart = run(kind, g, a, b, BF16, FP32, psum)
    assert np.array_equal(run(kind, g, a, b, BF16, FP32, psum, (FIRST, SECOND, PSUM, dst)), apart)


def test_a_1_by_1_window_is_a_gemm_per_point() -> None:
    """More channels and rows than are computed at once."""
    rng = np.random.default_rng(9)
    g = PLAIN | {"batch": 2, "h": 20, "w": 7, "c": 300, "filters": 40}
    a, b = draw(rng, (2, 20, 7, 300), TF32), draw(rng, (1, 1, 40, 300), TF32)
    actual = run(NeConv, g, a, b, TF32, FP32, places=(0, 3 << 18, 0, (3 << 18) + (1 << 17)))
    for at in some((2, 20, 7, 40))[:6]:
        x, y = cut(a[at[:3]], TF32), cut(b[0, 0, at[3]], TF32)
        assert actual[at] == np.float32(model(list(x), list(y), 0.0, TF32, FP32))


@pytest.mark.parametrize("kind", FLOAT_KINDS, ids=lambda k: k.__name__)
def test_windows_that_do_not_fit(kind: type[NeConvForm]) -> None:
    names = [f.name for f in kind.FIELDS]
    fields = {name: value for name, value in PLAIN.items() if name in names} | dict.fromkeys((*names[:4], "accumulate"), 0)
    for more, fits in (
        ({"kernel_h": 2}, False),
        ({"kernel_w": 3, "dilation_w": 2, "pad_right": 3}, False),
        ({"kernel_w": 3, "pad_right": 2}, True),
    ):
        code, origins = encode_records([Record(kind, fields | {names[1]: 1024, names[2]: 2048} | more, BF16, BF16)])
        program = Program(code, (), (), origins, CHIP.spm_bytes)
        for tier in (interpret, native) if native.available() else (interpret,):
            if fits:
                tier.run(program, [], CHIP)
                continue
            with pytest.raises(Fault) as caught:
                tier.run(program, [], CHIP)
            assert caught.value.kind is FaultKind.BAD_DESCRIPTOR
