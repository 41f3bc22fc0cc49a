"""Tensors of the interpreter: arrays that inserts change in place, and how arguments become them."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import FunctionType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from hlo2tx8.dialects.layout import is_row_major, minor_to_major
from hlo2tx8.errors import InputError
from hlo2tx8.hlo import numpy_dtype

Array = npt.NDArray[Any]

POISON = 0xCD
"""Byte of every element nobody has written."""


def new_buffer(type_: TensorType[Attribute]) -> Array:
    """A tensor with poisoned contents, in logical shape."""
    array = np.empty(type_.get_shape(), numpy_dtype(type_.element_type))
    if array.dtype == np.bool_:
        array[...] = True
    elif array.size:
        array.reshape(-1).view(np.uint8)[...] = POISON
    return array


def logical_type(entry: FuncOp) -> FunctionType:
    """The entry's type before flattening."""
    kept = entry.attributes.get("xla.logical_type")
    return kept if isinstance(kept, FunctionType) else entry.function_type


def to_buffers(entry: FuncOp, arrays: Sequence[Array]) -> list[Array]:
    """The arguments in the shape the entry function works on: unchanged, or flattened in the order of their layouts."""
    types = [cast("TensorType[Attribute]", t) for t in logical_type(entry).inputs]
    if len(arrays) != len(types):
        raise InputError("E1004", f"{len(types)} arrays expected, {len(arrays)} given")
    result: list[Array] = []
    for array, type_ in zip(arrays, types, strict=True):
        if array.shape != type_.get_shape():
            raise InputError("E1004", f"an array of shape {list(type_.get_shape())} expected, got {list(array.shape)}")
        result.append(_flatten(array, type_) if "xla.logical_type" in entry.attributes else array)
    return result


def from_buffer(entry: FuncOp, buffer: Array, type_: TensorType[Attribute]) -> Array:
    """A result in its logical shape."""
    if "xla.logical_type" not in entry.attributes:
        return buffer
    if is_row_major(type_):
        return buffer.reshape(type_.get_shape())
    order = tuple(reversed(minor_to_major(type_)))
    physical = buffer.reshape([type_.get_shape()[dim] for dim in order])
    return np.transpose(physical, np.argsort(order))


def _flatten(array: Array, type_: TensorType[Attribute]) -> Array:
    if is_row_major(type_):
        return array.reshape(-1)
    return np.transpose(array, tuple(reversed(minor_to_major(type_)))).reshape(-1)
