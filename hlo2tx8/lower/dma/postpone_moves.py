"""What TDMA does with sums of a tail in each turn is done in the turn after that, as each turn begins with a wait for TDMA.

scf.for %k {                                    scf.for %k {
  load(%a); load(%t)                              load(%a); load(%t)
  gemm(%a, ...)                                   gemm(%a, ...)
  scf.if %last {                                  scf.if %last {
    gemm(%a, %t) to %s                      ⟶       scf.if %k > 0 { move(%d, %s); add(%sum, %d) }
    move(%d, %s); add(%sum, %d)                     gemm(%a, %t) to %s
} }                                             } }
                                                scf.if %last { move(%d, %s); add(%sum, %d) }
"""

from collections.abc import Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import is_side_effect_free

from hlo2tx8.device.isa import Engine, Instruction
from hlo2tx8.device.isa.forms import CtInstruction
from hlo2tx8.device.isa.lsu import Rdma
from hlo2tx8.device.isa.ne import NeGemm
from hlo2tx8.dialects import spm
from hlo2tx8.dialects.nested import cloned
from hlo2tx8.lower.dma.join_tails import TAIL
from hlo2tx8.lower.dma.slices import buffers_of, collect_slice, constant_of, instructions_in


def postpone_moves(loop: scf.ForOp) -> None:
    """Rewrites the loops over panels of a step loop that have such a tail."""
    for turns in [op for op in loop.body.block.ops if isinstance(op, scf.ForOp)]:
        branches = [op for op in turns.body.block.ops if isinstance(op, scf.IfOp) and TAIL in op.attributes]
        if branches and constant_of(turns.lb) == 0:
            _postpone(turns, branches[-1])


def _postpone(turns: scf.ForOp, branch: scf.IfOp) -> None:
    block = branch.true_region.block
    gemms = [op for op in block.ops if isinstance(op, NeGemm)]
    if not gemms:
        return
    counter, inside = turns.body.block.args[0], {result for op in turns.body.block.ops for result in op.results}
    own = [op for op in block.ops if isinstance(op, Instruction)]
    others = [op for op in instructions_in(turns) if op not in own or isinstance(op, Rdma | CtInstruction)]
    loaded = {spm.root_buffer(value) for op in others for value in buffers_of(op, is_write=True)}
    sums = {spm.root_buffer(value) for op in gemms for write in (True, False) for value in buffers_of(op, write)} & inside - loaded
    late = [op for op in block.ops if gemms[-1].is_before_in_block(op) and op is not block.last_op]
    engines = {op.ENGINE for op in late if isinstance(op, Instruction)}
    is_late = Engine.TDMA in engines and engines <= {Engine.TDMA, Engine.CT}
    if is_late:
        sums |= {
            spm.root_buffer(value) for op in late if isinstance(op, Instruction) for value in buffers_of(op, is_write=True)
        } & inside
    needed: set[Operation] = {value.owner for value in sums if isinstance(value.owner, spm.AllocOp)}
    for value in (value for op in late if is_late for value in op.operands if value in inside):
        assert isinstance(value.owner, Operation)
        collect_slice(value.owner, turns, needed)
    rest = [op for op in needed if not isinstance(op, spm.AllocOp)]
    is_late &= all(is_side_effect_free(op) and counter not in op.operands for op in rest) and not any(op.regions for op in late)
    outer = turns.parent_block()
    assert outer is not None
    for op in [op for op in turns.body.block.ops if op in needed and (is_late or isinstance(op, spm.AllocOp))]:
        op.detach()  # what sums lie in has a place of its own then
        outer.insert_op_before(op, turns)
    if not is_late:
        return
    zero = arith.ConstantOp(IntegerAttr(0, IndexType()))
    is_later = arith.CmpiOp(counter, zero.result, "sgt")
    first = block.first_op
    assert first is not None
    block.insert_ops_before([zero, is_later, scf.IfOp(is_later.result, [], Region(_copied(late)))], first)
    behind = scf.IfOp(branch.cond, [], Region(_copied(late)))
    behind.attributes[TAIL] = UnitAttr()
    outer.insert_op_after(behind, turns)
    for op in reversed(late):
        op.detach()
        op.erase()


def _copied(ops: Sequence[Operation]) -> Block:
    """Clones of operations in a block of their own."""
    values: dict[SSAValue, SSAValue] = {}
    return Block([*(cloned(op, values) for op in ops), scf.YieldOp()])
