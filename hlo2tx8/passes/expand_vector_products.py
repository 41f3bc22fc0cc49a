"""Pass expand-vector-products: a dot that the matrix engine does not multiply, such as one of i32 or f64, becomes reduce(multiply).

dot_general f64 [64, 1000], f64 [1000]    ⟶    fusion { reduce(add, multiply(%a, broadcast %b)) }
dot_general pred, pred                    ⟶    fusion { reduce(or, and(%a, %b)) }

Vector instructions compute rows of it at once, where a loop over the terms is scalar. Where each element of an operand is in very
many terms, it would be read too often, and the dot stays.
"""

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i32
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from hlo2tx8.builders.body_builder import BodyBuilder
from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.lookup import tensor_like
from hlo2tx8.hlo.types import bit_width, dtype, holds_all, is_integer, is_pred
from hlo2tx8.passes.integers.products import DotProduct

MOST_REUSE = 256
"""Terms for each element of the larger operand, up to which that is read often enough from memory."""


@dataclass(frozen=True)
class ExpandVectorProductsPass(ModulePass):
    """Rewrites dots; see the module docstring."""

    name = "expand-vector-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, dict.fromkeys(("stablehlo.dot", "stablehlo.dot_general"), _by_vectors))


def _by_vectors(op: Operation) -> None:
    """Terms are [batch, free of left, contracted, free of right]."""
    result, *operands = (tensor_like(value.type) for value in (op.results[0], *op.operands))
    kinds = {own.dtype for own in (result, *operands)}
    is_of_engine = all(holds_all(dtype("int8"), own.dtype) for own in operands)
    is_sum = (all(map(is_integer, kinds)) and not is_of_engine) or kinds == {dtype("float64")}
    e, before = Expansion(op), op.prev_op
    product = DotProduct.of(e)
    num_terms = prod(result.shape) * product.num_terms
    if not (is_sum or all(map(is_pred, kinds))) or not 0 < num_terms <= MOST_REUSE * max(prod(own.shape) for own in operands):
        return
    element = kept = as_tensor(op.results[0].type).element_type
    if is_sum and bit_width(result.dtype) < bit_width(dtype("int32")):
        element = i32
    over, factors = product.factors([e.converted(value, element) for value in op.operands])
    body = BodyBuilder([element, element])
    region = body.region(body.emit("add" if is_sum else "or", body.args))
    terms = e.emit("multiply" if is_sum else "and", factors, factors[0].type)
    operands = [terms, e.splat(0, TensorType(element, []))]
    type_ = TensorType(element, result.shape)
    sums = e.insert(stablehlo.OPS["reduce"](operands, [type_], {"dimensions": int_array(over)}, [region])).results[0]
    e.replace(e.fuse_since(before, [e.converted(sums, kept)])[0])
