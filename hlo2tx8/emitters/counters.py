"""Loop variables that count turns, after their loops have been fused: a fusion adds a constant to the variable."""

from collections.abc import Iterable

from xdsl.ir import Block, Operation

from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.hlo.regions import CONTROL, terminator_of
from hlo2tx8.hlo.trip_count import constant_of

WHILE, ADD = "stablehlo.while", "stablehlo.add"


def counters_of(blocks: Iterable[Block]) -> dict[Operation, tuple[int, int, int]]:
    """By loop, the number of a state that counts its turns, where it starts, and how much more it is in each turn; also of the
    loops inside of loops and branches."""
    found: dict[Operation, tuple[int, int, int]] = {}
    for op in (op for block in blocks for op in block.ops):
        if op.name in CONTROL:
            found |= counters_of([region.block for region in op.regions])
        if op.name == WHILE:
            counted = ((k, constant_of(op.operands[k]), _step(op.regions[1].block, k)) for k in range(len(op.operands)))
            first = next(((k, start, step) for k, start, step in counted if start is not None and step is not None), None)
            found |= {op: first} if first is not None else {}
    return found


def _step(body: Block, number: int) -> int | None:
    """How much a fusion adds to a state in each turn, None if that is not known, or 0."""
    made = terminator_of(body).operands[number].owner
    if not isinstance(made, FusionOp) or [*made.operands] != [body.args[number]] or len(made.results) != 1:
        return None
    (added,) = terminator_of(made.body.block).operands
    if not isinstance(added.owner, Operation) or added.owner.name != ADD:
        return None
    steps = [constant_of(value) for value in added.owner.operands if value is not made.body.block.args[0]]
    return steps[0] or None if len(steps) == 1 else None
