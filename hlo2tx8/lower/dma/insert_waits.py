"""SCHEDULED → SCHEDULED: waits and barriers that the queues do not give.

Engines order accesses of one tile to the same SPM bytes by themselves. The kernel core's vector operations and DTE do not take
part: they wait until every engine has finished that has an access under way to their buffers, or to buffers that are dead by then
and may lie at the same addresses; other engines wait so for DTE. What DTE does to other tiles' buffers is ordered by
`xla.sync_tiles`, which as the end of a kernel waits for all engines, then all tiles meet.

A wait is for all that an engine has queued. Where the kernel core computes with what a loop loads or stores in turns, it waits for
the transfer of the turn before in front of the next one, for which it would else wait too instead of computing beside it:

    scf.for %s {                                scf.for %s {
      RDMA_load %b of turn %s + 1                 KC_wait RDMA
      KC_wait RDMA                         ⟶      RDMA_load %b of turn %s + 1
      KC_VV_add ... %b of turn %s                 KC_VV_add ... %b of turn %s
    }                                           }
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.device.isa import RANGE_CHECKED, Engine, Instruction
from hlo2tx8.device.isa.kc_control import KcBarrier, KcWait
from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.nested import nested_ops, ops_of
from hlo2tx8.ir import insert_before
from hlo2tx8.lower.dma.allocate_spm import LiveRange, live_ranges
from hlo2tx8.lower.dma.buffer_copies import BufferCopy, CopiesInTurns, copy_of_buffer
from hlo2tx8.lower.dma.slices import turns_of

Pending: TypeAlias = dict[Engine, dict[BufferCopy, None]]
"""By engine what it has an access under way to."""
ORDERED = "is_ordered"
"""Attribute of an instruction whose waits and barriers are there already."""
QUEUES = tuple(e for e in Engine if e is not Engine.KC)
TO_DDR = (Engine.RDMA, Engine.WDMA)


@dataclass(frozen=True)
class InsertWaitsPass(ModulePass):
    """Inserts KcWait and KcBarrier; see the module docstring."""

    name = "insert-waits"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            _Waits.of(function).block(function.body.block, {}, insert=True)
            _meet(function.body.block.last_op)


@dataclass(frozen=True)
class _Waits:
    """`ranges` tells which buffers may get the same addresses."""

    ranges: Mapping[SSAValue, LiveRange]
    touched: Mapping[Operation, list[BufferCopy]]
    """What each instruction accesses."""
    in_turns: Mapping[Operation, CopiesInTurns]
    """By loop, where the kernel core accesses some of what the loop uses in turns."""

    @staticmethod
    def of(function: func.FuncOp) -> "_Waits":
        """For a kernel."""
        touched: dict[Operation, list[BufferCopy]] = {}
        found: dict[Operation, CopiesInTurns] = {}
        for op in nested_ops(function):
            if isinstance(op, (Instruction, vec.ReadScalarOp)):
                touched[op] = [*map(copy_of_buffer, op.addresses() if isinstance(op, Instruction) else [op.address])]
                for copy in touched[op]:
                    if copy.loop is not None:
                        found.setdefault(copy.loop, CopiesInTurns()).add(_engine(op), copy)
        in_turns = {loop: copies for loop, copies in found.items() if copies.by_core}
        known = {op: [c if c.loop in in_turns else BufferCopy(c.buffer) for c in copies] for op, copies in touched.items()}
        return _Waits(live_ranges(function), known, in_turns)

    def block(self, block: Block, before: Pending, insert: bool) -> Pending:
        """Pending accesses at the end of a block, of those pending before it; inserts waits on the way if asked to."""
        pending = {engine: dict(held) for engine, held in before.items()}
        parent = block.parent_op()
        in_turns = None if parent is None else self.in_turns.get(parent)
        for op in ops_of(block):
            if in_turns is not None:
                self._before_transfer(op, in_turns, pending, insert)
            match op:
                case Instruction() if ORDERED in op.attributes:
                    pass
                case Instruction() | vec.ReadScalarOp():
                    self._instruction(op, pending, insert)
                case xla.SyncTilesOp():
                    if insert:
                        _meet(op)
                    pending.clear()
                case _ if not op.regions:
                    pass
                case scf.ForOp():
                    if insert and turns_of(op) not in (0, 1):
                        self._before_loop(op, pending)
                    # Accesses of one turn are pending at the start of the next, those to copies in turns for more than one.
                    is_more = True
                    while is_more:
                        later = _a_turn_later(op, self.block(op.body.block, pending, insert=False))
                        is_more = _add(pending, later) and op in self.in_turns
                    if insert:
                        _add(pending, self.block(op.body.block, pending, insert))
                case scf.IfOp():
                    _add(pending, self.block(op.true_region.block, pending, insert))
                case _:
                    pass
        return pending

    def _before_transfer(self, op: Operation, in_turns: CopiesInTurns, pending: Pending, insert: bool) -> None:
        """Waits in front of a transfer of a loop for that of the turn before, if the kernel core accesses what it is of."""
        if not isinstance(op, (Instruction, scf.IfOp)):
            return
        inside = [o for o in nested_ops(op) if isinstance(o, (Instruction, vec.ReadScalarOp))]
        if any(_engine(o) is Engine.KC for o in inside):
            return
        begun = {_engine(o) for o in inside if any(copy.buffer in in_turns.by_core for copy in self.touched[o])}
        loop = op.parent_op()
        for engine in TO_DDR:
            held = pending.get(engine, {})
            if engine in begun and any(in_turns.is_earlier(engine, c, loop) for c in held):
                if insert:
                    _wait((engine,), op)
                held.clear()

    def _before_loop(self, loop: scf.ForOp, pending: Pending) -> None:
        """Waits in front of a loop for accesses to what its kernel core touches and its engines do not: else each turn would."""
        touched: Pending = {}
        for op in (o for o in nested_ops(loop) if isinstance(o, (Instruction, vec.ReadScalarOp))):
            touched.setdefault(_engine(op), {}).update({BufferCopy(copy.buffer): None for copy in self.touched[op]})
        by_core = touched.pop(Engine.KC, {})
        for engine, held in pending.items():
            late = [b for b in by_core if any(self._may_meet(b, other) for other in held)]
            if late and not any(self._may_meet(b, other) for b in late for other in touched.get(engine, ())):
                _wait((engine,), loop)
                held.clear()

    def _instruction(self, op: Instruction | vec.ReadScalarOp, pending: Pending, insert: bool) -> None:
        """What is pending behind an instruction."""
        copies, engine = self.touched[op], _engine(op)
        unordered = ((e, held) for e, held in pending.items() if not _is_ordered(e, engine))
        engines = frozenset(e for e, held in unordered if any(self._may_meet(b, other) for other in held for b in copies))
        if engines and insert:
            _wait(engines, op)
        for other in engines:
            pending[other].clear()
        if engine is not Engine.KC:
            pending.setdefault(engine, {}).update(dict.fromkeys(copies))

    def _may_meet(self, a: BufferCopy, b: BufferCopy) -> bool:
        if a.buffer is b.buffer:
            return not a.is_other(b)
        return not self.ranges[a.buffer].overlaps(self.ranges[b.buffer])


def _engine(op: Instruction | vec.ReadScalarOp) -> Engine:
    return op.ENGINE if isinstance(op, Instruction) else Engine.KC


def _is_ordered(earlier: Engine, later: Engine) -> bool:
    """Do the queues order accesses of these engines?"""
    return earlier is later or (earlier in RANGE_CHECKED and later in RANGE_CHECKED)


def _add(pending: Pending, more: Pending) -> bool:
    """Were they not all pending?"""
    is_more = False
    for engine, held in more.items():
        known = pending.setdefault(engine, {})
        num_known = len(known)
        known.update(held)
        is_more |= len(known) > num_known
    return is_more


def _a_turn_later(loop: Operation, pending: Pending) -> Pending:
    """Pending accesses, as the next turn of a loop counts."""
    return {engine: {copy.a_turn_later(loop): None for copy in held} for engine, held in pending.items()}


def _wait(engines: Iterable[Engine], before: Operation) -> None:
    """The kernel core waits for all that these engines have queued."""
    insert_before(KcWait.make(engines=sum(1 << engine.value for engine in engines)), before)


def _meet(before: Operation | None) -> None:
    """All engines idle, all tiles together."""
    assert before is not None
    _wait(QUEUES, before)
    insert_before(KcBarrier.make(), before)
