"""SCHEDULED → SCHEDULED: loads run one step ahead of the computation, stores one step behind.

Before:                                   After:
    scf.for %s = 0 to 48 {                    load(0)
      load(%s); compute(%s); store(%s)        scf.for %s = 0 to 48 {
    }                                           scf.if %s + 1 < 48 { load(%s + 1) }
                                                compute(%s); store(%s)
                                              }

The loaded and the stored buffers get two copies, used in turns: engines work on different copies, and the hazards that remain
are ordered by the range check of the queues.
"""

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.dialects import spm, vec, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.made import compare, constant_index, if_op, of_two, yield_op
from hlo2tx8.dialects.nested import nested_of
from hlo2tx8.lower.dma.slices import (
    buffers_of,
    clone_slice,
    collect_slice,
    constant_of,
    instructions_in,
    is_inside,
    loop_of,
    use_in_turns,
)
from hlo2tx8.lower.dma.spread_loads import LOADS_PARTS, SENDS_PARTS

PIPELINED = "is_pipelined"
"""Attribute of a loop whose turns overlap already."""


@dataclass(frozen=True)
class PipelineDmaPass(ModulePass):
    """Software pipeline over load, compute and store; see the module docstring."""

    name = "pipeline-dma"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            # Outer loops first: a buffer an inner loop uses in turns is no load of the outer one.
            for loop in nested_of(function, scf.ForOp):
                _pipeline(loop)


def _pipeline(loop: scf.ForOp) -> None:
    if PIPELINED in loop.attributes:
        return
    bounds = [bound for v in (loop.lb, loop.ub, loop.step) if (bound := constant_of(v)) is not None]
    if len(bounds) < 3:
        return
    if bounds[1] - bounds[0] <= bounds[2]:
        _load_before(loop, bounds[0])
        return
    lower = bounds[0]
    loaded = _prefetchable(loop)
    stored = dict.fromkeys(spm.root_buffer(v) for o in instructions_in(loop) if isinstance(o, Wdma) for v in buffers_of(o, False))
    for buffer in (*loaded, *(b for b in stored if b not in loaded)):
        if isinstance(buffer.owner, Operation) and loop_of(buffer.owner) is loop:
            use_in_turns(buffer, loop)
    if not loaded:
        return
    place = _first_load_before(loop, loaded)
    builder = Builder(InsertPoint.before(place))
    _emit_loads(loop, loaded, builder, _constant(lower, builder))
    head = Builder(InsertPoint.at_start(loop.body.block))
    following = head.insert(of_two(arith.AddiOp, loop.body.block.args[0], loop.step)).result
    condition = head.insert(compare(following, loop.ub, "slt")).result
    sends = _sends_between(place, loop) if xla.BAND_TURNS not in loop.attributes else None
    if sends is not None:
        builder = Builder(InsertPoint.before(sends))
        _emit_loads(loop, loaded, builder, _constant(lower + bounds[2], builder))
    ahead = _load_ahead(loop, loaded, head, following, condition, is_late=sends is not None)
    _drop_loads(loop, loaded, ahead)
    _pipeline_moves(loop, loaded, lower, following, condition)


def _load_ahead(
    loop: scf.ForOp, loaded: list[SSAValue], head: Builder, following: SSAValue, condition: SSAValue, is_late: bool
) -> scf.IfOp:
    """Loads of the next turn at the `head` of each; if it `is_late`, as the next one's are there, those of the turn after that at
    the end, when the copy has been read."""
    builder = head
    if is_late:
        last = loop.body.block.last_op
        assert last is not None
        builder = Builder(InsertPoint.before(last))
        following = builder.insert(of_two(arith.AddiOp, following, loop.step)).result
        condition = builder.insert(compare(following, loop.ub, "slt")).result
    ahead = Block()
    guard = builder.insert(if_op(condition, [], Region(ahead)))
    _emit_loads(loop, loaded, Builder(InsertPoint.at_end(ahead)), following)
    ahead.add_op(yield_op())
    return guard


def _sends_between(place: Operation, loop: scf.ForOp) -> Operation | None:
    """Where between the first loads and the loop the tiles send each other what all of them read: there is time for more loads."""
    op: Operation | None = place
    while op is not None and op is not loop:
        if SENDS_PARTS in op.attributes:
            return op
        op = op.next_op
    return None


def _constant(number: int, builder: Builder) -> SSAValue:
    return builder.insert(constant_index(number)).result


def _load_before(loop: scf.ForOp, lower: int) -> None:
    """Loads of a loop of one turn stand in front of it if there parts of others are sent: so both go on at once."""
    loaded = _prefetchable(loop)
    before = loop.prev_op
    if not loaded or before is None or SENDS_PARTS not in before.attributes:
        return
    for buffer in loaded:
        assert isinstance(buffer.owner, spm.AllocOp)
        buffer.owner.detach()
        Builder(InsertPoint.before(loop)).insert(buffer.owner)
    builder = Builder(InsertPoint.before(_first_load_before(loop, loaded)))
    _emit_loads(loop, loaded, builder, _constant(lower, builder))
    _drop_loads(loop, loaded, None)


def _drop_loads(loop: scf.ForOp, loaded: list[SSAValue], kept: Operation | None) -> None:
    """Erases loads of a turn but for those inside of `kept`."""
    for op in list(instructions_in(loop)):
        if _is_load(op, loaded) and not (kept is not None and is_inside(op, kept)):
            op.detach()
            op.erase()


