"""`stablehlo.map` of elementwise ops as those ops on whole arrays.

    %2 = stablehlo.map(%0, %1) { ^bb0(%a, %b): return multiply %a, %b }    ⟶    %2 = stablehlo.multiply %0, %1

Scalars that the region closes over are spread over the array.
"""

from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.stablehlo import OPS
from hlo2tx8.hlo.lookup import has_spec, spec_of
from hlo2tx8.hlo.spec import Kind


def lift_map(op: Operation) -> None:
    """Replaces a map whose region holds elementwise ops only; leaves any other alone."""
    (region,) = op.regions
    body, block = region.block, op.parent
    assert block is not None
    inner = [o for o in body.ops if o is not body.last_op]
    if not all(_is_elementwise(o) for o in inner):
        return
    shape = cast(TensorType[Attribute], op.results[0].type).get_shape()
    lifted: dict[SSAValue, SSAValue] = dict(zip(body.args, op.operands, strict=True))

    def whole(value: SSAValue) -> SSAValue:
        """The array of a scalar; one from outside of the region is the same for all elements."""
        if value not in lifted:
            everywhere = {"broadcast_dimensions": DenseArrayBase.from_list(i64, [])}
            spread = OPS["broadcast_in_dim"]([value], [_array_of(value.type, shape)], everywhere)
            block.insert_op_before(spread, op)
            lifted[value] = spread.results[0]
        return lifted[value]

    for scalar in inner:
        operands = [whole(value) for value in scalar.operands]
        types = [_array_of(type_, shape) for type_ in scalar.result_types]
        new = type(scalar).create(operands=operands, result_types=types, properties=dict(scalar.properties))
        new.attributes.update(scalar.attributes)
        block.insert_op_before(new, op)
        lifted.update(zip(scalar.results, new.results, strict=True))
    assert body.last_op is not None
    Rewriter.replace_op(op, [], [whole(value) for value in body.last_op.operands])


def _is_elementwise(op: Operation) -> bool:
    if op.regions or not has_spec(op.name):
        return False
    if isinstance(op.properties.get("value"), LiteralAttr):
        return True
    return spec_of(op).kind is Kind.ELEMENTWISE and not op.name.startswith("chlo.broadcast_")


def _array_of(type_: Attribute, shape: tuple[int, ...]) -> TensorType[Attribute]:
    return TensorType(cast(TensorType[Attribute], type_).element_type, shape)
