"""A product of few columns whose rows stay: all weights are there at once, and sums go around the mesh row, a piece for each tile.

    scf.for %k = 0 to 3 { load(%a, rows, %k); load(%b, %k, columns); gemm(%a, %b) to %sums }     4 panels, one of each tile's rows
    load(%a', rows, 3); load(%b', 3, columns); gemm(%a', %b') to %y
⟶
    load(%w[row], own panel, columns of tile `row`); wait; multicast %w[row] along the mesh column; wait; barrier
    scf.for %s = 0 to 3 {
      gemm(own rows, %w[another tile]) to %x[%s]; wait; send %x[%s] to %x[%s + 1] of the next tile; wait; barrier
    }
    gemm(own rows, %w[this tile]) to %y, which goes on from %x[3]

What a tile multiplies of a piece takes not much longer than a barrier, too little for panels that are sent a turn ahead
(`ring_sums`). The tiles of a mesh column have the same part of the depth, and need all columns of it: each loads the columns of one
tile of its mesh row, and sends them to the others; where there is room, during the loop before (`Weights`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import IndexType, StringAttr, UnitAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.isa import Engine
from hlo2tx8.device.isa.dte import DteMulticast, DteUnicast
from hlo2tx8.device.isa.kc_control import KcWait
from hlo2tx8.device.isa.lsu import Rdma
from hlo2tx8.device.isa.ne import NeGemm, psum_format
from hlo2tx8.device.mesh_sends import RING_BUFFERS, RING_PANELS
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.made import for_op, yield_op
from hlo2tx8.indexing import Expr
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.branches import branch, leave
from hlo2tx8.lower.dma.insert_waits import ORDERED
from hlo2tx8.lower.dma.load_levels import levels_of
from hlo2tx8.lower.dma.mesh import (
    COLUMN,
    ROW,
    Along,
    Mesh,
    TileIndex,
    meet_behind,
    next_in_row,
    others_in_line,
    quotient,
    remainder,
)
from hlo2tx8.lower.dma.panels import RING, Panels
from hlo2tx8.lower.dma.pipeline_dma import PIPELINED
from hlo2tx8.lower.dma.product_loop import ProductLoop
from hlo2tx8.lower.dma.sharing_plan import LOADED_SLOTS
from hlo2tx8.lower.dma.slices import drop_unused, turns_of
from hlo2tx8.lower.select.channel_blocks import EngineOrderError
from hlo2tx8.lower.select.step_builder import StepBuilder, step_at

AT_ONCE = "is_ring_at_once"
"""Of a loop of one step around which sums go in one piece a tile: it shares nothing in turns."""
WEIGHTS = "weights_of_ring"
"""What an operation in front of such a loop does about its weights: "load", "send" or "meet"."""


@dataclass(frozen=True)
class _Panel:
    """Loads of panels: each begins so many bytes behind `first` for a panel, and a line of tiles, more."""

    op: Rdma
    size_bytes: int
    first: int
    of_panel: int
    of_line: int

    @staticmethod
    def of(op: Rdma, operand: Size, panel: Expr, line: Expr, index: TileIndex) -> "_Panel":
        """Of what a product reads of the operand. EngineOrderError if it is not read as it is loaded."""
        dst, terms = op.field("dst"), index.terms(op.field("offset"))
        if dst is not operand or not isinstance(dst, SSAValue) or not isinstance(dst.owner, spm.AllocOp):
            raise EngineOrderError("E3208", "a panel is not multiplied as it is loaded")
        if terms is None or not terms.keys() <= {None, panel, line} or levels_of(op) is None:
            raise EngineOrderError("E3208", "panels are not at equal distances")
        return _Panel(op, dst.owner.size_bytes, *(terms.get(own, 0) for own in (None, panel, line)))

    def load(self, step: StepBuilder, dst: SSAValue, panel: Size, line: SSAValue) -> Rdma:
        """The load of a panel for a line of tiles."""
        offset = step.add(step.add(step(panel, self.of_panel), step(line, self.of_line)), self.first)
        fields: dict[str, Any] = dict(self.op.values()) | {"dst": dst, "offset": offset}
        return step.insert(Rdma.make(fmt=self.op.fmt, origin=self.op.origin, **fields))


class RingAtOnce:
    """The rewriting of one loop. EngineOrderError if it is of another kind."""

    def __init__(self, function: func.FuncOp, product: ProductLoop, mesh: Mesh) -> None:
        self.product, self.mesh, (first, self.last) = product, mesh, product.products
        tile = next(op for op in function.body.block.ops if isinstance(op, xla.TileIdOp))
        num_panels = (turns_of(product.panels) or 0) + 1
        self.own, rest = divmod(num_panels, mesh.columns)
        if turns_of(product.loop) != 1 or rest or not 0 < self.own <= RING_PANELS or mesh.rows != mesh.columns:
            raise EngineOrderError("E3208", "a tile's own part of the depth is not a few panels")
        rows, columns = self.last.field("rows"), self.last.field("columns")
        if not isinstance(rows, int) or not isinstance(columns, int):
            raise EngineOrderError("E3208", "tiles have not equally many rows")
        self.num_sums = rows * columns
        index = TileIndex.of(mesh, tile.tile)
        index.add_counter(product.loop.body.block.args[0], 1)
        panel = index.add_counter(product.panels.body.block.args[0], num_panels - 1)
        self.rows = _Panel.of(product.rows[0], first.field("left"), panel, ROW, index)
        self.columns = _Panel.of(product.columns[0], first.field("right"), panel, COLUMN, index)
        step = step_at(InsertPoint.after(tile))
        self.row, self.column = quotient(step, tile.tile, mesh.columns), remainder(step, tile.tile, mesh.columns)
        self.next = next_in_row(step, mesh, tile.tile, self.column)
        self.others = others_in_line(step, mesh, tile.tile, Along.COLUMN, self.column)

    def run(self) -> None:
        """Puts loads of all weights in front of the loop, and sums that go around in the place of the products of panels."""
        product, pieces = self.product, self.mesh.columns
        loop, start = product.loop, step_at(InsertPoint.before(product.loop))
        self.weights = start.insert(spm.AllocOp(self.columns.size_bytes, pieces * self.own)).result
        self.sums = start.insert(spm.AllocOp(product.sums.size_bytes, RING_BUFFERS)).result
        self.bring()
        step, body = step_at(InsertPoint.before(product.panels)), Block(arg_types=[IndexType()])
        around = for_op(step.value(0), step.value(pieces - 1), step.value(1), [], body)
        around.attributes[PIPELINED] = UnitAttr()
        inner, turn = step_at(InsertPoint.at_end(body)), body.args[0]
        away = inner.value(inner.subtract(inner.add(self.column, pieces - 1), turn))
        self.multiply(inner, remainder(inner, away, pieces), turn, inner.minimum(turn, 1), None)
        self.send_sums(inner, turn)
        body.add_op(yield_op())
        step.insert(around)
        result = self.last.field("dst")
        assert isinstance(result, SSAValue)
        self.multiply(step_at(InsertPoint.before(self.last)), self.column, step.value(pieces - 1), 1, result)
        loads, sums = (product.rows[1], product.columns[1]), product.sums
        buffers = [value.owner for op in loads if isinstance(value := op.field("dst"), SSAValue)]
        for op in (self.last, product.panels, *loads, *(own for own in buffers if isinstance(own, spm.AllocOp)), sums):
            op.detach()
            op.erase(safe_erase=False)
        zero = step_at(InsertPoint.before(loop)).value(0)
        loop.body.block.args[0].replace_all_uses_with(zero)
        drop_unused(loop)
        loop.attributes[AT_ONCE] = UnitAttr()

    def bring(self) -> None:
        """Loads the tile's share of the weights in front of the loop, sends it to the others, and waits for theirs."""
        step = step_at(InsertPoint.before(self.product.loop))
        for number in range(self.own):
            self.columns.load(step, self.place(step, self.row, number), self.panel(step, number), self.row)
        self.mark("load")
        step.insert(KcWait.make(engines=1 << Engine.RDMA.value))
        fmt = self.columns.op.fmt
        n = self.columns.size_bytes // fmt.bytes
        for number in range(self.own):
            place = self.place(step, self.row, number)
            _send(step, DteMulticast.make(fmt=fmt, dst=place, src=place, n=n, tiles=self.others, origin=self.last.origin))
        self.mark("send")
        meet_behind(step, Engine.DTE)
        self.mark("meet")

    def mark(self, what: str) -> None:
        """Says what the operations in front of the loop do that are not marked yet."""
        op = self.product.loop.prev_op
        while op is not None and self.sums not in op.results and WEIGHTS not in op.attributes:
            op.attributes[WEIGHTS] = StringAttr(what)
            op = op.prev_op

    def multiply(self, step: StepBuilder, tile: SSAValue, turn: SSAValue, accumulate: Size, result: SSAValue | None) -> None:
        """The products of what the tile has with the columns of a tile of its mesh row: a piece's sums, or a result."""
        sums, (first, last) = step.insert(spm.TurnOp(self.sums, turn)).result, self.product.products
        for number in range(self.own):
            rows = step.insert(spm.AllocOp(self.rows.size_bytes)).result
            self.rows.load(step, rows, self.panel(step, number), self.row).attributes[RING] = UnitAttr()
            is_last = result is not None and number == self.own - 1
            old = last if is_last else first
            fields: dict[str, Any] = dict(old.values()) | {"left": rows, "right": self.place(step, tile, number), "psum": sums}
            fields |= {"dst": result if is_last else sums, "accumulate": accumulate if number == 0 else 1}
            step.insert(NeGemm.make(fmt=old.fmt, fmt2=old.fmt2, rnd=old.rounding, origin=old.origin, **fields))

    def send_sums(self, step: StepBuilder, turn: SSAValue) -> None:
        """The sums of a piece, once they are made, to the next tile, where they are when all tiles have met."""
        fmt = psum_format(self.last.fmt2)
        following = step.value(step.add(turn, 1))
        src, dst = (step.insert(spm.TurnOp(self.sums, number)).result for number in (turn, following))
        step.insert(KcWait.make(engines=1 << Engine.NE.value))
        _send(step, DteUnicast.make(fmt=fmt, dst=dst, src=src, n=self.num_sums, tile=self.next, origin=self.last.origin))
        meet_behind(step, Engine.DTE)

    def place(self, step: StepBuilder, tile: SSAValue, number: int) -> SSAValue:
        """Where the columns of a tile of the mesh row lie, of a panel of the tile's own."""
        return step.insert(spm.TurnOp(self.weights, step.value(step.add(step(tile, self.own), number)))).result

    def panel(self, step: StepBuilder, number: int) -> Size:
        """Which panel one of the tile's own is."""
        return step.add(step(self.column, self.own), number)


