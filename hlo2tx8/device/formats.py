"""Element formats of the machine: the codes of the ISA, their width and their numpy dtype."""

from enum import IntEnum
from typing import Any

import ml_dtypes
import numpy as np


class Format(IntEnum):
    """Format codes. 0-12 are the machine's; the rest serve the kernel core and DMA, which take any element width."""

    INT8 = 0
    INT16 = 1
    FP16 = 2
    BF16 = 3
    INT32 = 4
    FP32 = 5
    TF32 = 6
    BOOL = 7
    UINT8 = 8
    UINT16 = 9
    UINT32 = 10
    INT64 = 11
    UINT64 = 12
    FP64 = 13
    PRED = 14
    RAW8 = 15
    RAW128 = 16

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory."""
        return _BYTES[self]

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The numpy dtype of one element as it lies in memory; TF32 lies in float32, RAW formats are opaque bytes."""
        return np.dtype(_NUMPY[self])

    @property
    def is_float(self) -> bool:
        """Are its elements floating-point numbers?"""
        return self in _FLOATS

    @property
    def is_signed(self) -> bool:
        """Are its elements integers that may be negative?"""
        return self in (Format.INT8, Format.INT16, Format.INT32, Format.INT64)

    @property
    def is_integer(self) -> bool:
        """Are its elements integers?"""
        return not self.is_float and self not in (Format.BOOL, Format.PRED, Format.RAW8, Format.RAW128)


class Rounding(IntEnum):
    """Rounding codes of conversions."""

    NEAREST_EVEN = 0
    TOWARD_ZERO = 1
    TOWARD_POSITIVE = 2
    TOWARD_NEGATIVE = 3
    STOCHASTIC = 4


_FLOATS = (Format.FP16, Format.BF16, Format.FP32, Format.TF32, Format.FP64)
_NUMPY: dict[Format, type[np.generic] | str] = {
    Format.INT8: np.int8,
    Format.INT16: np.int16,
    Format.FP16: np.float16,
    Format.BF16: ml_dtypes.bfloat16,
    Format.INT32: np.int32,
    Format.FP32: np.float32,
    Format.TF32: np.float32,
    Format.BOOL: np.uint8,
    Format.UINT8: np.uint8,
    Format.UINT16: np.uint16,
    Format.UINT32: np.uint32,
    Format.INT64: np.int64,
    Format.UINT64: np.uint64,
    Format.FP64: np.float64,
    Format.PRED: np.uint8,
    Format.RAW8: np.uint8,
    Format.RAW128: "V16",
}
_BYTES = {fmt: np.dtype(dtype).itemsize for fmt, dtype in _NUMPY.items()}
