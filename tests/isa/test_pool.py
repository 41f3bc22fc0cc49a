"""Pooling and its way back: both tiers against windows written out point by point."""

from collections.abc import Iterator

import numpy as np
import pytest
from native_cases import CHIP, run_both
from ne_model import bits
from test_reduce import rounded

from hlo2tx8.device import interpret, native
from hlo2tx8.device.faults import Fault, FaultKind
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.ct_pool import (
    CtPoolAvg,
    CtPoolForm,
    CtPoolIndexed,
    CtPoolMax,
    CtPoolMaxIndexed,
    CtPoolMin,
    CtPoolMinIndexed,
    CtPoolSum,
    CtUnpoolAvg,
    CtUnpoolIndexed,
    CtUnpoolSum,
)
from hlo2tx8.device.isa.encoding import Record, encode_records
from hlo2tx8.device.isa.forms import CT_FLOATS
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.device.program import Program

IMAGE_BYTES = 1 << 18
SRC, DST, INDEX = 3, 1 << 16, (1 << 17) + 5
PLAIN = {"batch": 1, "h": 1, "w": 1, "c": 1, "kernel_h": 1, "kernel_w": 1, "stride_h": 1, "stride_w": 1}
PLAIN |= {"pad_top": 0, "pad_bottom": 0, "pad_left": 0, "pad_right": 0}
SHAPES: tuple[dict[str, int], ...] = (
    {},
    {"h": 6, "w": 5, "c": 5, "kernel_h": 2, "kernel_w": 2, "stride_h": 2, "stride_w": 2},
    {"batch": 2, "h": 5, "w": 7, "c": 70, "kernel_h": 3, "kernel_w": 3, "stride_w": 2, "pad_top": 1, "pad_left": 2, "pad_right": 1},
    {
        "h": 2,
        "w": 9,
        "c": 131,
        "kernel_h": 3,
        "kernel_w": 4,
        "stride_h": 3,
        "stride_w": 5,
        "pad_top": 2,
        "pad_bottom": 1,
        "pad_right": 3,
    },
    {"batch": 3, "h": 7, "w": 1, "c": 33, "kernel_h": 1, "stride_h": 4},
)
Point = tuple[int, int]


def windows(g: dict[str, int]) -> tuple[int, int]:
    rows = (g["h"] + g["pad_top"] + g["pad_bottom"] - g["kernel_h"]) // g["stride_h"] + 1
    return rows, (g["w"] + g["pad_left"] + g["pad_right"] - g["kernel_w"]) // g["stride_w"] + 1


def points(g: dict[str, int], y: int, x: int) -> list[Point]:
    """Of window (y, x) that are inside of the image, row by row."""
    rows = (y * g["stride_h"] - g["pad_top"] + k for k in range(g["kernel_h"]))
    columns = [x * g["stride_w"] - g["pad_left"] + k for k in range(g["kernel_w"])]
    return [(p, q) for p in rows for q in columns if 0 <= p < g["h"] and 0 <= q < g["w"]]


def place(image: np.ndarray, at: int, values: np.ndarray, fmt: Format) -> None:
    """[n, y, x, c] as Cx or NCx; padding keeps what it has."""
    n, y, x, c = values.shape
    layout = Blocked(fmt, n, y * x, c)
    ones = layout.pack(np.full((n, y * x, c, fmt.bytes), 1, np.uint8).view(fmt.numpy_dtype)[..., 0])
    here = slice(at, at + layout.size_bytes)
    image[here] = np.where(ones != 0, layout.pack(values.reshape(n, y * x, c)), image[here])


