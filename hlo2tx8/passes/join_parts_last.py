"""Pass join-parts-last: what only moves or narrows a concatenation that nobody else reads is done to its parts.

    transpose (convert (concatenate %a, %b along 2))    ⟶    concatenate (transpose (convert %a)), (transpose (convert %b)) along 2

The concatenation is then the last of its fusion, which computes the parts apart, where a loop over the elements of the whole would
compute each of them everywhere. Reshapes are those that leave the dimension, and all behind it, as they are. Parts that are only
moved stay: a transpose reads them together.
"""

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.hlo.lookup import attributes_of, has_spec
from hlo2tx8.ir import i64_attr
from hlo2tx8.partitioner.instruction import has_plain_tensors, is_elementwise, shape_of, tensor_type
from hlo2tx8.partitioner.moves import is_move
from hlo2tx8.schedule.costs import size_bytes

Move = Callable[[Expansion, SSAValue], SSAValue]
"""What is made of a part."""


@dataclass(frozen=True)
class JoinPartsLastPass(ModulePass):
    """Rewrites transposes, reshapes and conversions of concatenations; see the module docstring."""

    name = "join-parts-last"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, dict.fromkeys(("stablehlo.convert", "stablehlo.reshape", "stablehlo.transpose"), _move))


def _move(op: Operation) -> None:
    inner = op.operands[0].owner
    if not isinstance(inner, Operation) or inner.name != "stablehlo.concatenate" or not inner.results[0].has_one_use():
        return
    if inner.parent is not op.parent or not (has_plain_tensors(op) and has_plain_tensors(inner)):
        return
    if not any(map(_is_computed, inner.operands)) or (found := _moved(op, int(attributes_of(inner)["dimension"]))) is None:
        return
    (move, dimension), e = found, Expansion(op)
    parts = [move(e, value) for value in inner.operands]
    e.replace(e.emit("concatenate", parts, op.results[0].type, dimension=i64_attr(dimension)))
    Rewriter.erase_op(inner)


def _is_computed(part: SSAValue) -> bool:
    """Is a part more than elements of something else in another order?"""
    while isinstance(owner := part.owner, Operation) and is_move(owner):
        part = owner.operands[0]
    return isinstance(owner, Operation) and has_spec(owner.name) and is_elementwise(owner)


def _moved(op: Operation, dim: int) -> tuple[Move, int] | None:
    """What becomes of each part, and which dimension then is the one along which they are joined; None if that cannot be."""
    before, after = shape_of(op.operands[0]), shape_of(op.results[0])
    match op.name:
        case "stablehlo.convert" if size_bytes(op.operands[0]) > size_bytes(op.results[0]):
            return lambda e, value: e.converted(value, tensor_type(op.results[0]).element_type), dim
        case "stablehlo.transpose":
            order = [int(d) for d in attributes_of(op)["permutation"]]
            return lambda e, value: e.transpose(value, order), order.index(dim)
        case "stablehlo.reshape" if (outer := len(after) - (len(before) - dim)) >= 0 and after[outer:] == before[dim:]:
            return lambda e, value: e.reshaped(value, (*after[:outer], *shape_of(value)[dim:])), outer
        case _:
            return None
