"""SCHEDULED → SCHEDULED: the matrix engine begins a group's next step while the others still compute this one.

Before:                                      After:
    scf.for %step = 0 to 4 {                     scores[0] = NE_gemm q(0), k
      scores = NE_gemm q(%step), k               scf.for %step = 0 to 4 {
      weights = CT ... scores                      scf.if %step + 1 < 4 { scores[%step + 1] = NE_gemm q(%step + 1), k }
      r = NE_gemm weights, v                       weights = CT ... scores[%step]
    }                                              r = NE_gemm weights, v
                                                 }

The first stage is what comes before the first vector or kernel-core instruction of a step, but for arithmetic on what its product
reads, queries that are scaled say. What it hands to the second one gets two
copies, used in turns. Without this CT waits in each step for the last product of the step before and the first one of its own. A
statistic that the matrix engine spreads over a row goes before the next step's product: CT waits for it.

What CT does with a step's last product is done in the next step, while that statistic is spread, and behind the loop for the last
step: else CT waits for each last product. What that product reads has two copies then, so that the next step need not wait for it
either.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.isa import Engine, Instruction
from hlo2tx8.device.isa.forms import CtVS, CtVV
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.made import compare, constant_index, if_op, of_two, yield_op
from hlo2tx8.dialects.nested import nested_of
from hlo2tx8.lower.dma.slices import buffers_of, clone_slice, collect_slice, instructions_in, is_inside, turns_of, use_in_turns

FIRST_STAGE = (Engine.RDMA, Engine.TDMA, Engine.NE)


@dataclass(frozen=True)
class OverlapStagesPass(ModulePass):
    """Runs the first stage of a group's steps a step ahead; see the module docstring."""

    name = "overlap-stages"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            for loop in [o for o in nested_of(function, scf.ForOp) if xla.ROW_STEPS in o.attributes]:
                _overlap(loop)
                _finish_behind(loop)


def _overlap(loop: scf.ForOp) -> None:
    turns = turns_of(loop)
    instructions = list(instructions_in(loop))
    count = _size_of_first_stage(instructions)
    first, second = instructions[:count], instructions[count:]
    if turns is None or turns < 2 or not any(op.ENGINE is Engine.NE for op in first):
        return
    if not any(op.ENGINE in (Engine.CT, Engine.KC) for op in second):
        return
    written = {spm.root_buffer(v): None for op in first for v in buffers_of(op, is_write=True)}
    read = {spm.root_buffer(v) for op in second for v in buffers_of(op, is_write=False)}
    rewritten = {spm.root_buffer(v) for op in second for v in buffers_of(op, is_write=True)}
    products = {spm.root_buffer(v) for op in first if op.ENGINE is Engine.NE for v in buffers_of(op, is_write=True)}
    handed = [buffer for buffer in written if buffer in read]
    if not all(_is_alloc_of(buffer, loop) and (buffer not in rewritten or buffer in products) for buffer in handed):
        return
    for buffer in handed:
        use_in_turns(buffer, loop)
    wanted: set[Operation] = set()
    for op in first:
        collect_slice(op, loop, wanted)
    builder = Builder(InsertPoint.before(loop))
    start = builder.insert(constant_index(0)).result
    clone_slice(loop.body.block, wanted, {loop.body.block.args[0]: start}, builder)
    place = _behind_statistics(loop, second)
    following = place.insert(of_two(arith.AddiOp, loop.body.block.args[0], loop.step)).result
    condition = place.insert(compare(following, loop.ub, "slt")).result
    ahead = Block()
    guard = place.insert(if_op(condition, [], Region(ahead)))
    clone_slice(loop.body.block, wanted, {loop.body.block.args[0]: following}, Builder(InsertPoint.at_end(ahead)))
    ahead.add_op(yield_op())
    for op in first:
        assert not is_inside(op, guard)
        op.detach()
        op.erase()


