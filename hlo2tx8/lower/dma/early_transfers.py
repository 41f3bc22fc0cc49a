"""SCHEDULED → SCHEDULED: what the vector engine reads in a step that is computed once is loaded before it begins, and what it has
made is stored at once.

    Before:                                 After:
      gemm(%y, ...)                           gemm(%y, ...)
      load(%x); add(%z, %x, %y)               load(%x); load(%c)
      load(%c); mul(%n, %c, %z)               add(%z, %x, %y)
      tanh(%t, %n); mul(%h, %t, %z)           mul(%n, %c, %z); store(%n)
      store(%h); store(%n)                    tanh(%t, %n); mul(%h, %t, %z); store(%h)

Steps in loops are loaded a step ahead and stored a step behind; of one step, a load began when what had its place before was read,
and stores were one after the other at the end. It is done where all buffers of a kernel have room beside each other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import NoMemoryEffect

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.isa import Engine, Instruction
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.dialects import spm
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.nested import nested_ops, ops_of
from hlo2tx8.lower.dma.allocate_spm import SpmSpace
from hlo2tx8.lower.dma.insert_waits import ORDERED
from hlo2tx8.lower.dma.slices import buffers_of, turns_of, writers_in

PLAIN = (Engine.CT, Engine.NE, Engine.RDMA, Engine.WDMA)
"""What loads and stores may go past: these order accesses to the same bytes by themselves."""


@dataclass(frozen=True)
class EarlyTransfersPass(ModulePass):
    """Moves loads and stores of single steps; see the module docstring. chip: file of the description, "" for the built-in one."""

    name = "early-transfers"
    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        chip = load_chip(self.chip)
        space = SpmSpace(chip.spm_allocation_start, chip.spm_limit, chip.spm_alignment_bytes)
        for function in defined_functions(op):
            allocs = [own for own in nested_ops(function) if isinstance(own, spm.AllocOp)]
            if sum(space.aligned(own.size_bytes) * own.num_copies for own in allocs) > space.limit - space.start:
                continue
            runs = [(run, block) for block in _single(function) for run in _runs(block) if any(map(_is_of_vectors, run))]
            writers = writers_in(function) if runs else {}
            for run, block in runs:
                _Run(run, block, writers).apply()


def _single(function: FuncOp) -> Iterator[Block]:
    """The blocks of a function that are run once at most."""
    waiting = [function.body.block]
    while waiting:
        block = waiting.pop()
        yield block
        for op in ops_of(block):
            if op.regions and (isinstance(op, scf.IfOp) or (isinstance(op, scf.ForOp) and turns_of(op) == 1)):
                waiting += [region.block for region in op.regions if region.blocks]


def _runs(block: Block) -> list[list[Operation]]:
    """The operations between loops, branches, waits and what is ordered already."""
    runs = [list[Operation]()]
    for op in ops_of(block):
        is_instruction = isinstance(op, Instruction)
        if (is_instruction and (op.ENGINE not in PLAIN or ORDERED in op.attributes)) or (not is_instruction and not _is_value(op)):
            runs.append([])
        else:
            runs[-1].append(op)
    return runs


def _is_of_vectors(op: Operation) -> bool:
    return isinstance(op, Instruction) and op.ENGINE is Engine.CT


def _is_as_selected(op: Operation) -> bool:
    """Has no pass before said where a transfer has to be?"""
    return not op.attributes.keys() - {"loc"}


def _is_value(op: Operation) -> bool:
    """Does an operation but make a number or name a buffer?"""
    return not op.regions and (isinstance(op, spm.AllocOp) or _is_pure(type(op)))


@cache
def _is_pure(kind: type[Operation]) -> bool:
    """Has an operation without regions no effects?"""
    return kind.has_trait(NoMemoryEffect)


@dataclass(frozen=True)
class _Run:
    """Operations that follow each other in a block, some of the vector engine; `writers` of each buffer of the function."""

    ops: list[Operation]
    block: Block
    writers: Mapping[SSAValue, Sequence[Instruction]]

    def apply(self) -> None:
        """Moves loads in front of the first vector instruction, then stores behind what they store."""
        first = next(filter(_is_of_vectors, self.ops))
        behind = self.ops[self.ops.index(first) :]
        for op in behind:
            if isinstance(op, Wdma):
                break
            if isinstance(op, Rdma) and _is_as_selected(op) and self._is_only(op):
                for own in self._needed(op, first):
                    own.detach()
                    self.block.insert_op_before(own, first)
        self._store()

    def _is_only(self, load: Rdma) -> bool:
        """Is a load all that writes its buffer, which is made in the same block?"""
        (buffer,) = (spm.root_buffer(value) for value in buffers_of(load, is_write=True))
        return len(self.writers.get(buffer, ())) == 1 and buffer.owner in self.ops

    def _needed(self, op: Operation, behind: Operation) -> list[Operation]:
        """An operation and what makes its operands behind another one of the block, in order."""
        found: list[Operation] = []
        for owner in (value.owner for value in op.operands):
            if isinstance(owner, Operation) and owner.parent is op.parent and behind.is_before_in_block(owner):
                found += [own for own in self._needed(owner, behind) if own not in found]
        return [*found, op]

    def _store(self) -> None:
        """Puts stores behind the last of what writes their buffers, all loads, and stores to the same slot."""
        if not any(isinstance(op, Wdma) for op in self.ops):
            return
        inside = {*self.ops}
        place = {op: number for number, op in enumerate(op for op in self.block.ops if op in inside)}
        loads = [op for op in place if isinstance(op, Rdma)]
        stored: dict[SSAValue, list[Operation]] = {}
        for op in place:
            if not isinstance(op, Wdma):
                continue
            slot = op.field("slot")
            assert isinstance(slot, SSAValue)
            same_slot = stored.setdefault(slot, [])
            same_slot.append(op)
            if not _is_as_selected(op):
                continue
            roots = [spm.root_buffer(value) for value in buffers_of(op, is_write=False)]
            before = [own for root in roots for own in self.writers.get(root, ())]
            if any(own not in inside for own in before):
                continue
            last = max([*before, *loads, *same_slot[:-1]], key=place.__getitem__, default=op)
            if last.is_before_in_block(op):
                for own in reversed(self._needed(op, last)):
                    own.detach()
                    self.block.insert_op_after(own, last)
