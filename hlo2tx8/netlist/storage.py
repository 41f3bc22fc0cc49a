"""How tensors lie in a chip's memory: elements of its own types, and block formats as packed bytes."""

from typing import TypeAlias

import ml_dtypes
import numpy as np

from hlo2tx8.netlist.formats import Array, Format, of_blocks, round_to, to_blocks, xp
from hlo2tx8.netlist.tensors import Tensor

Lying: TypeAlias = Array | tuple[Array, Array]
"""A tensor in memory: an array, or the two of a block format."""
LARGEST_HALF = 65504.0
_OWN = {"Float32": np.float32, "Tf32": np.float32, "Float16": np.float16, "Int8": np.int8, "Int32": np.int32}


def element_of(format: Format) -> "np.dtype[np.generic]":
    """In what a chip computes with a format: of block formats and those of 8 bits in bfloat16, which has all their values."""
    if format.family in ("int", "raw") and format.name not in _OWN:
        return np.dtype(f"u{format.bits // 8}")
    return np.dtype(_OWN.get(format.name, ml_dtypes.bfloat16))


def stored(data: Array, format: Format) -> Array:
    """Values as elements of that type; what is too large for float16, which here has no infinities, is its largest."""
    n, element = xp(data), element_of(format)
    if data.dtype == element:
        return data
    if format.family == "int":
        data = round_to(data.astype(np.float32), format)
    if format.name == "Float16":
        data = n.clip(data.astype(np.float32), -LARGEST_HALF, LARGEST_HALF)
    return data.astype(element)


def at_rest(data: Array, format: Format) -> Lying:
    """What lies in a queue: as `stored`; of block formats packed bytes of signs and mantissas, and bytes of exponents."""
    if format.family != "block":
        return stored(data, format)
    exponents, fields = to_blocks(data, format)
    bits = format.bits + 1
    parts = fields.reshape(*fields.shape[:-1], -1, 8 // bits)
    packed = parts[..., 0]
    for number in range(1, 8 // bits):
        packed = packed | parts[..., number] << np.uint8(number * bits)
    return packed, exponents


def read_back(data: Lying, format: Format) -> Array:
    """Elements of the format's type, of raw formats uint32; the inverse of `at_rest`."""
    if not isinstance(data, tuple):
        return data.astype(np.uint32) if format.family == "raw" else data
    (fields, exponents), bits = data, format.bits + 1
    if bits < 8:
        parts = [fields >> np.uint8(number * bits) & np.uint8((1 << bits) - 1) for number in range(8 // bits)]
        fields = xp(fields).stack(parts, axis=-1).reshape(*fields.shape[:-1], -1)
    return stored(of_blocks(exponents, fields, format), format)


def to_device(tensor: Tensor, format: Format) -> Lying:
    """A host's tensor as it lies in a queue. ValueError for a number that is too large."""
    if format.name == "Float16" and (np.abs(tensor.data) > LARGEST_HALF).any():
        raise ValueError(f"{np.abs(tensor.data).max():g} is more than {LARGEST_HALF:g}, the largest Float16 of the chip")
    return at_rest(tensor.data, format)


def to_host(data: Lying, format: Format) -> Tensor:
    """The inverse of `to_device`."""
    held = read_back(data, format)
    return Tensor(held if format.family == "raw" else held.astype(np.float32), format)
