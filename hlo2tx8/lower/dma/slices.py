"""What an instruction of a loop depends on inside of it, and copies of that for another turn of the loop."""

from collections.abc import Iterator

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.traits import is_side_effect_free

from hlo2tx8.device.isa import Instruction
from hlo2tx8.dialects import spm
from hlo2tx8.dialects.made import put, yield_op
from hlo2tx8.dialects.nested import nested_ops, ops_of
from hlo2tx8.ir import copy_of, maker_of


def instructions_in(loop: Operation) -> Iterator[Instruction]:
    """The instructions inside of an operation, in program order."""
    return (op for op in nested_ops(loop) if isinstance(op, Instruction))


def buffers_of(op: Operation, is_write: bool) -> list[SSAValue]:
    """The addresses in SPM that an instruction writes, or reads."""
    assert isinstance(op, Instruction)
    return op.addresses(is_write=is_write)


def roots_of(op: Operation, *, is_write: bool) -> list[SSAValue]:
    """The whole buffers that an instruction writes in, or reads from."""
    return [spm.root_buffer(buffer) for buffer in buffers_of(op, is_write)]


def collect_slice(op: Operation, loop: Operation, wanted: set[Operation]) -> None:
    """Adds to `wanted` the operation, what it depends on inside of the loop, and the branches and loops around those."""
    if op in wanted or op is loop:
        return
    wanted.add(op)
    for operand in op.operands:
        if (owner := maker_of(operand)) is not None and is_inside(owner, loop):
            collect_slice(owner, loop, wanted)
    parent = op.parent_op()
    if parent is not None and parent is not loop:
        collect_slice(parent, loop, wanted)


def clone_slice(block: Block, wanted: set[Operation], mapping: dict[SSAValue, SSAValue], builder: Builder) -> None:
    """Clones the wanted operations of a block, with values replaced by `mapping`, which learns the clones' results."""
    for op in ops_of(block):
        if op not in wanted:
            continue
        if not op.regions:
            put(builder, copy_of(op, mapping))
            continue
        shell = copy_of(op, mapping)
        for old, new in zip(op.regions, shell.regions, strict=True):
            for old_block in old.blocks:
                fresh = Block(arg_types=[a.type for a in old_block.args])
                mapping.update(zip(old_block.args, fresh.args, strict=True))
                new.add_block(fresh)
                clone_slice(old_block, wanted, mapping, Builder(InsertPoint.at_end(fresh)))
                fresh.add_op(yield_op())
        put(builder, shell)


def is_inside(op: object, ancestor: Operation | None) -> bool:
    """Is something an operation inside of another one, or that one itself?"""
    found = op if isinstance(op, Operation) else None
    while found is not None:
        if found is ancestor:
            return True
        found = found.parent_op()
    return False


def ops_between(first: Operation | Block | None, behind: Operation) -> list[Operation]:
    """The operations of a block from one on, up to another one; none if the first is a block or None."""
    found: list[Operation] = []
    op = first
    while isinstance(op, Operation) and op is not behind:
        found.append(op)
        op = op.next_op
    return found


def loop_of(op: Operation) -> Operation | None:
    """The innermost loop around an operation."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, scf.ForOp):
        parent = parent.parent_op()
    return parent


def constant_of(value: SSAValue) -> int | None:
    """The value of a constant index; None where the step decides."""
    owner = value.owner
    return owner.value.value.data if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr) else None


def factors_of(value: SSAValue | int) -> tuple[int, tuple[Operation | Block, ...]]:
    """A product as its constant factor and what computes the others."""
    if isinstance(value, int):
        return value, ()
    if (constant := constant_of(value)) is not None:
        return constant, ()
    owner = value.owner
    if not isinstance(owner, arith.MuliOp):
        return 1, (owner,)
    (a, first), (b, second) = (factors_of(operand) for operand in owner.operands)
    return a * b, (*first, *second)


def turns_of(loop: scf.ForOp) -> int | None:
    """How often a loop that counts from 0 by 1 turns; None if it is another loop or nobody knows."""
    lower, upper, step = map(constant_of, (loop.lb, loop.ub, loop.step))
    return upper if lower == 0 and step == 1 else None


def drop_unused(loop: Operation) -> None:
    """Erases arithmetic inside of a loop whose results nobody uses any more."""
    for op in reversed(nested_ops(loop)):
        if op.results and not op.regions and not any(result.first_use for result in op.results) and is_side_effect_free(op):
            op.detach()
            op.erase()


def writers_in(loop: Operation) -> dict[SSAValue, list[Instruction]]:
    """The instructions inside of an operation that write each buffer, in program order."""
    found: dict[SSAValue, list[Instruction]] = {}
    for op in instructions_in(loop):
        for value in buffers_of(op, is_write=True):
            found.setdefault(spm.root_buffer(value), []).append(op)
    return found


def use_in_turns(buffer: SSAValue, loop: scf.ForOp) -> None:
    """Moves the buffer out of the loop, doubles it, and lets each step use its copy."""
    alloc = buffer.owner
    assert isinstance(alloc, spm.AllocOp)
    alloc.detach()
    block = loop.parent_block()
    assert block is not None
    block.insert_op_before(alloc, loop)
    alloc.copies = IntegerAttr(2, alloc.copies.type)
    turn = spm.TurnOp(buffer, loop.body.block.args[0])
    buffer.replace_uses_with_if(turn.result, lambda use: use.operation is not turn)
    first = loop.body.block.first_op
    assert first is not None
    loop.body.block.insert_op_before(turn, first)
