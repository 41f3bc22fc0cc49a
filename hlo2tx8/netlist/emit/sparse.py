"""Products with a matrix that is mostly zeros, as the op that an encoding tells which tiles to multiply.

The matrix is cut into tiles; those that are not zero are stored once where they are equal. Each row of cores has its own rows of
tiles, and an encoding of them: for each row of tiles of the activations, the rows of the result and the stored tiles.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.products import LAST_OF_TILE, LAST_OF_Z, WORDS_OF_TILE
from hlo2tx8.netlist.shapes import TILE

LEAST_TILES, LARGE_TILES, MOST_SHARE = 64, 1 << 14, 0.25
"""Tiles of a matrix that is listed if that is wanted, of one that always is, and the share of its tiles that are not zero."""
MOST_STORED, MOST_LINES = 256, 1000
"""Tiles that are stored, and rows of the result for one row of the activations."""
MOST_STRIPS = 1 << 16


@dataclass(frozen=True)
class Listing:
    """The tiles of a matrix that are not zero: [n] rows and columns of tiles, and which of the stored `tiles` each is."""

    rows: Array
    columns: Array
    numbers: Array
    tiles: Array
    shape: tuple[int, int]

    @property
    def work(self) -> int:
        """Products for one tile of the result, rounded up."""
        return max(1, -(-len(self.rows) // self.shape[0]))

    def weights(self) -> Array:
        """[1, 32, stored tiles side by side]."""
        return np.ascontiguousarray(self.tiles.transpose(1, 0, 2)).reshape(1, TILE, -1)


def listing_of(matrix: Array, z: int, least: int) -> Listing | None:
    """Of a matrix [rows, columns] of at least so many tiles; None if it has fewer or few zeros, or the encoding were long."""
    high, wide = (size // TILE for size in matrix.shape)
    tiles = matrix.reshape(high, TILE, wide, TILE).transpose(0, 2, 1, 3)
    rows, columns = np.nonzero(tiles.any(axis=(2, 3)))
    if high * wide < least or len(rows) > MOST_SHARE * high * wide or z * wide > MOST_STRIPS or not len(rows):
        return None
    kept = np.ascontiguousarray(tiles[rows, columns])
    _, first, numbers = np.unique(kept.reshape(len(kept), -1), axis=0, return_index=True, return_inverse=True)
    if len(first) > MOST_STORED or int(np.bincount(columns).max()) > MOST_LINES:
        return None
    return Listing(rows, columns, numbers.reshape(-1), kept[first], (high, wide))


def attributes_for(listing: Listing, grid_rows: int, words: Array) -> Mapping[str, Any]:
    """Of the op whose rows are divided among so many cores."""
    high, stored = listing.shape[0] // grid_rows, len(listing.tiles)
    return {
        "identity": True,
        "m_k": listing.shape[1],
        "u_kt": 1,
        "num_sparse_tiles": stored,
        "num_index_tiles": words.shape[2] // TILE,
        "sparse_tile_ptr_bits": _bits(stored),
        "sparse_ublock_idx_bits": _bits(high),
    }


def _bits(count: int) -> int:
    return max(1, (count - 1).bit_length())


def encoding(listing: Listing, z: int, grid_rows: int) -> Array:
    """uint32 [1, 32 of each core, tiles side by side]; rows of the result are divided among the cores, in ublocks of one row."""
    parts = [np.array(list(_words(listing, z, grid_rows, core)), np.uint16) for core in range(grid_rows)]
    tiles = max(-(-len(part) // WORDS_OF_TILE) for part in parts)
    padded = [np.pad(part, (0, tiles * WORDS_OF_TILE - len(part))).view(np.uint32) for part in parts]
    return np.stack(padded).reshape(1, grid_rows * TILE, tiles * TILE)


def _words(listing: Listing, z: int, grid_rows: int, core: int) -> Iterator[int]:
    high, wide = listing.shape[0] // grid_rows, listing.shape[1]
    own = listing.rows // high == core
    order = np.lexsort((listing.rows[own], listing.columns[own]))
    rows, columns, numbers = (part[own][order] for part in (listing.rows - core * high, listing.columns, listing.numbers))
    place_bits, block_bits = 16 - _bits(len(listing.tiles)), _bits(high)
    ends = np.searchsorted(columns, np.arange(wide + 1))
    strips = [column for column in range(wide) if ends[column] < ends[column + 1]] or [0]
    sizes = [3 + 2 * int(ends[column + 1] - ends[column]) for column in strips] * z
    used = 0
    for at, size in enumerate(sizes):
        column, last = strips[at % len(strips)], (at + 1) % len(strips) == 0
        after = sizes[at + 1] if at + 1 < len(sizes) else 0
        is_full = used + size + after > WORDS_OF_TILE
        index = at // len(strips) * wide + column
        yield index & 0xFFFF
        yield index >> 16 | LAST_OF_Z * last | LAST_OF_TILE * is_full
        yield (size - 3) // 2
        for n in range(ends[column], ends[column + 1]):
            yield 1 << block_bits | int(rows[n])
            yield int(numbers[n]) << place_bits
        used += size
        if is_full:
            yield from (0 for _ in range(WORDS_OF_TILE - used))
            used = 0
