"""Pass split-projections: a product whose columns are taken apart for attention is a product of each part of the weights.

    %y = dot %x, %w                        [512, 2304]         %w0 = slice %w [:, 0:768]
    %b = add %y, broadcast %bias                               %q = add (dot %x, %w0), broadcast (slice %bias [0:768])
    %h = reshape %b                        [512, 3, 12, 64]    %h = reshape %q                                  [512, 1, 12, 64]
    %q = slice %h [:, 0:1]                              ⟶
    %k = slice %h [:, 1:2]                                     and so on with columns 768:1536 and 1536:2304
    %v = slice %h [:, 2:3]

Queries, keys and values are written as one tensor by the product, and by heads by a kernel each; as products of their own they
can be phases of one kernel with the attention that reads them, which loads parts of the weights from where they are. Between the
product and the slices are moves, elementwise operations and what is added to rows; the weights are in memory. Heads that have
their queries, keys and values beside each other, [512, 12, 3, 64], have columns of their own in each part of the weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.hlo.lookup import attributes_of, has_spec
from hlo2tx8.hlo.ops.dot import numbers_of
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.partitioner.instruction import kind_of
from hlo2tx8.passes.rules.columns import DOT, is_repeated, split_columns, steps_to_parts

MOST_STEPS = 24
"""Instructions between a part of a product and the scores that it is for."""


@dataclass(frozen=True)
class SplitProjectionsPass(ModulePass):
    """Rewrites products; see the module docstring."""

    name = "split-projections"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for dot in ops_named(op, (DOT,)):
            steps = steps_to_parts(dot, _are_for_scores, is_repeated)
            if steps is not None:
                split_columns(steps)


def _are_for_scores(parts: Sequence[Operation]) -> bool:
    """Is each part for scores, and nothing made of several together? Halves that are rotated are one operand."""
    made = [_made_for_scores(op.results[0]) for op in parts]
    known = [own for own in made if own is not None]
    return len(known) == len(made) and len(set[Operation]().union(*known)) == sum(map(len, known))


def _made_for_scores(value: SSAValue) -> set[Operation] | None:
    """What is made of a value element by element and by moves, in front of a product with batches; None if no such product reads
    it."""
    pending, seen, is_read = [value], set[Operation](), False
    while pending and len(seen) < MOST_STEPS:
        for use in pending.pop().uses:
            op = use.operation
            is_read |= op.name == DOT and bool(numbers_of(attributes_of(op))[0])
            if op not in seen and has_spec(op.name) and kind_of(op) in (Kind.ELEMENTWISE, Kind.SHAPING) and len(op.results) == 1:
                seen.add(op)
                pending.append(op.results[0])
    return seen if is_read else None
