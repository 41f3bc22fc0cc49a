"""matmul in its forms, depthwise and sparse, and reduce."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np

from hlo2tx8.netlist.elementwise import BINARY, Attributes, gelu
from hlo2tx8.netlist.formats import Array, is_known, xp
from hlo2tx8.netlist.model import Op
from hlo2tx8.netlist.shapes import TILE
from hlo2tx8.netlist.tensors import tiles_of
from hlo2tx8.netlist.tms import tile_broadcast

WORDS_OF_TILE = 2048
LAST_OF_Z, LAST_OF_TILE = 1 << 14, 1 << 15


def product(x: Array, y: Array) -> Array:
    """x[z] @ y[z], by numpy summed in float64 and rounded once, so that it is the same for parts of a product, on each processor.

    Chips multiply what arrays hold, which may be narrower; labels of integers may be of floats.
    """
    y = y[: x.shape[0]]
    if is_known(x):
        return np.matmul(x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)).astype(x.dtype, copy=False)
    from jax import lax

    sums = np.int32 if {x.dtype.kind, y.dtype.kind} <= {"i", "u"} else np.float32
    element = xp(x).promote_types(x.dtype, y.dtype)
    x, y, dims = x.astype(element), y.astype(element), (((2,), (1,)), ((0,), (0,)))
    made: Any = cast("Any", lax).dot_general(x, y, dims, preferred_element_type=sums)
    return made.astype(np.float32)


def matmul(op: Op, inputs: Sequence[Array], lists: Sequence[Array] | None, is_integer: bool) -> Array:
    """The op's product with what its attributes add to it; a sparse one is of `lists`, see `listed`."""
    given, others = op.attributes, list(inputs[2:])
    if lists is not None:
        made = sparse(op, inputs[0], inputs[1], lists)
        others.pop(0)
    else:
        made = product(inputs[0], inputs[1])
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
    xs = x.reshape(z, rows, taps, columns, TILE).transpose(0, 3, 1, 2, 4).reshape(z * columns, rows, taps * TILE)
    ws = w[:z].reshape(z, taps, TILE, columns, TILE).transpose(0, 3, 1, 2, 4).reshape(z * columns, taps * TILE, TILE)
    made = product(xs, ws)
    made = made.reshape(z, columns, rows, TILE).transpose(0, 2, 1, 3).reshape(z, rows, columns * TILE)
    return made + tile_broadcast(bias[0], "r") if bias else made


def listed(op: Op, weights: Array, encoding: Array) -> list[Array]:
    """For each slab of columns an array [3, n] of the encoding's n products: tile row over all z of what the op makes, weight tile,
    and tile row over all z of the activations; in the order of the first. ValueError for a tile that there is not.
    """
    rows, slabs, high = op.grid_size[0], op.attributes.get("fracture_factor", 1), op.core_tiles[0]
    rt, ct = weights.shape[1] // TILE, weights.shape[2] // TILE
    numbers: Array = np.arange(rt * ct, dtype=np.int64).reshape((rt, ct))
    found: list[Array] = []
    for slab in range(slabs):
        of_rows: list[Array] = []
        for row in range(rows):
            tiles = _slab(numbers, row, rows, slab, slabs).reshape(-1)
            words = np.ascontiguousarray(_slab(tiles_of(encoding)[0], row, rows, slab, slabs)).reshape(-1).view(np.uint16)
            z, out_row, tile, line = np.array(list(_products(op, words)), np.int64).reshape(-1, 4).T
            if len(tile) and (tile.max() >= len(tiles) or out_row.max() >= high):
                raise ValueError("the encoding names a tile that there is not")
            of_rows.append(np.stack([z * op.shape.rt + row * high + out_row, tiles[tile], line]))
        joined = np.concatenate(of_rows, axis=1)
        found.append(joined[:, np.argsort(joined[0], kind="stable")].astype(np.int32))
    return found


def sparse(op: Op, weights: Array, activations: Array, lists: Sequence[Array]) -> Array:
    """Sums of weight tiles times rows of activation tiles, as `listed` for each slab."""
    width = activations.shape[2]
    tiles = tiles_of(weights)[0].reshape(-1, TILE, TILE)
    lines = activations.reshape(-1, TILE, width)
    made: list[Array] = []
    for slab, (row, tile, line) in enumerate(lists):
        share = lines[:, :, slab * width // len(lists) : (slab + 1) * width // len(lists)]
        if not is_known(lines):
            n = xp(lines)
            each = product(n.take(tiles, tile, axis=0, mode="clip"), n.take(share, line, axis=0, mode="clip"))
            made.append(n.zeros((op.t * op.shape.rt, *each.shape[1:]), np.float32).at[row].add(each, mode="drop"))
            continue
        if line.size and line.max() >= len(lines):
            raise ValueError("the encoding names a tile that there is not")
        made.append(np.zeros((op.t * op.shape.rt, *share.shape[1:]), share.dtype))
        _add_products(made[-1], (row, tile, line), tiles, share)
    return xp(lines).concatenate(made, axis=2).reshape(op.t, -1, width)


def _slab(tiles: Array, row: int, rows: int, column: int, columns: int) -> Array:
    """A core's share of an array [tile rows, tile columns, ..]."""
    high, wide = tiles.shape[0] // rows, tiles.shape[1] // columns
    return tiles[row * high : (row + 1) * high, column * wide : (column + 1) * wide]


def _add_products(made: Array, products: tuple[Array, Array, Array], tiles: Array, lines: Array) -> None:
    """Add tiles[tile] @ lines[line] to made[row] for each product (row, tile, line); sorted by row, whose tiles side by side are
    one factor."""
    row, tile, line = products
    starts = np.flatnonzero(np.diff(row, prepend=-1)).tolist()
    for first, end in pairwise([*starts, len(row)]):
        made[row[first]] += np.tensordot(tiles[tile[first:end]], lines[line[first:end]], axes=((0, 2), (0, 1)))


def _products(op: Op, words: Array) -> Iterator[tuple[int, int, int, int]]:
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
    return xp(x).pad(most, [(0, TILE - 1 if axis in axes else 0) for axis in range(3)])
