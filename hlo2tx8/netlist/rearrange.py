"""Op types that move elements: splice, embedding, tilizer, topk."""

from collections.abc import Sequence

import numpy as np

from hlo2tx8.netlist.formats import Array, is_known, xp
from hlo2tx8.netlist.infer import splice_order
from hlo2tx8.netlist.model import Op
from hlo2tx8.netlist.shapes import TILE
from hlo2tx8.netlist.tensors import tiles_of

NOWHERE = np.uint32(0xFFFFFFFF)


def splice(op: Op, inputs: Sequence[Array]) -> Array:
    """Units of the inputs, one after the other as the attributes say."""
    n = xp(inputs[0])
    if op.attributes.get("granularity", "ublock") == "t":
        order = splice_order(op, [len(x) for x in inputs])
        return n.concatenate([inputs[number][first : first + count] for number, first, count in order])
    blocks = [_blocks(op, x) for x in inputs]
    order = splice_order(op, [x.shape[3] for x in blocks])
    joined = n.concatenate([blocks[number][:, :, :, first : first + count] for number, first, count in order], axis=3)
    (gr, gc), (mr, mc), (ur, uc) = op.grid_size, op.mblock, op.ublock
    counts = (mr, mc) if op.ublock_order == "r" else (mc, mr)
    parts = joined.reshape(gr, gc, op.t, *counts, ur * TILE, uc * TILE)
    if op.ublock_order == "c":
        parts = parts.swapaxes(3, 4)
    return parts.transpose(2, 0, 3, 5, 1, 4, 6).reshape(op.shape.elements)


def _blocks(op: Op, x: Array) -> Array:
    """[grid row, grid column, z, ublock in scan order, rows, columns], in ublocks of the op's."""
    (gr, gc), high, wide = op.grid_size, op.ublock[0] * TILE, op.ublock[1] * TILE
    parts = x.reshape(x.shape[0], gr, -1, high, gc, x.shape[2] // gc // wide, wide).transpose(1, 4, 0, 2, 5, 3, 6)
    if op.ublock_order == "c":
        parts = parts.swapaxes(3, 4)
    return parts.reshape(gr, gc, x.shape[0], -1, high, wide)


def untile(data: Array) -> Array:
    """Elements of a flat IO as the host wrote them."""
    return tiles_of(data).reshape(data.shape)


def embedding(op: Op, table: Array, numbers: Array) -> Array:
    """Rows of the table in the order of the numbers; zeros for 0xFFFFFFFF. ValueError for a row that there is not."""
    n, lines = xp(table), untile(table)[0]
    chosen = rows_of(op, len(lines), numbers)
    is_nowhere = chosen == NOWHERE
    found = n.take(lines, n.where(is_nowhere, 0, chosen).astype(np.int32), axis=0, mode="clip")
    return n.where(is_nowhere[:, None], lines.dtype.type(0), found)[None]


def rows_of(op: Op, rows: int, numbers: Array) -> Array:
    """The rows of a table of so many that an embedding takes. ValueError, if the numbers are known, where there is no such row."""
    count, grid_rows = op.attributes["num_indices"], op.grid_size[0]
    chosen = untile(numbers).reshape(grid_rows, -1)[:, :count].reshape(-1)
    if chosen.size != grid_rows * count:
        raise ValueError(f"there are {chosen.size} indices instead of {grid_rows * count}")
    if is_known(chosen) and (wrong := chosen[(chosen != NOWHERE) & (chosen >= rows)]).size:
        raise ValueError(f"the table has {rows} rows, there is no row {wrong[0]}")
    return chosen


def topk(op: Op, values: Array, numbers: Array) -> Array:
    """The k largest of each row of each grid column, descending, or what `numbers` says of them."""
    n, k, columns = xp(values), op.attributes["k"], op.grid_size[1]
    wide, argmax = -(-k // TILE) * TILE, op.attributes.get("sort", "max") == "argmax"
    z, rows = values.shape[:2]
    keys, found = (data.reshape(z, rows, columns, -1) for data in (values, numbers if argmax else values))
    if op.attributes.get("kreduce"):  # groups that are sorted have nothing behind their first k
        at = np.arange(keys.shape[3])
        keys, found = (data[..., at[at % wide < k]] for data in (keys, found))
    best = n.take_along_axis(found, n.argsort(-keys, axis=-1, stable=True)[..., :k], axis=-1)
    return n.pad(best, [(0, 0)] * 3 + [(0, wide - best.shape[-1])]).reshape(z, rows, columns * wide)
