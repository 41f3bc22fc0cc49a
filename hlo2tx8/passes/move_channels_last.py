"""Pass move-channels-last: images of convolutions have their channels next to each other, and all that is computed of them.

    convolution [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]     %1: 8x64x56x56      convolution [b, 0, 1, f]x[o, i, 0, 1]->[b, 0, 1, f]
    add %1, (broadcast %bias to 8x64x56x56)            ⟶    %2: 8x56x56x64      add %2, (broadcast %bias to 8x56x56x64)
    reduce over 2, 3                                                            reduce over 1, 2

The matrix engine reads and writes channels that lie next to each other. Tensors whose dimensions are in the same order, because ops
read and write them at the same index, are in another order all or none: those that the convolutions of this set of tensors want,
if that saves more than transposing what is given, returned, or read by ops that need the order it has
(`dimensions.channels_last`).
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.hlo.regions import CONTROL
from hlo2tx8.passes.dimensions.channels_last import orders_of
from hlo2tx8.passes.dimensions.reorder import reorder


@dataclass(frozen=True)
class MoveChannelsLastPass(ModulePass):
    """Rewrites functions and the regions of their control flow; see the module docstring."""

    name = "move-channels-last"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            _move(function.body.block)


def _move(block: Block) -> None:
    if orders := orders_of(block):
        reorder(block, orders)
    for op in block.ops:
        if op.name in CONTROL:
            for region in op.regions:
                for inner in region.blocks:
                    _move(inner)
