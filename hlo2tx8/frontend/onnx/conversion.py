"""Conversions between element types: Cast, CastLike, BitCast, and ONNX's numbers of element types."""

# pyright: basic

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from hlo2tx8.frontend.onnx.table import NodeCall, Refused

ELEMENT_TYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
}
"""TensorProto.DataType's numbers and the dtypes they mean; strings have none."""
NUMBER_OF = {name: number for number, name in ELEMENT_TYPES.items()}
NARROW = ("int2", "int4", "uint2", "uint4")
SATURATING = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


def dtype_of(number: int) -> Any:
    """The dtype of an element type; Refused for strings and numbers that ONNX does not have."""
    name = ELEMENT_TYPES.get(number)
    if name is None:
        raise Refused("strings are not computed with" if number == 8 else f"there is no element type {number}")
    return np.dtype(getattr(ml_dtypes, name, name))


def is_float(dtype: Any) -> bool:
    """Is it a dtype of real numbers with a fraction?"""
    return jnp.issubdtype(dtype, jnp.floating)


def convert(x: Any, dtype: Any, saturates: bool = True, round_mode: str = "up") -> Any:
    """The array in another dtype. What 8 bits cannot hold becomes the largest number they can if it `saturates`, and numbers of 4
    bits always do; `round_mode` is that of powers of two.
    """
    if dtype.name == "float8_e8m0fnu" and is_float(x.dtype):
        return _power_of_two(x, dtype, saturates, round_mode)
    if dtype.name == "float4_e2m1fn" or (saturates and dtype.name in SATURATING):
        if not is_float(x.dtype):
            x = x.astype(jnp.float32)
        most = float(ml_dtypes.finfo(dtype).max)
        wide = x.astype(jnp.float32) if x.dtype.itemsize < 4 else x
        x = jnp.where(jnp.isnan(wide), wide, jnp.clip(wide, -most, most))
    if dtype.name in NARROW and is_float(x.dtype):
        x = x.astype(jnp.int32)  # the low bits of the whole number
    return x.astype(dtype)


def _power_of_two(x: Any, dtype: Any, saturates: bool, round_mode: str) -> Any:
    """The exponent of positive numbers, biased, as 8 bits: of a number between two powers the one that `round_mode` says."""
    bits = lax.bitcast_convert_type(jnp.abs(x.astype(jnp.float32)), jnp.uint32)
    exponent, fraction = bits >> 23, bits & 0x7FFFFF
    ups = {
        "down": jnp.zeros_like(bits),
        "up": (fraction > 0) & ((exponent > 0) | (fraction > 0x400000)),
        "nearest": (fraction >= 0x400000) & ((exponent > 0) | (fraction > 0x400000)),
    }
    rounded = exponent + ups[round_mode].astype(jnp.uint32)
    most = jnp.uint32(0xFE if saturates else 0xFF)
    rounded = jnp.where(jnp.isnan(x), jnp.uint32(0xFF), jnp.minimum(rounded, most))
    return lax.bitcast_convert_type(rounded.astype(jnp.uint8), dtype)


def cast(call: NodeCall, x: Any) -> Any:
    """Cast."""
    to = call["to"]
    to = NUMBER_OF.get(to.lower().replace("float", "float32") if to == "FLOAT" else to.lower(), 0) if isinstance(to, str) else to
    return convert(jnp.asarray(x), dtype_of(to), bool(call.attributes.get("saturate", 1)), call["round_mode"] or "up")


def cast_like(call: NodeCall, x: Any, like: Any) -> Any:
    """CastLike."""
    return convert(jnp.asarray(x), like.dtype, bool(call.attributes.get("saturate", 1)), call["round_mode"] or "up")


def bitcast(call: NodeCall, x: Any) -> Any:
    """BitCast, between dtypes of one width."""
    dtype, x = dtype_of(call["to"]), jnp.asarray(x)
    x = x.astype(jnp.uint8) if x.dtype == bool else x
    return x.astype(bool) if dtype.kind == "b" else lax.bitcast_convert_type(x, dtype)
