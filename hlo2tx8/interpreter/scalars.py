"""Scalar operations on arrays: the OpSpec's reference, the same that defines the HLO instruction."""

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, Operation

from hlo2tx8.errors import LevelError
from hlo2tx8.hlo import TensorLike, decode_scalar_attributes, numpy_dtype, spec_of_scalar

Array = np.ndarray


def evaluate_scalar(op: Operation, operands: Sequence[Array]) -> Array:
    """One arith, math or xla.elementwise op at all points."""
    shape = np.broadcast_shapes(*(operand.shape for operand in operands))
    result_type = TensorLike(shape, numpy_dtype(op.results[0].type))
    arrays = [np.broadcast_to(operand, shape) for operand in operands]
    value = spec_of_scalar(op).reference(decode_scalar_attributes(op), (result_type,), *arrays)
    if isinstance(value, tuple):
        raise LevelError("E1006", f"{op.name} has several results")
    return value


def literal_array(value: Attribute) -> Array:
    """The 0-d array in an `hlo.literal`."""
    return value.array
