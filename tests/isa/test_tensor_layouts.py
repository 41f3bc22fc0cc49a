"""Cx and NCx: the published check values, every offset once, and packing there and back."""

import numpy as np
import pytest

from hlo2tx8.device.formats import Format
from hlo2tx8.device.layouts import Blocked

FP16, INT8 = Format.FP16, Format.INT8


@pytest.mark.parametrize(
    ("fmt", "channels", "aligned"),
    [
        *(
            (FP16, *pair)
            for pair in ((1, 4), (30, 32), (33, 64), (64, 64), (65, 68), (96, 96), (97, 128), (131, 132), (1000, 1024))
        ),
        *((INT8, *pair) for pair in ((129, 132), (192, 192), (193, 256))),
    ],
)
def test_aligned_channels(fmt: Format, channels: int, aligned: int) -> None:
    assert Blocked(fmt, 1, 7, channels).aligned_channels == aligned


def test_two_batches_of_131_channels() -> None:
    layout = Blocked(FP16, 2, 2, 131)
    assert (layout.num_blocks, layout.tail_width) == (2, 4)
    assert (layout.batch_bytes, layout.batch_stride_bytes, layout.size_bytes) == (528, 768, 768 + 528)
    assert layout.offset_bytes(0, 1, 63) == (64 + 63) * 2
    assert layout.offset_bytes(0, 0, 64) == 256
    assert layout.offset_bytes(1, 1, 130) == 768 + 512 + (4 + 2) * 2


@pytest.mark.parametrize("channels", [4, 8, 16, 32, 64])
def test_few_channels_are_dense(channels: int) -> None:
    dense = np.arange(5 * channels, dtype=np.float16).reshape(1, 5, channels)
    assert Blocked(FP16, 1, 5, channels).pack(dense).tobytes() == dense.tobytes()


@pytest.mark.parametrize("fmt", [INT8, FP16, Format.FP32])
@pytest.mark.parametrize("channels", [1, 3, 31, 33, 64, 65, 100, 129, 161, 200, 257])
def test_packing(fmt: Format, channels: int) -> None:
    layout = Blocked(fmt, 3, 5, channels)
    values = np.random.default_rng(channels).integers(1, 127, (3, 5, channels)).astype(fmt.numpy_dtype)
    data = layout.pack(values)
    assert data.size == layout.size_bytes
    assert np.array_equal(layout.unpack(data), values)
    places = [layout.offset_bytes(*index) for index in np.ndindex(values.shape)]
    assert len(set(places)) == values.size
    found = [data[at : at + fmt.bytes].view(fmt.numpy_dtype)[0] for at in places]
    assert np.array_equal(np.array(found), values.ravel())
    assert int((data != 0).sum()) <= values.nbytes


def test_outside() -> None:
    layout = Blocked(FP16, 1, 2, 3)
    for index in ((1, 0, 0), (0, 2, 0), (0, 0, 3), (0, 0, -1)):
        with pytest.raises(IndexError, match="is outside of"):
            layout.offset_bytes(*index)
