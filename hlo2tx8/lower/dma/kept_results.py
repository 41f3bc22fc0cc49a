"""Rows that one loop of products makes and the next one multiplies, which stay in the scratchpads of the tiles that made them.

    scf.for %step { ...; store(%h, tile) }                  scf.for %step { ...; copy(%kept + %step) }
    xla.sync_tiles                                    ⟶     xla.sync_tiles
    scf.for %k { load(%a, %h, %k); load(%b)                 scf.for %k { receive(%a) from the tile that has it; load(%b)
      gemm(%a, %b) }                                          gemm(%a, %b) }

Tiles of a mesh row have the same rows in both loops. A step of the first loop makes a run of channel blocks on each tile of a mesh
row, one tile's behind the other's; a panel of the second loop is a part of a run. Only places are compared: nobody says how work is
split.
"""

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.dte import DteMulticast
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, Wdma
from hlo2tx8.dialects import spm
from hlo2tx8.indexing import Const, Dim, Expr, split_terms
from hlo2tx8.lower.dma.insert_waits import ORDERED
from hlo2tx8.lower.dma.mesh import COLUMN, ROW, TileIndex, of_one, remainder
from hlo2tx8.lower.dma.panels import Panels, PanelSide, times_of
from hlo2tx8.lower.dma.slices import collect_slice, instructions_in
from hlo2tx8.lower.select.step_builder import StepBuilder

PLACE = Dim(0)