def _send(step: StepBuilder, op: DteMulticast | DteUnicast) -> None:
    """A send whose waits are there already."""
    op.attributes[ORDERED] = UnitAttr()
    step.insert(op)


@dataclass(frozen=True)
class Weights:
    """What is done about the weights of a `ring` in front of it, or during the turns of the loop before, its `carrier`."""

    ring: scf.ForOp
    carrier: Panels

    @staticmethod
    def of(function: func.FuncOp, panels: Sequence[Panels]) -> "list[Weights]":
        """Of rings that come just behind a loop whose panels are known."""
        loops = [op for op in function.body.block.ops if isinstance(op, scf.ForOp)]
        carriers = {own.loop: own for own in panels}
        pairs = [(ring, carriers.get(before)) for before, ring in pairwise(loops) if AT_ONCE in ring.attributes]
        return [Weights(ring, carrier) for ring, carrier in pairs if carrier is not None]

    @property
    def buffer(self) -> spm.AllocOp:
        """Where they are sent to."""
        owner = next(op.buffer.owner for op in self._ops("load") if isinstance(op, spm.TurnOp))
        assert isinstance(owner, spm.AllocOp)
        return owner

    @property
    def num_bytes(self) -> int:
        """What that takes of a tile."""
        return self.buffer.size_bytes * self.buffer.num_copies

    def bring(self, behind_loads: Operation | None) -> None:
        """Loads them when the carrier has loaded its last panel, `behind_loads` if it does so in front of its turns, and sends
        them when that panel has been sent: nobody has read their buffer since tiles have met before the carrier."""
        carrier = self.carrier
        self.buffer.detach()
        step_at(InsertPoint.before(carrier.loop)).insert(self.buffer)
        behind = max(0, carrier.num_panels - 1 - LOADED_SLOTS)
        if behind_loads is not None:
            self._move("load", step_at(InsertPoint.after(behind_loads)))
        else:
            site = next(own for own in carrier.sites if own.first <= behind < own.first + own.count)
            step = step_at(InsertPoint.before(site.gemms[0]))
            outer = step.builder
            self._in_last_step(step)
            if site.loop is not None:
                branch(step, site.loop.body.block.args[0], "sgt", behind - site.first - 1)
                branch(step, site.loop.body.block.args[0], "slt", behind - site.first + 1)
            self._move("load", step)
            leave(step, outer)
        step = step_at(InsertPoint.before(carrier.sites[-1].gemms[0]))
        outer = step.builder
        self._in_last_step(step)
        self._move("send", step)
        leave(step, outer)
        for op in reversed(self._ops("meet")):  # tiles meet before the ring anyway
            op.detach()
            op.erase()

    def _in_last_step(self, step: StepBuilder) -> None:
        branch(step, self.carrier.loop.body.block.args[0], "sgt", self.carrier.num_steps - 2)

    def _move(self, what: str, step: StepBuilder) -> None:
        for op in self._ops(what):
            op.detach()
            step.insert(op)

    def _ops(self, what: str) -> list[Operation]:
        """The operations in front of the ring, up to where tiles have met, that do so."""
        found: list[Operation] = []
        op = self.ring.prev_op
        while op is not None and not isinstance(op, xla.SyncTilesOp):
            found += [op] if op.attributes.get(WEIGHTS) == StringAttr(what) else []
            op = op.prev_op
        return found[::-1]
