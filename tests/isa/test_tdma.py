"""TDMA on whole tensors against loops written out in Python, element by element, in both tiers."""

from collections.abc import Mapping
from itertools import product

import numpy as np
import pytest
from hand_cases import run_image
from native_cases import IMAGE_BYTES

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Instruction, tdma
from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.layouts import Blocked

WIDTHS = (Format.INT8, Format.BF16, Format.FP32, Format.INT64, Format.RAW128)
SOURCE, SECOND = 16384, 32768
SHAPE = {"batch": 2, "h": 3, "w": 5, "c": 4}
LARGE = {"batch": 1, "h": 20, "w": 33, "c": 3}
UNFOLD = {"kernel_h": 2, "kernel_w": 3, "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1}
NO_PADS = {"pad_top": 0, "pad_bottom": 0, "pad_left": 0, "pad_right": 0}


def ramp() -> np.ndarray:
    return np.random.default_rng(4).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)


def elements(image: np.ndarray, at: int, shape: tuple[int, ...], fmt: Format) -> np.ndarray:
    """Opaque elements of a dense tensor."""
    return image[at : at + int(np.prod(shape)) * fmt.bytes].view(f"V{fmt.bytes}").reshape(shape)


def check(cls: type[Instruction], fmt: Format, fields: Mapping[str, int], expected: np.ndarray, dst: int = 0) -> None:
    """Exactly these bytes at dst; all others stay."""
    image = ramp()
    after = run_image([Record(cls, {"dst": dst, "src": SOURCE, **fields}, fmt)], image)
    raw = np.frombuffer(expected.tobytes(), np.uint8)
    assert np.array_equal(after[dst : dst + raw.size], raw)
    image[dst : dst + raw.size] = raw
    assert np.array_equal(after, image)


@pytest.mark.parametrize("fmt", WIDTHS, ids=lambda f: f.name)
@pytest.mark.parametrize("shape", [SHAPE, LARGE, {"batch": 1, "h": 1, "w": 1, "c": 7}], ids=str)
@pytest.mark.parametrize("dst", [0, SOURCE, SOURCE + 17], ids=["apart", "in place", "overlapping"])
def test_orders(shape: dict[str, int], fmt: Format, dst: int) -> None:
    batch, h, w, c = shape.values()
    if batch * h * w * c * fmt.bytes > SOURCE and not dst:
        dst = SECOND
    x = elements(ramp(), SOURCE, (batch, h, w, c), fmt)
    planes = elements(ramp(), SOURCE, (batch, c, h, w), fmt)
    wide, tall = np.empty((batch, h, w, c), x.dtype), np.empty((batch, w, h, c), x.dtype)
    half_turn, turned, back = wide.copy(), tall.copy(), tall.copy()
    channels_last, channels_first = wide.copy(), np.empty((batch, c, h, w), x.dtype)
    for n, i, j, k in product(range(batch), range(h), range(w), range(c)):
        tall[n, j, i, k] = x[n, i, j, k]
        wide[n, i, j, k] = x[n, i, w - 1 - j, k]
        turned[n, j, h - 1 - i, k] = x[n, i, j, k]
        half_turn[n, h - 1 - i, w - 1 - j, k] = x[n, i, j, k]
        back[n, w - 1 - j, i, k] = x[n, i, j, k]
        channels_last[n, i, j, k] = planes[n, k, i, j]
        channels_first[n, k, i, j] = x[n, i, j, k]
    check(tdma.TdmaTranspose, fmt, shape, tall, dst)
    check(tdma.TdmaMirror, fmt, shape, wide, dst)
    check(tdma.TdmaRotate90, fmt, shape, turned, dst)
    check(tdma.TdmaRotate180, fmt, shape, half_turn, dst)
    check(tdma.TdmaRotate270, fmt, shape, back, dst)
    check(tdma.TdmaNchwToNhwc, fmt, shape, channels_last, dst)
    check(tdma.TdmaNhwcToNchw, fmt, shape, channels_first, dst)


def test_quarter_turns() -> None:
    """A picture turned by hand: rows of letters."""
    image = np.zeros(IMAGE_BYTES, np.uint8)
    image[SOURCE : SOURCE + 6] = np.frombuffer(b"abcdef", np.uint8)
    shape = {"dst": 0, "src": SOURCE, "batch": 1, "h": 2, "w": 3, "c": 1}
    for cls, text in (
        (tdma.TdmaTranspose, b"adbecf"),
        (tdma.TdmaMirror, b"cbafed"),
        (tdma.TdmaRotate90, b"daebfc"),
        (tdma.TdmaRotate180, b"fedcba"),
        (tdma.TdmaRotate270, b"cfbead"),
    ):
        assert run_image([Record(cls, shape, Format.INT8)], image)[:6].tobytes() == text


