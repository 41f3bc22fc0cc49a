"""Pass simplify-hlo: the same values with fewer and simpler ops, bit for bit but for the payload of a NaN.

    transpose (transpose %a), reshape (reshape %a)    ⟶    one of them, or %a
    dot_general (transpose %a), %b                    ⟶    dot_general %a, %b
    transpose (dot_general %a, %b)                    ⟶    dot_general %b, %a, or a transpose of it that keeps rows whole
    transpose (convert (dot_general %a, %b))          ⟶    convert (dot_general %b, %a)
    broadcast (broadcast %a)                          ⟶    one broadcast
    add (broadcast %a, broadcast %b)                  ⟶    broadcast (add %a, %b)
    reduce over dimensions of size 1                  ⟶    the combiner on whole tensors
    multiply %a, 1   add %a, -0.0   divide %a, 4      ⟶    %a, %a, multiply %a, 0.25
    exponential 2.0                                   ⟶    a constant
    two equal ops, one nobody reads                   ⟶    one, none

What an op becomes is said in `rules.shapes`, `rules.turned_products`, `rules.arithmetic` and `rules.fold_constants`. Tensors with
layouts of their own and the bodies of fusions are left as they are.
"""

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.hlo.lookup import has_spec, spec_of
from hlo2tx8.hlo.regions import CONTROL
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.partitioner.equal_ops import erase_unread, merge_equal
from hlo2tx8.partitioner.instruction import has_plain_tensors
from hlo2tx8.passes.rules.arithmetic import RULES as OF_VALUES
from hlo2tx8.passes.rules.fold_constants import fold_constants
from hlo2tx8.passes.rules.shapes import RULES as OF_SHAPES
from hlo2tx8.passes.rules.shapes import sink_broadcast

Rule = Callable[[Operation], SSAValue | None]
MOST_WALKS = 4
"""A rule may make room for another one before it; few chains are longer."""


@dataclass(frozen=True)
class SimplifyHloPass(ModulePass):
    """Rewrites @main and the regions of its control flow; see the module docstring."""

    name = "simplify-hlo"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            _simplify(function.body.block)


def _simplify(block: Block) -> None:
    for op in block.ops:
        if op.name in CONTROL:
            for region in op.regions:
                for inner in region.blocks:
                    _simplify(inner)
    looked_at: set[Operation] | None = None
    for _ in range(MOST_WALKS):
        looked_at = _rewrite(block, looked_at)
        if not looked_at:
            break
    merge_equal(block)
    erase_unread(block)


def _rewrite(block: Block, among: set[Operation] | None) -> set[Operation]:
    """One walk with the rules over all ops, or some; the ops for which there may be a rule now: new ones, readers of new ones."""
    changed: set[Operation] = set()
    for op in ops_of(block):
        if (among is not None and op not in among) or len(op.results) != 1 or not has_plain_tensors(op):
            continue
        before = op.prev_op
        for rule in _rules(op):
            if (value := rule(op)) is None or value.type != op.results[0].type:  # what an operand reads may have a layout
                continue
            if value.name_hint is None:
                value.name_hint = op.results[0].name_hint
            new = block.first_op if before is None else before.next_op
            while new is not None and new is not op:
                changed.add(new)
                new = new.next_op
            Rewriter.replace_op(op, [], [value])
            changed.update(use.operation for use in value.uses)
            break
    return changed


def _rules(op: Operation) -> tuple[Rule, ...]:
    if not has_spec(op.name):
        return ()
    kind = spec_of(op).kind
    if kind is Kind.ELEMENTWISE:
        return (fold_constants, *OF_VALUES.get(op.name, ()), sink_broadcast)
    return (*OF_SHAPES.get(op.name, ()), fold_constants) if kind is Kind.SHAPING else OF_SHAPES.get(op.name, ())
