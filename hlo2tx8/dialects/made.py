"""Ops of xDSL's dialects, of which lowering makes thousands: the way of their own classes takes twice as long."""

from collections.abc import Sequence

from xdsl.builder import Builder
from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, Block, Region, SSAValue

from hlo2tx8.ir import INDEX, DeclaredT, OpT, append, i64_attr, index_attr, insert_before, make

PREDICATES = {name: number for number, name in enumerate(("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"))}


def constant_index(value: int) -> arith.ConstantOp:
    """`arith.constant value : index`."""
    return make(arith.ConstantOp, (), [INDEX], {"value": index_attr(value)})


def of_two(cls: type[DeclaredT], a: SSAValue, b: SSAValue) -> DeclaredT:
    """An op of `arith` that makes of two values one of the same type; its other properties are what they are by default."""
    return make(cls, [a, b], [a.type])


def compare(a: SSAValue, b: SSAValue, predicate: str) -> arith.CmpiOp:
    """`arith.cmpi predicate, a, b`."""
    return make(arith.CmpiOp, [a, b], [i1], {"predicate": i64_attr(PREDICATES[predicate])})


def yield_op(*values: SSAValue) -> scf.YieldOp:
    """`scf.yield values`."""
    return make(scf.YieldOp, values)


def for_op(lower: SSAValue, upper: SSAValue, step: SSAValue, carried: Sequence[SSAValue], body: Region | Block) -> scf.ForOp:
    """`scf.for lower to upper step step`, with `carried` values."""
    region = Region(body) if isinstance(body, Block) else body
    return make(scf.ForOp, [lower, upper, step, *carried], [value.type for value in carried], regions=[region])


def if_op(condition: SSAValue, types: Sequence[Attribute], inside: Region, outside: Region | None = None) -> scf.IfOp:
    """`scf.if condition`."""
    regions = [inside, Region() if outside is None else outside]
    return make(scf.IfOp, [condition], types, regions=regions)


def extract_op(source: SSAValue, indices: Sequence[SSAValue], type_: Attribute) -> tensor.ExtractOp:
    """`tensor.extract source[indices]`."""
    return make(tensor.ExtractOp, [source, *indices], [type_])


def insert_op(element: SSAValue, target: SSAValue, indices: Sequence[SSAValue]) -> tensor.InsertOp:
    """`tensor.insert element into target[indices]`."""
    return make(tensor.InsertOp, [element, target, *indices], [target.type])


def put(builder: Builder, op: OpT) -> OpT:
    """Insert one op where a builder stands; no builder here names values, or has others listen."""
    point = builder.insertion_point
    if point.insert_before is None:
        append(point.block, op)
    else:
        insert_before(op, point.insert_before)
    return op
