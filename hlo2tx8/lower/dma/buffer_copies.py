"""Which copy of a buffer that loops use in turns an access is to, and what of them the kernel core and other engines share."""

from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.dialects import arith, scf
from xdsl.ir import BlockArgument, Operation, SSAValue

from hlo2tx8.device.isa import Engine
from hlo2tx8.dialects import spm
from hlo2tx8.lower.dma.slices import constant_of


class BufferCopy(NamedTuple):
    """A buffer's copy of the turn that is `turn` turns of the loop ahead, modulo the number of copies; without a loop, any copy."""

    buffer: SSAValue
    loop: Operation | None = None
    turn: int = 0

    def is_other(self, copy: "BufferCopy") -> bool:
        """Are these certainly different copies of a buffer?"""
        return self.loop is not None and self.loop is copy.loop and self.turn != copy.turn

    def a_turn_later(self, loop: Operation) -> "BufferCopy":
        """The same copy as the next turn of a loop counts."""
        return self if self.loop is not loop else _copy(self.buffer, loop, self.turn - 1)


def copy_of_buffer(address: SSAValue) -> BufferCopy:
    """The copy of a buffer that an address lies in."""
    buffer, turn = spm.root_buffer(address), None
    while address is not buffer:
        owner = address.owner
        assert isinstance(owner, spm.TurnOp | spm.OffsetOp)
        turn = owner.turn if isinstance(owner, spm.TurnOp) else turn
        address = owner.buffer
    if turn is None:
        return BufferCopy(buffer)
    index, ahead = turn, 0
    while isinstance(index.owner, arith.AddiOp) and (more := constant_of(index.owner.rhs)) is not None:
        index, ahead = index.owner.lhs, ahead + more
    loop = index.owner.parent_op() if isinstance(index, BlockArgument) else None
    if isinstance(loop, scf.ForOp) and index is loop.body.block.args[0] and constant_of(loop.step) == 1:
        return _copy(buffer, loop, ahead)
    return BufferCopy(buffer)


def _copy(buffer: SSAValue, loop: Operation, turn: int) -> BufferCopy:
    assert isinstance(buffer.owner, spm.AllocOp)
    return BufferCopy(buffer, loop, turn % buffer.owner.num_copies)


@dataclass
class CopiesInTurns:
    """What a loop's instructions do with copies of buffers that it uses in turns."""

    by_core: set[SSAValue] = field(default_factory=set[SSAValue])
    """Buffers of which the kernel core accesses copies."""
    issued: dict[tuple[Engine, SSAValue], set[int]] = field(default_factory=dict[tuple[Engine, SSAValue], set[int]])
    """By engine and buffer, of which turns its accesses in one turn are."""

    def add(self, engine: Engine, copy: BufferCopy) -> None:
        """Takes note of an access."""
        if engine is Engine.KC:
            self.by_core.add(copy.buffer)
        else:
            self.issued.setdefault((engine, copy.buffer), set()).add(copy.turn)

    def is_earlier(self, engine: Engine, copy: BufferCopy, loop: Operation | None) -> bool:
        """Did an engine begin this access, to what the kernel core accesses too, before the present turn of the loop?"""
        is_issued = copy.loop is loop and copy.turn in self.issued.get((engine, copy.buffer), ())
        return copy.buffer in self.by_core and not is_issued
