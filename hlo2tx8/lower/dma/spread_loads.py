"""SCHEDULED → SCHEDULED: of what all tiles load alike each loads a part, and sends it to the others.

Before:                                   After:
    scf.for %turn = 0 to 4 {                  %b = spm.alloc, %p = offset %b, %tile * 2304
      ...                                     RDMA_load dst(%p) offset(%tile * 2304) count(1152)
      RDMA_load dst(%b) offset(0) count(18432)    TDMA: read 16 bytes of %p; wait TDMA
      NE_gemm right(%b) ...                   DTE_multicast dst(%p) src(%p) to all others; wait DTE; barrier
    }                                         scf.for %turn = 0 to 4 { ... NE_gemm right(%b) ... }

DDR then gives it once. The parts are the first that a kernel loads, what else it loads before its loop comes while they are sent.
Other tiles write a buffer, so nothing else may have had its place before: it is one of the kernel's first, and stays. The read of a
few bytes is held back by the range check until the part is there, so that nobody waits for the loads behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.alike_loads import LEAST_BYTES, is_spread
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.isa import BufferType, Engine, Instruction
from hlo2tx8.device.isa.kc_control import KcBarrier, KcWait
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.nested import nested_of, nested_ops, ops_of
from hlo2tx8.indexing import Const, Expr, Interval
from hlo2tx8.indexing.simplify import range_of
from hlo2tx8.ir import i64_attr
from hlo2tx8.lower.dma.allocate_spm import LiveRange, SpmSpace, live_ranges, place
from hlo2tx8.lower.dma.load_parts import TOKEN_BYTES, LoadParts
from hlo2tx8.lower.dma.mesh import Mesh, TileIndex, power
from hlo2tx8.lower.dma.slices import constant_of, ops_between, writers_in
from hlo2tx8.lower.select.step_builder import StepBuilder

LOADS_PARTS, SENDS_PARTS = "loads_parts", "sends_parts"
"""Attributes of what loads parts, and of what sends them after that: of which load of a phase, or `OF_ALL`."""
OF_ALL = -1
LEAST_PARTS = 2
POSITIVE = 4
"""The predicate of arith.cmpi that is `sgt`."""


@dataclass(frozen=True)
class SpreadLoadsPass(ModulePass):
    """Loads by parts of what all tiles read; see the module docstring. chip: file of the description, "" for the built-in one."""

    name = "spread-loads"
    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        chip = load_chip(self.chip)
        space = SpmSpace(chip.spm_allocation_start, chip.spm_limit, chip.spm_alignment_bytes)
        for function in defined_functions(op):
            if xla.MESH not in function.attributes:
                _spread(function, Rates.of(chip), space)


@dataclass(frozen=True)
class _Alike:
    """A load from byte `offset` of its slot on, and its parts. `readers`: tiles that have something to do there."""

    alloc: spm.AllocOp
    offset: int
    parts: LoadParts
    readers: int


def _spread(function: func.FuncOp, rates: Rates, space: SpmSpace) -> None:
    """All at once; where something stays between phases, phase by phase: then room is short."""
    tile = next((op for op in function.body.block.ops if isinstance(op, xla.TileIdOp)), None)
    if tile is None or tile.range.get_values() != (0, rates.tiles - 1):
        return
    is_short = any(isinstance(op, spm.AllocOp) and spm.KEPT in op.attributes for op in function.body.block.ops)
    phases = [list[Operation]()]
    for op in function.body.block.ops:
        if is_short and isinstance(op, xla.SyncTilesOp):
            phases.append([])
        phases[-1].append(op)
    for phase in phases:
        _spread_in(function, phase, tile, rates, space)


def _spread_in(function: func.FuncOp, phase: Sequence[Operation], tile: xla.TileIdOp, rates: Rates, space: SpmSpace) -> None:
    """Loads by parts what these operations load, if all of that has room from the first of them on."""
    first = next((op for op in phase if isinstance(op, Instruction) or op.regions), None)
    if first is None:
        return
    loads = _loads(function, phase, tile, rates)
    size_bytes = sum(load.alloc.size_bytes for load in loads)
    readers = sum(load.alloc.size_bytes * load.readers for load in loads) / max(1, size_bytes)
    if not is_spread(size_bytes, readers, rates) or not _fit(function, phase, loads, space):
        return
    block = function.body.block
    for load in loads:
        load.alloc.detach()
        block.insert_op_before(load.alloc, first)
    start = Builder(InsertPoint.before(first))
    step = StepBuilder(start, start, (), {})
    parts: list[SSAValue] = []
    for number, load in enumerate(loads):
        load.alloc.attributes[LOADS_PARTS] = i64_attr(number)
        before = first.prev_op
        parts.append(load.parts.load(step, tile.tile, load.alloc.result, load.offset))
        for op in ops_between(before.next_op if before is not None else None, first):
            op.attributes[LOADS_PARTS] = i64_attr(number)
    for load in loads:
        load.parts.op.detach()
        load.parts.op.erase()
    _send(block, tile.tile, loads, parts, rates)


def _loads(function: func.FuncOp, phase: Sequence[Operation], tile: xla.TileIdOp, rates: Rates) -> list[_Alike]:
    """What all tiles load alike in a phase, whatever loops and branches it is in: whole buffers that nothing else writes, from
    where neither the tile nor a turn decides."""
    large: list[tuple[Rdma, spm.AllocOp]] = []
    for op in [op for around in phase for op in nested_ops(around) if type(op) is Rdma]:
        target = op.field("dst")
        alloc = target.owner if isinstance(target, SSAValue) else None
        if isinstance(alloc, spm.AllocOp) and alloc.num_copies == 1 and alloc.size_bytes >= LEAST_BYTES:
            large.append((op, alloc))
    if not large:
        return []
    index = TileIndex.of(Mesh(rates.mesh_rows, rates.mesh_columns), tile.tile)
    for loop in nested_of(function, scf.ForOp):
        turns = constant_of(loop.ub)
        index.add_counter(loop.body.block.args[0], max(1, turns or 1 << 40))
    writers = writers_in(function)
    stored = {op.field("slot") for op in nested_of(function, Wdma)}
    found: list[_Alike] = []
    for op, alloc in large:
        if op.field("slot") in stored or writers[alloc.result] != [op]:
            continue
        offset, parts = _constant(op.field("offset"), index), LoadParts.at_edges(op, index.mesh)
        if offset is None or parts is None:
            continue
        if parts.num_parts >= LEAST_PARTS and parts.num_bytes >= TOKEN_BYTES:
            found.append(_Alike(alloc, offset, parts, _num_readers(op, index)))
    return found


def _num_readers(op: Operation, index: TileIndex) -> int:
    """On how many tiles the conditions around an operation may be true: those for sizes that are positive."""
    sizes: list[Expr] = []
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.IfOp) and isinstance(compared := parent.cond.owner, arith.CmpiOp):
            is_positive = compared.predicate.value.data == POSITIVE and constant_of(compared.rhs) == 0
            sizes += (index.made_of(compared.lhs) or []) if is_positive else []
        parent = parent.parent_op()
    if not sizes:
        return index.mesh.rows * index.mesh.columns
    tiles = product(range(index.mesh.rows), range(index.mesh.columns))
    bounds = ([*(Interval(n, n) for n in tile), *index.bounds[2:]] for tile in tiles)
    return sum(all(range_of(size, own, ()).hi > 0 for size in sizes) for own in bounds)


def _constant(value: SSAValue | int, index: TileIndex) -> int | None:
    """A value that is the same on all tiles and in all turns."""
    if isinstance(value, int):
        return value
    expr = index.expr(value)
    return expr.value if isinstance(expr, Const) else None


def _fit(function: func.FuncOp, phase: Sequence[Operation], loads: Sequence[_Alike], space: SpmSpace) -> bool:
    """Is there room for these buffers all of the phase?"""
    ranges = live_ranges(function)
    inside = {
        spm.root_buffer(v) for op in phase for inner in nested_ops(op) for v in inner.operands if isinstance(v.type, BufferType)
    }
    lives = [
        ranges[buffer] for buffer in inside if not (isinstance(buffer.owner, spm.AllocOp) and spm.KEPT in buffer.owner.attributes)
    ]
    whole = LiveRange(min(live.start for live in lives), max(live.end for live in lives))
    allocs = [op for op in nested_ops(function) if isinstance(op, spm.AllocOp)]
    addresses = place(allocs, ranges | {load.alloc.result: whole for load in loads}, space)
    return max(addresses[alloc.result] + space.aligned(alloc.size_bytes) * alloc.num_copies for alloc in allocs) <= space.limit


def _send(block: Block, tile: SSAValue, loads: Sequence[_Alike], parts: Sequence[SSAValue], rates: Rates) -> None:
    """Before the first that reads a buffer: waits until the parts are there, sends them, and meets the other tiles."""
    buffers = [load.alloc.result for load in loads]
    others = (op for op in block.ops if not isinstance(op, spm.OffsetOp) and LOADS_PARTS not in op.attributes)
    reader = next(op for op in others if _reads(op, buffers))
    own = Block()
    step = StepBuilder(Builder(InsertPoint.at_end(own)), Builder(InsertPoint.at_end(own)), (), {})
    token = step.insert(spm.AllocOp(TOKEN_BYTES)).result
    _number(own, OF_ALL)
    for number, (load, part) in enumerate(zip(loads, parts, strict=True)):
        load.parts.meet(step, tile, part, token)
        _number(own, number)
    step.insert(KcWait.make(engines=1 << Engine.TDMA.value))
    mask = step.value(step.subtract((1 << rates.tiles) - 1, power(step, tile, 1, rates.tiles)))
    _number(own, OF_ALL)
    for number, (load, part) in enumerate(zip(loads, parts, strict=True)):
        load.parts.send(step, tile, part, mask)
        _number(own, number)
    step.insert(KcWait.make(engines=1 << Engine.DTE.value))
    step.insert(KcBarrier.make())
    _number(own, OF_ALL)
    for op in ops_of(own):
        op.detach()
        block.insert_op_before(op, reader)


def _number(block: Block, number: int) -> None:
    """Notes of what has been put into a block which load by parts it is of."""
    for op in block.ops:
        op.attributes.setdefault(SENDS_PARTS, i64_attr(number))


def _reads(op: Operation, buffers: Sequence[SSAValue]) -> bool:
    return any(spm.root_buffer(v) in buffers for inner in nested_ops(op) for v in inner.operands if isinstance(v.type, BufferType))