@dataclass(frozen=True)
class KeptResults:
    """What the tiles of a mesh row have of `tensors`, a tensor at several times: each `rows` of `row_bytes` and in them, of runs of
    `run` channel blocks of `block_bytes` a row, every `tiles`-th, in a buffer. Panels of `reader` are `depth` blocks each."""

    reader: Panels
    buffer: SSAValue
    tensors: tuple[SSAValue, ...]
    fmt: Format
    row_bytes: int
    rows: int
    tiles: int
    run: int
    block_bytes: int
    depth: int

    @property
    def size_bytes(self) -> int:
        """Of what one tile has."""
        return self.rows * self.row_bytes // self.tiles

    def part_of(self, step: StepBuilder, panel: SSAValue, column: SSAValue) -> SSAValue:
        """Which part of a panel the tiles of a mesh column have, in parts of a run or of the panel if that is less; the number of
        parts and more if they have none."""
        first = of_one(step, panel, PLACE * self.depth // self.run % self.tiles)
        return remainder(step, step.value(step.subtract(step.add(column, self.tiles), first)), self.tiles)

    @property
    def num_parts(self) -> int:
        """Parts of a panel, each on another tile."""
        return max(1, self.depth // self.run)

    @property
    def part_elements(self) -> int:
        """Elements of a part of a panel."""
        return self.rows * min(self.run, self.depth) * self.block_bytes // self.fmt.bytes

    def turn_of(self, step: StepBuilder, part: SSAValue) -> SSAValue:
        """When a part is sent: one after the other, but at once from both ends of a mesh row, which take no link in common."""
        return remainder(step, part, self.tiles - 1) if self.num_parts == self.tiles else part

    def send(self, step: StepBuilder, panel: SSAValue, part: SSAValue, slot: SSAValue, tiles: SSAValue) -> None:
        """The tile's part of a panel to its slot, there and on other tiles."""
        unit = min(self.run, self.depth)
        size = self.rows * unit * self.block_bytes
        number = step.value(step.add(step(panel, self.num_parts), part))
        each = self.run // unit
        src = step.at(self.buffer, of_one(step, number, (PLACE // (each * self.tiles) * each + PLACE % each) * size))
        dst = step.at(slot, step(part, size)) if self.num_parts > 1 else slot
        multicast = DteMulticast.make(fmt=self.fmt, dst=dst, src=src, n=size // self.fmt.bytes, tiles=tiles)
        multicast.attributes[ORDERED] = UnitAttr()
        step.insert(multicast)
        step.insert(_move(self.fmt, dst, src, size, 1, size))

    def keep(self, function: Operation) -> None:
        """What is stored to the tensor is made in the buffer, or copied to it."""
        for op in [op for op in instructions_in(function) if isinstance(op, Wdma) and op.field("slot") in self.tensors]:
            offset, src = op.field("offset"), op.field("src")
            assert isinstance(src, SSAValue) and isinstance(offset, SSAValue)
            begin = _begin_of_part(op, src, offset)
            builder = Builder(InsertPoint.before(begin or op))
            step = StepBuilder(builder, builder, (), {})
            block, row = PLACE % self.row_bytes // self.block_bytes, PLACE // self.row_bytes % self.rows
            place = ((block // (self.run * self.tiles) * self.run + block % self.run) * self.rows + row) * self.block_bytes
            dst = step.at(self.buffer, of_one(step, offset, place))
            if begin is None:
                levels = dict(_levels(op))
                rows, blocks = (levels.get(stride, 1) for stride in (self.row_bytes, self.block_bytes))
                step.insert(_move(self.fmt, dst, src, rows * self.block_bytes, blocks, self.rows * self.block_bytes))
            else:
                src.replace_all_uses_with(dst)
            op.detach()
            op.erase()


def _begin_of_part(store: Wdma, src: SSAValue, offset: SSAValue) -> spm.TurnOp | None:
    """What gives the part of an epilogue that is stored its buffer, once the offset is known before it; None if there is no such
    buffer. The part is one piece of what is kept: rows of one channel block, or all rows of several."""
    turn, block = src.owner, store.parent_block()
    if not isinstance(turn, spm.TurnOp) or turn.parent is not block or block is None or not isinstance(offset.owner, Operation):
        return None
    wanted: set[Operation] = set()
    collect_slice(offset.owner, block.parent_op() or store, wanted)
    for op in [op for op in block.ops if op in wanted and not op.is_before_in_block(turn)]:
        op.detach()
        block.insert_op_before(op, turn)
    return turn


def kept_results(maker: Panels, reader: Panels, index: TileIndex) -> KeptResults | None:
    """What a loop makes for the panels of the next one; None if tiles of a mesh row do not make all that their panels have, in runs
    of whole panels, or if nobody knows."""
    load, counter, steps = reader.kinds[0].loads[PanelSide.ROWS], reader.kinds[0].loop, maker.num_steps
    read_from = load.op.field("slot")
    if len(reader.kinds) > 1 or load.split or counter is None or not isinstance(read_from, SSAValue):
        return None
    tensors = times_of(read_from)
    stores = [op for op in instructions_in(maker.loop) if isinstance(op, Wdma) and op.field("slot") in tensors]
    if len(stores) != 1 or (store := stores[0]).parent is not maker.loop.body.block or store.fmt is not load.op.fmt:
        return None
    written, read = _levels(store), _levels(load.op)
    to = _place(store, index, [ROW, COLUMN, index.known[maker.loop.body.block.args[0]]])
    of = _place(load.op, index, [ROW, index.known[counter.body.block.args[0]]])
    if not written or not read or to is None or of is None or store.field("count") != load.op.field("count"):
        return None
    (row_bytes, rows), runs, parts = written[0], written[1:], read[1:]
    run, depth, tiles = (runs or [(0, 1)])[0][1], (parts or [(0, 1)])[0][1], index.mesh.columns
    count = store.field("count")
    assert isinstance(count, int)
    buffer = spm.AllocOp(rows * row_bytes // tiles)
    found = KeptResults(reader, buffer.result, tensors, store.fmt, row_bytes, rows, tiles, run, count * store.fmt.bytes, depth)
    block = found.block_bytes
    is_cut_alike = (
        read[0] == written[0]
        and all(stride == block for stride, _ in (*runs, *parts))
        and max(len(runs), len(parts)) <= 1
        and (run % depth == 0 or (depth % run == 0 and tiles % (depth // run) == 0))
        and to[:3] == [0, rows * row_bytes, run * block]
        and (steps == 1 or to[3] == tiles * run * block)
        and of == [0, rows * row_bytes, depth * block]
        and steps * tiles * run * block == row_bytes == reader.num_panels * depth * block
    )
    block_of_loop = maker.loop.parent_block()
    if not is_cut_alike or block_of_loop is None:
        return None
    buffer.attributes[spm.KEPT] = UnitAttr()
    block_of_loop.insert_op_before(buffer, maker.loop)
    return found


def _place(op: Rdma | Wdma, index: TileIndex, leaves: list[Expr]) -> list[int] | None:
    """Where a transfer begins, in bytes: the first place, and how far it moves with each of these; None if that is not all."""
    offset = op.field("offset")
    expr = index.expr(offset) if isinstance(offset, SSAValue) else None
    terms = split_terms(expr, leaves) if expr is not None else None
    if terms is None or not isinstance(terms[0], Const):
        return None
    return [terms[0].value, *(terms[1].get(leaf, 0) for leaf in leaves)]


def _levels(op: Rdma | Wdma) -> list[tuple[int, int]]:
    """Of the levels that turn more than once how far they move in bytes, and how often, the innermost first; [] if nobody knows."""
    found: list[tuple[int, int]] = []
    for number in (1, 2, 3):
        stride, count = op.field(f"s{number}"), op.field(f"n{number}")
        if not isinstance(stride, int) or not isinstance(count, int):
            return []
        found += [(stride * op.fmt.bytes, count)] if count != 1 else []
    return found


def _move(fmt: Format, dst: SSAValue, src: SSAValue, run_bytes: int, count: int, distance: int) -> TdmaGatherScatter:
    """So many runs that lie one after the other to places that far apart."""
    once = dict.fromkeys(("rn2", "rn3", "wn2", "wn3"), 1) | dict.fromkeys(("rs2", "rs3", "ws2", "ws3"), 0)
    own = {"rn1": count, "wn1": count, "rs1": run_bytes, "ws1": distance}
    return TdmaGatherScatter.make(fmt=fmt, dst=dst, src=src, run_bytes=run_bytes, **own, **once)
