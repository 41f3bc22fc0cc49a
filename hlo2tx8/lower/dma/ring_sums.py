"""SCHEDULED → SCHEDULED: a product whose rows stay is computed by those that have them; sums go around the mesh row.

    scf.for %step = 0 to 2 {                                              of 2 pieces of a tile's columns:
      scf.for %k = 0 to 15 { load(%a, rows, %k); load(%b, %k, columns); gemm(%a, %b) to %sums }
      load(%a', rows, 15); load(%b', 15, columns); gemm(%a', %b') to %sums; store
    }
⟶
    scf.for %piece = 0 to 6 {                                             the tile's own 4 of 16 panels, columns of others
      scf.for %k = 0 to 3 { load(%a, rows, own %k); load(%b, own %k, columns of %piece); gemm(%a, %b) to %x[%piece]; send a part }
      load(%a, rows, own 3); load(%b, own 3, columns of %piece); gemm(%a, %b) to %x[%piece]; send the last part
    }
    scf.for %step = 0 to 2 { the same from %x[6 + %step] on, of the tile's own columns; store }

Tile (r, c) would get all rows of mesh row r, of which it has a part of the depth. Where rows are much deeper than the result is
wide it takes less to send sums: a piece of tile c's columns begins at tile c + 1, which adds up the products of its own part of
the depth, goes on to c + 2, and so around the row to tile c. The engine goes on from what has arrived. While a piece is
computed the one before it is sent, a part a turn, behind the panel that all tiles of a mesh column share (`share-loads`); there
is a buffer more than pieces.

Where what is stored is the sums, one loop goes over all columns, some pieces of each tile at a time, which are stored from where
they were added up; there is a buffer more than such pieces.

A few phases in which a tile multiplies little go another way (`xla.rings_at_once`, see `ring_at_once`).

The vector engine has no part in it. Sums are added up in another order of the depth on each mesh column.
"""

from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hlo2tx8.device.isa import Engine
from hlo2tx8.device.isa.dte import DteUnicast
from hlo2tx8.device.isa.kc_control import KcWait
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.isa.ne import NeGemm, psum_format
from hlo2tx8.device.mesh_sends import ring_group
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.nested import nested_ops, ops_of
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.branches import branch, leave
from hlo2tx8.lower.dma.insert_waits import ORDERED
from hlo2tx8.lower.dma.mesh import COLUMN, Mesh, TileIndex, next_in_row, quotient, remainder
from hlo2tx8.lower.dma.panels import RING
from hlo2tx8.lower.dma.product_loop import ProductLoop
from hlo2tx8.lower.dma.ring_at_once import RingAtOnce
from hlo2tx8.lower.dma.shared_loop import TOKEN_BYTES, probe
from hlo2tx8.lower.dma.slices import turns_of
from hlo2tx8.lower.select.channel_blocks import EngineOrderError
from hlo2tx8.lower.select.step_builder import StepBuilder, step_at

LEAST_PANELS = 3
"""Of a tile's own part of the depth: the loop over all but one has turns in which parts are sent."""
PART_UNIT = 64
"""Elements: a part that is sent is a multiple."""


@dataclass(frozen=True)
class RingSumsPass(ModulePass):
    """Lets sums go around mesh rows where rows stay with the tiles that make them; see the module docstring."""

    name = "ring-sums"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            mesh = Mesh.of(function)
            if mesh is None:
                continue
            every = [op for op in function.body.block.ops if isinstance(op, scf.ForOp)]
            loops = [loop for loop in every if xla.ROW_TURNS not in loop.attributes]  # those of products
            phases = function.attributes.get(xla.RINGS_AT_ONCE)
            for phase in phases.get_values() if isinstance(phases, DenseArrayBase) else ():
                RingAtOnce(function, ProductLoop.of(loops[int(phase)]), mesh).run()
            for loop in loops if xla.RING_SUMS in function.attributes else ():
                slots = [_value(op.field("slot")) for op in nested_ops(loop) if isinstance(op, Rdma)]
                if any(isinstance(slot.owner, xla.AllocateScratchOp) for slot in slots):
                    _Ring(function, ProductLoop.of(loop), mesh).run()


