"""What a step computes before its products and reads only after them, put behind them.

    load(%g); %s = silu(%g)                gemm(%y, ...)
    gemm(%y, ...)                    ⟶     load(%g); %s = silu(%g)
    mul(%z, %s, %y); store(%z)             mul(%z, %s, %y); store(%z)

The order was that of the HLO ops. Behind the products it is a part of the epilogue, which goes over the result in parts and beside
the next products; before them its buffers of whole results would take the room of panels.
"""

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.lsu import Wdma
from hlo2tx8.device.isa.ne import NeGemm
from hlo2tx8.dialects import spm
from hlo2tx8.dialects.nested import nested_ops, ops_of
from hlo2tx8.lower.dma.slices import buffers_of, instructions_in


def defer_epilogue(loop: scf.ForOp) -> None:
    """Move instructions of a step loop that no product depends on, and what they alone need, behind its last product, in place."""
    ops = ops_of(loop.body.block)
    products = [number for number, op in enumerate(ops) if any(isinstance(inner, NeGemm) for inner in nested_ops(op))]
    if not products:
        return
    before, among = ops[: products[0]], ops[products[0] : products[-1] + 1]
    needed = _needed(before, among)
    deferred = [op for op in before if op not in needed]
    if any(op.regions or isinstance(op, Wdma) for op in deferred) or not any(isinstance(op, Instruction) for op in deferred):
        return
    last = among[-1]
    for op in deferred:
        op.detach()
        loop.body.block.insert_op_after(op, last)
        last = op


def _needed(before: list[Operation], among: list[Operation]) -> set[Operation]:
    """Those of the operations `before` that others `among` depend on, by values or by what buffers hold."""
    writers: dict[SSAValue, list[Operation]] = {}
    for op in before:
        for instruction in instructions_in(op):
            for buffer in buffers_of(instruction, is_write=True):
                writers.setdefault(spm.root_buffer(buffer), []).append(op)
    known, found = set(before), set[Operation]()
    waiting = [inner for op in among for inner in nested_ops(op)]
    while waiting:
        for value in waiting.pop().operands:
            owner = value.owner
            sources = [owner] if isinstance(owner, Operation) else []
            if isinstance(owner, spm.AllocOp | spm.OffsetOp | spm.TurnOp):
                sources += writers.get(spm.root_buffer(value), [])
            new = [op for op in sources if op in known and op not in found]
            found.update(new)
            waiting += [inner for op in new for inner in nested_ops(op)]
    return found
