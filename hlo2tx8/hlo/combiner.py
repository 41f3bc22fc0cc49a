"""What the combiner of a reduce over (value, index) pairs computes, recognised by evaluating it on test values.

A combiner that does nothing but compare is tried on all ways in which two pairs may compare: larger, smaller, equal, zeros of both
signs, NaN on either side, indices in either order.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import Block, BlockArgument, SSAValue

from hlo2tx8.hlo.lookup import attributes_of, has_spec, spec_of, tensor_like
from hlo2tx8.hlo.types import DType, is_float

Array = npt.NDArray[Any]

COMPARISONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
LOGIC: Mapping[str, Callable[..., Array]] = {
    "stablehlo.and": np.logical_and,
    "stablehlo.or": np.logical_or,
    "stablehlo.xor": np.logical_xor,
    "stablehlo.not": np.logical_not,
    "stablehlo.select": np.where,
}


def is_in_any_order(body: Block) -> bool:
    """True if a reduce with that combiner gives an extreme value and its index, and gives the same in any order."""
    return any(does(body, extreme(direction, is_first=False)) for direction in ("GT", "LT"))


def extreme(direction: str, *, is_first: bool) -> Callable[[Array, Array, Array, Array], tuple[Array, Array]]:
    """The numpy function (left value, left index, right value, right index) of an argmax (GT) or argmin (LT); if `is_first`, the
    left one of two NaNs is taken.
    """

    def function(left: Array, left_index: Array, right: Array, right_index: Array) -> tuple[Array, Array]:
        left_nan, right_nan = np.isnan(left), np.isnan(right)
        leads = COMPARISONS[direction](left, right) | (left_nan & (is_first | ~right_nan))
        ties = (left == right) | (left_nan & right_nan & (not is_first))
        keeps = leads | (ties & (left_index < right_index))
        last = leads | (ties & (left_index > right_index) & (not is_first))
        return np.where(last, left, right), np.where(keeps, left_index, right_index)

    return function


def does(body: Block, function: Callable[[Array, Array, Array, Array], tuple[Array, Array]]) -> bool:
    """True if the combiner gives what `function` gives on all test values and indices."""
    if len(body.args) != 4 or not _only_compares(body):
        return False
    value = tensor_like(body.args[0].type).dtype
    tried = _values(value), np.arange(3), _values(value), np.arange(3)
    arguments = [array.reshape(-1) for array in np.meshgrid(*tried)]
    known: dict[SSAValue, Array] = dict(zip(body.args, arguments, strict=True))
    for op in body.ops:
        operands = [known[operand] for operand in op.operands]
        if op is body.last_op:
            found = function(*arguments)
            return all(_is_same(a, b) for a, b in zip(operands, found, strict=True))
        if op.name == "stablehlo.compare":
            known[op.results[0]] = COMPARISONS[str(attributes_of(op)["comparison_direction"])](*operands)
        else:
            known[op.results[0]] = LOGIC[op.name](*operands)
    return False


def _only_compares(body: Block) -> bool:
    """Are its instructions comparisons of its arguments, two values or two indices, and logic on what these give?"""
    inside: set[SSAValue] = {*body.args}
    for op in body.ops:
        if any(operand not in inside for operand in op.operands):
            return False
        if op.name == "stablehlo.compare":
            is_total = str(attributes_of(op).get("compare_type")) == "TOTALORDER"
            sides = [operand.index % 2 for operand in op.operands if isinstance(operand, BlockArgument)]
            if is_total or len(sides) != 2 or sides[0] != sides[1]:
                return False
        elif op.name not in LOGIC and op is not body.last_op:
            return False
        inside.update(op.results)
    return True


def _values(dtype: DType) -> Array:
    return np.array([np.nan, -1.0, -0.0, 0.0, 1.0]) if is_float(dtype) else np.arange(3.0)


def _is_same(a: Array, b: Array) -> bool:
    """Bit for bit, NaN as NaN."""
    return bool(np.all((a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)))


def neutral_element(body: Block, dtype: DType) -> Array | None:
    """The scalar that changes nothing when a combiner joins it with another; None unless the combiner is one op that has one.

    Bit for bit: -0.0 of a sum of floats, whose +0.0 would change -0.0.
    """
    first = body.first_op
    if len(body.args) != 2 or first is None or first.next_op is not body.last_op or set(first.operands) != set(body.args):
        return None
    find = spec_of(first).neutral if has_spec(first.name) else None
    number = None if find is None else find(dtype)
    return None if number is None else np.array(number).astype(dtype)