def run(
    kind: type[CtPoolForm],
    g: dict[str, int],
    x: np.ndarray,
    fmt: Format,
    index: np.ndarray | None = None,
    places: tuple[int, int] = (SRC, DST),
) -> tuple[np.ndarray, np.ndarray | None]:
    """dst [n, y, x, c] and, if it is a result, the index, of both tiers."""
    image = np.random.default_rng(1).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    place(image, places[0], x, fmt)
    if index is not None:
        place(image, INDEX, index, Format.INT32)
    names = {f.name for f in kind.FIELDS}
    fields = g | {"src": places[0], "dst": places[1]} | ({"index": INDEX} if "index" in names else {})
    expected, actual = run_both([Record(kind, fields, fmt)], image)
    wrong = np.nonzero(expected != actual)[0]
    assert not wrong.size, f"{wrong.size} bytes differ between the tiers, the first at {wrong[0]:#x}"
    is_back = issubclass(kind, (CtUnpoolSum, CtUnpoolAvg, CtUnpoolIndexed))
    rows, columns = (g["h"], g["w"]) if is_back else windows(g)
    found: list[np.ndarray] = []
    for at, its_fmt in ((places[1], fmt), (INDEX, Format.INT32))[: 2 if issubclass(kind, CtPoolIndexed) else 1]:
        layout = Blocked(its_fmt, g["batch"], rows * columns, g["c"])
        data = expected[at : at + layout.size_bytes]
        packed = layout.pack(layout.unpack(data))
        for n in range(layout.batch):
            here = slice(n * layout.batch_stride_bytes, n * layout.batch_stride_bytes + layout.batch_bytes)
            assert np.array_equal(packed[here], data[here]), "padding is zero"
        found.append(layout.unpack(data).reshape(g["batch"], rows, columns, g["c"]))
    return found[0], found[1] if len(found) > 1 else None


def draw(rng: np.random.Generator, shape: tuple[int, ...], fmt: Format) -> np.ndarray:
    values = rng.standard_normal(shape) * np.exp2(rng.integers(-6, 6, shape))
    special = rng.choice(np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan]), shape)
    return np.where(rng.random(shape) < 0.1, special, values).astype(fmt.numpy_dtype)


def key(v: np.float32, sign: int) -> tuple[bool, float, bool]:
    """NaN first, then by order with -0 < +0, the other way round for a minimum."""
    return (True, 0.0, False) if np.isnan(v) else (False, sign * float(v), bool(np.signbit(v)) != (sign > 0))


