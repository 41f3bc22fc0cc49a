"""Pass simplify-combiners: what a reduce, window, scatter, sort or map does with its elements is one block of ops on scalars.

    %c = constant 2                                  reduce %x, %i {
    reduce %x, %i {                            ⟶       %c = constant 2
      ^bb0(%a, %b):                                    ^bb0(%a, %b): return multiply %b, %c
        %0 = broadcast_in_dim %c, dims = []          }
        %1 = fusion %b, %0 { multiply }
        return %1
    }

Constants that a combiner reads from outside get a copy inside: canonicalization has moved them out. Fusions become their bodies.
Scalars that are moved, converted to the type that they have, or compared with false are those scalars. Who reads a combiner
looks at one block, and jax's spelling of a choice is known for the same as XLA's.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.rewrite_named import ops_inside, rewrite_named
from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.regions import captured, inline_region

COMBINING = tuple(f"stablehlo.{name}" for name in ("reduce", "reduce_window", "scatter", "select_and_scatter", "sort", "map"))
"""Ops whose regions say what to do with elements."""
MOVES = tuple(f"stablehlo.{name}" for name in ("broadcast_in_dim", "reshape", "transpose", "convert"))
"""Ops that do nothing to a scalar whose type stays the same."""


@dataclass(frozen=True)
class SimplifyCombinersPass(ModulePass):
    """Rewrites the regions of such ops; see the module docstring."""

    name = "simplify-combiners"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, dict.fromkeys(COMBINING, _simplify))


def _simplify(op: Operation) -> None:
    _own_constants(op)
    for inner in ops_inside(op):
        if isinstance(inner, FusionOp):
            inline_region(inner, inner.regions[0].block, inner.operands)
    for inner in ops_inside(op):
        if (value := _unchanged(inner)) is not None:
            Rewriter.replace_op(inner, [], [value])


def _own_constants(op: Operation) -> None:
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


def _unchanged(op: Operation) -> SSAValue | None:
    """The operand that the result of an op is equal to, if there is one."""
    if op.name in MOVES:
        (source,) = op.operands
        return source if source.type == op.results[0].type else None
    if op.name != "stablehlo.compare" or attributes_of(op)["comparison_direction"] != "NE":
        return None
    value, other = op.operands
    is_pred, scalar = as_tensor(value.type).element_type == i1, scalar_of(other)
    return value if is_pred and scalar is not None and not scalar else None
