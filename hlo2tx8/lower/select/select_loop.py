"""Loops inside of a box that carry vectors: each iter arg is one buffer, which a turn ends by overwriting.

    %0 = scf.for %k iter_args(%acc = %init) {          %b = %init
      %1 = scf.for %l iter_args(%own = %acc) {   →     scf.for %k { scf.for %l {
        %2 = max %own, %x                                VV_max dst(%b) a(%b) b(%x)
        yield %2                                       } }

The instruction that computes what a turn hands on writes it in place, where nobody needs the old value any more, and a loop goes on
with the buffer of the loop around it.
"""

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.isa.forms import CtV, CtVS, CtVV, KcV, KcVV
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.made import for_op, yield_op
from hlo2tx8.lower.box_levels import BoxLevel
from hlo2tx8.lower.dma.slices import buffers_of, instructions_in
from hlo2tx8.lower.element_format import storage_format
from hlo2tx8.lower.select.selector import Selector

ELEMENT_BY_ELEMENT = (CtV, CtVV, CtVS, KcV, KcVV)
"""Instructions whose result may replace an operand: element i of it needs element i only."""
FRESH = (arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp, arith.ExtFOp)
"""Operations whose result is in a buffer that they allocate in each step."""


def select_loop(s: Selector, op: scf.ForOp) -> None:
    """A loop of all lanes; see the module docstring."""
    step, old, block = s.step, op.body.block, Block(arg_types=[xla.index])
    block.args[0].name_hint = old.args[0].name_hint
    s.slots[old.args[0]] = block.args[0]
    carried = [_begin(s, value) for value in op.iter_args]
    s.vectors.update(zip((*old.args[1:], *op.results), (*carried, *carried), strict=True))
    lower, upper, stride = (s.slots[bound] for bound in (op.lb, op.ub, op.step))
    loop = step.insert(for_op(lower, upper, stride, [], block))
    outer, step.builder = step.builder, Builder(InsertPoint.at_end(block))
    s.select(old)
    terminator = old.last_op
    assert isinstance(terminator, scf.YieldOp)
    new = [s.buffer(s.vector(value)) for value in terminator.operands]
    # All new values are read before the first iter arg changes.
    new = [
        s.copy(v, storage_format(o.type)) if v in carried and v is not c else v
        for v, c, o in zip(new, carried, terminator.operands, strict=True)
    ]
    for buffer, value, operand in zip(carried, new, terminator.operands, strict=True):
        if value is not buffer and not _write_in_place(loop, value, buffer):
            step.move(buffer, value, [BoxLevel(step.count(), (1, 1))], storage_format(operand.type))
    step.insert(yield_op())
    step.builder = outer


def _begin(s: Selector, value: SSAValue) -> SSAValue:
    """The buffer that a loop begins with: that of the first value, where nobody else needs it, else a new one."""
    vector, owner = s.vector(value), value.owner
    is_own = isinstance(owner.parent_op(), scf.ForOp) if isinstance(owner, Block) else isinstance(owner, FRESH)
    if isinstance(vector, SSAValue) and is_own and value.has_one_use():
        return vector
    return s.own_buffer(vector, storage_format(value.type))


def _write_in_place(loop: scf.ForOp, value: SSAValue, buffer: SSAValue) -> bool:
    """Lets the one instruction that writes `value` write `buffer` instead, if nobody reads the old one after it; was that done?"""
    alloc, written = value.owner, list(instructions_in(loop))
    writers = [op for op in written if value in map(spm.root_buffer, buffers_of(op, is_write=True))]
    if len(writers) != 1 or not isinstance(alloc, spm.AllocOp) or alloc.parent is not loop.body.block:
        return False
    (writer,) = writers
    after = written[written.index(writer) + 1 :]
    if not isinstance(writer, ELEMENT_BY_ELEMENT) or writer.field("dst") is not value or writer.parent is not loop.body.block:
        return False
    if any(buffer in map(spm.root_buffer, (*buffers_of(op, is_write=False), *buffers_of(op, is_write=True))) for op in after):
        return False
    value.replace_all_uses_with(buffer)
    alloc.detach()
    alloc.erase()
    return True
