"""One instruction on values written by hand, run by both tiers."""

from collections.abc import Mapping, Sequence

import numpy as np
from native_cases import IMAGE_BYTES, REGION_BYTES, make_fields, run_both

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.encoding import Record

Values = np.ndarray | Sequence[float] | Sequence[int]


def run_image(records: list[Record], image: np.ndarray) -> np.ndarray:
    """SPM after `records` on `image`, uint8; both tiers must agree where there are two."""
    expected, actual = run_both(records, image)
    assert np.array_equal(expected, actual)
    return expected


def as_array(values: Values, fmt: Format) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(fmt.numpy_dtype)


def compute(
    cls: type[Instruction],
    sources: Mapping[str, tuple[Values, Format]],
    fmt: Format,
    *,
    result: Format | None = None,
    rounding: Rounding = Rounding.NEAREST_EVEN,
    num: int = 0,
    **fields: int,
) -> np.ndarray:
    """dst[:num] in format `result` (by default `fmt`) of one instruction whose sources hold these values.

    `num` is by default the size of the first source, and the field n unless `fields` says otherwise. The source format is that of
    the mask if there is one, else that of the first source.
    """
    image = np.zeros(IMAGE_BYTES, np.uint8)
    place = {"src": 1, "a": 1, "b": 2, "unit": 2, "pred": 3, "mask": 3, "index": 3, "dst": 0}
    for name, (values, source_fmt) in sources.items():
        data = as_array(values, source_fmt)
        num = num or data.size
        at = place[name] * REGION_BYTES
        image[at : at + data.nbytes] = data.view(np.uint8)
    source_fmt = sources.get("mask", next(iter(sources.values()), ((), fmt)))[1]
    given = make_fields(cls, num, {}) | fields
    after = run_image([Record(cls, given, fmt, source_fmt if cls.FORMATS2 else Format.INT8, rounding)], image)
    out = result or fmt
    return after[: num * out.bytes].view(out.numpy_dtype)


def unary(cls: type[Instruction], x: Values, fmt: Format, **more: int) -> np.ndarray:
    return compute(cls, {"src": (x, fmt)}, fmt, **more)


def binary(cls: type[Instruction], a: Values, b: Values, fmt: Format, **more: int) -> np.ndarray:
    return compute(cls, {"a": (a, fmt), "b": (b, fmt)}, fmt, **more)


def bits(x: np.ndarray) -> list[int]:
    """Elements as unsigned integers."""
    return x.view(np.dtype(f"u{x.dtype.itemsize}")).tolist()


def immediate(value: float) -> int:
    """A VS immediate: the bits of an FP32 number."""
    return int(np.array(value, np.float32).view(np.uint32))
