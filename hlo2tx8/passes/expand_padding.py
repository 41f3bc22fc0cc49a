"""Pass expand-padding: a pad with holes between many elements becomes a kernel that makes the holes, and a plain pad.

    pad %x, %v, interior = [1]   ⟶   fusion { reshape [n, 1]; pad to [n, 2]; reshape [2 n] }; pad

In the more dimension each access is affine. In a fusion a pad stays as it is.
"""

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.hlo.lookup import attributes_of, tensor_like

LEAST_WITH_HOLES = 1024
"""Elements of an array from which on a kernel of its own that puts holes between them takes less time than computing places."""


@dataclass(frozen=True)
class ExpandPaddingPass(ModulePass):
    """Rewrites pads with holes; see the module docstring."""

    name = "expand-padding"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.pad": _pad})


def _pad(op: Operation) -> None:
    """One with holes between many elements; in a fusion it stays as it is."""
    amounts = [attributes_of(op)[name] for name in ("edge_padding_low", "edge_padding_high", "interior_padding")]
    is_large = prod(tensor_like(op.operands[0].type).shape) >= LEAST_WITH_HOLES
    if any(amounts[2]) and is_large and not isinstance(op.parent_op(), FusionOp):
        e = Expansion(op)
        e.replace(e.pad(op.operands[0], op.operands[1], *amounts))
