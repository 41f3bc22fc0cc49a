"""Whether a transfer stays within what a tile keeps of a tensor, whatever the turns of the loops around it.

    RDMA_load slot(%q) offset(row * 605184 + column * 768 + turn div 3 * 605184 + turn mod 3 * 256 + step * 172032)
              count(64) s1(768) n1(min(56, 197 - step * 56))

Of rows * columns of a tensor a tile has a run of rows and whole blocks of channels. A transfer within that begins at a block, and
moves rows of one or several blocks.
"""

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import SSAValue

from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.dialects import spm, vec
from hlo2tx8.dialects.nested import nested_ops
from hlo2tx8.indexing import Const, Expr
from hlo2tx8.indexing.simplify import range_of
from hlo2tx8.ir import i64_attr
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.column_sets import Columns
from hlo2tx8.lower.dma.mesh import COLUMN, ROW, TileIndex
from hlo2tx8.lower.dma.slices import buffers_of, constant_of, instructions_in, turns_of


@dataclass(frozen=True)
class OwnPart:
    """What each tile has of a tensor: so many `rows`, each of which is `row_bytes` of the tensor, of so many `blocks`. They begin
    at `first_row` of a tile's `tile_rows`. Of `shared` tiles of a mesh column each has all of these rows in the end."""

    rows: int
    first_row: int
    tile_rows: int
    blocks: int
    block_bytes: int
    row_bytes: int
    shared: int = 1

    def holds(self, op: Rdma | Wdma, index: TileIndex) -> bool:
        """Is all that a transfer moves the tile's own, in each turn?"""
        box, place, all_rows = _box(op, self.row_bytes, self.block_bytes), self._place(op, index), self.rows * self.shared
        if box is None or place is None:
            return False
        row, inside = index.simplified(place // self.row_bytes), index.simplified(place % self.row_bytes)
        others = {COLUMN} if self.shared > 1 else {ROW, COLUMN}
        if others & place.leaves() or index.simplified(inside % self.block_bytes) != Const(0):
            return False
        rows, blocks = box
        ends = [row + count for count in _most(rows, index)]
        is_low = range_of(place, index.bounds, ()).lo >= 0
        is_of_rows = any(range_of(index.simplified(end), index.bounds, ()).hi <= all_rows for end in ends)
        last = range_of(inside, index.bounds, ()).hi + blocks * self.block_bytes
        return is_low and is_of_rows and last <= self.blocks * self.block_bytes

    def is_of_block(self, op: Rdma | Wdma, number: Expr, index: TileIndex) -> bool:
        """Does a transfer move rows of one block, that of a number?"""
        box, place = _box(op, self.row_bytes, self.block_bytes), self._place(op, index)
        if box is None or box[1] > 1 or place is None:
            return False
        return index.simplified(place % self.row_bytes) == index.simplified(number * self.block_bytes)

    def _place(self, op: Rdma | Wdma, index: TileIndex) -> Expr | None:
        """How many bytes behind the beginning of the tile's part a transfer begins."""
        offset = op.field("offset")
        begin = index.expr(offset) if isinstance(offset, SSAValue) else Const(offset)
        if begin is None:
            return None
        line = ROW // self.shared * self.shared
        own = line * (self.tile_rows * self.row_bytes) + COLUMN * (self.blocks * self.block_bytes)
        return index.simplified(begin - own - self.first_row * self.row_bytes)

    def holds_whole_blocks(self, op: Rdma | Wdma) -> bool:
        """Does a transfer move all rows of the blocks it moves?"""
        box = _box(op, self.row_bytes, self.block_bytes)
        return box is not None and box[0] == self.rows * self.shared

    def run(self, op: Rdma | Wdma) -> tuple[Size, int] | None:
        """How many rows a transfer moves of how many blocks, if they lie one after the other where they are kept: of one block, or
        all rows that a step decides on; None if they don't."""
        box = _box(op, self.row_bytes, self.block_bytes)
        if box is None or (box[1] > 1 and not (isinstance(box[0], SSAValue) and isinstance(box[0].owner, vec.ExtentOp))):
            return None
        return box


def _most(rows: Size, index: TileIndex) -> list[Expr]:
    """Each of what a number of rows is at most."""
    if not isinstance(rows, SSAValue):
        return [Const(rows)]
    limit = [Const(rows.owner.upper.value.data)] if isinstance(rows.owner, vec.ExtentOp) else []
    return [*(index.made_of(rows) or []), *limit]


def _box(op: Rdma | Wdma, row_bytes: int, block_bytes: int) -> tuple[Size, int] | None:
    """How many rows and blocks of each a transfer moves; None if it is none of whole blocks."""
    element, rows, blocks = op.fmt.bytes, 1, 1
    if _number(op.field("count")) != block_bytes // element:
        return None
    for count, stride in (("n1", "s1"), ("n2", "s2"), ("n3", "s3")):
        number = _number(op.field(count))
        if number == 1:
            continue
        distance = _number(op.field(stride))
        if distance == row_bytes // element and rows == 1:
            rows = op.field(count) if number is None else number
        elif distance == block_bytes // element and blocks == 1 and number is not None:
            blocks = number
        else:
            return None
    return rows, blocks


def buffer_of_its_own(op: Rdma) -> spm.AllocOp | None:
    """The buffer that a load alone fills, in the same turn, and nobody else writes."""
    buffer = op.field("dst")
    alloc = buffer.owner if isinstance(buffer, SSAValue) else None
    if not isinstance(alloc, spm.AllocOp) or alloc.parent is not op.parent or alloc.num_copies > 1:
        return None
    block = op.parent_block()
    inside = block.parent_op() if block is not None else None
    writers = [
        own
        for own in (instructions_in(inside) if inside is not None else ())
        if any(spm.root_buffer(value) is alloc.result for value in buffers_of(own, is_write=True))
    ]
    return alloc if writers == [op] else None


def multiply_in_place(columns: Columns, store: Wdma, kept: SSAValue, num_steps: int) -> None:
    """Lets a step's only product leave the result that is stored where it is kept, and add up its sums there if they are as large:
    what follows the product goes over that in parts, each of which is read before it is written, by what is stored or by a move.
    So many steps make a part of what is kept each, one after the other."""
    owner, ops = kept.owner, [op for op in columns.epilogue.ops if isinstance(op, Instruction)]
    if store not in ops or not isinstance(owner, spm.AllocOp):
        return
    wanted, source = [columns.last.field("dst"), columns.last.field("psum")], store.field("src")
    writers = [number for number, op in enumerate(ops) if source in buffers_of(op, is_write=True)]
    if len(writers) == 1:
        after = [value for op in ops[writers[0] + 1 :] for value in buffers_of(op, is_write=False)]
        wanted += [source] if wanted[0] not in after and after == [source] else []
    for value in dict.fromkeys(wanted):
        alloc = value.owner if isinstance(value, SSAValue) else None
        if isinstance(alloc, spm.AllocOp) and alloc.num_copies == 1 and alloc.size_bytes * num_steps == owner.size_bytes:
            owner.attributes |= {spm.STEPS: i64_attr(num_steps)} if num_steps > 1 else {}
            alloc.result.replace_all_uses_with(kept)
            alloc.detach()
            alloc.erase()


def know_turns(loop: scf.ForOp, index: TileIndex) -> None:
    """Makes the counters of a loop over turns, and of those over steps in it, known."""
    for own in nested_ops(loop):
        if isinstance(own, scf.ForOp) and (turns := turns_of(own)) is not None and own.body.block.args[0] not in index.known:
            index.add_counter(own.body.block.args[0], turns)


def _number(value: Size) -> int | None:
    return constant_of(value) if isinstance(value, SSAValue) else value
