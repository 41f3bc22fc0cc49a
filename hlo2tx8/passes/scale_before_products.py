"""Pass scale-before-products: the rows of a softmax are scaled before the product that makes them.

Before:                                              After:
    %s = dot_general(%q, %k)      [512, 512]             %t = multiply %q, 0.125        [512, 64]
    %x = multiply %s, 0.125                              %x = dot_general(%t, %k)
    %e = exponential(%x - max %x)                        %e = exponential(%x - max %x)

Fewer elements are multiplied. Powers of two up to one only: a product of other factors would round the queries. These change
nothing but where a score overflowed before it was scaled, or a scaled query is below the smallest normal number.

`Options(reassociate=False)` leaves the pass out.
"""

import math
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.dot import numbers_of
from hlo2tx8.notes import add_notes
from hlo2tx8.partitioner.instruction import shape_of, tensor_type
from hlo2tx8.passes.divide_behind_products import VECTORS, is_from_maximum

MASKS = ("stablehlo.select", "stablehlo.add", "stablehlo.convert")
"""What may stand between scores that are scaled and their maximum."""
LEAST_ROWS = 8
"""Of a batch. Fewer are no group by rows: then scaling the queries is a kernel of its own."""
LEAST_FACTOR = 2.0**-14
"""The smallest normal number of FP16."""


@dataclass(frozen=True)
class ScaleBeforeProductsPass(ModulePass):
    """Scales operands of products where that is less work; see the module docstring."""

    name = "scale-before-products"

    explain: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        notes: list[str] = []
        for scaling in ops_named(op, ("stablehlo.multiply",)):
            if (found := _scale_before(scaling)) is not None:
                notes.append(found)
        if self.explain:
            add_notes(op, notes)


def _scale_before(scaling: Operation) -> str | None:
    """Scales the smaller operand instead, if this scales the scores of a softmax; a line about it."""
    scores, factor = _scores_and_factor(scaling)
    if factor is None:
        return None
    wide = scores.owner
    product = wide.operands[0] if isinstance(wide, Operation) and wide.name == "stablehlo.convert" else scores
    dot, joined = product.owner, _joined(scaling.results[0], len(MASKS))
    if joined is None or not isinstance(dot, Operation) or dot.name != "stablehlo.dot_general":
        return None
    if any(len(list(value.uses)) != 1 for value in (scores, product)):
        return None
    numbers = numbers_of(attributes_of(dot))
    if joined < len(numbers[0]):
        return None
    side = int(joined < len(shape_of(dot.operands[0])) - len(numbers[2]))
    type_ = tensor_type(dot.operands[side])
    shape = type_.get_shape()
    num_rows = prod(size for dim, size in enumerate(shape) if dim not in {*numbers[side], *numbers[2 + side]})
    if type(type_.element_type) not in VECTORS or prod(shape) >= prod(shape_of(product)) or num_rows < LEAST_ROWS:
        return None
    e = Expansion(dot)
    scaled = e.emit("multiply", [dot.operands[side], e.splat(factor, type_)], type_)
    dot.operands = [scaled if number == side else value for number, value in enumerate(dot.operands)]
    Expansion(scaling).replace(scores)
    return f"dot_general's operand of {prod(shape)} elements is scaled, not its result: reassociated"


def _scores_and_factor(scaling: Operation) -> tuple[SSAValue, float | None]:
    """What is scaled, and by what; None if that is no power of two from the smallest normal number to one."""
    for value, other in (scaling.operands, scaling.operands[::-1]):
        scalar = scalar_of(other)
        if scalar is not None and type(tensor_type(other).element_type) in VECTORS:
            factor = float(scalar)
            is_power = LEAST_FACTOR <= factor <= 1 and math.frexp(factor)[0] == 0.5
            return value, factor if is_power else None
    return scaling.operands[0], None


def _joined(scores: SSAValue, steps: int) -> int | None:
    """The dimension over which a softmax joins these scores, with masks between at most so many `steps`; None if there is none."""
    for use in scores.uses:
        op = use.operation
        if op.name == "stablehlo.subtract" and use.index == 0:
            for joined in range(len(shape_of(scores))):
                if is_from_maximum(op.results[0], joined):
                    return joined
        elif op.name in MASKS and steps and (found := _joined(op.results[0], steps - 1)) is not None:
            return found
    return None
