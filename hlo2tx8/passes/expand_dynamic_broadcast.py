"""Pass expand-dynamic-broadcast: dynamic_broadcast_in_dim becomes broadcast_in_dim, where the result's shape is known.

dynamic_broadcast_in_dim %x, %shape : tensor<4x5xf32>    ⟶    broadcast_in_dim %x : tensor<4x5xf32>
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.hlo import UnknownOp
from hlo2tx8.hlo.lookup import tensor_like


@dataclass(frozen=True)
class ExpandDynamicBroadcastPass(ModulePass):
    """Rewrites such broadcasts; see the module docstring."""

    name = "expand-dynamic-broadcast"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.dynamic_broadcast_in_dim": _make_static})


def _make_static(op: Operation) -> None:
    """The shape operand says what the result type says already."""
    source, shape = op.operands[0], op.operands[1]
    if any(n < 0 for n in tensor_like(op.results[0].type).shape):
        return
    e = Expansion(op)
    dimensions = {k: v for k, v in op.properties.items() if k == "broadcast_dimensions"}
    e.replace(e.emit("broadcast_in_dim", [source], op.results[0].type, **dimensions))
    owner = shape.owner
    if isinstance(owner, UnknownOp) and shape.first_use is None:
        Rewriter.erase_op(owner)