class _Ring:
    """The rewriting of one loop."""

    def __init__(self, function: func.FuncOp, product: ProductLoop, mesh: Mesh) -> None:
        self.product, self.mesh = product, mesh
        self.tile = next(op.tile for op in function.body.block.ops if isinstance(op, xla.TileIdOp))
        self.pieces, panels = turns_of(product.loop) or 0, (turns_of(product.panels) or 0) + 1
        self.own, rest = divmod(panels, mesh.columns)
        if rest or self.own < LEAST_PANELS or self.pieces < 2:
            raise EngineOrderError("E3208", "tiles of a mesh row have no equal parts of the panels, or too few")
        index = TileIndex.of(mesh, self.tile)
        index.add_counter(product.loop.body.block.args[0], self.pieces)
        self.panel = index.add_counter(product.panels.body.block.args[0], panels - 1)
        strides = [index.terms(_value(op.field("offset"))) for op in (product.rows[0], product.columns[0])]
        self.strides = [own for own in strides if own is not None]
        if len(self.strides) < len(strides):
            raise EngineOrderError("E3208", "panels are not at equal distances")
        self.num_panels, self.rows_slot = panels, product.rows[0].field("slot")

    def run(self) -> None:
        """Puts the loop over others' columns in front of the one over the tile's own, and sums where they arrive; one loop goes
        over all columns if sums are stored."""
        product = self.product
        start = step_at(InsertPoint.before(product.loop))
        self.column = remainder(start, self.tile, self.mesh.columns)
        self.next = next_in_row(start, self.mesh, self.tile, self.column)
        sums, self.is_stored = product.sums, product.store_sums()
        self.group = ring_group(self.pieces) if self.is_stored else self.pieces
        self.buffer = start.insert(spm.AllocOp(sums.size_bytes, self.group + 1)).result
        self.probed = start.insert(spm.AllocOp(TOKEN_BYTES)).result
        most = sums.size_bytes // psum_format(product.products[0].fmt2).bytes
        self.part = -(-most // (self.own - 1) // PART_UNIT) * PART_UNIT
        loops = [product.loop]
        if self.is_stored:
            self.of_all(product)
        else:
            ahead = product.loop.clone()
            start.insert(ahead)
            loops.append(ahead)
            self.of_others(ProductLoop.of(ahead))
            self.of_own(product)
        sums.detach()
        sums.erase()
        for loop in loops:
            loop.attributes[RING] = UnitAttr()

    def of_all(self, product: ProductLoop) -> None:
        """All pieces, some of each tile and then the next ones. Those of the tile's own columns, which come last of these, are
        stored from where they are added up, which has been done when sums arrive there, two pieces later at least."""
        loop, panels = product.loop, product.panels
        loop.operands[1] = step_at(InsertPoint.before(loop)).value(self.pieces * self.mesh.columns)
        step, piece, turn = self.pieces_in(loop)
        away = self.away(step, turn)
        for side, ops in enumerate((product.rows, product.columns)):
            begin = self.moved(step, side, away if side else None)
            self.move(ops[0], begin)
            self.move(ops[1], step.add(begin, (self.own - self.num_panels) * self.strides[side].get(self.panel, 0)))
        self.limit(panels)
        inner, last = _gemm_of(panels.body.block), _gemm_of(loop.body.block)
        before = step_at(InsertPoint.before(inner))
        inner = self.go_on(inner, piece, before.minimum(before.add(panels.body.block.args[0], turn), 1))
        last = self.go_on(last, piece, 1)
        for store in [op for op in loop.body.block.ops if isinstance(op, Wdma)]:
            behind = step_at(InsertPoint.before(store))
            outer = behind.builder
            branch(behind, turn, "sgt", self.mesh.columns - 2)
            own = behind.insert(spm.TurnOp(self.buffer, piece)).result
            _mark(behind.insert(store.clone(value_mapper={_value(store.field("src")): own})))
            leave(behind, outer)
            store.detach()
            store.erase()
        self.send(step_at(InsertPoint.after(last)), last, piece, None)
        self.send(step_at(InsertPoint.before(_last(panels))), inner, piece, panels.body.block.args[0])
        again = remainder(step, piece, self.group * self.mesh.columns)
        outer = step.builder
        branch(step, again, "slt", 2)
        branch(step, again, "sgt", 0)
        step.insert(KcWait.make(engines=1 << Engine.WDMA.value))
        leave(step, outer)

    def pieces_in(self, loop: scf.ForOp) -> tuple[StepBuilder, SSAValue, SSAValue]:
        """Where a loop's body begins; which of all pieces it computes, and at how many tiles that has been. Its counter becomes
        that of a tile's pieces."""
        body = loop.body.block
        first, piece = body.first_op, body.args[0]
        assert first is not None
        step = step_at(InsertPoint.before(first))
        turn = quotient(step, piece, self.group)
        number = remainder(step, piece, self.group)
        if self.group < self.pieces:
            of_all = quotient(step, turn, self.mesh.columns)
            turn, inside = remainder(step, turn, self.mesh.columns), number
            number = step.value(step.add(step(of_all, self.group), inside))
        made = {op for op in body.ops if op is not first and op.is_before_in_block(first)}
        piece.replace_uses_with_if(number, lambda use: use.operation not in made)
        return step, piece, turn

    def away(self, step: StepBuilder, turn: SSAValue) -> SSAValue:
        """How many tiles further on in the mesh row the columns are that a piece is of."""
        away = step.value(step.subtract(step.add(self.column, self.mesh.columns - 1), turn))
        return step.value(step.subtract(remainder(step, away, self.mesh.columns), self.column))

    def of_others(self, product: ProductLoop) -> None:
        """The pieces of other tiles' columns."""
        start, body, panels = step_at(InsertPoint.before(product.loop)), product.loop.body.block, product.panels
        product.loop.operands[1] = start.value(self.pieces * (self.mesh.columns - 1))
        for op in ops_of(body)[::-1]:
            if panels.is_before_in_block(op) and op is not body.last_op:
                op.detach()
                op.erase(safe_erase=False)
        step, piece, turn = self.pieces_in(product.loop)
        self.move(product.rows[0], self.moved(step, 0))
        self.move(product.columns[0], self.moved(step, 1, self.away(step, turn)))
        self.limit(panels)
        inner = step_at(InsertPoint.before(product.products[0]))
        accumulate = inner.minimum(inner.add(panels.body.block.args[0], turn), 1)
        self.go_on(product.products[0], piece, accumulate)
        last = step_at(InsertPoint.after(panels))
        values: dict[SSAValue, SSAValue] = {panels.body.block.args[0]: last.value(self.own - 1)}
        for op in panels.body.block.ops:
            if op is not panels.body.block.last_op:
                last.insert(op.clone(value_mapper=values))
        self.send(last, _gemm_of(body), piece, None)
        self.send(step_at(InsertPoint.before(_last(panels))), _gemm_of(panels.body.block), piece, panels.body.block.args[0])

    def of_own(self, product: ProductLoop) -> None:
        """The pieces of the tile's own columns, with what follows the products."""
        panels, others = product.panels, self.pieces * (self.mesh.columns - 1)
        step = step_at(InsertPoint.before(panels))
        piece = step.value(step.add(product.loop.body.block.args[0], others))
        for number, ops in enumerate((product.rows, product.columns)):
            begin = self.moved(step, number)
            self.move(ops[0], begin)
            self.move(ops[1], step.add(begin, (self.own - self.num_panels) * self.strides[number].get(self.panel, 0)))
        self.limit(panels)
        for gemm in product.products:
            self.go_on(gemm, piece, 1)
        last, gemm = _gemm_of(product.loop.body.block), _gemm_of(panels.body.block)
        self.send(step_at(InsertPoint.after(last)), last, piece, None, others)
        self.send(step_at(InsertPoint.before(_last(panels))), gemm, piece, panels.body.block.args[0], others)

    def moved(self, step: StepBuilder, side: int, column: SSAValue | None = None) -> Size:
        """How many bytes further on a load begins: at the tile's own panels, so many columns of tiles away."""
        strides = self.strides[side]
        found: Size = step(self.column, self.own * strides.get(self.panel, 0))
        return found if column is None else step.add(found, step.emit(column, strides.get(COLUMN, 0)))

    def move(self, op: Rdma, distance: Size) -> None:
        """Lets a load begin so much further on."""
        before = step_at(InsertPoint.before(op))
        fields: dict[str, Any] = dict(op.values())
        fields["offset"] = before.value(before.add(fields["offset"], distance))
        new = Rdma.make(fmt=op.fmt, origin=op.origin, **fields)
        if fields["slot"] is self.rows_slot:
            _mark(new)
        Rewriter.replace_op(op, new, [])

    def limit(self, panels: scf.ForOp) -> None:
        """Lets a loop go over the tile's own panels but the last one."""
        panels.operands[1] = step_at(InsertPoint.before(panels)).value(self.own - 1)

    def go_on(self, gemm: NeGemm, piece: SSAValue, accumulate: Size) -> NeGemm:
        """Lets a product add to the sums of a piece, and leave them there unless it is the last one."""
        step = step_at(InsertPoint.before(gemm))
        sums = step.insert(spm.TurnOp(self.buffer, piece)).result
        values: dict[str, Any] = dict(gemm.values()) | {"accumulate": accumulate}
        old = spm.root_buffer(values["psum"])
        values |= {name: sums for name in ("psum", "dst") if spm.root_buffer(values[name]) is old}
        new = NeGemm.make(fmt=gemm.fmt, fmt2=gemm.fmt2, rnd=gemm.rounding, origin=gemm.origin, **values)
        Rewriter.replace_op(gemm, new, [])
        return new

    def send(self, step: StepBuilder, gemm: NeGemm, piece: SSAValue, turn: SSAValue | None, others: int | None = None) -> None:
        """In a turn of a piece, behind its product, the last one if no turn is given: of the piece before it a part to the next
        tile, once the engine is known to have made it; not of the tile's own."""
        outer = step.builder
        before = step.value(step.subtract(piece, 1))
        branch(step, before, "sgt", -1)
        if others is not None:
            branch(step, before, "slt", others)
        elif self.is_stored:
            turn_before = remainder(step, quotient(step, before, self.group), self.mesh.columns)
            branch(step, turn_before, "slt", self.mesh.columns - 1)
        mine = step.insert(spm.TurnOp(self.buffer, before)).result
        fmt, inside = psum_format(gemm.fmt2), step.builder
        elements: Size = step(gemm.field("rows"), gemm.field("columns"))
        if turn is not None:
            branch(step, turn, "slt", 1)
            last = step.at(mine, step.subtract(step(elements, fmt.bytes), TOKEN_BYTES))
            _mark(step.insert(probe(self.probed, last, TOKEN_BYTES)))
            leave(step, inside)
            branch(step, turn, "sgt", 0)
        begin = step(step.subtract(self.own - 1 if turn is None else turn, 1), self.part)
        count = step.minimum(step.subtract(elements, begin), self.part)
        is_certain = isinstance(elements, int) and (self.own - 2) * self.part < elements
        with step.if_positive([] if is_certain else [count]):
            theirs = step.insert(spm.TurnOp(self.buffer, step.value(step.add(before, self.group)))).result
            src, dst = (step.at(buffer, step(begin, fmt.bytes)) for buffer in (mine, theirs))
            send = DteUnicast.make(fmt=fmt, dst=dst, src=src, n=count, tile=self.next, origin=gemm.origin)
            send.attributes[ORDERED] = UnitAttr()
            _mark(step.insert(send))
        leave(step, outer)


def _mark(op: Operation) -> None:
    """It is no part of what follows products."""
    op.attributes[RING] = UnitAttr()


def _gemm_of(block: Block) -> NeGemm:
    return next(op for op in block.ops if isinstance(op, NeGemm))


def _last(loop: scf.ForOp) -> Operation:
    last = loop.body.block.last_op
    assert last is not None
    return last


def _value(value: Size) -> SSAValue:
    assert isinstance(value, SSAValue)
    return value