def _pipeline_moves(loop: scf.ForOp, loaded: list[SSAValue], lower: int, following: SSAValue, condition: SSAValue) -> None:
    """Moves of what was loaded into buffers that all steps share run one step ahead too, in front of the moves of the result: else
    the computation of a step would wait until TDMA is done with the step before."""
    body = loop.body.block
    moves = [op for op in body.ops if isinstance(op, TdmaGatherScatter) and all(_root(v) in loaded for v in buffers_of(op, False))]
    shared = {_root(v): None for op in moves for v in buffers_of(op, True)}
    touched = {op: [_root(v) for is_write in (False, True) for v in buffers_of(op, is_write)] for op in instructions_in(loop)}
    touching = [op for op, buffers in touched.items() if any(buffer in shared for buffer in buffers)]
    reading = [_in_block(op, body) for op in touching if op not in moves]
    is_outside = all(isinstance(b.owner, Operation) and not is_inside(b.owner, loop) for b in shared)
    if not moves or not is_outside or any(_root(v) in shared for op in touching if op not in moves for v in buffers_of(op, True)):
        return
    order = {op: number for number, op in enumerate(body.ops)}
    last = max(order[op] for op in (*moves, *reading))
    place = next((op for op in body.ops if order[op] > last and isinstance(op, TdmaGatherScatter)), None)
    if place is None:
        return
    wanted: set[Operation] = set()
    for op in moves:
        collect_slice(op, loop, wanted)
    before = Builder(InsertPoint.before(loop))
    first = before.insert(constant_index(lower)).result
    clone_slice(body, wanted, {body.args[0]: first}, before)
    ahead = Block()
    Builder(InsertPoint.before(place)).insert(if_op(condition, [], Region(ahead)))
    clone_slice(body, wanted, {body.args[0]: following}, Builder(InsertPoint.at_end(ahead)))
    ahead.add_op(yield_op())
    for op in moves:
        op.detach()
        op.erase()


def _root(value: SSAValue) -> SSAValue:
    return spm.root_buffer(value)


def _in_block(op: Operation, block: Block) -> Operation:
    """The operation of a block that holds this one."""
    while op.parent_block() is not block:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


def _first_load_before(loop: scf.ForOp, loaded: list[SSAValue]) -> Operation:
    """Where the loads of the first step go: before the small ones of what all steps read, while parts that were loaded are sent to
    other tiles, else before the loop.

    What they need of the operations between, allocations and constants, moves there too.
    """
    between: list[Operation] = []
    op = loop.prev_op
    while (
        op is not None
        and LOADS_PARTS not in op.attributes
        and (SENDS_PARTS in op.attributes or not op.regions)
        and not isinstance(op, (xla.SyncTilesOp, Wdma))
    ):
        between.append(op)
        op = op.prev_op
    first = next((o for o in reversed(between) if isinstance(o, Rdma) or SENDS_PARTS in o.attributes), None)
    if first is None:
        return loop
    behind = between[: between.index(first)]
    wanted: set[Operation] = set()
    for load in instructions_in(loop):
        if _is_load(load, loaded):
            collect_slice(load, loop, wanted)
    read = dict.fromkeys(value.owner for inner in wanted for value in inner.operands if isinstance(value.owner, Operation))
    needed = [o for o in reversed(behind) if o in read]
    if not all(isinstance(o, (spm.AllocOp, arith.ConstantOp)) for o in needed):
        return loop
    for moved in needed:
        moved.detach()
        block = first.parent_block()
        assert block is not None
        block.insert_op_before(moved, first)
    return first


def _prefetchable(loop: scf.ForOp) -> list[SSAValue]:
    """Buffers of a turn of the loop itself that only RDMA, after a memset at most, writes, from tensors the loop leaves
    alone; none that a loop inside uses in turns."""
    writers: dict[SSAValue, list[Operation]] = {}
    written = {o.field("slot") for o in instructions_in(loop) if isinstance(o, Wdma)}
    for op in instructions_in(loop):
        for value in buffers_of(op, True):
            writers.setdefault(spm.root_buffer(value), []).append(op)
    return [
        buffer
        for buffer, ops in writers.items()
        if isinstance(buffer.owner, spm.AllocOp)
        and buffer.owner.num_copies == 1
        and (loop_of(buffer.owner) is loop or _is_filled_by_turns(buffer.owner, ops, loop))
        and any(isinstance(o, Rdma) for o in ops)
        and all(isinstance(o, (Rdma, TdmaMemset)) for o in ops)
        and not any(_depends_on_data(o, loop) or (isinstance(o, Rdma) and o.field("slot") in written) for o in ops)
    ]


def _is_filled_by_turns(buffer: Operation, writers: list[Operation], loop: scf.ForOp) -> bool:
    """Does each turn of the loop itself load a part of a buffer that stays?"""
    return spm.KEPT in buffer.attributes and all(loop_of(op) is loop for op in writers)


def _depends_on_data(load: Operation, loop: scf.ForOp) -> bool:
    """Is it where the step's own data say? Those are not there a step earlier."""
    needed: set[Operation] = set()
    collect_slice(load, loop, needed)
    return any(isinstance(op, vec.ReadScalarOp) for op in needed)


def _emit_loads(loop: scf.ForOp, loaded: list[SSAValue], builder: Builder, step: SSAValue) -> None:
    """Clones the loads of the loop body, with what they depend on, for another step."""
    wanted: set[Operation] = set()
    for op in instructions_in(loop):
        if _is_load(op, loaded) and op not in wanted:
            collect_slice(op, loop, wanted)
    mapping: dict[SSAValue, SSAValue] = {loop.body.block.args[0]: step}
    clone_slice(loop.body.block, wanted, mapping, builder)


def _is_load(op: Operation, loaded: list[SSAValue]) -> bool:
    return isinstance(op, (Rdma, TdmaMemset)) and any(spm.root_buffer(v) in loaded for v in buffers_of(op, True))
