"""SCHEDULED → SCHEDULED: two products of which tiles make some rows after the other, as phases of some rows each, in turns.

Before:                                        After:
    scf.for %step = 0 to 6 { %t = up(%step) }      up(0, 1); up(2, 3); down(0); up(4, 5); down(1); down(2)
    xla.sync_tiles
    scf.for %step = 0 to 3 { down(%step) of %t }

`xla.phase_steps = 3` says in how many parts tiles make their rows. Each part of what lies between the phases is a tensor of its
own, so what stays of it with a tile (`share-loads`) has a buffer of its own, which is free again when it has been read. The first
phase is one part ahead: what the vector engine makes of a part's products is made beside products that do not need it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.device.isa import Instruction
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.made import constant_index, of_two
from hlo2tx8.dialects.nested import cloned, nested_ops, ops_of
from hlo2tx8.lower.dma.slices import turns_of
from hlo2tx8.lower.select.channel_blocks import EngineOrderError


@dataclass(frozen=True)
class AlternatePhasesPass(ModulePass):
    """Puts the parts of two phases one after the other, in turns; see the module docstring."""

    name = "alternate-phases"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            steps = function.attributes.get(xla.PHASE_STEPS)
            if isinstance(function, func.FuncOp) and isinstance(steps, IntegerAttr):
                _alternate(function.body.block, steps.value.data)


def _alternate(block: Block, parts: int) -> None:
    loops = [op for op in block.ops if isinstance(op, scf.ForOp) and xla.ROW_TURNS not in op.attributes]
    if len(loops) != 2 or any((turns_of(loop) or 1) % parts for loop in loops):
        raise EngineOrderError("E3208", "phases are no two loops of as many parts")
    first, second = loops
    meeting = next(op for op in block.ops if isinstance(op, xla.SyncTilesOp) and first.is_before_in_block(op))
    for op in ops_of(block):  # arithmetic on indices comes first
        if first.is_before_in_block(op) and op not in (second, meeting, block.last_op):
            op.detach()
            block.insert_op_before(op, first)
    made = [op for op in block.ops if isinstance(op, xla.AllocateScratchOp)]
    filled = _filled(block, loops)
    between: list[dict[SSAValue, SSAValue]] = []
    for _ in range(parts):
        own = {op.res: op.clone() for op in made}
        block.insert_ops_before(list(own.values()), first)
        between.append({value: op.res for value, op in own.items()})
    order = [(first, 0)]
    for part in range(parts):
        order += [(first, part + 1)] * (part + 1 < parts) + [(second, part)]
    for number, (loop, part) in enumerate(order):
        if number:
            block.insert_op_before(xla.SyncTilesOp(list(between[part].values())), first)
        block.insert_ops_before(_part(loop, part, parts, between[part], filled), first)
    for op in (first, meeting, second, *made, *reversed(filled)):
        op.detach()
        op.erase(safe_erase=False)


def _filled(block: Block, loops: Sequence[Operation]) -> list[Operation]:
    """The buffers in front of the loops, and what fills them, but for those that something else reads: loops before these, scalars
    that say where they read."""
    others = [op for op in block.ops if op not in loops and not isinstance(op, Instruction)]
    theirs = {value for other in others for op in nested_ops(other) for value in op.operands}
    found = [op for op in block.ops if isinstance(op, spm.AllocOp | Instruction)]
    for op in reversed(found):
        if isinstance(op, Instruction) and not theirs.isdisjoint(op.operands):
            theirs.update(op.operands)
    return [op for op in found if theirs.isdisjoint(op.results or op.operands)]


def _part(
    loop: scf.ForOp, part: int, parts: int, tensors: dict[SSAValue, SSAValue], filled: Sequence[Operation]
) -> list[Operation]:
    """The loop over a part's steps, with buffers of its own that are `filled` before it."""
    turns = (turns_of(loop) or 1) // parts
    values = dict(tensors)
    used = {operand for op in nested_ops(loop) for operand in op.operands}
    wanted = [op for op in filled if used.intersection(op.results or op.operands)]
    before = [cloned(op, values) for op in wanted]
    own = cloned(loop, values)
    limit, begin = (constant_index(n) for n in (turns, part * turns))
    own.operands[1] = limit.result
    counter = own.body.block.args[0]
    step = of_two(arith.AddiOp, counter, begin.result)
    counter.replace_all_uses_with(step.result)
    first = own.body.block.first_op
    assert first is not None
    own.body.block.insert_op_before(step, first)
    step.operands[0] = counter
    return [*before, limit, begin, own]
