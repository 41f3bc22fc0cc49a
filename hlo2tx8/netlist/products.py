"""matmul in its forms, depthwise and sparse, and reduce."""

from collections.abc import Iterator, Sequence

import numpy as np

from hlo2tx8.netlist.elementwise import BINARY, Attributes, gelu
from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.model import Op
from hlo2tx8.netlist.shapes import TILE
from hlo2tx8.netlist.tensors import tiles_of
from hlo2tx8.netlist.tms import tile_broadcast

AT_ONCE = 1 << 24
"""Elements of products of sparse tiles at a time."""
WORDS_OF_TILE = 2048
LAST_OF_Z, LAST_OF_TILE = 1 << 14, 1 << 15


def product(x: Array, y: Array, is_integer: bool) -> Array:
    """x[z] @ y[z], summed in the type of x, of integers without rounding."""
    y = y[: x.shape[0]]
    return np.matmul(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype) if is_integer else np.matmul(x, y)


def matmul(op: Op, inputs: Sequence[Array], is_integer: bool) -> Array:
    """The op's product of float arrays with what its attributes add to it; the encoding of a sparse one is uint32."""
    given, others = op.attributes, list(inputs[2:])
    if given.get("identity"):
        made = sparse(op, inputs[0], inputs[1], others.pop(0))
    else:
        made = product(inputs[0], inputs[1], is_integer)
        if given.get("accumulate"):
            group = given.get("z", made.shape[0])
            made = made.reshape(-1, group, *made.shape[1:]).sum(axis=1, dtype=made.dtype)
    if given.get("bias"):
        bias = others.pop(0)
        made = made + (bias if is_integer else tile_broadcast(bias, "r"))
    for name, kind in (("requant", "requantization"), ("dequant", "dequantization")):
        if given.get(name):
            made = BINARY[kind](made, others[0], given.get("zero_point", 0.0))
    return gelu(made) if given.get("sfpu_op") == "gelu" else made


def depthwise(op: Op, inputs: Sequence[Array]) -> Array:
    """Sum over taps b of X tile (r, c + b*C) @ W tile (b, c), and the bias."""
    x, w, *bias = inputs
    taps, columns = w.shape[1] // TILE, w.shape[2] // TILE
    z, rows = x.shape[:2]
    xs = x.reshape(z, rows, taps, columns, TILE).transpose(2, 0, 3, 1, 4)
    ws = w[:z].reshape(z, taps, TILE, columns, TILE).transpose(1, 0, 3, 2, 4)
    made = np.matmul(xs[0], ws[0])
    for tap in range(1, taps):
        made = made + np.matmul(xs[tap], ws[tap])
    made = made.transpose(0, 2, 1, 3).reshape(z, rows, columns * TILE)
    return made + tile_broadcast(bias[0], "r") if bias else made


def sparse(op: Op, weights: Array, activations: Array, encoding: Array) -> Array:
    """Sums of weight tiles times rows of activation tiles, as the encoding lists them for each core."""
    (rows, columns), slabs = op.grid_size, op.attributes.get("fracture_factor", 1)
    made = np.zeros((op.t, op.shape.rt, TILE, activations.shape[2]), activations.dtype)
    high, wide = op.core_tiles[0], activations.shape[2] // columns
    lines = activations.reshape(-1, TILE, activations.shape[2])
    for row in range(rows):
        for slab in range(slabs):
            tiles = _slab(weights, row, rows, slab, slabs)[0]
            words = np.ascontiguousarray(_slab(encoding, row, rows, slab, slabs)).reshape(-1).view(np.uint16)
            listed = np.array(list(_listed(op, words)), np.int64).reshape(-1, 4)
            out_z, out_row, tile, line = listed[np.lexsort((listed[:, 1], listed[:, 0]))].T
            if len(tile) and (tile.max() >= len(tiles) or line.max() >= len(lines) or out_row.max() >= high):
                raise ValueError("the encoding names a tile that there is not")
            share = slice(slab * columns // slabs * wide, (slab + 1) * columns // slabs * wide)
            _add_products(made[:, row * high : (row + 1) * high, :, share], out_z, out_row, tiles[tile], lines[:, :, share], line)
    return made.reshape(op.t, -1, activations.shape[2])


def _slab(data: Array, row: int, rows: int, column: int, columns: int) -> Array:
    """The tiles of a core's share, [tile rows, tile columns, 32, 32] of the first z."""
    tiles = tiles_of(data)[0]
    high, wide = tiles.shape[0] // rows, tiles.shape[1] // columns
    return tiles[row * high : (row + 1) * high, column * wide : (column + 1) * wide]


def _add_products(made: Array, out_z: Array, out_row: Array, tiles: Array, lines: Array, line: Array) -> None:
    """Add tiles[i] @ lines[line[i]] to made[out_z[i], out_row[i]]; sorted by what is added to."""
    step = max(1, AT_ONCE // (TILE * max(1, lines.shape[2])))
    for first in range(0, len(tiles), step):
        part = slice(first, first + step)
        target = out_z[part] * made.shape[1] + out_row[part]
        starts = np.flatnonzero(np.r_[True, target[1:] != target[:-1]])
        sums = np.add.reduceat(np.matmul(tiles[part], lines[line[part]]), starts, axis=0)
        made[out_z[part][starts], out_row[part][starts]] += sums


def _listed(op: Op, words: Array) -> Iterator[tuple[int, int, int, int]]:
    """(z, output tile row, weight tile, activation tile row over all z) for each product of a core's encoding."""
    pointer = op.attributes.get("sparse_tile_ptr_bits", 8)
    block_bits = op.attributes.get("sparse_ublock_idx_bits", pointer)
    place_bits, inner = 16 - pointer, op.attributes["u_kt"]
    depth_bits = max(1, (inner - 1).bit_length())
    at = z = 0
    while z < op.t:
        if at + 3 > len(words):
            raise ValueError("the encoding ends before the last z")
        low, high, blocks = (int(word) for word in words[at : at + 3])
        strip, end = (high << 16 | low) & ((1 << 30) - 1), at + 3
        for _ in range(blocks):
            if end >= len(words):
                raise ValueError("the encoding ends within a strip")
            head = int(words[end])
            block, count = head & ((1 << block_bits) - 1), head >> block_bits or 1 << (16 - block_bits)
            for word in words[end + 1 : end + 1 + count].tolist():
                place = word & ((1 << place_bits) - 1)
                line = strip * inner + (place & ((1 << depth_bits) - 1))
                yield z, block * op.ublock[0] + (place >> depth_bits), word >> place_bits, line
            end += 1 + count
        z += bool(high & LAST_OF_Z)
        at = (at // WORDS_OF_TILE + 1) * WORDS_OF_TILE if high & LAST_OF_TILE else end


def reduce(x: Array, attributes: Attributes) -> Array:
    """Maxima: over rows in row 0, over columns in column 0, over both in element (0, 0), or over groups of z."""
    if attributes["dim"] == "z":
        group = attributes.get("z", x.shape[0])
        return x.reshape(-1, group, *x.shape[1:]).max(axis=1)
    axes = tuple({"r": 1, "c": 2}[dim] for dim in attributes["dim"])
    most = x.max(axis=axes, keepdims=True)
    made = np.zeros((x.shape[0], *(TILE if axis in axes else x.shape[axis] for axis in (1, 2))), x.dtype)
    made[:, : most.shape[1], : most.shape[2]] = most
    return made
