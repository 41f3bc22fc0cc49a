"""Pass expand-place-of-extreme: argmax and argmin of which nobody reads the value become two reductions of the vector engine.

    %v, %i = reduce %x, iota with the combiner of argmax    ⟶    %m = reduce maximum %x
                                                                 %i = reduce minimum (select (%x == %m or %x is NaN), iota, inf)

If there is a NaN the maximum is one, nothing equals it, and the first NaN has the smallest number. Numbers are those of f32, which
has all up to 2^24.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType, f32, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.body_builder import BodyBuilder
from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.combiner import does, extreme
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.types import is_float
from hlo2tx8.ir import i64_attr

MOST_NUMBERS = 1 << 24


@dataclass(frozen=True)
class ExpandPlaceOfExtremePass(ModulePass):
    """Rewrites reduces with the combiner of argmax or argmin; see the module docstring."""

    name = "expand-place-of-extreme"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.reduce": _expand})


def _expand(op: Operation) -> None:
    body = op.regions[0].block
    if len(body.args) != 4 or not starts_at_a_number(op):
        return
    for direction in ("GT", "LT"):
        if computes_extreme(body, direction) and _find_place(op, direction):
            return


def starts_at_a_number(op: Operation) -> bool:
    """True if the value that a reduce of pairs starts from is a constant without NaN."""
    start = op.operands[2].owner
    literal = start.properties.get("value") if isinstance(start, Operation) else None
    return isinstance(literal, LiteralAttr) and bool(np.all(literal.array == literal.array))


def computes_extreme(body: Block, direction: str) -> bool:
    """True if a combiner gives the larger (GT) or smaller (LT) value and its index, whichever of two NaNs it takes."""
    return any(does(body, extreme(direction, is_first=is_first)) for is_first in (False, True))


def _find_place(op: Operation, direction: str) -> bool:
    """Replace a reduce to the GT or LT value and its index by two reductions; False, with nothing changed, if they do not do."""
    source = op.operands[0]
    shape, dimensions = tensor_like(source.type).shape, [int(dim) for dim in attributes_of(op)["dimensions"]]
    if op.results[0].first_use is not None or len(dimensions) != 1 or not 0 < shape[dimensions[0]] <= MOST_NUMBERS:
        return False
    if not _counts_from_0(op, dimensions[0]) or not _starts_below_all(op, direction):
        return False
    if not is_float(tensor_like(source.type).dtype) and len(shape) == 1:
        return False  # the kernel core finds it among integers in one pass, which costs less than to read them twice
    e, element = Expansion(op), as_tensor(source.type).element_type
    extreme = _reduce(e, "maximum" if direction == "GT" else "minimum", source, op.operands[2], dimensions)
    kept = [dim for dim in range(len(shape)) if dim not in dimensions]
    spread = e.emit("broadcast_in_dim", [extreme], TensorType(element, shape), broadcast_dimensions=int_array(kept))
    is_found = _compare(e, "EQ", source, spread)
    if is_float(tensor_like(source.type).dtype):
        is_found = e.emit("or", [is_found, _compare(e, "NE", source, source)], is_found.type)
    numbers = e.emit("iota", [], TensorType(f32, shape), iota_dimension=i64_attr(dimensions[0]))
    infinity = e.emit("constant", [], TensorType(f32, ()), value=LiteralAttr.from_array(np.array(np.inf, np.float32)))
    nowhere = e.emit("broadcast_in_dim", [infinity], numbers.type, broadcast_dimensions=int_array(()))
    place = _reduce(e, "minimum", e.emit("select", [is_found, numbers, nowhere], numbers.type), infinity, dimensions)
    Rewriter.replace_op(op, [], [extreme, e.converted(place, as_tensor(op.results[1].type).element_type)])
    return True


def _counts_from_0(op: Operation, dim: int) -> bool:
    """Are the indices the numbers along a dimension, and is the one it starts at 0?"""
    owner, start = op.operands[1].owner, scalar_of(op.operands[3])
    if not isinstance(owner, Operation) or owner.name != "stablehlo.iota" or start is None:
        return False
    return int(attributes_of(owner)["iota_dimension"]) == dim and int(start) == 0


def _starts_below_all(op: Operation, direction: str) -> bool:
    """Does it start at the value that all others come before, or are equal to?"""
    start, dtype = scalar_of(op.operands[2]), tensor_like(op.operands[0].type).dtype
    if start is None:
        return False
    if is_float(dtype):
        return float(start) == (-np.inf if direction == "GT" else np.inf)
    if dtype.kind not in "iu":
        return False
    limits = np.iinfo(dtype)
    return int(start) == (limits.min if direction == "GT" else limits.max)


def _compare(e: Expansion, direction: str, a: SSAValue, b: SSAValue) -> SSAValue:
    type_ = TensorType(i1, as_tensor(a.type).get_shape())
    return e.emit("compare", [a, b], type_, comparison_direction=StringAttr(direction))


def _reduce(e: Expansion, name: str, source: SSAValue, start: SSAValue, dimensions: Sequence[int]) -> SSAValue:
    """The maximum or minimum over the dimensions."""
    type_ = as_tensor(source.type)
    element: Attribute = type_.element_type
    body = BodyBuilder([element, element])
    region = body.region(body.emit(name, body.args))
    result = TensorType(element, [n for dim, n in enumerate(type_.get_shape()) if dim not in dimensions])
    return e.insert(stablehlo.OPS["reduce"]([source, start], [result], {"dimensions": int_array(dimensions)}, [region])).results[0]
