"""Pass expand-reduce-window: a reduce over the windows of an operand becomes a reduce over a view of it.

reduce_window %x   ⟶   pad; fusion { a view [result..., window...] of the padded operand; reduce over the window }
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects import stablehlo
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.window import Window
from hlo2tx8.passes.windows.views import pad_window, window_map


@dataclass(frozen=True)
class ExpandReduceWindowPass(ModulePass):
    """Rewrites reduce_window; see the module docstring."""

    name = "expand-reduce-window"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.reduce_window": _reduce_window})


def _reduce_window(op: Operation) -> None:
    e, window, half = Expansion(op), Window.of(attributes_of(op)), len(op.operands) // 2
    shape = tensor_like(op.results[0].type).shape
    padded = [pad_window(e, window, x, start) for x, start in zip(op.operands[:half], op.operands[half:], strict=True)]
    if 0 in shape:
        pairs = zip(op.operands[half:], op.results, strict=True)
        e.replace(*(e.emit("broadcast_in_dim", [v], r.type, broadcast_dimensions=int_array(())) for v, r in pairs))
        return
    before, over = op.prev_op, int_array(())
    views: Sequence[SSAValue] = padded
    if shape:
        map = window_map(window, shape)
        views, over = [e.view(x, map) for x in padded], int_array(range(len(shape), len(map.dims)))
    regions = [op.detach_region(0)]
    new = stablehlo.OPS["reduce"]([*views, *op.operands[half:]], [r.type for r in op.results], {"dimensions": over}, regions)
    e.replace(*e.fuse_since(before, e.insert(new).results))
