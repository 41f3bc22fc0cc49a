"""Where waits go between engines whose queues do not order them."""

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Engine, Instruction
from hlo2tx8.device.isa.ct_arith import CtNeg
from hlo2tx8.device.isa.dte import DteUnicast
from hlo2tx8.device.isa.kc_control import KcWait
from hlo2tx8.device.isa.kc_move import KcVIota
from hlo2tx8.dialects import spm
from hlo2tx8.lower.dma.insert_waits import InsertWaitsPass

X, Y, Z = (spm.AllocOp(64) for _ in range(3))


def waits(*ops: Instruction) -> list[list[Engine]]:
    """Before each instruction the engines it waits for; at last those at the end of the function."""
    allocs = [X.clone(), Y.clone(), Z.clone()]
    for op in ops:
        for i, operand in enumerate(op.operands):
            op.operands[i] = allocs[(X.result, Y.result, Z.result).index(operand)].result
    block = Block([*allocs, *ops, func.ReturnOp()])
    module = ModuleOp([func.FuncOp("f", ((), ()), Region(block))])
    InsertWaitsPass().apply(Context(), module)
    found: list[list[Engine]] = [[]]
    for op in block.ops:
        if isinstance(op, KcWait):
            mask = op.field("engines")
            assert isinstance(mask, int)
            found[-1] += [e for e in Engine if mask >> e & 1]
        elif op in ops:
            found.append([])
    return found


def neg(dst: spm.AllocOp, src: spm.AllocOp) -> Instruction:
    return CtNeg.make(fmt=Format.FP32, dst=dst.result, src=src.result, n=16)


def send(dst: spm.AllocOp, src: spm.AllocOp) -> Instruction:
    return DteUnicast.make(fmt=Format.FP32, dst=dst.result, src=src.result, n=16, tile=0)


def iota(dst: spm.AllocOp) -> Instruction:
    return KcVIota.make(fmt=Format.INT32, dst=dst.result, n=16, start=0, step=1, div=1, mod=16)


ALL = [e for e in Engine if e is not Engine.KC]


def test_the_kernel_core_waits() -> None:
    assert waits(neg(X, Y), iota(Y), neg(Y, Z)) == [[], [Engine.CT], [], ALL]


def test_dte_waits_and_is_waited_for() -> None:
    assert waits(neg(X, Y), send(Z, X), neg(X, Y)) == [[], [Engine.CT], [Engine.DTE], ALL]
    assert waits(send(Z, X), iota(X)) == [[], [Engine.DTE], ALL]


def test_one_queue_orders_itself() -> None:
    assert waits(neg(X, Y), neg(Z, X), neg(X, Z)) == [[], [], [], ALL]
    assert waits(send(Z, X), send(Y, X), send(Z, X)) == [[], [], [], ALL]
