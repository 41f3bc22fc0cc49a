"""What tiles of the mesh store for later phases stays with them, and goes from there to the tiles that multiply it.

    WDMA_store slot(%t) offset(row * 401408 + column * 256) src(%a) count(64) s1(1024) n1(392) s2(64) n2(4)
    ...
    xla.sync_tiles
    scf.for %k = 0 to 16 { RDMA_load dst(%b) slot(%t) offset(row * 401408 + %k * 64) count(64) s1(1024) n1(392); gemm(%b, ...) }
    RDMA_load dst(%c) slot(%t) offset(row * 401408 + column * 256) count(64) s1(1024) n1(392) s2(64) n2(4)

Tile (row, column) has 392 rows of 4 channel blocks of %t. With a buffer for them, as the engines lay them out, the store is a move
by TDMA to that buffer, the last load is one from there, and panel %k comes from the tile at column %k div 4 of each mesh row
(`share-loads`). Nothing is left that reads or writes %t in DDR, unless it is the kernel's result.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

from xdsl.builder import Builder
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hlo2tx8.device.isa import BufferType, Engine, Instruction
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, Wdma
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.dialects import spm, xla
from hlo2tx8.indexing import Dim, Expr
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.column_sets import columns_of
from hlo2tx8.lower.dma.interleave_panels import interleave
from hlo2tx8.lower.dma.kept_places import OwnPart, buffer_of_its_own, multiply_in_place
from hlo2tx8.lower.dma.load_levels import levels_of
from hlo2tx8.lower.dma.mesh import COLUMN, ROW, TileIndex, of_one, quotient, remainder
from hlo2tx8.lower.dma.panels import RING, Panels, PanelSide, Site
from hlo2tx8.lower.dma.slices import instructions_in
from hlo2tx8.lower.select.channel_blocks import EngineOrderError
from hlo2tx8.lower.select.step_builder import StepBuilder


@dataclass(frozen=True, kw_only=True)
class KeptResult(OwnPart):
    """What each tile makes of the tensor `slot`, and keeps.

    `stores` are those of all tiles, `loads` what later phases load of it: the own part of a tile, or panels. What `shared` tiles of
    a mesh column have each of them keeps, if each reads it; a block in each turn of the loop that does, if it `is_by_turns`.
    """

    slot: SSAValue
    lines: int
    is_ragged: bool
    stores: tuple[Wdma, ...]
    loads: tuple[Rdma, ...]
    is_by_turns: bool = False

    @property
    def plane_bytes(self) -> int:
        """What a tile keeps of a block of channels."""
        return self.rows * self.shared * self.block_bytes

    @property
    def size_bytes(self) -> int:
        """What a tile keeps."""
        return self.blocks * self.plane_bytes

    @property
    def is_read_by_others(self) -> bool:
        """Does anybody but this kernel read the tensor?"""
        return not isinstance(self.slot.owner, xla.AllocateScratchOp)

    def moved(self, op: Rdma | Wdma) -> "tuple[int, list[tuple[int, int]]]":
        """Bytes of a run of a transfer in the tile's buffer, and counts and distances in bytes of the levels around it, the
        innermost first. EngineOrderError if it is none of whole blocks."""
        levels = levels_of(op)
        element = op.fmt.bytes
        if levels is None or levels[-1][0] * element != self.block_bytes:
            raise EngineOrderError("E3208", "what stays is not loaded or stored by whole blocks of channels")
        run, found = self.block_bytes, list[tuple[int, int]]()
        for count, distance in levels[-2::-1]:
            size = distance * element
            if count == 1:
                continue
            if size % self.row_bytes == 0:
                size = size // self.row_bytes * self.block_bytes
            elif size % self.block_bytes == 0 and size * count <= self.row_bytes:
                size = size // self.block_bytes * self.plane_bytes
            else:
                raise EngineOrderError("E3208", "what stays is not loaded or stored by rows")
            if size == run and not found:
                run *= count
            else:
                found.append((count, size))
        return run, found

    def is_made_in_steps(self, number: int, index: TileIndex) -> bool:
        """Does each of so many steps make all rows of as many blocks, one after the other?"""
        levels, terms = levels_of(self.stores[0]), index.terms(self.stores[0].field("offset"))
        if self.is_ragged or levels is None or terms is None or (counter := _counter(terms)) is None:
            return False
        blocks, rows = levels[1][0], levels[2][0]
        return rows == self.rows and blocks * number == self.blocks and terms[counter] == blocks * self.block_bytes


def interleave_kept(function: func.FuncOp, panels: Sequence[Panels], index: TileIndex) -> bool:
    """Rewrites panels of what stays so that all tiles of a mesh row send a part of each, where they can; were there any?"""
    slots = {kept.slot for kept in _results(function, index)}
    found = [own for own in panels if own.rows_slot in slots]
    return sum(interleave(own, index) for own in found) > 0


def find_kept_results(function: func.FuncOp, panels: Sequence[Panels], tile: SSAValue, index: TileIndex) -> "list[ResultBuffer]":
    """Buffers for the tensors that may stay with the tiles that make them: each tile stores one part of rows and whole channel
    blocks, and what is loaded later is that part, or panels of rows, which one tile of a mesh row has, or each has a part of. None
    where the vector engine makes something of panels before they are sent: those loops have no turns for it."""
    if any(own.is_split(side) for own in panels for side in own.sides):
        return []
    of_panels = {site.loads[PanelSide.ROWS].op: (own, site) for own in panels if own.rows_slot for site in own.sites}
    fitting = [
        kept
        for shared in (4, 2, 1)
        for kept in _results(function, index, shared)
        if all(_is_panel(kept, *of_panels[op], index) if op in of_panels else kept.holds(op, index) for op in kept.loads)
    ]
    found = [_in_turns(kept, index) for kept in {kept.slot: kept for kept in fitting}.values()]  # of as few tiles as may be
    if not found:
        return []
    first = next(op for op in function.body.block.ops if isinstance(op, scf.ForOp))
    builder = Builder(InsertPoint.before(first))
    buffers = [ResultBuffer(kept, StepBuilder(builder, builder, (), {}), tile, index) for kept in found]
    for num_steps, columns in [(own.num_steps, columns) for own in panels for columns in columns_of(own)]:
        for result in buffers:
            if num_steps == 1 or result.kept.is_made_in_steps(num_steps, index):
                multiply_in_place(columns, result.kept.stores[0], result.buffer, num_steps)
    return buffers


def _in_turns(kept: KeptResult, index: TileIndex) -> KeptResult:
    """The same, if one loop reads a block of it in each of its turns."""
    loops = {loop for op in kept.loads if isinstance(loop := _loop_of(op), scf.ForOp)}
    counter = index.known.get(next(iter(loops)).body.block.args[0]) if len(loops) == 1 else None
    if counter is None or index.turns(counter) != kept.blocks:
        return kept
    return replace(kept, is_by_turns=all(kept.is_of_block(op, counter, index) for op in kept.loads))


def _results(function: func.FuncOp, index: TileIndex, shared: int = 1) -> list[KeptResult]:
    """The tensors of which each tile stores one part of rows and whole blocks of channels, and that are loaded again; those of
    which so many tiles of a mesh column may have each other's parts."""
    found: list[KeptResult] = []
    by_slot: dict[SSAValue, list[Rdma | Wdma]] = {}
    for op in instructions_in(function):
        if isinstance(op, Rdma | Wdma) and isinstance(slot := op.field("slot"), SSAValue):
            by_slot.setdefault(slot, []).append(op)
    for slot, ops in by_slot.items():
        stores = [op for op in ops if isinstance(op, Wdma)]
        loads = tuple(op for op in ops if isinstance(op, Rdma))
        if len(stores) == 1 and loads and (kept := _of_store(slot, stores[0], loads, index)) is not None:
            found.append(replace(kept, shared=shared))
    if any(own.is_ragged for own in found) and any(xla.ROW_TURNS in op.attributes for op in function.body.block.ops):
        found = [own for own in found if not own.is_ragged]
    is_whole = [index.mesh.rows % shared == 0 and own.rows == own.tile_rows and not own.is_ragged for own in found]
    return [own for own, whole in zip(found, is_whole, strict=True) if shared == 1 or whole]


