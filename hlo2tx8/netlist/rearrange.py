"""Op types that move elements: splice, embedding, tilizer, topk."""

from collections.abc import Sequence

import numpy as np

from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.infer import splice_order
from hlo2tx8.netlist.model import Op
from hlo2tx8.netlist.shapes import TILE
from hlo2tx8.netlist.tensors import tiles_of

NOWHERE = 0xFFFFFFFF


def splice(op: Op, inputs: Sequence[Array]) -> Array:
    """Units of the inputs, one after the other as the attributes say."""
    if op.attributes.get("granularity", "ublock") == "t":
        order = splice_order(op, [len(x) for x in inputs])
        return np.concatenate([inputs[number][first : first + count] for number, first, count in order])
    blocks = [_blocks(op, x) for x in inputs]
    order = splice_order(op, [x.shape[3] for x in blocks])
    joined = np.concatenate([blocks[number][:, :, :, first : first + count] for number, first, count in order], axis=3)
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
    return np.ascontiguousarray(tiles_of(data)).reshape(data.shape)


def embedding(op: Op, table: Array, numbers: Array) -> Array:
    """Rows of the table in the order of the numbers; zeros for 0xFFFFFFFF. ValueError for a row that there is not."""
    lines, count, grid_rows = untile(table)[0], op.attributes["num_indices"], op.grid_size[0]
    listed = untile(numbers).reshape(grid_rows, -1)[:, :count].astype(np.int64).reshape(-1)
    if listed.size != grid_rows * count:
        raise ValueError(f"there are {listed.size} indices instead of {grid_rows * count}")
    if (wrong := listed[(listed != NOWHERE) & (listed >= len(lines))]).size:
        raise ValueError(f"the table has {len(lines)} rows, there is no row {wrong[0]}")
    found: Array = lines[np.where(listed == NOWHERE, 0, listed)]
    return np.where((listed == NOWHERE)[:, None], lines.dtype.type(0), found)[None]


def topk(op: Op, values: Array, numbers: Array) -> Array:
    """The k largest of each row of each grid column, descending, or what `numbers` says of them."""
    k, columns = op.attributes["k"], op.grid_size[1]
    wide = -(-k // TILE) * TILE
    z, rows = values.shape[:2]
    shared = values.reshape(z, rows, columns, -1)
    at = np.arange(shared.shape[3])
    if op.attributes.get("kreduce"):
        at = at[at % wide < k]  # groups that are sorted have nothing behind their first k
    order = at[np.argsort(-shared[..., at], axis=-1, kind="stable")[..., :k]]
    source = numbers.reshape(shared.shape) if op.attributes.get("sort", "max") == "argmax" else shared
    made = np.zeros((z, rows, columns, wide), source.dtype)
    made[..., : order.shape[-1]] = np.take_along_axis(source, order, axis=-1)
    return made.reshape(z, rows, columns * wide)
