"""Constant folding: an op on constants becomes a constant if that is small, or if all of its elements are equal."""

from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of, spec_of, tensor_like
from hlo2tx8.hlo.spec import Array, Kind, TensorLike

MOST_ELEMENTS = 1024
"""A larger constant takes more room, and more time to read, than what computes it."""

MOVES = ("stablehlo.reshape", "stablehlo.transpose", "stablehlo.slice", "stablehlo.reverse")
"""What gives equal elements of equal elements."""


def fold_constants(op: Operation) -> SSAValue | None:
    """The constant that the op computes, None if it is not folded."""
    if not op.operands or op.regions or spec_of(op).reference is None or op.name == "stablehlo.broadcast_in_dim":
        return None
    if not all(_is_constant(value) for value in op.operands):
        return None
    scalars = [scalar_of(value) for value in op.operands]
    result = tensor_like(op.results[0].type)
    if op.name in MOVES and scalars[0] is not None:
        return splat(op, scalars[0])
    if spec_of(op).kind is Kind.ELEMENTWISE and op.name != "stablehlo.bitcast_convert":
        known = [scalar for scalar in scalars if scalar is not None]
        if len(known) == len(scalars):
            return splat(op, _evaluate(op, TensorLike((), result.dtype), known))
    if prod(result.shape) > MOST_ELEMENTS:
        return None
    arrays = [array for value in op.operands if (array := _array_of(value)) is not None]
    if len(arrays) < len(op.operands):
        return None
    return _constant(op, _evaluate(op, result, arrays))


def _is_constant(value: SSAValue) -> bool:
    """Is it made by a constant, or is a broadcast?"""
    owner = value.owner
    return isinstance(owner, Operation) and owner.name in ("stablehlo.constant", "stablehlo.broadcast_in_dim")


def splat(op: Operation, element: Array) -> SSAValue:
    """A tensor of the op's type, in front of it, whose elements are all `element`."""
    e, type_ = Expansion(op), as_tensor(op.results[0].type)
    scalar = e.emit("constant", [], TensorType(type_.element_type, []), value=LiteralAttr.from_array(element))
    return e.emit("broadcast_in_dim", [scalar], type_, broadcast_dimensions=int_array(())) if type_.get_shape() else scalar


def _constant(op: Operation, array: Array) -> SSAValue:
    literal = LiteralAttr.from_array(array)
    return (
        splat(op, literal.array)
        if literal.array.ndim == 0
        else Expansion(op).emit("constant", [], op.results[0].type, value=literal)
    )


def _array_of(value: SSAValue) -> Array | None:
    owner, shape = value.owner, as_tensor(value.type).get_shape()
    if prod(shape) > MOST_ELEMENTS:
        return None
    if (scalar := scalar_of(value)) is not None:
        return np.broadcast_to(scalar, shape)
    if not isinstance(owner, Operation) or owner.name != "stablehlo.constant":
        return None
    literal = owner.properties.get("value")
    return literal.broadcast(shape) if isinstance(literal, LiteralAttr) else None


def _evaluate(op: Operation, result: TensorLike, arrays: list[Array]) -> Array:
    with np.errstate(all="ignore"):
        (found,) = spec_of(op).evaluate(attributes_of(op), (result,), *arrays)
    return np.asarray(found)
