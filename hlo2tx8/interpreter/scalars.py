"""Scalar operations on arrays: the OpSpec's reference, the same that defines the HLO instruction."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects import arith
from xdsl.ir import Attribute, Operation

from hlo2tx8.dialects.hlo import LiteralAttr, decode_attribute
from hlo2tx8.errors import LevelError
from hlo2tx8.hlo import TensorLike, numpy_dtype, spec_of_scalar
from hlo2tx8.interpreter.vectors import element_type

Array = npt.NDArray[Any]


def evaluate_scalar(op: Operation, operands: Sequence[Array]) -> Array:
    """The results of one arith, math or `xla.elementwise` op at all points, computed by the OpSpec that has the same meaning."""
    shape = np.broadcast_shapes(*(operand.shape for operand in operands))
    if isinstance(op, tuple(_ON_INDICES)):
        return np.broadcast_to(_ON_INDICES[type(op)](*operands), shape)
    result_type = TensorLike(shape, numpy_dtype(element_type(op)))
    attributes = {name: decode_attribute(value) for name, value in op.attributes.items() if name != "loc"}
    (value,) = spec_of_scalar(op).evaluate(attributes, (result_type,), *operands)
    return np.broadcast_to(value, shape)


_ON_INDICES: Mapping[type[Operation], Callable[..., Array]] = {
    arith.SelectOp: np.where,
    arith.MinSIOp: np.minimum,
    arith.MaxSIOp: np.maximum,
}
"""Ops of lowered IR that no HLO instruction becomes directly."""


def literal_array(value: Attribute) -> Array:
    """The 0-d array in an `hlo.literal`."""
    if not isinstance(value, LiteralAttr):
        raise LevelError("E1006", f"{value} is no literal")
    return value.array
