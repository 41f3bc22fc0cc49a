"""Pass split-gates: in a loop, a product whose columns are the gates of a recurrent network is a product of each gate's weights.

    while (%h = %h0)                                           while (%h = %h0)
      %y = dot %h, %u              [32, 2048]                    %i = add (dot %h, (slice %u [:, 0:512])), (slice %x [:, 0:512])
      %a = add %y, %x                                  ⟶         %f = add (dot %h, (slice %u [:, 512:1024])), ...
      %i = slice %a [:, 0:512]                                   %h1 = multiply (logistic %i), ...
      %f = slice %a [:, 512:1024]
      %h1 = multiply (logistic %i), ...

What is made of the gates is of one place in each of them, but they are columns far from each other: a tile that has some columns of
the product has not what belongs to them, so gates went to memory and came back. Products of the same rows are one kernel, whose
tiles have the same columns of each, and so make what follows where the sums are. It is done where weights, which come from outside
of the loop, are more than the product, and as many tiles have blocks of a gate as make up for what the others do not do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.rates import Rates
from hlo2tx8.hlo.lookup import has_spec
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.partitioner.contraction import MOST_PRODUCTS, why_not_on_engine
from hlo2tx8.partitioner.instruction import kind_of, shape_of
from hlo2tx8.partitioner.turns import is_same_in_all_turns
from hlo2tx8.passes.rules.columns import DOT, split_columns, steps_to_parts
from hlo2tx8.schedule.costs import Costs, size_bytes


@dataclass(frozen=True)
class SplitGatesPass(ModulePass):
    """Rewrites products in loops; see the module docstring. chip: file of the description, "" for the built-in one."""

    name = "split-gates"
    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        costs = Costs(Rates.of(load_chip(self.chip)))
        for dot in ops_named(op, (DOT,)):
            if not _is_of_turns(dot):
                continue
            steps = steps_to_parts(dot, lambda parts: _are_gates(parts, costs), lambda value: True)
            if steps is not None:
                split_columns(steps)


def _is_of_turns(dot: Operation) -> bool:
    """Is it a product in a loop, of weights from outside of it, which are more?"""
    weights, result = dot.operands[1], dot.results[0]
    if num_parts(dot) > 1 or why_not_on_engine(dot) or size_bytes(result) > size_bytes(weights):
        return False
    return is_same_in_all_turns(dot, 1) and not is_same_in_all_turns(dot, 0)


def _are_gates(parts: Sequence[Operation], costs: Costs) -> bool:
    """Are parts as large as each other, no more than one kernel multiplies, and each read element by element? And is what follows
    worth a kernel of its own for more tiles?"""
    if len(parts) > MOST_PRODUCTS or len({shape_of(part.results[0]) for part in parts}) > 1:
        return False
    made = [own for part in parts for own in _made_of(part.results[0])]
    if not all(_made_of(part.results[0]) for part in parts):
        return False
    passes = sum(map(costs.compute, dict.fromkeys(made)))
    return passes * (costs.rates.tiles / costs.with_blocks(parts[0]) - 1) <= costs.saved(parts[0], 1, 1)


def _made_of(value: SSAValue) -> list[Operation]:
    """What is made of a value in its place, element by element; nothing if it is read in another way."""
    if not all(_is_elementwise(use.operation) for use in value.uses):
        return []
    pending, found = [value], dict[Operation, None]()
    while pending:
        for op in (use.operation for use in pending.pop().uses):
            if op not in found and _is_elementwise(op):
                found[op] = None
                pending += op.results
    return [*found]


def _is_elementwise(op: Operation) -> bool:
    return has_spec(op.name) and kind_of(op) is Kind.ELEMENTWISE
