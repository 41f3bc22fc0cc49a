"""SCHEDULED → SCHEDULED: of what the tiles of a mesh row read alike in each chunk of a group each loads a part, and sends it to the
others.

Before:                                              After:
    RDMA_load dst(%k[0]) ...                             RDMA_load dst(%k[0] + part) ...; TDMA: read 16 bytes of the part
    scf.for %turn = 0 to 3 {                             wait TDMA; DTE_multicast %k[0] + part; wait DTE; barrier
      scf.if %turn + 1 < 3 {                             scf.for %turn = 0 to 3 {
        RDMA_load dst(%k[%turn + 1]) ...                   scf.if %turn + 1 < 3 { RDMA_load dst(%k[%turn + 1] + part) ... }
      }                                                    scf.for %step = 0 to 4 {
      scf.for %step = 0 to 4 {                               scf.if %step is 2, %turn + 1 < 3 {
        NE_gemm right(%k[%turn]) ...                           wait RDMA; barrier; DTE_multicast %k[%turn + 1] + part
      }                                                      }
    }                                                        NE_gemm right(%k[%turn]) ...
                                                           }
                                                           scf.if %turn + 1 < 3 { wait DTE; barrier }
                                                         }

DDR then gives it once for a row of tiles. A part is loaded into a copy when all that this tile's matrix engine read there is done:
the range check holds it back. So behind the wait for RDMA and the barrier, in the middle of a turn's steps, the copies of all tiles
are free, and the parts are sent while the other half of the steps is computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.isa import Engine, Instruction
from hlo2tx8.device.isa.dte import DteMulticast
from hlo2tx8.device.isa.kc_control import KcWait
from hlo2tx8.device.isa.lsu import Rdma
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.made import compare, if_op, yield_op
from hlo2tx8.dialects.nested import nested_ops, ops_of
from hlo2tx8.lower.dma.allocate_spm import FROM_START
from hlo2tx8.lower.dma.load_parts import TOKEN_BYTES, LoadParts
from hlo2tx8.lower.dma.mesh import COLUMN, Along, Mesh, TileIndex, meet_behind, others_in_line, quotient, remainder
from hlo2tx8.lower.dma.slices import buffers_of, clone_slice, collect_slice, instructions_in, is_inside, ops_between, turns_of
from hlo2tx8.lower.select.step_builder import StepBuilder, step_at


@dataclass(frozen=True)
class ShareChunksPass(ModulePass):
    """Loads by parts of what a mesh row reads; see the module docstring. chip: file of the description, "" for the built-in one."""

    name = "share-chunks"
    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rates = Rates.of(load_chip(self.chip))
        for function in defined_functions(op):
            for loop in [o for o in ops_of(function.body.block) if isinstance(o, scf.ForOp) and xla.ROW_TURNS in o.attributes]:
                _share(function, loop, rates)


@dataclass(frozen=True)
class _Shared:
    """A part of a buffer that is loaded for the first turn before the loop, and for the next in each turn: all of it, or its whole
    blocks of channels, or the rest."""

    alloc: spm.AllocOp
    first: LoadParts
    next: LoadParts


def _share(function: func.FuncOp, loop: scf.ForOp, rates: Rates) -> None:
    turns, block = turns_of(loop), function.body.block
    tile = next((op for op in block.ops if isinstance(op, xla.TileIdOp)), None)
    mesh = Mesh.of(function) or Mesh(rates.mesh_rows, rates.mesh_columns)
    if turns is None or tile is None or mesh.rows * mesh.columns != rates.tiles or mesh.columns == 1:
        return
    if tile.range.get_values() != (0, rates.tiles - 1):
        return
    shared = _shared(function, loop, turns, tile.tile, mesh)
    if not shared:
        return
    start = tile.next_op
    assert start is not None
    for alloc in dict.fromkeys(load.alloc for load in shared):
        alloc.detach()
        block.insert_op_before(alloc, start)
        alloc.attributes[FROM_START] = UnitAttr()
    step = step_at(InsertPoint.before(start))
    column = remainder(step, tile.tile, mesh.columns)
    others = others_in_line(step, mesh, tile.tile, Along.ROW, quotient(step, tile.tile, mesh.columns))
    _share_first(loop, shared, column, others)
    _share_next(loop, shared, column, others)


def _shared(function: func.FuncOp, loop: scf.ForOp, turns: int, tile: SSAValue, mesh: Mesh) -> list[_Shared]:
    """What only the matrix engine reads, and all tiles of a mesh row load alike, in the order of loads."""
    index = TileIndex.of(mesh, tile)
    index.add_counter(loop.body.block.args[0], turns)
    readers: dict[SSAValue, list[Operation]] = {}
    writers: dict[SSAValue, list[Operation]] = {}
    for op in instructions_in(function):
        for is_write, found in ((False, readers), (True, writers)):
            for value in buffers_of(op, is_write):
                found.setdefault(spm.root_buffer(value), []).append(op if _is_in_turn(value) else function)
    shared: list[_Shared] = []
    first = [op for op in _siblings_before(loop) if isinstance(op, Rdma)]
    for buffer in dict.fromkeys(spm.root_buffer(_target(op)) for op in first):
        alloc, loads = buffer.owner, writers.get(buffer, [])
        ours, following = loads[: len(loads) // 2], loads[len(loads) // 2 :]
        if not isinstance(alloc, spm.AllocOp) or alloc.num_copies < 2 or len(ours) != len(following):
            continue
        if not all(op in first for op in ours) or not all(isinstance(op, Rdma) and is_inside(op, loop) for op in following):
            continue
        if not all(isinstance(op, Instruction) and op.ENGINE is Engine.NE for op in readers.get(alloc.result, [function])):
            continue
        pairs = [_pair(alloc, *own, (function, loop), index) for own in zip(ours, following, strict=True)]
        known = [pair for pair in pairs if pair is not None]
        shared += known if len(known) == len(pairs) else []
    return shared


def _is_in_turn(value: SSAValue) -> bool:
    """Is it a turn's copy of a buffer, or a place in it?"""
    while isinstance(value.owner, spm.OffsetOp):
        value = value.owner.buffer
    return isinstance(value.owner, spm.TurnOp)