def _of_store(slot: SSAValue, store: Wdma, loads: tuple[Rdma, ...], index: TileIndex) -> KeptResult | None:
    """What tiles keep of a tensor if they store it so."""
    levels = levels_of(store, at_most=True)
    element, mesh = store.fmt.bytes, index.mesh
    block = Blocked(store.fmt, 1, 1, 1).block_width
    if levels is None or levels[0][0] != 1 or levels[3][0] != block:
        return None
    rows, row = levels[2]
    lines, blocks = prod(cast("TensorType[Attribute]", slot.type).get_shape()) // max(1, row), row // block
    if row == 0 or blocks % mesh.columns or blocks * block != row:
        return None
    tile_rows, of_tile, first = -(-lines // mesh.rows), blocks // mesh.columns, 0
    loop = _loop_of(store)
    is_by_rows = loop is not None and xla.ROW_TURNS in loop.attributes  # whose steps may be of any rows that the tile has
    terms = None if is_by_rows else index.terms(store.field("offset"))
    is_ragged = lines % mesh.rows > 0 or (levels_of(store) is None and not is_by_rows)
    if terms is not None:
        tile_rows = terms.get(ROW, 0) // (row * element) if is_ragged else tile_rows
        first, counter = terms.get(None, 0) // (row * element), _counter(terms)
        rows *= index.turns(counter) if counter is not None and levels[1][0] == of_tile else 1
    else:
        rows = tile_rows
    if is_ragged and (terms is None or rows != levels[2][0] or not 0 < lines - tile_rows * (mesh.rows - 1) <= tile_rows):
        return None
    own = rows, first, tile_rows, of_tile, block * element, row * element
    kept = KeptResult(*own, slot=slot, lines=lines, is_ragged=is_ragged, stores=(store,), loads=loads)
    return kept if kept.holds(store, index) else None


def _counter(terms: dict[Expr | None, int]) -> Expr | None:
    """The first counter that a transfer's offset moves with."""
    return next((leaf for leaf in terms if leaf not in (ROW, COLUMN, None)), None)


def _is_panel(kept: KeptResult, panels: Panels, site: Site, index: TileIndex) -> bool:
    """Does a tile load whole blocks of its rows that one tile has, in each turn?"""
    op = site.loads[PanelSide.ROWS].op
    terms, levels = index.terms(op.field("offset")), levels_of(op, at_most=True)
    if terms is None or levels is None or len(panels.kinds) != 1 or kept.shared > 1:
        return False
    num_rows = levels[2][0]
    if panels.num_steps > 1 and kept.is_ragged:
        return False
    if panels.num_steps > 1 and terms.pop(index.known[panels.loop.body.block.args[0]], 0) != num_rows * kept.row_bytes:
        return False
    counter = None if site.loop is None else index.known[site.loop.body.block.args[0]]
    block = kept.block_bytes // op.fmt.bytes
    parts, (blocks, between), rows = levels[:3]
    size, own = blocks * kept.block_bytes, terms.pop(ROW, 0) == kept.tile_rows * kept.row_bytes
    first, each = terms.pop(None, 0) - kept.first_row * kept.row_bytes, terms.pop(counter, size) if counter is not None else size
    is_whole = parts[0] == 1 or parts == (index.mesh.columns, kept.blocks * block)
    is_dense = is_whole and (blocks == 1 or between == block) and levels[3][0] == block
    is_one = kept.blocks % blocks == 0 and first == site.first * size and each == size
    is_all = rows[0] * panels.num_steps == kept.rows and rows[1] * op.fmt.bytes == kept.row_bytes
    return own and not terms and is_dense and is_one and is_all


class ResultBuffer:
    """The buffer of what a tile keeps of a tensor, in the loops from the one that makes it to the last that reads it."""

    def __init__(self, kept: KeptResult, start: StepBuilder, tile: SSAValue, index: TileIndex) -> None:
        self.kept = kept
        loops = [_loop_of(op) for op in (*kept.stores, *kept.loads)]
        own = [op for op in start.builder.insertion_point.block.ops if isinstance(op, scf.ForOp)]
        places = [number for number, loop in enumerate(own) if loop in loops]
        self.loops = own[places[0] : places[-1] + 1]
        self.reader = own[places[-1]]
        self.readers = [loop for loop in own if loop in map(_loop_of, kept.loads)]
        self.columns = columns = index.mesh.columns
        row, self.column = quotient(start, tile, columns), remainder(start, tile, columns)
        of_line = start.emit(quotient(start, row, kept.shared), kept.shared) if kept.shared > 1 else row
        of_tile = start.emit(of_line, kept.tile_rows * kept.row_bytes)
        self.rows_begin = start.value(start.add(of_tile, kept.first_row * kept.row_bytes))
        self.begin = start.add(self.rows_begin, start.emit(self.column, kept.blocks * kept.block_bytes))
        self.points: Size = kept.rows * kept.shared
        if kept.is_ragged:
            left = start.subtract(kept.lines - kept.first_row, start.emit(row, kept.tile_rows))
            self.points = start.minimum(kept.rows, left)
        self.plane = start(self.points, kept.block_bytes)
        buffer = start.insert(spm.AllocOp(kept.size_bytes))
        buffer.attributes[spm.KEPT] = UnitAttr()
        self.buffer = buffer.result

    def place(self, step: StepBuilder, offset: SSAValue) -> SSAValue:
        """Where in the tile's buffer the element lies that is so many bytes from the beginning of its part."""
        i, of_block = Dim(0), self.kept.block_bytes
        block, row = i % self.kept.row_bytes // of_block, i // self.kept.row_bytes * of_block
        if isinstance(self.plane, int):
            return of_one(step, offset, block * self.plane + row)
        return step.value(step.add(step.emit(of_one(step, offset, block), self.plane), of_one(step, offset, row)))

    def takes_room_in(self, loop: scf.ForOp) -> bool:
        """Is it there while a loop runs, apart from the loop's own buffers?"""
        roots = (spm.root_buffer(o) for op in instructions_in(loop) for o in op.operands if isinstance(o.type, BufferType))
        return loop in self.loops and self.buffer not in roots

    def distance(self, step: StepBuilder, panel: SSAValue, op: Rdma) -> SSAValue:
        """0 on the tile that has a panel of a step, which `op` would load, or a part of it, more on the others."""
        levels = levels_of(op, at_most=True)
        assert levels is not None
        if self.num_parts(op) > 1:
            return step.value(0)
        panels_of_tile = self.kept.blocks // levels[1][0]
        place = remainder(step, panel, panels_of_tile * self.columns)
        away = step.value(step.subtract(self.column, quotient(step, place, panels_of_tile)))
        return step.emit(away, away)

    def num_parts(self, op: Rdma) -> int:
        """From how many tiles a panel comes that `op` would load."""
        levels = levels_of(op, at_most=True)
        assert levels is not None
        return levels[0][0]

    def part_bytes(self, op: Rdma) -> int:
        """What one of them has of it, at most."""
        levels = levels_of(op, at_most=True)
        assert levels is not None
        return prod(count for count, _ in levels[1:]) * op.fmt.bytes

    def part_elements(self, step: StepBuilder, op: Rdma) -> Size:
        """How many elements each of them has of it."""
        if not self.kept.is_ragged:
            return self.part_bytes(op) // op.fmt.bytes
        return step(self.points, self.part_bytes(op) // (self.kept.rows * op.fmt.bytes))

    def part_of(self, step: StepBuilder, op: Rdma, slot: SSAValue) -> SSAValue:
        """Where in a slot lies what the tile has of a panel."""
        if self.num_parts(op) == 1:
            return slot
        return step.at(slot, step(self.column, step(self.part_elements(step, op), op.fmt.bytes)))

    def panel(self, step: StepBuilder, op: Rdma, offset: SSAValue, slot: SSAValue) -> Operation:
        """The move of a panel, or of the tile's part of it, to a slot."""
        of_row = step.value(step.subtract(offset, self.rows_begin))
        row_bytes, i = self.kept.row_bytes, Dim(0)
        of_tile = of_one(step, of_row, i // row_bytes * row_bytes + i % (self.kept.blocks * self.kept.block_bytes))
        here, dst = step.at(self.buffer, self.place(step, of_tile)), self.part_of(step, op, slot)
        levels = levels_of(op, at_most=True)
        assert levels is not None
        if self.kept.is_ragged:
            return self._move(step(self.plane, levels[1][0]), [], op, dst=dst, src=here)
        of_block = levels[2][0] * self.kept.block_bytes
        return self._move(*_joined(of_block, levels[1][0], self.kept), op, dst=dst, src=here)

    def read_in_place(self, function: func.FuncOp) -> None:
        """Lets products whose sums go around read what the tile has of their rows where it is. EngineOrderError if it lies there in
        another way."""
        for op in list(instructions_in(function)):
            if isinstance(op, Rdma) and RING in op.attributes and op.field("slot") is self.kept.slot:
                if self._is_read_here(op) is None:
                    raise EngineOrderError("E3208", "rows do not lie as the engine reads them")
                builder = Builder(InsertPoint.before(op))
                self._take_over(op, StepBuilder(builder, builder, (), {}))

    def take_over(self, function: func.FuncOp) -> None:
        """Puts moves in the place of what is left of transfers, of the tile's own part or of parts of that; then no memory is
        needed for the tensor, if nobody else reads it."""
        for op in list(instructions_in(function)):
            if isinstance(op, Rdma | Wdma) and op.field("slot") is self.kept.slot:
                builder = Builder(InsertPoint.before(op))
                self._take_over(op, StepBuilder(builder, builder, (), {}))
        without_memory(self.kept.slot)

    def _take_over(self, op: Rdma | Wdma, step: StepBuilder) -> None:
        own = self.place(step, step.value(step.subtract(_value(op.field("offset")), self.begin)))
        here = step.at(self.buffer, own)
        if isinstance(op, Rdma) and (alloc := self._is_read_here(op)) is not None:
            alloc.result.replace_all_uses_with(here)
            alloc.detach()
            alloc.erase()
        elif isinstance(op, Rdma):
            step.insert(self._move(*self._levels(step, op), op, dst=_value(op.field("dst")), src=here))
        elif spm.root_buffer(_value(op.field("src"))) is self.buffer:
            pass  # it is there
        elif (made := self._made_for(op)) is not None:
            _hoist(here, made)
            src = _value(op.field("src"))
            src.replace_uses_with_if(here, lambda use: use.operation is not op)
        else:
            step.insert(self._move(*self._levels(step, op), op, dst=here, src=_value(op.field("src"))))
        if isinstance(op, Rdma) or not self.kept.is_read_by_others:
            op.detach()
            op.erase()

    def _levels(self, step: StepBuilder, op: Rdma | Wdma) -> tuple[Size, list[tuple[int, int]]]:
        """Bytes of a run of a transfer in the buffer, and the levels around it, as in `KeptResult.moved`."""
        run = self.kept.run(op)
        if run is not None and (self.kept.is_ragged or isinstance(run[0], SSAValue)):
            return step(run[0], run[1] * self.kept.block_bytes), []
        if self.kept.is_ragged:
            raise EngineOrderError("E3208", "what stays is not loaded or stored by rows")
        return self.kept.moved(op)

    def _is_read_here(self, op: Rdma) -> spm.AllocOp | None:
        """The buffer of a load, if what it loads lies in what the tile keeps as it would lie there."""
        run = self.kept.run(op)
        is_whole = RING in op.attributes and (run is not None or self.kept.holds_whole_blocks(op))
        return buffer_of_its_own(op) if is_whole or (run is not None and run[1] == 1) else None

    def _made_for(self, op: Wdma) -> Operation | None:
        """The first operation that uses the buffer of what is stored as one run, if only the vector engine does besides, beside the
        store: it can write to the tile's buffer itself."""
        src = _value(op.field("src"))
        users = [use.operation for use in src.uses if use.operation is not op]
        is_run = (self.kept.run(op) is not None or not self.kept.moved(op)[1]) and isinstance(src.owner, spm.TurnOp | spm.AllocOp)
        if self.kept.is_read_by_others or not users or not is_run or any(user.parent is not op.parent for user in users):
            return None
        if not all(isinstance(user, Instruction) and user.ENGINE is Engine.CT for user in users):
            return None
        return next(user for user in users if all(user is other or user.is_before_in_block(other) for other in users))

    def _move(self, run: Size, levels: list[tuple[int, int]], op: Rdma | Wdma, dst: SSAValue, src: SSAValue) -> TdmaGatherScatter:
        """What a transfer moves, of which the side in the buffer has levels around runs and the other is dense."""
        inner, dense = run, list[tuple[int, int]]()
        for count, _ in levels:
            assert isinstance(inner, int)
            dense.append((count, inner))
            inner *= count
        sides = (dense, levels) if isinstance(op, Wdma) else (levels, dense)
        fields: dict[str, Any] = {}
        for name, own in zip("rw", sides, strict=True):
            for level in (1, 2, 3):
                count, distance = own[level - 1] if level <= len(own) else (1, 0)
                fields |= {f"{name}n{level}": count, f"{name}s{level}": distance}
        return TdmaGatherScatter.make(fmt=op.fmt, origin=op.origin, dst=dst, src=src, run_bytes=run, **fields)


def without_memory(slot: SSAValue) -> None:
    """Takes away the memory of a tensor that nobody reads or writes any more, if it is the kernel's own."""
    scratch = slot.owner
    if not isinstance(scratch, xla.AllocateScratchOp):
        return
    for meeting in [op for use in scratch.res.uses if isinstance(op := use.operation, xla.SyncTilesOp)]:
        others = [value for value in meeting.operands if value is not scratch.res]
        Rewriter.replace_op(meeting, xla.SyncTilesOp(others), [None] * len(meeting.results), safe_erase=False)
    Rewriter.erase_op(scratch)


def _joined(run: int, blocks: int, kept: KeptResult) -> tuple[int, list[tuple[int, int]]]:
    """Bytes of a run, and the levels around it, of so many blocks of a tile's rows, or of a part of each."""
    plane = kept.plane_bytes
    return (run * blocks, []) if run == plane or blocks == 1 else (run, [(blocks, plane)])


def _hoist(value: SSAValue, before: Operation) -> None:
    """Moves what a value is made of in front of an operation of the same block."""
    owner, block = value.owner, before.parent_block()
    if not isinstance(owner, Operation) or block is None or owner.parent is not block or owner.is_before_in_block(before):
        return
    for operand in owner.operands:
        _hoist(operand, before)
    owner.detach()
    block.insert_op_before(owner, before)


def _loop_of(op: Operation) -> Operation | None:
    """The outermost loop around an operation."""
    parent = op
    while (above := parent.parent_op()) is not None and not isinstance(above, func.FuncOp):
        parent = above
    return parent


def _value(value: Size) -> SSAValue:
    assert isinstance(value, SSAValue)
    return value
