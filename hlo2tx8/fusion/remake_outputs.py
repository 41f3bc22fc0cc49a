"""Results of a fusion that its readers make anew of its other results, because a few instructions take less than memory does.

    %h, %t = hlo.fusion(%a, %b) { h = dot a, b; t = tanh h; return h, t }  ⟶  %h = hlo.fusion(%a, %b) { h = dot a, b; return h }
    %g = hlo.fusion(%h, %t, %d) { d * h * t }                                 %g = hlo.fusion(%h, %d) { t = tanh h; d * h * t }

So a backward pass reads one tensor of each activation of the forward pass, not one per step of it.
"""

from collections.abc import Sequence

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.fusion.build_group import name_of_fusion, with_body
from hlo2tx8.fusion.candidate import MAX_INSTRUCTIONS
from hlo2tx8.hlo.regions import terminator_of
from hlo2tx8.notes import Decision, Name, What
from hlo2tx8.partitioner.equal_ops import erase_unread, merge_equal
from hlo2tx8.partitioner.instruction import is_elementwise, is_free, is_splat_constant, shape_of
from hlo2tx8.schedule.costs import Costs

MOST_STEPS = 24
"""Instructions that are made anew for one result."""
CLEARLY = 0.75
"""Computing must take less than this share of what memory takes: the engines are not always free meanwhile."""


def remake_outputs(block: Block, costs: Costs) -> list[str]:
    """Lets readers make results anew where that saves cycles; a line about each result."""
    notes: list[str] = []
    for op in ops_of(block):
        while isinstance(op, FusionOp) and (found := _first_remade(op, costs)) is not None:
            number, steps, saved = found
            for reader in dict.fromkeys(use.operation for use in op.results[number].uses):
                assert isinstance(reader, FusionOp)
                _remake(op, number, steps, reader)
            root = terminator_of(op.body.block).operands[number].owner
            name = Name(root.name if isinstance(root, Operation) else "")
            notes.append(Decision(What.REMADE, (name,), Name(name_of_fusion(op)), saved=saved).line())
            op = _without(op, number)
    return notes


def _first_remade(fusion: FusionOp, costs: Costs) -> tuple[int, list[Operation], float] | None:
    """The number of the first result that is better made anew, by which instructions, and the cycles that it saves."""
    if len(fusion.results) < 2 or fusion.coarse is not None:
        return None
    roots = list(terminator_of(fusion.body.block).operands)
    for number in range(len(roots)):  # the last made first: of what is made before, by the fewest steps
        readers = _readers(fusion.results[number])
        if not readers or roots.count(roots[number]) > 1:
            continue
        steps = _steps(roots[number], [root for root in roots if root is not roots[number]])
        if steps is None or any(len(ops_of(reader.body.block)) + len(steps) > MAX_INSTRUCTIONS for reader in readers):
            continue
        read = [(reader, value) for value in _outside(fusion, number, steps) for reader in readers if value not in reader.operands]
        if any(_may_be_replaced(value) for _, value in read):
            continue
        more = sum(costs.transfer(value) for _, value in read)
        computed = len(readers) * sum(costs.compute(step) for step in steps if is_elementwise(step))
        moved = costs.transfer(fusion.results[number]) * (1 + len(readers))
        if more + computed < CLEARLY * moved:
            return number, steps, moved - more - computed
    return None


def _may_be_replaced(value: SSAValue) -> bool:
    """Could it be written over after its last reader, as what a block takes and what updates write into? That needs a copy if it
    is read later."""
    return isinstance(value, BlockArgument) or any(not isinstance(use.operation, FusionOp) for use in value.uses)


def _readers(value: SSAValue) -> list[FusionOp]:
    """The fusions that read a value, if nothing else does, and all of them for arithmetic on its elements only; else none."""
    found: dict[FusionOp, None] = {}
    for use in value.uses:
        reader = use.operation
        if not isinstance(reader, FusionOp) or reader.coarse is not None or reader.parent is not value.owner.parent:
            return []
        inner = [use.operation for use in reader.body.block.args[use.index].uses]
        if not inner or not all(is_elementwise(op) and shape_of(op.results[0]) == shape_of(value) for op in inner):
            return []
        found[reader] = None
    return list(found)


def _steps(root: SSAValue, others: Sequence[SSAValue]) -> list[Operation] | None:
    """The instructions that make a value of the other results of its fusion and of what that reads, in order; None if there are
    too many, or if others than arithmetic are among them."""
    found: dict[Operation, None] = {}
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, BlockArgument) or (value in others and value is not root):
            continue
        step = value.owner
        assert isinstance(step, Operation)
        if not (is_elementwise(step) or is_free(step) or is_splat_constant(step)) or len(found) > MOST_STEPS:
            return None
        found[step] = None
        waiting += step.operands
    block = root.owner.parent
    return [op for op in block.ops if op in found] if isinstance(block, Block) and found else None


def _outside(fusion: FusionOp, number: int, steps: Sequence[Operation]) -> list[SSAValue]:
    """The tensors in memory that such instructions read, as values around the fusion."""
    return list(dict.fromkeys(_around(fusion)[value] for step in steps for value in step.operands if value.owner not in steps))


def _around(fusion: FusionOp) -> dict[SSAValue, SSAValue]:
    """What a fusion's parameters and results are around it."""
    body = fusion.body.block
    given = zip(body.args, fusion.operands, strict=True)
    return dict(zip(terminator_of(body).operands, fusion.results, strict=True)) | dict(given)


def _remake(fusion: FusionOp, number: int, steps: Sequence[Operation], reader: FusionOp) -> None:
    """Lets a reader make the result of that number anew."""
    body, around, old = reader.body.block, _around(fusion), fusion.results[number]
    known: dict[SSAValue, SSAValue] = {}
    first, operands = body.first_op, list(reader.operands)
    assert first is not None
    for step in steps:
        for value in step.operands:
            if value.owner not in steps and value not in known:
                if (outside := around[value]) not in operands:
                    operands.append(outside)
                    body.insert_arg(outside.type, len(body.args)).name_hint = outside.name_hint
                known[value] = body.args[operands.index(outside)]
        body.insert_op_before(step.clone(known), first)
    root = terminator_of(fusion.body.block).operands[number]
    for place in reversed([place for place, value in enumerate(operands) if value is old]):
        body.args[place].replace_all_uses_with(known[root])
        body.erase_arg(body.args[place])
        del operands[place]
    reader.operands = operands
    merge_equal(body)


def _without(fusion: FusionOp, number: int) -> FusionOp:
    """The fusion without a result that nobody reads, and without what only that was made of."""
    body = fusion.body.block
    terminator = terminator_of(body)
    terminator.operands = [value for place, value in enumerate(terminator.operands) if place != number]
    erase_unread(body)
    new = with_body(fusion, list(fusion.operands), fusion.detach_region(0))
    left = [result for place, result in enumerate(fusion.results) if place != number]
    for old, value in zip(left, new.results, strict=True):
        value.name_hint = old.name_hint
        old.replace_all_uses_with(value)
    parent = fusion.parent_block()
    assert parent is not None
    parent.insert_op_before(new, fusion)
    fusion.detach()
    fusion.erase()
    return new
