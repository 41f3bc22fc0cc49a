"""What loops say about their variables once their bodies are fused: which count the turns, and which need no initial value."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.layout import is_row_major
from hlo2tx8.hlo.regions import CONTROL, UPDATE, terminator_of
from hlo2tx8.hlo.trip_count import constant_of, counters_in, goes_through
from hlo2tx8.partitioner.instruction import shape_of, tensor_type
from hlo2tx8.passes.rules.loops import TRIP_COUNT

WHILE = "stablehlo.while"


@dataclass(frozen=True)
class LoopFacts:
    """Of a loop: the `counter` [number, start, step] of a variable that counts its turns; the numbers of variables of which nobody
    reads what they are `unset` to in the beginning, as the turns write all of them."""

    counter: Sequence[int] = ()
    unset: Sequence[int] = ()


NO_FACTS = LoopFacts()


def loop_facts(blocks: Iterable[Block]) -> dict[Operation, LoopFacts]:
    """Of all loops in these blocks, also those inside of loops and branches."""
    found: dict[Operation, LoopFacts] = {}
    for op in (op for block in blocks for op in block.ops):
        if op.name in CONTROL:
            found |= loop_facts([region.block for region in op.regions])
        if op.name == WHILE:
            body, turns = op.regions[1].block, op.attributes.get(TRIP_COUNT)
            counters = counters_in(op)
            counting = [(body.args.index(arg), start, step) for arg, (start, step) in counters.items() if step]
            count = turns.value.data if isinstance(turns, IntegerAttr) else 0
            unset = [k for k in range(len(op.operands)) if _is_written(op, k, counters, count)]
            found[op] = LoopFacts(counting[0] if counting else (), unset)
    return found


def _is_written(loop: Operation, number: int, counters: Mapping[SSAValue, tuple[int, int]], turns: int) -> bool:
    """Does each turn write a slice of a variable along its first dimension, all turns all of it, and nothing else read it?"""
    condition, body = (region.block for region in loop.regions)
    arg, end = body.args[number], terminator_of(body).operands[number]
    update = arg.get_user_of_unique_use()
    if update is None or update.name != UPDATE or update.operands[0] is not arg or condition.args[number].first_use is not None:
        return False
    shape, first, *others = shape_of(arg), *update.operands[2:]
    is_all = shape_of(update.operands[1]) == (1, *shape[1:]) and shape[0] == turns and is_row_major(tensor_type(arg))
    is_whole = is_all and all(constant_of(start) == 0 for start in others)
    return is_whole and end is update.results[0] and end.has_one_use() and goes_through(first, counters, turns)
