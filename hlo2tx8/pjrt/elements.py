"""Element types: PJRT's numbers and numpy's dtypes. Elements of less than a byte have one byte each, on the host and in DDR."""

from functools import cache
from typing import Any

import numpy as np

NAMES = (
    "", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "bfloat16", "complex64", "complex128", "float8_e5m2", "float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e5m2fnuz",
    "float8_e4m3fnuz", "int4", "uint4", "token", "int2", "uint2", "float8_e4m3", "float8_e3m4", "float8_e8m0fnu",
    "float4_e2m1fn", "int1", "uint1",
)  # fmt: skip
"""Dtype names in the order of PJRT_Buffer_Type."""
CODES = {name: code for code, name in enumerate(NAMES)}
TOKEN = CODES["token"]
"""A token stands for no data; its buffer has one byte, which nobody reads."""


@cache
def dtype_of(code: int) -> np.dtype[Any]:
    """The dtype of a PJRT_Buffer_Type; TypeError for a type without host form."""
    import ml_dtypes

    name = "bool" if code == TOKEN else NAMES[code]
    kind: Any = getattr(ml_dtypes, name, name or "invalid")
    try:
        return np.dtype(kind)
    except TypeError:
        raise TypeError(f"no arrays of element type {name or 'invalid'}") from None


def code_of(name: str) -> int:
    """The PJRT_Buffer_Type of a dtype name."""
    return CODES[name]
