"""The number of turns of a counted while: `%i = lo; %i < hi; %i + step` with three constants."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from hlo2tx8.dialects.hlo import FusionOp, decode_attributes, is_splat_literal
from hlo2tx8.hlo.regions import terminator_of
from hlo2tx8.hlo.types import is_integer, numpy_dtype

MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE"}
"""`a op b` as `b op' a`."""


@dataclass(frozen=True)
class Counter:
    """Loop variable number `position`, which starts at `start` and grows by `step` in each turn; a scalar integer of dtype
    `type`.
    """

    position: int
    start: int
    step: int
    type: Attribute


def trip_count(loop: Operation) -> int | None:
    """The number of turns of a `stablehlo.while`, None if it is not certain."""
    condition, _ = (region.block for region in loop.regions)
    compare = terminator_of(condition).operands[0].owner
    if not (isinstance(compare, Operation) and compare.name == "stablehlo.compare"):
        return None
    attributes = decode_attributes(compare)
    direction = str(attributes["comparison_direction"])
    left, right = compare.operands
    if constant_of(left) is not None:
        left, right, direction = right, left, MIRRORED.get(direction, direction)
    bound = constant_of(right)
    if bound is None or left not in condition.args:
        return None
    counter = counter_of(loop, condition.args.index(left))
    if counter is None:
        return None
    return _turns(direction, counter, bound)


def _turns(direction: str, counter: Counter, bound: int) -> int | None:
    """Turns until the comparison fails, if the counter gets there without wrapping."""
    lo, step = counter.start, counter.step
    match direction:
        case "LT" if step > 0:
            turns = max(0, -(-(bound - lo) // step))
        case "LE" if step > 0:
            turns = max(0, (bound - lo) // step + 1)
        case "GT" if step < 0:
            turns = max(0, -(-(lo - bound) // -step))
        case "GE" if step < 0:
            turns = max(0, (lo - bound) // -step + 1)
        case "NE" if step and (bound - lo) % step == 0 and (bound - lo) // step >= 0:
            turns = (bound - lo) // step
        case _:
            return None
    info = np.iinfo(numpy_dtype(cast("TensorType[Attribute]", counter.type).element_type))
    return turns if info.min <= lo + turns * step <= info.max else None


def counter_of(loop: Operation, position: int) -> Counter | None:
    """Loop variable number `position` as a counter with constant start and step, None if it is none; also if the body is fused."""
    body = loop.regions[1].block
    arg, start = body.args[position], constant_of(loop.operands[position])
    form = linear_of(terminator_of(body).operands[position], {arg: (0, 1)}) if start is not None else None
    return Counter(position, start, form[0], arg.type) if start is not None and form is not None and form[1] == 1 else None


def linear_of(value: SSAValue, known: Mapping[SSAValue, tuple[int, int]]) -> tuple[int, int] | None:
    """c and k such that a scalar integer is c + k * n, where values with such forms are known; None if that is not known. Fusions
    are looked into."""
    if value in known:
        return known[value]
    constant, owner = constant_of(value), value.owner
    if constant is not None:
        return constant, 0
    if isinstance(owner, FusionOp) and isinstance(value, OpResult):
        given = zip(owner.body.block.args, (linear_of(operand, known) for operand in owner.operands), strict=True)
        inside: dict[SSAValue, tuple[int, int]] = {arg: form for arg, form in given if form is not None}
        return linear_of(terminator_of(owner.body.block).operands[value.index], inside)
    if not isinstance(owner, Operation) or owner.name not in ("stablehlo.add", "stablehlo.subtract"):
        return None
    left, right = (linear_of(operand, known) for operand in owner.operands)
    sign = 1 if owner.name == "stablehlo.add" else -1
    return None if left is None or right is None else (left[0] + sign * right[0], left[1] + sign * right[1])


def goes_through(value: SSAValue, counters: Mapping[SSAValue, tuple[int, int]], turns: int) -> bool:
    """Is a number in the body of a loop each of 0 to `turns` - 1 once, in one direction or the other?"""
    return linear_of(value, counters) in ((0, 1), (turns - 1, -1)) and turns > 0


def counters_in(loop: Operation) -> dict[SSAValue, tuple[int, int]]:
    """By argument of a loop's body that is a counter: where it starts, and how much more it is in each turn."""
    found = (counter_of(loop, position) for position in range(len(loop.operands)))
    return {loop.regions[1].block.args[own.position]: (own.start, own.step) for own in found if own is not None}


def constant_of(value: SSAValue) -> int | None:
    """The value of a constant scalar integer, None for other values."""
    op, type_ = value.owner, value.type
    if not (isinstance(op, Operation) and op.name == "stablehlo.constant" and isinstance(type_, TensorType)):
        return None
    tensor = cast("TensorType[Attribute]", type_)
    if tensor.get_shape() or not is_splat_literal(op) or not is_integer(numpy_dtype(tensor.element_type)):
        return None
    return int(decode_attributes(op)["value"])