def _size_of_first_stage(instructions: Sequence[Instruction]) -> int:
    """How many instructions come before the first that is for the second stage."""
    product = next((n for n, op in enumerate(instructions) if op.ENGINE is Engine.NE), 0)
    is_arithmetic = all(op.ENGINE in FIRST_STAGE or isinstance(op, CtVS | CtVV) for op in instructions[:product])
    start = product if is_arithmetic else 0
    return next((n for n, op in enumerate(instructions) if n >= start and op.ENGINE not in FIRST_STAGE), len(instructions))


def _finish_behind(loop: scf.ForOp) -> None:
    """Puts what is made of a step's last product into the next step."""
    turns, body = turns_of(loop), loop.body.block
    instructions = list(instructions_in(loop))
    products = [op for op in instructions if op.ENGINE is Engine.NE and op.parent is body]
    if turns is None or turns < 2 or len(products) < 2 or instructions[-1].ENGINE is not Engine.WDMA:
        return
    last = _made_of(products[-1], instructions)
    others = [op for op in instructions if op not in last]
    if not any(op.ENGINE is Engine.CT for op in last) or any(op.parent is not body for op in last):
        return
    written = {spm.root_buffer(v) for op in last for v in buffers_of(op, is_write=True)}
    read = dict.fromkeys(spm.root_buffer(v) for op in last for v in buffers_of(op, is_write=False))
    handed = [
        buffer for buffer in read if buffer not in written and isinstance(buffer.owner, Operation) and is_inside(buffer.owner, loop)
    ]
    touched = {spm.root_buffer(v) for op in others for is_write in (False, True) for v in buffers_of(op, is_write)}
    loaded = {spm.root_buffer(v) for op in others if op.ENGINE is Engine.RDMA for v in buffers_of(op, is_write=True)}
    if not all(_is_alloc_of(buffer, loop) and buffer not in loaded for buffer in handed) or not written.isdisjoint(touched):
        return  # what is loaded has copies of its own, for the step ahead
    weights = [spm.root_buffer(v) for v in buffers_of(products[-1], is_write=False)]
    for buffer in dict.fromkeys((*handed, *(b for b in weights if _is_alloc_of(b, loop)))):
        use_in_turns(buffer, loop)
    wanted: set[Operation] = set()
    for op in last:
        collect_slice(op, loop, wanted)
    place = _behind_statistics(loop, others)
    step = body.args[0]
    before = place.insert(of_two(arith.SubiOp, step, loop.step)).result
    condition = place.insert(compare(step, loop.lb, "sgt")).result
    behind = Block()
    place.insert(if_op(condition, [], Region(behind)))
    clone_slice(body, wanted, {step: before}, Builder(InsertPoint.at_end(behind)))
    behind.add_op(yield_op())
    end = Builder(InsertPoint.after(loop))
    final = end.insert(constant_index(turns - 1)).result
    clone_slice(body, wanted, {step: final}, end)
    for op in last:
        op.detach()
        op.erase()


def _made_of(product: Instruction, instructions: Sequence[Instruction]) -> list[Instruction]:
    """The instructions behind a product that read its result, or what those make."""
    made = {spm.root_buffer(v) for v in buffers_of(product, is_write=True)}
    found: list[Instruction] = []
    for op in instructions[instructions.index(product) + 1 :]:
        if any(spm.root_buffer(v) in made for v in buffers_of(op, is_write=False)):
            found.append(op)
            made.update(spm.root_buffer(v) for v in buffers_of(op, is_write=True))
    return found


def _behind_statistics(loop: scf.ForOp, second: Sequence[Instruction]) -> Builder:
    """Where the first stage of the next step goes: behind the first of several uses of the matrix engine in the second stage, a
    statistic that CT waits for, while the product of the step before is on its way; else at the start of the step."""
    products = [op for op in second if op.ENGINE is Engine.NE]
    if len(products) < 2:
        return Builder(InsertPoint.at_start(loop.body.block))
    op: Operation = products[0]
    while op.parent_op() is not loop:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return Builder(InsertPoint.after(op))


def _is_alloc_of(buffer: SSAValue, loop: scf.ForOp) -> bool:
    return isinstance(buffer.owner, spm.AllocOp) and buffer.owner.parent is loop.body.block
