"""SCHEDULED → SCHEDULED: rows that each tile of a mesh row has computed some of go to all of them, which multiply them.

    scf.for %turn { scf.for %step { ...; WDMA_store slot(%t) of the tile's rows } }
    xla.sync_tiles
    scf.for %k = 0 to 12 { RDMA_load dst(%a) slot(%t), 64 columns of the mesh row's rows; load(%b); gemm(%a, %b) }
⟶
    scf.for %turn { scf.for %step { ...; TDMA to their place in %rows; wait TDMA; DTE_multicast of each block to the mesh row } }
    xla.sync_tiles
    scf.for %k = 0 to 12 { load(%b); gemm(%rows + %k * 394 * 256, %b) }

Each tile has a buffer for the rows of its mesh row, as the matrix engine wants them: what is normalized, say, is never in DDR, and
the product has only its other operand to load. The tiles meet behind the loop, which waits for what is still sent.

A queue takes a few sends only, and the kernel core would wait for it with nothing else issued. So half of a step's blocks are sent
in the middle of the next step. While a send is set up links have nothing to do, so the tiles of a mesh row should not begin
together: the tile in column c sends so many fourths of its first block last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, TensorType, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.isa import Engine, Instruction
from hlo2tx8.device.isa.dte import DteForm, DteMulticast
from hlo2tx8.device.isa.kc_control import KcBarrier, KcWait
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, Wdma
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.nested import nested_ops
from hlo2tx8.indexing import Dim
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.allocate_spm import FROM_START
from hlo2tx8.lower.dma.branches import branch, leave
from hlo2tx8.lower.dma.insert_waits import ORDERED
from hlo2tx8.lower.dma.keep_results import without_memory
from hlo2tx8.lower.dma.kept_places import buffer_of_its_own
from hlo2tx8.lower.dma.load_levels import levels_of
from hlo2tx8.lower.dma.mesh import Mesh, of_one, power, quotient, remainder
from hlo2tx8.lower.dma.panels import HAS_ROWS
from hlo2tx8.lower.dma.slices import clone_slice, collect_slice, instructions_in, is_inside, loop_of, turns_of
from hlo2tx8.lower.select.channel_blocks import EngineOrderError
from hlo2tx8.lower.select.step_builder import StepBuilder, step_at


@dataclass(frozen=True)
class GatherRowsPass(ModulePass):
    """Keeps rows that tiles of a mesh row have made with all of them; see the module docstring."""

    name = "gather-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            mesh = Mesh.of(function)
            if xla.GATHERS_ROWS in function.attributes and mesh is not None:
                _GatheredRows(function, mesh).run()


class _GatheredRows:
    """The rows of a tensor that a mesh row has: `rows` of so many `blocks` of channels; who stores and who loads them."""

    def __init__(self, function: func.FuncOp, mesh: Mesh) -> None:
        self.mesh, self.loops = mesh, [op for op in function.body.block.ops if isinstance(op, scf.ForOp)]
        self.tile = next(op.tile for op in function.body.block.ops if isinstance(op, xla.TileIdOp))
        stores = [op for op in instructions_in(self.loops[0]) if isinstance(op, Wdma)]
        self.store, slot, levels = stores[0], stores[0].field("slot"), levels_of(stores[0], at_most=True)
        if len(stores) > 1 or levels is None or not isinstance(slot, SSAValue) or not isinstance(slot.owner, xla.AllocateScratchOp):
            raise EngineOrderError("E3208", "rows are not stored by one transfer in a step")
        outer, (self.blocks, between), (_, row), (width, _) = levels
        count, element = prod(cast("TensorType[Attribute]", slot.type).get_shape()), self.store.fmt.bytes
        is_whole = outer[0] == 1 and between == width == Blocked(self.store.fmt, 1, 1, 1).block_width and row == self.blocks * width
        if not is_whole or count % (row * mesh.rows):
            raise EngineOrderError("E3208", "rows are not stored whole, by blocks of channels")
        self.slot, self.rows = slot, count // row // mesh.rows
        self.block_bytes, self.row_bytes = width * element, row * element
        self.plane_bytes = self.rows * self.block_bytes
        readers = [op for loop in self.loops[1:] for op in instructions_in(loop)]
        self.loads = [op for op in readers if isinstance(op, Rdma) and op.field("slot") is slot]

    def run(self) -> None:
        """Puts a buffer on each tile in the tensor's place."""
        start = step_at(InsertPoint.before(self.loops[0]))
        alloc = start.insert(spm.AllocOp(self.blocks * self.plane_bytes))
        alloc.attributes |= {spm.KEPT: UnitAttr(), FROM_START: UnitAttr()}  # others may send before this tile computes
        row, self.buffer = quotient(start, self.tile, self.mesh.columns), alloc.result
        self.column = remainder(start, self.tile, self.mesh.columns)
        self.begin = start.emit(row, self.rows * self.row_bytes)
        line = start.emit(power(start, row, self.mesh.columns, self.mesh.rows), (1 << self.mesh.columns) - 1)
        own = power(start, self.tile, 1, self.mesh.rows * self.mesh.columns)
        self.others = start.value(start.subtract(line, own))
        self._send()
        for loop in self.loops[1:]:
            if any(op in self.loads for op in instructions_in(loop)):
                loop.attributes[HAS_ROWS] = UnitAttr()
        for op in self.loads:
            self._read_here(op)
        for op in (self.store, *self.loads):
            op.detach()
            op.erase()
        without_memory(self.slot)

    def _place(self, step: StepBuilder, offset: Size) -> SSAValue:
        """Where in the buffer the element lies that is so many bytes from the tensor's beginning."""
        i, local = Dim(0), step.value(step.subtract(offset, self.begin))
        place = i % self.row_bytes // self.block_bytes * self.plane_bytes + i // self.row_bytes * self.block_bytes
        return step.at(self.buffer, of_one(step, local, place))

    def _send(self) -> None:
        """Moves what a step has computed to its place, and sends it from there."""
        op, step, loop = self.store, step_at(InsertPoint.before(self.store)), loop_of(self.store)
        here, count = self._place(step, op.field("offset")), step(op.field("n1"), self.block_bytes)
        fields: dict[str, Any] = {f"{side}n{level}": 1 for side in "rw" for level in (1, 2, 3)}
        fields |= {f"{side}s{level}": 0 for side in "rw" for level in (1, 2, 3)}
        fields |= {"rn1": self.blocks, "rs1": count, "wn1": self.blocks, "ws1": self.plane_bytes, "run_bytes": count}
        step.insert(TdmaGatherScatter.make(fmt=op.fmt, origin=op.origin, dst=here, src=op.field("src"), **fields))
        step.insert(KcWait.make(engines=1 << Engine.TDMA.value))
        turns = turns_of(loop) if isinstance(loop, scf.ForOp) and op.parent is loop.body.block else None
        if turns is None or turns == 1 or not isinstance(loop, scf.ForOp):
            self._send_blocks(step, range(self.blocks), here, op.field("n1"))
            return
        middle = _middle(loop)
        half = self.blocks - self.blocks // 2
        self._send_blocks(step, range(half), here, op.field("n1"))
        beside = step_at(InsertPoint.before(middle))
        outer, before = beside.builder, beside.value(beside.subtract(loop.body.block.args[0], 1))
        branch(beside, before, "sgt", -1)
        self._send_again(beside, loop, before, range(half, self.blocks))
        leave(beside, outer)
        after = step_at(InsertPoint.after(loop))
        self._send_again(after, loop, after.value(turns - 1), range(half, self.blocks))

    def _send_again(self, step: StepBuilder, loop: scf.ForOp, turn: SSAValue, blocks: Sequence[int]) -> None:
        """Sends blocks of what an earlier turn of the loop has moved to its place."""
        wanted: set[Operation] = set()
        sizes = self.store.field("offset"), self.store.field("n1")
        for size in sizes:
            if isinstance(size, SSAValue) and isinstance(size.owner, Operation) and is_inside(size.owner, loop):
                collect_slice(size.owner, loop, wanted)
        known: dict[SSAValue, SSAValue] = {loop.body.block.args[0]: turn}
        clone_slice(loop.body.block, wanted, known, step.builder)
        offset, rows = (known.get(size, size) if isinstance(size, SSAValue) else size for size in sizes)
        self._send_blocks(step, blocks, self._place(step, offset), rows)

    def _send_blocks(self, step: StepBuilder, blocks: Sequence[int], here: SSAValue, rows: Size) -> None:
        """Sends blocks of so many rows to the same place of the other tiles; a part of the first one last, see above."""
        first = quotient(step, step.value(step(self.column, rows)), self.mesh.columns) if 0 in blocks else 0
        for block in blocks:
            begin = 0 if block else first
            self._send_rows(step, step.at(here, block * self.plane_bytes), begin, step.subtract(rows, begin))
        if first != 0:
            with step.if_positive([first]):
                self._send_rows(step, here, 0, first)

    def _send_rows(self, step: StepBuilder, block: SSAValue, first: Size, count: Size) -> None:
        """Sends so many rows of a block, from the first one on."""
        op, width = self.store, self.block_bytes // self.store.fmt.bytes
        at = step.at(block, step(first, self.block_bytes))
        sent = DteMulticast.make(fmt=op.fmt, dst=at, src=at, n=step(count, width), tiles=self.others, origin=op.origin)
        sent.attributes[ORDERED] = UnitAttr()
        step.insert(sent)

    def _read_here(self, op: Rdma) -> None:
        """Lets products read where rows are instead of what is loaded."""
        levels, alloc = levels_of(op), buffer_of_its_own(op)
        if levels is None or alloc is None:
            raise EngineOrderError("E3208", "rows are not loaded as products read them")
        outer, (blocks, between), (rows, row), (width, _) = levels
        sizes = row * op.fmt.bytes, width * op.fmt.bytes
        is_panel = outer[0] == 1 and sizes == (self.row_bytes, self.block_bytes) and (blocks == 1 or between == width)
        if not is_panel or (blocks > 1 and rows != self.rows):
            raise EngineOrderError("E3208", "rows do not lie as products read them")
        alloc.result.replace_all_uses_with(self._place(step_at(InsertPoint.before(op)), op.field("offset")))
        alloc.detach()
        alloc.erase()


def load_before_meeting(rows: scf.ForOp) -> None:
    """Moves the first loads behind a loop that makes rows in front of the meeting: DDR has time while tiles send these."""
    meeting = rows.next_op
    while not isinstance(meeting, xla.SyncTilesOp):
        assert meeting is not None
        meeting = meeting.next_op
    op = meeting.next_op
    while op is not None and not isinstance(op, scf.ForOp) and not any(map(_meets, nested_ops(op))):
        following = op.next_op
        op.detach()
        Builder(InsertPoint.before(meeting)).insert(op)
        op = following


def _meets(op: Operation) -> bool:
    """Does the kernel core wait, or another tile get something?"""
    return isinstance(op, KcWait | KcBarrier | DteForm)


def _middle(loop: scf.ForOp) -> Operation:
    """The vector instruction of a turn in front of which there are as many as behind it."""
    vectors = [op for op in loop.body.block.ops if isinstance(op, Instruction) and op.ENGINE is Engine.CT]
    return vectors[len(vectors) // 2]