def samples(g: dict[str, int], shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    picks = np.random.default_rng(4).integers(0, int(np.prod(shape)), 60)
    yield from (tuple(int(i) for i in np.unravel_index(at, shape)) for at in {0, int(np.prod(shape)) - 1, *picks.tolist()})


def total(values: list[np.float32]) -> np.float32:
    acc = values[0]
    for v in values[1:]:
        acc = acc + v
    return acc


def check(actual: np.ndarray, wanted: float, fmt: Format) -> None:
    assert actual.reshape(1).view(f"u{fmt.bytes}") == rounded(np.array([wanted], np.float64), fmt)


@pytest.mark.parametrize("fmt", CT_FLOATS, ids=lambda f: f.name)
@pytest.mark.parametrize(
    "kind", [CtPoolMax, CtPoolMin, CtPoolSum, CtPoolAvg, CtPoolMaxIndexed, CtPoolMinIndexed], ids=lambda k: k.__name__
)
def test_pool(kind: type[CtPoolForm], fmt: Format) -> None:
    rng = np.random.default_rng(2)
    for more in SHAPES:
        g = PLAIN | more
        x = draw(rng, (g["batch"], g["h"], g["w"], g["c"]), fmt)
        actual, index = run(kind, g, x, fmt)
        wide = x.astype(np.float32)
        with np.errstate(all="ignore"):
            for at in samples(g, actual.shape):
                n, y, q, c = at
                under = points(g, y, q)
                values = [wide[n, *p, c] for p in under]
                if kind in (CtPoolSum, CtPoolAvg):
                    divisor = g["kernel_h"] * g["kernel_w"] if kind is CtPoolAvg else 1
                    check(actual[at], float(total(values)) / divisor, fmt)
                    continue
                sign = 1 if kind in (CtPoolMax, CtPoolMaxIndexed) else -1
                best = max(range(len(values)), key=lambda i, values=values, sign=sign: (key(values[i], sign), -i))
                check(actual[at], float(values[best]), fmt)
                if index is not None:
                    assert index[at] == under[best][0] * g["w"] + under[best][1]


@pytest.mark.parametrize("fmt", CT_FLOATS, ids=lambda f: f.name)
@pytest.mark.parametrize("kind", [CtUnpoolSum, CtUnpoolAvg], ids=lambda k: k.__name__)
def test_unpool(kind: type[CtPoolForm], fmt: Format) -> None:
    rng = np.random.default_rng(3)
    for more in SHAPES:
        g = PLAIN | more
        x = draw(rng, (g["batch"], *windows(g), g["c"]), fmt)
        actual, _ = run(kind, g, x, fmt)
        wide = x.astype(np.float32)
        divisor = g["kernel_h"] * g["kernel_w"] if kind is CtUnpoolAvg else 1
        with np.errstate(all="ignore"):
            for at in samples(g, actual.shape):
                n, y, q, c = at
                holding = [wide[n, *window, c] for window in np.ndindex(windows(g)) if (y, q) in points(g, *window)]
                check(actual[at], float(total([np.float32(0), *holding])) / divisor, fmt)


@pytest.mark.parametrize("fmt", CT_FLOATS, ids=lambda f: f.name)
def test_unpool_indexed(fmt: Format) -> None:
    """The index of a pooling leads back; so does any other, several windows to one point too."""
    rng = np.random.default_rng(5)
    for more in SHAPES:
        g = PLAIN | more
        shape = (g["batch"], *windows(g), g["c"])
        _, index = run(CtPoolMaxIndexed, g, draw(rng, (g["batch"], g["h"], g["w"], g["c"]), fmt), fmt)
        assert index is not None
        for where in (index, rng.integers(0, g["h"] * g["w"], shape).astype(np.int32)):
            x = draw(rng, shape, fmt)
            actual, _ = run(CtUnpoolIndexed, g, x, fmt, where)
            wanted = np.zeros((g["batch"], g["h"] * g["w"], g["c"]), np.float32)
            with np.errstate(all="ignore"):
                for n, y, q, c in np.ndindex(shape):
                    wanted[n, where[n, y, q, c], c] += np.float32(x[n, y, q, c])
            assert np.array_equal(actual.reshape(wanted.shape).view(f"u{fmt.bytes}"), rounded(wanted.astype(np.float64), fmt))


def program_of(kind: type[Instruction], g: dict[str, int]) -> Program:
    fields = g | {"src": 0, "dst": 4096} | ({"index": 8192} if "index" in {f.name for f in kind.FIELDS} else {})
    code, origins = encode_records([Record(kind, fields, Format.FP32)])
    return Program(code, (), (), origins, CHIP.spm_bytes)


TIERS = (interpret, native) if native.available() else (interpret,)


def test_windows_without_a_point_are_refused() -> None:
    small = PLAIN | {"h": 3, "kernel_h": 2}
    for kind in (CtPoolMax, CtPoolMinIndexed, CtUnpoolAvg, CtUnpoolIndexed):
        for more in ({"pad_top": 2}, {"pad_right": 1}, {"kernel_w": 2}, {"h": 1}):
            for tier in TIERS:
                with pytest.raises(Fault) as caught:
                    tier.run(program_of(kind, small | more), [], CHIP)
                assert caught.value.kind is FaultKind.BAD_DESCRIPTOR
        for tier in TIERS:
            tier.run(program_of(kind, small | {"pad_top": 1, "pad_bottom": 1}), [], CHIP)


@pytest.mark.parametrize("wrong", [-1, 12])
def test_an_index_outside_of_the_image_faults(wrong: int) -> None:
    image = np.zeros(IMAGE_BYTES, np.uint8)
    place(image, INDEX, np.full((1, 3, 4, 2), wrong, np.int32), Format.INT32)
    fields = PLAIN | {"h": 3, "w": 4, "c": 2, "src": SRC, "dst": DST, "index": INDEX}
    with pytest.raises(Fault) as caught:
        run_both([Record(CtUnpoolIndexed, fields, Format.BF16)], image)
    assert caught.value.kind is FaultKind.OUT_OF_BOUNDS


@pytest.mark.parametrize("shift", [0, 2, 512, -256])
@pytest.mark.parametrize("kind", [CtPoolAvg, CtUnpoolSum], ids=lambda k: k.__name__)
def test_results_over_sources(kind: type[CtPoolForm], shift: int) -> None:
    """Everything is read before anything is written."""
    g = PLAIN | SHAPES[2]
    shape = (g["batch"], g["h"], g["w"], g["c"]) if kind is CtPoolAvg else (g["batch"], *windows(g), g["c"])
    x = np.random.default_rng(6).standard_normal(shape).astype(np.float16)
    apart, _ = run(kind, g, x, Format.FP16)
    over, _ = run(kind, g, x, Format.FP16, places=(4096, 4096 + shift))
    assert np.array_equal(bits(apart, Format.FP16), bits(over, Format.FP16))