@pytest.mark.parametrize("fmt", WIDTHS, ids=lambda f: f.name)
@pytest.mark.parametrize(("dim", "axis"), [(0, 3), (1, 2), (2, 1)])
@pytest.mark.parametrize("dst", [0, SOURCE, SECOND + 3], ids=["apart", "on the first", "on the second"])
def test_concat(dim: int, axis: int, fmt: Format, dst: int) -> None:
    image = ramp()
    first, second = [*SHAPE.values()], [*SHAPE.values()]
    second[axis] = 6
    a, b = elements(image, SOURCE, tuple(first), fmt), elements(image, SECOND, tuple(second), fmt)
    expected = np.empty([first[i] + (6 if i == axis else 0) for i in range(4)], a.dtype)
    for place in np.ndindex(*expected.shape):
        inside = place[axis] < first[axis]
        there = tuple(p - (first[i] if i == axis and not inside else 0) for i, p in enumerate(place))
        expected[place] = a[there] if inside else b[there]
    fields = {"dst": dst, "a": SOURCE, "b": SECOND, **SHAPE, "extent": 6, "dim": dim}
    after = run_image([Record(tdma.TdmaConcat, fields, fmt)], image)
    assert after[dst : dst + expected.nbytes].tobytes() == expected.tobytes()


@pytest.mark.parametrize("fmt", WIDTHS, ids=lambda f: f.name)
@pytest.mark.parametrize("pads", [(1, 2, 3, 4), (0, 0, 0, 0), (0, 5, 0, 1)])
@pytest.mark.parametrize("dst", [0, SOURCE - 40], ids=["apart", "overlapping"])
def test_pad(pads: tuple[int, int, int, int], fmt: Format, dst: int) -> None:
    """The bits -2 hold signalling NaN patterns too; 128-bit elements get zeros above."""
    batch, h, w, c = SHAPE.values()
    x = elements(ramp(), SOURCE, (batch, h, w, c), fmt)
    value = np.frombuffer(b"\xfe" + b"\xff" * 7 + bytes(8), np.uint8)[: fmt.bytes].view(f"V{fmt.bytes}")[0]
    expected = np.empty((batch, h + pads[0] + pads[1], w + pads[2] + pads[3], c), x.dtype)
    for n, i, j, k in np.ndindex(*expected.shape):
        y, z = i - pads[0], j - pads[2]
        expected[n, i, j, k] = x[n, y, z, k] if 0 <= y < h and 0 <= z < w else value
    names = ("pad_top", "pad_bottom", "pad_left", "pad_right")
    check(tdma.TdmaPad, fmt, {**SHAPE, **dict(zip(names, pads, strict=True)), "value": -2}, expected, dst)


@pytest.mark.parametrize("fmt", [Format.INT8, Format.BF16, Format.FP32], ids=lambda f: f.name)
@pytest.mark.parametrize("c", [1, 30, 33, 64, 65, 131, 192])
def test_channel_norm(c: int, fmt: Format) -> None:
    """Every element where the layout says; padding between them is zero, what lies between batches stays."""
    batch, h, w = 2, 1, 5
    image = ramp()
    x = elements(image, SOURCE, (batch, h * w, c), fmt)
    layout = Blocked(fmt, batch, h * w, c)
    expected = image.copy()
    for n in range(batch):
        expected[n * layout.batch_stride_bytes :][: layout.batch_bytes] = 0
    for n, p, k in np.ndindex(*x.shape):
        at = layout.offset_bytes(n, p, k)
        expected[at : at + fmt.bytes] = np.frombuffer(x[n, p, k].tobytes(), np.uint8)
    fields = {"dst": 0, "src": SOURCE, "batch": batch, "h": h, "w": w, "c": c}
    assert np.array_equal(run_image([Record(tdma.TdmaChannelNorm, fields, fmt)], image), expected)


WINDOWS = [
    {},
    {"stride_h": 2, "stride_w": 3},
    {"dilation_h": 2, "dilation_w": 2},
    {"pad_top": 1, "pad_bottom": 2, "pad_left": 3, "pad_right": 1, "stride_w": 2},
    {"pad_top": 4, "pad_left": 4, "dilation_h": 3, "kernel_h": 1, "kernel_w": 1},
]


@pytest.mark.parametrize("fmt", [Format.INT8, Format.BF16, Format.RAW128], ids=lambda f: f.name)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_unfold(window: dict[str, int], fmt: Format) -> None:
    o = {**SHAPE, **UNFOLD, **NO_PADS, **window}
    x = elements(ramp(), SOURCE, tuple(SHAPE.values()), fmt)
    rows = (o["h"] + o["pad_top"] + o["pad_bottom"] - (o["kernel_h"] - 1) * o["dilation_h"] - 1) // o["stride_h"] + 1
    columns = (o["w"] + o["pad_left"] + o["pad_right"] - (o["kernel_w"] - 1) * o["dilation_w"] - 1) // o["stride_w"] + 1
    expected = np.zeros((o["batch"], rows, columns, o["kernel_h"], o["kernel_w"], o["c"]), x.dtype)
    for n, i, j, ky, kx in np.ndindex(*expected.shape[:-1]):
        y = i * o["stride_h"] + ky * o["dilation_h"] - o["pad_top"]
        z = j * o["stride_w"] + kx * o["dilation_w"] - o["pad_left"]
        if 0 <= y < o["h"] and 0 <= z < o["w"]:
            expected[n, i, j, ky, kx] = x[n, y, z]
    check(tdma.TdmaUnfold, fmt, o, expected)
