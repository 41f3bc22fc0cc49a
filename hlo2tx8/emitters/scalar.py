"""HLO operations on one element as scalar IR: an arith or math op of the same meaning, else `xla.elementwise`."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

import numpy.typing as npt
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.xla import ConstantOp, ElementwiseOp
from hlo2tx8.hlo import spec_of
from hlo2tx8.partitioner.instruction import CONSTANTS, tensor_type

Array = npt.NDArray[Any]

_FLOATS = (BFloat16Type, Float16Type, Float32Type, Float64Type)
_LOGICAL = (arith.AndIOp, arith.OrIOp, arith.XOrIOp)


def scalar_op(op: Operation, operands: Sequence[SSAValue], result_type: Attribute) -> Operation:
    """`op`, an elementwise HLO instruction, on scalar operands; it carries the origin of `op`."""
    return scalar_op_named(op.name, operands, result_type, op.properties, location(op))


def location(op: Operation) -> dict[str, Attribute]:
    """The attribute that says where an op comes from, if it has one."""
    return {name: value for name, value in op.attributes.items() if name == "loc"}


def scalar_op_named(
    name: str,
    operands: Sequence[SSAValue],
    result_type: Attribute,
    properties: Mapping[str, Attribute],
    loc: Mapping[str, Attribute],
) -> Operation:
    """The elementwise HLO op of that name with these properties, on scalar operands."""
    chosen = _native_class(name, operands, result_type)
    if chosen is not None:
        return chosen.create(
            operands=operands,
            result_types=[result_type],
            properties=dict(_default_properties(chosen)),
            attributes=dict(loc),
        )
    return ElementwiseOp(name, operands, result_type, {**properties, **loc})


def _native_class(name: str, operands: Sequence[SSAValue], result_type: Attribute) -> type[Operation] | None:
    """The arith or math class with this meaning on these types."""
    table: Mapping[str, type[Operation]] = spec_of(name).scalar or {}
    if any(value.type != result_type for value in operands):
        return None
    if isinstance(result_type, _FLOATS):
        return table.get("float")
    integer = _signless(result_type)
    chosen = table.get("int")
    if integer is None or (integer.width.data == 1 and chosen not in _LOGICAL):
        return None
    return chosen


def _signless(type_: Attribute) -> IntegerType | None:
    """The type if arith computes with it as an integer."""
    if not isinstance(type_, IntegerType):
        return None
    integer = cast(IntegerType, type_)
    return integer if integer.signedness.data is Signedness.SIGNLESS else None


@cache
def _default_properties(chosen: type[Operation]) -> tuple[tuple[str, Attribute], ...]:
    """The properties an op of that class has when nothing is said: no fast-math, no overflow flags."""
    definition = getattr(chosen, "get_irdl_definition")()  # noqa: B009
    found: list[tuple[str, Attribute]] = []
    for name, declared in definition.properties.items():
        if declared.default_value is not None:
            found.append((name, declared.default_value))
    return tuple(found)


def scalar_constant(value: Array, type_: Attribute) -> Operation:
    """A 0-d array as a constant op, bit for bit: NaNs and types arith lacks become `xla.constant`."""
    if isinstance(type_, _FLOATS):
        number = float(value)
        if not math.isnan(number):
            return arith.ConstantOp(FloatAttr(number, type_))
    elif (integer := _signless(type_)) is not None:
        return arith.ConstantOp(IntegerAttr(int(value), integer, truncate_bits=True))
    return ConstantOp(LiteralAttr.from_array(value), type_)


def constant_array(op: Operation) -> Array:
    """The value of a constant whose elements are all equal, 0-d."""
    literal = op.properties["value"]
    assert isinstance(literal, LiteralAttr)
    return literal.array


def inline_body(body: Block, arguments: Sequence[SSAValue], block: Block) -> list[SSAValue]:
    """What a region of elementwise instructions on scalars yields for these arguments, computed at the end of a block."""
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, arguments, strict=True))
    for inner in body.ops:
        operands = [values[operand] for operand in inner.operands]
        if inner is body.last_op:
            return operands
        type_ = tensor_type(inner.results[0]).element_type
        is_constant = inner.name in CONSTANTS
        new = scalar_constant(constant_array(inner), type_) if is_constant else scalar_op(inner, operands, type_)
        block.add_op(new)
        values[inner.results[0]] = new.results[0]
    return []
