"""Pass sink-constants: constants that a combiner reads from outside get a copy inside.

    %c = constant 2                                  reduce %x, %i {
    reduce %x, %i {                            ⟶       %c = constant 2
      ^bb0(%a, %b): return multiply %b, %c               ^bb0(%a, %b): return multiply %b, %c
    }                                                }

Canonicalization has moved them out; who reads a combiner looks at one block.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.hlo.regions import captured

COMBINING = tuple(f"stablehlo.{name}" for name in ("reduce", "reduce_window", "scatter", "select_and_scatter", "sort"))
"""Ops whose regions say what to do with elements."""


@dataclass(frozen=True)
class SinkConstantsPass(ModulePass):
    """Copies constants into the regions of reduces, windows, scatters and sorts; see the module docstring."""

    name = "sink-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, dict.fromkeys(COMBINING, _own_constants))


def _own_constants(op: Operation) -> None:
    """Constants that a region reads from outside get a copy inside: canonicalization had moved them out."""
    for value in captured(op):
        owner = value.owner
        if not isinstance(owner, Operation) or owner.name != "stablehlo.constant":
            continue
        for region in op.regions:
            first = region.block.first_op
            assert first is not None
            copy = owner.clone()
            region.block.insert_op_before(copy, first)
            value.replace_uses_with_if(copy.results[0], lambda use, block=region.block: use.operation.parent is block)
