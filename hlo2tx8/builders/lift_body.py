"""`stablehlo.map` of elementwise ops as those ops on whole arrays.

    %2 = stablehlo.map(%0, %1) { ^bb0(%a, %b): return multiply %a, %b }    ⟶    %2 = stablehlo.multiply %0, %1

Scalars that the region closes over are spread over the array.
"""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.stablehlo import OPS
from hlo2tx8.hlo.lookup import has_spec, spec_of
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.ir import i64_array


def lift_map(op: Operation) -> None:
    """Replaces a map whose region holds elementwise ops only; leaves any other alone."""
    body = op.regions[0].block
    if is_liftable(body):
        shape = cast("TensorType[Attribute]", op.results[0].type).get_shape()
        Rewriter.replace_op(op, [], lift_body(body, op.operands, shape, op))


def is_liftable(body: Block) -> bool:
    """Does a region hold elementwise ops only?"""
    return all(_is_elementwise(o) for o in body.ops if o is not body.last_op)


def lift_body(body: Block, arguments: Sequence[SSAValue], shape: Sequence[int], op: Operation) -> list[SSAValue]:
    """What a liftable region yields for every element of arrays of that shape, by new ops in front of `op`."""
    block = op.parent
    assert block is not None
    lifted: dict[SSAValue, SSAValue] = dict(zip(body.args, arguments, strict=True))

    def whole(value: SSAValue) -> SSAValue:
        """The array of a scalar; one from outside of the region is the same for all elements."""
        if value not in lifted:
            everywhere = {"broadcast_dimensions": i64_array([])}
            spread = OPS["broadcast_in_dim"]([value], [_array_of(value.type, shape)], everywhere)
            block.insert_op_before(spread, op)
            lifted[value] = spread.results[0]
        return lifted[value]

    for scalar in body.ops:
        if scalar is body.last_op:
            break
        operands = [whole(value) for value in scalar.operands]
        types = [_array_of(type_, shape) for type_ in scalar.result_types]
        new = type(scalar).create(operands=operands, result_types=types, properties=dict(scalar.properties))
        new.attributes.update(scalar.attributes)
        block.insert_op_before(new, op)
        lifted.update(zip(scalar.results, new.results, strict=True))
    assert body.last_op is not None
    return [whole(value) for value in body.last_op.operands]


def _is_elementwise(op: Operation) -> bool:
    if op.regions or not has_spec(op.name):
        return False
    if isinstance(op.properties.get("value"), LiteralAttr):
        return True
    return spec_of(op).kind is Kind.ELEMENTWISE and not op.name.startswith("chlo.broadcast_")


def _array_of(type_: Attribute, shape: Sequence[int]) -> TensorType[Attribute]:
    return TensorType(cast("TensorType[Attribute]", type_).element_type, shape)