def _pair(
    alloc: spm.AllocOp, first: Operation, following: Operation, outside: tuple[Operation, Operation], index: TileIndex
) -> _Shared | None:
    """Loads of the same part of a buffer, in front of a loop in a function and in it; None if tiles cannot share them."""
    if not isinstance(first, Rdma) or not isinstance(following, Rdma):
        return None
    parts = [LoadParts.of(op, index.mesh.columns) for op in (first, following)]
    if parts[0] is None or parts[1] is None or parts[0].num_bytes < TOKEN_BYTES:
        return None
    is_alike = all(_is_alike(op, around, index) for op, around in zip((first, following), outside, strict=True))
    return _Shared(alloc, parts[0], parts[1]) if is_alike else None


def _target(load: Rdma) -> SSAValue:
    """Where in SPM a load writes."""
    (target,) = buffers_of(load, is_write=True)
    return target


def _siblings_before(loop: Operation) -> list[Operation]:
    """The operations of a block up to one of it."""
    block = loop.parent_block()
    assert block is not None
    return [op for op in block.ops if op.is_before_in_block(loop)]


def _is_alike(load: Rdma, outside: Operation, index: TileIndex) -> bool:
    """Do neither the place of a load nor the branches around it depend on the tile's column?"""
    values: list[SSAValue | int] = [load.field("offset")]
    parent = load.parent_op()
    while parent is not None and parent is not outside:
        if not isinstance(parent, scf.IfOp) or not isinstance(compare := parent.cond.owner, arith.CmpiOp):
            return False
        values += [compare.lhs, compare.rhs]
        parent = parent.parent_op()
    found = [index.dependence(value) for value in values]
    return all(leaves is not None and COLUMN not in leaves for leaves in found)


def _share_first(loop: scf.ForOp, shared: Sequence[_Shared], column: SSAValue, others: SSAValue) -> None:
    """Sends what the first turn reads, each buffer as soon as its part is there, and meets the other tiles."""
    parts: list[SSAValue] = []
    for load in shared:
        op = load.first.op
        parts.append(load.first.load(step_at(InsertPoint.before(op)), column, _target(op), op.field("offset")))
        op.detach()
        op.erase()
    step = step_at(InsertPoint.before(loop))
    token = step.insert(spm.AllocOp(TOKEN_BYTES)).result
    for load, part in zip(shared, parts, strict=True):
        load.first.meet(step, column, part, token)
        step.insert(KcWait.make(engines=1 << Engine.TDMA.value))
        load.first.send(step, column, part, others)
    meet_behind(step, Engine.DTE)


def _share_next(loop: scf.ForOp, shared: Sequence[_Shared], column: SSAValue, others: SSAValue) -> None:
    """Loads parts of what the next turn reads where that was loaded, sends them in the middle of the steps, and meets the other
    tiles behind them."""
    body = loop.body.block
    wanted: set[Operation] = set()
    gone: list[Operation] = []
    for load in shared:
        op = load.next.op
        step = step_at(InsertPoint.before(op))
        part = load.next.load(step, column, _target(op), op.field("offset"))
        before = op.prev_op
        assert before is not None
        load.next.send(step, column, part, others)
        sending = ops_between(before.next_op, op)
        for new in sending:
            for sent in [inner for inner in nested_ops(new) if isinstance(inner, DteMulticast)]:
                collect_slice(sent, loop, wanted)
        gone += sending
        op.detach()
        op.erase()
    last = body.last_op
    assert last is not None
    steps = next((op for op in body.ops if isinstance(op, scf.ForOp) and xla.ROW_STEPS in op.attributes), None)
    count = turns_of(steps) if steps is not None else None
    if steps is not None and count is not None:
        inside = step_at(InsertPoint.at_start(steps.body.block))
        own = _at_step(inside, steps.body.block.args[0], count // 2)
    else:
        own = Builder(InsertPoint.before(steps if steps is not None else last))
    step = StepBuilder(own, own, (), {})
    following = step.value(step.add(body.args[0], loop.step))
    step.builder = _guard(step, following, loop.ub, "slt")
    meet_behind(step, Engine.RDMA)
    clone_slice(body, wanted, {}, step.builder)
    for op in reversed(gone):
        op.detach()
        op.erase()
    end = step_at(InsertPoint.before(last))
    following = end.value(end.add(body.args[0], loop.step))
    end.builder = _guard(end, following, loop.ub, "slt")
    meet_behind(end, Engine.DTE)


def _guard(step: StepBuilder, value: SSAValue, bound: SSAValue | int, predicate: str) -> Builder:
    """Where what is done if a value compares so goes."""
    own = Block()
    condition = step.insert(compare(value, step.value(bound), predicate)).result
    step.insert(if_op(condition, [], Region(own)))
    last = yield_op()
    own.add_op(last)
    return Builder(InsertPoint.before(last))


def _at_step(step: StepBuilder, counter: SSAValue, number: int) -> Builder:
    """Where what is done in one turn of a loop goes."""
    step.builder = _guard(step, counter, number - 1, "sgt")
    return _guard(step, counter, number + 1, "slt")
