"""Pass expand-arg-extreme: argmax and argmin become reduces whose result is the same in any order.

    jax:    left if left > right or left is NaN; else right. The index is left's then, or if both are equal the smaller one
    here:   the smaller one among NaNs, too

The two agree on elements taken in the order of their indices, as XLA:CPU takes them, but of two NaNs jax's combiner takes the left,
so only the second gives the same in any order. Expansion: the first becomes the second, or where only the index is wanted two
reductions, see `expand_place_of_extreme`.

What a combiner computes is found out by trying it on all ways in which two pairs may compare: it may do nothing but compare.
"""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.body_builder import BodyBuilder
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.combiner import does, extreme
from hlo2tx8.hlo.lookup import tensor_like
from hlo2tx8.hlo.types import is_float
from hlo2tx8.passes.expand_place_of_extreme import computes_extreme, starts_at_a_number

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ExpandArgExtremePass(ModulePass):
    """Rewrites reduces with the combiner of argmax or argmin; see the module docstring."""

    name = "expand-arg-extreme"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.reduce": _expand})


def _expand(op: Operation) -> None:
    """Puts a combiner that gives the same in any order for one that does so in the order of the indices."""
    body = op.regions[0].block
    if len(body.args) != 4 or not starts_at_a_number(op):
        return
    for direction in ("GT", "LT"):
        if does(body, extreme(direction, is_first=False)) or not computes_extreme(body, direction):
            continue
        region = _combiner(direction, body)
        new = type(op).create(operands=op.operands, result_types=op.result_types, properties=dict(op.properties), regions=[region])
        new.attributes |= op.attributes
        Rewriter.replace_op(op, new)
        return


def _combiner(direction: str, body: Block) -> Region:
    """What `extreme` says, with the value of the larger index among equal ones: zeros have signs, and the last one's is kept."""
    builder = BodyBuilder([as_tensor(arg.type).element_type for arg in body.args])
    left, left_index, right, right_index = builder.args
    leads, ties = builder.compare(direction, left, right), builder.compare("EQ", left, right)
    if is_float(tensor_like(left.type).dtype):
        left_nan, right_nan = builder.compare("NE", left, left), builder.compare("NE", right, right)
        alone = builder.emit("and", [left_nan, builder.emit("not", [right_nan])])
        leads = builder.emit("or", [leads, alone])
        ties = builder.emit("or", [ties, builder.emit("and", [left_nan, right_nan])])
    keeps, last = (
        builder.emit("or", [leads, builder.emit("and", [ties, builder.compare(way, left_index, right_index)])])
        for way in ("LT", "GT")
    )
    return builder.region(
        builder.emit("select", [last, left, right], left.type),
        builder.emit("select", [keeps, left_index, right_index], left_index.type),
    )
