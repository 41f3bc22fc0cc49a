"""Ops of xDSL's dialects, of which lowering makes thousands: the way of their own classes takes twice as long."""

from collections.abc import Sequence
from typing import TypeVar

from xdsl.builder import Builder
from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import UNKNOWN_LOC, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from hlo2tx8.ir import INDEX, i64_attr, index_attr

OpT = TypeVar("OpT", bound=Operation)
PREDICATES = {name: number for number, name in enumerate(("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"))}


def constant_index(value: int) -> arith.ConstantOp:
    """`arith.constant value : index`."""
    return arith.ConstantOp.create(properties={"value": index_attr(value)}, result_types=[INDEX], location=UNKNOWN_LOC)


def of_two(cls: type[OpT], a: SSAValue, b: SSAValue) -> OpT:
    """An op of `arith` that makes of two values one of the same type; its other properties are what they are by default."""
    return cls.create(operands=[a, b], result_types=[a.type], location=UNKNOWN_LOC)


def compare(a: SSAValue, b: SSAValue, predicate: str) -> arith.CmpiOp:
    """`arith.cmpi predicate, a, b`."""
    properties = {"predicate": i64_attr(PREDICATES[predicate])}
    return arith.CmpiOp.create(operands=[a, b], result_types=[i1], properties=properties, location=UNKNOWN_LOC)


def yield_op(*values: SSAValue) -> scf.YieldOp:
    """`scf.yield values`."""
    return scf.YieldOp.create(operands=values, location=UNKNOWN_LOC)


def for_op(lower: SSAValue, upper: SSAValue, step: SSAValue, carried: Sequence[SSAValue], body: Region | Block) -> scf.ForOp:
    """`scf.for lower to upper step step`, with `carried` values."""
    region = Region(body) if isinstance(body, Block) else body
    types = [value.type for value in carried]
    return scf.ForOp.create(operands=[lower, upper, step, *carried], result_types=types, regions=[region], location=UNKNOWN_LOC)


def if_op(condition: SSAValue, types: Sequence[Attribute], inside: Region, outside: Region | None = None) -> scf.IfOp:
    """`scf.if condition`."""
    regions = [inside, Region() if outside is None else outside]
    return scf.IfOp.create(operands=[condition], result_types=types, regions=regions, location=UNKNOWN_LOC)


def extract_op(source: SSAValue, indices: Sequence[SSAValue], type_: Attribute) -> tensor.ExtractOp:
    """`tensor.extract source[indices]`."""
    return tensor.ExtractOp.create(operands=[source, *indices], result_types=[type_], location=UNKNOWN_LOC)


def insert_op(element: SSAValue, target: SSAValue, indices: Sequence[SSAValue]) -> tensor.InsertOp:
    """`tensor.insert element into target[indices]`."""
    return tensor.InsertOp.create(operands=[element, target, *indices], result_types=[target.type], location=UNKNOWN_LOC)


def put(builder: Builder, op: OpT) -> OpT:
    """Insert one op where a builder stands; no builder here names values, or has others listen."""
    point = builder.insertion_point
    if point.insert_before is None:
        point.block.add_op(op)
    else:
        point.block.insert_op_before(op, point.insert_before)
    return op
