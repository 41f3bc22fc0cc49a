"""In which order a reduction may join its elements, and which dimensions it goes over."""

from math import prod

from xdsl.ir import Operation

from hlo2tx8.dialects.hlo_indexed import ReadAtOp
from hlo2tx8.hlo import Kind, operand_indexing, spec_of
from hlo2tx8.hlo.accumulation import only_adds
from hlo2tx8.hlo.combiner import is_in_any_order
from hlo2tx8.indexing import Sym
from hlo2tx8.partitioner.instruction import CONSTANTS, kind_of
from hlo2tx8.partitioner.reduction_paths import is_empty_loop, is_reduction, loop_counters

MOST_SMALL_WINDOW = 64
"""Elements of a window up to which each is one turn of a loop that loads it for all outputs at once."""


def is_small_window(op: Operation) -> bool:
    """True if the reduction joins few elements, or elements that are not neighbours in memory: then each turn of its loop loads one
    element for all outputs of a step.
    """
    owner = op.operands[0].owner
    if not isinstance(owner, ReadAtOp):
        return False
    turns = [counter.hi + 1 for counter in loop_counters(op)]
    return sum(n > 1 for n in turns) > 1 or prod(turns) <= MOST_SMALL_WINDOW


def why_in_order(op: Operation) -> str:
    """Why the loop of an instruction cannot take its turns in blocks, or "" if it can."""
    if not is_reduction(op) or kind_of(op) is not Kind.REDUCE:
        return "it is no reduce"
    if is_empty_loop(op) or not loop_counters(op):
        return "it joins nothing"
    body = op.regions[0].block
    names = [inner.name.partition(".")[2] for inner in body.ops if inner.name not in CONSTANTS][:-1]
    if only_adds(body):
        return ""
    if len(op.results) == len(names) and all(_is_grouped_freely(op, i) for i in range(len(names))):
        return ""
    return "" if is_in_any_order(body) else "its combiner may depend on the order"


def _is_grouped_freely(op: Operation, number: int) -> bool:
    """True if the op that combines result `number` of a reduce is associative and commutative."""
    name = joins_apart(op, number)
    return name != "" and spec_of(f"stablehlo.{name}").neutral is not None


def joins_apart(op: Operation, number: int) -> str:
    """The op (such as `stablehlo.add`) that combines result `number` of a reduce from its own two arguments only, "" if there is
    none.
    """
    body, count = op.regions[0].block, len(op.results)
    terminator = body.last_op
    assert terminator is not None
    owner = terminator.operands[number].owner
    if not isinstance(owner, Operation) or set(owner.operands) != {body.args[number], body.args[count + number]}:
        return ""
    return owner.name.partition(".")[2]


def reduced_dimensions(op: Operation) -> list[int]:
    """The input dimensions that a reduction's loop goes over, one per counter, outermost first."""
    results = operand_indexing(op)[0][0].results
    return [results.index(Sym(i)) for i in range(len(loop_counters(op)))]
