"""Pass expand-reduce-window: a reduce over the windows of an operand becomes a reduce over a view of it.

reduce_window %x   ⟶   pad; fusion { a view [result..., window...] of the padded operand; reduce over the window }

Small windows are padded inside of the fusion: then no padded operand is written. Padding takes no part, as in XLA: it is filled
with what changes nothing for the combiner. Where no such value is known, each element has a pred beside it that says whether it is
one of the operand's, and the reduce is over both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i1
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.hlo.combiner import neutral_element
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.window import Window
from hlo2tx8.partitioner.reduction_order import MOST_SMALL_WINDOW
from hlo2tx8.passes.windows.holding import holding
from hlo2tx8.passes.windows.views import pad_window, window_map


@dataclass(frozen=True)
class ExpandReduceWindowPass(ModulePass):
    """Rewrites reduce_window; see the module docstring."""

    name = "expand-reduce-window"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.reduce_window": _reduce_window})


def _reduce_window(op: Operation) -> None:
    e, window, half = Expansion(op), Window.of(attributes_of(op)), len(op.operands) // 2
    inputs, initial, region = list(op.operands[:half]), list(op.operands[half:]), op.detach_region(0)
    shape = tensor_like(op.results[0].type).shape
    if 0 in shape:
        pairs = zip(initial, op.results, strict=True)
        e.replace(*(e.emit("broadcast_in_dim", [v], r.type, broadcast_dimensions=int_array(())) for v, r in pairs))
        return
    fillings = _fillings(e, window, inputs, initial, region.block)
    if fillings is None:
        inputs.append(_preds(e, tensor_like(inputs[0].type).shape, value=True))
        initial.append(_preds(e, (), value=True))
        fillings = [*(e.splat(0, e.like(x, ())) for x in op.operands[:half]), _preds(e, (), value=False)]
        region = holding(region.block)
    outside, over = op.prev_op, int_array(())
    padded = [pad_window(e, window, x, filling) for x, filling in zip(inputs, fillings, strict=True)]
    is_plain = half == len(inputs) == 1 and not any(window.interior) and prod(window.size) <= MOST_SMALL_WINDOW
    before = outside if is_plain else op.prev_op
    views: Sequence[SSAValue] = padded
    if shape:
        map = window_map(window, shape)
        views, over = [e.view(x, map) for x in padded], int_array(range(len(shape), len(map.dims)))
    types = [e.like(x, shape) for x in inputs]
    new = e.insert(stablehlo.OPS["reduce"]([*views, *initial], types, {"dimensions": over}, [region]))
    e.replace(*e.fuse_since(before, new.results[:half]))


def _fillings(
    e: Expansion, window: Window, inputs: Sequence[SSAValue], initial: Sequence[SSAValue], body: Block
) -> Sequence[SSAValue] | None:
    """A scalar for the padding of each operand that changes nothing; None if none is known and there is padding."""
    if not any((*window.low, *window.high, *window.interior)):
        return initial
    neutral = neutral_element(body, tensor_like(inputs[0].type).dtype)
    if neutral is None:
        return None
    first = scalar_of(initial[0])
    if first is not None and first == neutral:
        return initial
    return [e.emit("constant", [], e.like(inputs[0], ()), value=LiteralAttr.from_array(neutral))]


def _preds(e: Expansion, shape: Sequence[int], *, value: bool) -> SSAValue:
    """Preds that are all the same."""
    return e.splat(int(value), TensorType(i1, shape))
