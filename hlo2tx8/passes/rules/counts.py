"""Simplifications of integers that are counted: sums and products of iotas and constants, whose values are known to be small.

iota 0 * 1024 + iota 1 : [2048, 1024]        ⟶    reshape (iota : [2097152])
convert (iota : ui64) : ui32                 ⟶    iota : ui32
shift_right_logical (iota : ui64), 32        ⟶    0
compare LT (iota : i32), 0                   ⟶    false
compare LT (counter of a loop from 0), 0     ⟶    false
"""

from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.trip_count import counter_of, trip_count
from hlo2tx8.hlo.types import integer_limits, is_integer, numpy_dtype
from hlo2tx8.ir import i64_attr
from hlo2tx8.passes.rules.fold_constants import splat

MOST_DEPTH = 8
"""Sums within sums that are looked into: a number of a few dimensions has fewer, and the walk doubles with each."""


def place_in_order(op: Operation) -> SSAValue | None:
    """A sum that numbers all elements in the order of memory: one iota, reshaped."""
    type_ = as_tensor(op.results[0].type)
    shape = type_.get_shape()
    if sum(n > 1 for n in shape) < 2 or (factors := _factors(op.results[0])) is None:
        return None
    if prod(shape) - 1 > integer_limits(numpy_dtype(type_.element_type))[1]:
        return None
    if any(factors.get(dim, 0) != prod(shape[dim + 1 :]) for dim, n in enumerate(shape) if n > 1):
        return None
    e = Expansion(op)
    line = e.emit("iota", [], TensorType(type_.element_type, [prod(shape)]), iota_dimension=i64_attr(0))
    return e.emit("reshape", [line], type_)


def narrower_count(op: Operation) -> SSAValue | None:
    """A conversion of an iota between integers that hold all of it."""
    (value,), result = op.operands, as_tensor(op.results[0].type)
    owner = value.owner
    largest, dtype = _largest(value), numpy_dtype(result.element_type)
    if not isinstance(owner, Operation) or largest is None or not is_integer(dtype) or largest > integer_limits(dtype)[1]:
        return None
    if owner.name == "stablehlo.iota":
        return Expansion(op).emit("iota", [], result, iota_dimension=i64_attr(_dimension(owner)))
    if owner.name == "stablehlo.reshape":
        e, line = Expansion(op), owner.operands[0]
        return e.emit("reshape", [e.converted(line, result.element_type)], result)
    return None


def shifted_out(op: Operation) -> SSAValue | None:
    """Zero, where no bit is left of a count."""
    value, by = op.operands
    largest, bits = _largest(value), scalar_of(by)
    if largest is None or bits is None or int(bits) < 0 or largest >> min(int(bits), 64):
        return None
    return splat(op, np.zeros((), numpy_dtype(as_tensor(value.type).element_type)))


def never_negative(op: Operation) -> SSAValue | None:
    """Whether a count is less than zero, which it is not, or at least zero, which it is."""
    value, limit = op.operands
    direction, bound = str(attributes_of(op)["comparison_direction"]), scalar_of(limit)
    if direction not in ("LT", "GE") or bound is None or _largest(value) is None or int(bound) > 0:
        return None
    return splat(op, np.array(direction == "GE"))


def _dimension(iota: Operation) -> int:
    return int(attributes_of(iota)["iota_dimension"])


def _largest(value: SSAValue) -> int | None:
    """The largest element of an iota, which may be reshaped, or of a loop's counter that is never negative; None for what else
    there is, and where it wraps."""
    owner = value.owner
    if isinstance(value, BlockArgument):
        return _last(value)
    if not isinstance(owner, Operation) or not is_integer(dtype := numpy_dtype(as_tensor(value.type).element_type)):
        return None
    if owner.name == "stablehlo.reshape":
        return _largest(owner.operands[0])
    if owner.name != "stablehlo.iota":
        return None
    largest = max(as_tensor(value.type).get_shape()[_dimension(owner)] - 1, 0)
    return largest if largest <= integer_limits(dtype)[1] else None


def _last(value: BlockArgument) -> int | None:
    """The last number of a counter in the body of its loop, None if it is none, or may be negative, or wraps."""
    loop = value.owner.parent_op()
    if not isinstance(loop, Operation) or loop.name != "stablehlo.while" or value.owner is not loop.regions[1].block:
        return None
    counter, turns = counter_of(loop, value.index), trip_count(loop)
    if counter is None or not turns or min(counter.start, counter.step) < 0:
        return None
    last = counter.start + counter.step * (turns - 1)
    return last if last <= integer_limits(numpy_dtype(as_tensor(value.type).element_type))[1] else None


def _factors(value: SSAValue, depth: int = MOST_DEPTH) -> dict[int, int] | None:
    """Per dimension what the index along it is multiplied with in a sum of such products, up to `depth` operations deep; None if it
    is none."""
    owner = value.owner
    if depth == 0 or not isinstance(owner, Operation) or not is_integer(numpy_dtype(as_tensor(value.type).element_type)):
        return None
    if owner.name == "stablehlo.iota":
        return {_dimension(owner): 1}
    if owner.name == "stablehlo.multiply":
        for one, other in (owner.operands, owner.operands[::-1]):
            if (by := scalar_of(other)) is not None and (found := _factors(one, depth - 1)) is not None:
                return {dim: factor * int(by) for dim, factor in found.items()}
    if owner.name == "stablehlo.add":
        terms = [_factors(operand, depth - 1) for operand in owner.operands]
        if all(term is not None for term in terms):
            return {
                dim: sum(term.get(dim, 0) for term in terms if term is not None)
                for dim in {dim for term in terms if term is not None for dim in term}
            }
    return None
