"""Layouts of tensor types: where an element lies in its buffer, in elements.

`tensor<4x8xf32, #hlo.layout<[0, 1]>>` is column major: dimension 0 is the minor one, its strides are (1, 4).
"""

from typing import cast

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute

from hlo2tx8.dialects.hlo import minor_to_major


def strides(type_: TensorType[Attribute]) -> tuple[int, ...]:
    """Elements between neighbours along each dimension."""
    shape = type_.get_shape()
    found = [0] * len(shape)
    step = 1
    for dim in minor_to_major(type_):
        found[dim] = step
        step *= shape[dim]
    return tuple(found)


def is_row_major(type_: TensorType[Attribute]) -> bool:
    """True if elements lie in memory in logical order; dimensions of size 1 do not matter."""
    if isinstance(type_.encoding, NoneAttr):
        return True
    shape = type_.get_shape()
    order = [dim for dim in minor_to_major(type_) if shape[dim] != 1]
    return order == sorted(order, reverse=True)


def is_tensor(type_: Attribute) -> bool:
    """Is it a tensor's type? Other values are tuples and tokens."""
    return isinstance(type_, TensorType)


def as_tensor(type_: Attribute) -> TensorType[Attribute]:
    """The type itself, known to be a tensor."""
    assert isinstance(type_, TensorType), type_
    return cast("TensorType[Attribute]", type_)


__all__ = ["as_tensor", "is_row_major", "is_tensor", "minor_to_major", "strides"]
