"""Pass order-scores: the scores of queries that share keys have the order of dimensions in which products make and read them.

Before:
    %0 = dot_general %q, %k, batching = [0, 2] x [0, 2]          [4, 512, 4, 3, 64], [4, 512, 4, 64] -> [4, 4, 512, 3, 512]
    %1 = transpose %0, dims = [3, 0, 1, 2, 4]                    [3, 4, 4, 512, 512], as all that softmax computes
    %2 = dot_general %v, %1, batching = [0, 2] x [1, 2]

After:
    %a = transpose %q, dims = [0, 2, 3, 1, 4]                    [4, 4, 3, 512, 64]
    %0 = dot_general %a, %k, batching = [0, 1] x [0, 2]          [4, 4, 3, 512, 512]
    %2 = dot_general %v, %0, batching = [0, 2] x [0, 1]

Rows of scores then go from one product to the next in the scratchpad. `dimensions.scores` says which order that is.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.nested import nested_ops
from hlo2tx8.hlo.regions import CONTROL
from hlo2tx8.partitioner.equal_ops import erase_unread
from hlo2tx8.passes.dimensions.reorder import reorder
from hlo2tx8.passes.dimensions.scores import orders_of_scores


@dataclass(frozen=True)
class OrderScoresPass(ModulePass):
    """Rewrites the blocks of functions and of their control flow; see the module docstring."""

    name = "order-scores"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            regions = [region for inner in nested_ops(function) if inner.name in CONTROL for region in inner.regions]
            for block in (function.body.block, *(region.block for region in regions)):
                if orders := orders_of_scores(block):
                    reorder(block, orders, with_products=True)
                    erase_unread(block)
