"""SCHEDULED → SCHEDULED: waits and barriers that the queues do not give.

Engines order accesses of one tile to the same SPM bytes by themselves. The kernel core's vector operations and DTE do not take
part: they wait until every engine has finished that has an access under way to their buffers, or to buffers that are dead by then
and may lie at the same addresses; other engines wait so for DTE. What DTE does to other tiles' buffers is ordered by
`xla.sync_tiles`, which as the end of a kernel waits for all engines, then all tiles meet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.device.isa import RANGE_CHECKED, Engine, Instruction
from hlo2tx8.device.isa.kc_control import KcBarrier, KcWait
from hlo2tx8.dialects import spm, vec, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.nested import nested_ops, ops_of
from hlo2tx8.lower.dma.allocate_spm import LiveRange, live_ranges
from hlo2tx8.lower.dma.slices import turns_of

Pending: TypeAlias = dict[Engine, dict[SSAValue, None]]
"""By engine the buffers that it has an access under way to."""
ORDERED = "is_ordered"
"""Attribute of an instruction whose waits and barriers are there already."""
QUEUES = tuple(e for e in Engine if e is not Engine.KC)


@dataclass(frozen=True)
class InsertWaitsPass(ModulePass):
    """Inserts KcWait and KcBarrier; see the module docstring."""

    name = "insert-waits"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            _Waits(live_ranges(function)).block(function.body.block, {}, insert=True)
            _meet(function.body.block.last_op)


@dataclass(frozen=True)
class _Waits:
    """`ranges` tells which buffers may get the same addresses."""

    ranges: Mapping[SSAValue, LiveRange]
    touched: dict[Operation, list[SSAValue]] = field(default_factory=dict[Operation, list[SSAValue]])
    """The buffers of each instruction, which is seen twice for every loop around it."""

    def block(self, block: Block, before: Pending, insert: bool) -> Pending:
        """Pending accesses at the end of a block, of those pending before it; inserts waits on the way if asked to."""
        pending = {engine: dict(held) for engine, held in before.items()}
        for op in ops_of(block):
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
                    # Accesses of one turn are pending at the start of the next.
                    if _add(pending, self.block(op.body.block, pending, insert=False)) or insert:
                        _add(pending, self.block(op.body.block, pending, insert))
                case scf.IfOp():
                    _add(pending, self.block(op.true_region.block, pending, insert))
                case _:
                    pass
        return pending

    def _before_loop(self, loop: scf.ForOp, pending: Pending) -> None:
        """Waits in front of a loop for accesses to what its kernel core touches and its engines do not: else each turn would."""
        touched: Pending = {}
        for op in (o for o in nested_ops(loop) if isinstance(o, (Instruction, vec.ReadScalarOp))):
            touched.setdefault(_engine(op), {}).update(dict.fromkeys(_buffers(op)))
        by_core = touched.pop(Engine.KC, {})
        for engine, held in pending.items():
            late = [b for b in by_core if any(self._may_meet(b, other) for other in held)]
            if late and not any(self._may_meet(b, other) for b in late for other in touched.get(engine, ())):
                block = loop.parent_block()
                assert block is not None
                block.insert_op_before(KcWait.make(engines=_mask(frozenset((engine,)))), loop)
                held.clear()

    def _instruction(self, op: Instruction | vec.ReadScalarOp, pending: Pending, insert: bool) -> None:
        """What is pending behind an instruction."""
        buffers = self.touched.get(op)
        if buffers is None:
            buffers = self.touched[op] = _buffers(op)
        engine = _engine(op)
        unordered = ((e, held) for e, held in pending.items() if not _is_ordered(e, engine))
        engines = frozenset(e for e, held in unordered if any(self._may_meet(b, other) for other in held for b in buffers))
        if engines and insert:
            block = op.parent_block()
            assert block is not None
            block.insert_op_before(KcWait.make(engines=_mask(engines)), op)
        for other in engines:
            pending[other].clear()
        if engine is not Engine.KC:
            pending.setdefault(engine, {}).update(dict.fromkeys(buffers))

    def _may_meet(self, a: SSAValue, b: SSAValue) -> bool:
        return a is b or not self.ranges[a].overlaps(self.ranges[b])


def _engine(op: Instruction | vec.ReadScalarOp) -> Engine:
    return op.ENGINE if isinstance(op, Instruction) else Engine.KC


def _buffers(op: Instruction | vec.ReadScalarOp) -> list[SSAValue]:
    if isinstance(op, vec.ReadScalarOp):
        return [spm.root_buffer(op.address)]
    return [*map(spm.root_buffer, op.addresses())]


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


def _mask(engines: frozenset[Engine]) -> int:
    return sum(1 << e.value for e in engines)


def _meet(before: Operation | None) -> None:
    """All engines idle, all tiles together."""
    assert before is not None
    block = before.parent_block()
    assert block is not None
    block.insert_ops_before([KcWait.make(engines=_mask(frozenset(QUEUES))), KcBarrier.make()], before)
