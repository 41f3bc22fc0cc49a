"""Work split of a group by rows: every member computes the same rows in the same step, each of them whole.

    scores [12, 512, 512], softmax [12, 512, 512], result [12, 512, 64], 128 rows a step, 3 turns of 4 steps a tile

    (tile)[turn, step, lane0, lane1] -> (tile * 3 + turn) floordiv 4 ...: the chunk says the batch, chunk and step say the row

A chunk is a run of rows of one batch. What a member reads of a batch alone, keys and values, is the same in all steps of a chunk.
Tiles of a mesh row may take chunks in turns: they then read the same batch in each of their turns, and share what they read of it,
(tile)[turn] -> (tile floordiv 4 * 3 + turn, ... tile mod 4 ...).
Where columns are whole blocks of the matrix engine, lanes are in its order: (tile)[turn, step, block, row, column of the block].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Interval, Sym, Variable, delinearize
from hlo2tx8.schedule.work_split import WorkSplit

STEP_ROWS = (512, 256, 128, 64, 32, 16, 8)
"""Rows of a step that are tried."""
LEAST_STEP = 8
"""Rows that the matrix engine multiplies at a time."""


@dataclass(frozen=True)
class RowGroupSplit:
    """Rows of a group: `batches` (sizes of the dimensions outside of the rows) times `rows`, cut into chunks of `chunk_rows`, the
    last of a batch may have fewer, a chunk into steps of `step_rows`; `tiles` share the chunks, each has as many as another, or
    none at the end. What a chunk reads has `copies` buffers in turns: with one, it is loaded when the chunk before is done with it.
    So many tiles next to each other, a `line`, take chunks of a batch in turns; 1: each takes its own run of chunks. With a `mesh`
    of so many rows and columns a tile has the batches of its mesh row, and of the innermost dimension of batches, heads, those of
    its mesh column; where there are fewer batches than rows, tiles of a column have a chunk each of the same batch.
    """

    batches: tuple[int, ...]
    rows: int
    chunk_rows: int
    step_rows: int
    tiles: int
    copies: int = 2
    line: int = 1
    mesh: tuple[int, int] | None = None

    @property
    def rows_of_chunk_and_step(self) -> tuple[int, int]:
        return self.chunk_rows, self.step_rows

    @property
    def num_chunks(self) -> int:
        """Chunks of all batches."""
        return prod(self.batches) * self.chunks_per_batch

    @property
    def chunks_per_batch(self) -> int:
        """Chunks of a batch, the last of which may have fewer rows."""
        return -(-self.rows // self.chunk_rows)

    @property
    def num_turns(self) -> int:
        """Chunks of a tile."""
        return -(-self.num_chunks // self.tiles)

    @property
    def num_steps(self) -> int:
        """Steps of a chunk."""
        return -(-self.chunk_rows // self.step_rows)

    @property
    def is_even(self) -> bool:
        """Has every tile as many chunks and every chunk as many steps as another? Else steps are guarded, and each loads what it
        reads."""
        last_chunk = self.rows - (self.chunks_per_batch - 1) * self.chunk_rows
        return self.num_turns * self.tiles == self.num_chunks and last_chunk > (self.num_steps - 1) * self.step_rows

    def split(self, columns: int, block: int = 0) -> WorkSplit:
        """The work split of a member whose result has the shape [*batches, rows, columns]; lanes go by blocks of so many columns if
        that is not 0.

        Raises LevelError if it is not provably a bijection onto that shape.
        """
        chunk, batch, first = self._places()
        lanes = (columns // block, self.step_rows, block) if block else (self.step_rows, columns)
        row_lane = Sym(2 + (block > 0))
        column: Expr = Sym(2) * block + Sym(4) if block else Sym(3)
        row = first * self.chunk_rows + Sym(1) * self.step_rows + row_lane
        shape = (*self.batches, self.rows, columns)
        constraints: list[tuple[Expr, Interval]] = []
        if self.num_turns * self.tiles != self.num_chunks:
            constraints.append((chunk, Interval(0, self.num_chunks - 1)))
        if self.chunks_per_batch * self.chunk_rows != self.rows:
            constraints.append((row, Interval(0, self.rows - 1)))
        if self.num_steps * self.step_rows != self.chunk_rows:
            constraints.append((Sym(1) * self.step_rows + row_lane, Interval(0, self.chunk_rows - 1)))
        steps = (Variable(0, self.num_turns - 1, "turn"), Variable(0, self.num_steps - 1, "step"))
        ranges = (*steps, *(Variable(0, size - 1, f"lane{i}") for i, size in enumerate(lanes)))
        results = (*batch, row, column)
        map = IndexingMap((Variable(0, self.tiles - 1, "tile"),), ranges, (), results, tuple(constraints)).simplify()
        split = WorkSplit(map, map, shape, self.num_turns * self.num_steps, lanes)
        split.verify()
        return split

    def _places(self) -> tuple[Expr, Sequence[Expr], Expr]:
        """Of a tile's turn: the number of its run of chunks, the batch, and which of its chunks."""
        if self.mesh is None:
            chunk: Expr = Dim(0) // self.line * self.num_turns + Sym(0)
            position = delinearize(chunk, (*self.batches, self.chunks_per_batch // self.line))
            return chunk, position[:-1], position[-1] * self.line + Dim(0) % self.line
        *outer, heads = self.batches
        rows, columns = self.mesh
        line, head = Dim(0) // columns, Dim(0) % columns * (heads // columns)
        if (shared := rows // prod(outer)) > 1:
            return Const(0), (*delinearize(line // shared, outer), head + Sym(0)), line % shared
        own = delinearize(Sym(0), (prod(outer) // rows, heads // columns))
        return Const(0), (*delinearize(line * (prod(outer) // rows) + own[0], outer), head + own[1]), Const(0)


def chunk_sizes(rows: int) -> Sequence[int]:
    """Rows of a chunk that are tried: all of a batch, a half, a quarter and so on, rounded up; the largest first."""
    return list(dict.fromkeys(-(-rows // 2**n) for n in range(rows.bit_length())))


def step_sizes(chunk_rows: int, rows: int = 0) -> Sequence[int]:
    """Rows of a step that are tried: powers of two, and as many steps of about equal size; of so many `rows` in chunks also the
    next fewer with which the last chunk has as many steps as the others."""
    powers = [min(n, chunk_rows) for n in STEP_ROWS]
    parts = [-(-chunk_rows // -(-chunk_rows // n)) for n in powers]
    found = [*powers, *(min(-(-n // LEAST_STEP) * LEAST_STEP, chunk_rows) for n in parts)]
    last = (rows - 1) % chunk_rows + 1
    if rows and last < chunk_rows:
        found += [
            own for n in powers if (own := next((m for m in range(n, n // 2, -1) if -(-last // m) == -(-chunk_rows // m)), 0))
        ]
    return list(dict.fromkeys(found))
