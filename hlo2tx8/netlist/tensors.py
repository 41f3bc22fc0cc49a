"""Tensors while a netlist runs: [z, rows, columns] of whole 32x32 tiles, with the format that the data carries.

Smaller tiles lie in the top left corner of whole ones, with zeros around. The host sees plain tensors [t, rows, columns]; an IO in
flat layout keeps their order of elements, and its tile k is elements 1024k to 1024k+1023.
"""

from dataclasses import dataclass

import numpy as np

from hlo2tx8.netlist.formats import Array, Format, xp
from hlo2tx8.netlist.model import Queue
from hlo2tx8.netlist.shapes import FULL_TILE, TILE


@dataclass(frozen=True)
class Tensor:
    """Values, float32 or, of raw formats, uint32; and their format, which arithmetic does not round to."""

    data: Array
    format: Format


def tiles_of(data: Array) -> Array:
    """A view [z, rt, ct, 32, 32]."""
    z, rows, columns = data.shape
    return data.reshape(z, rows // TILE, TILE, columns // TILE, TILE).swapaxes(2, 3)


def from_tiles(tiles: Array) -> Array:
    """[z, rows, columns] from [z, rt, ct, 32, 32]."""
    z, rt, ct = tiles.shape[:3]
    return tiles.swapaxes(2, 3).reshape(z, rt * TILE, ct * TILE)


def from_host(plain: Array, queue: Queue) -> Array:
    """What lies in an IO after a host's tensor [t, rows, columns] was pushed."""
    shape, (height, width) = queue.shape, queue.tile_dim
    if queue.is_flat and queue.tile_dim == FULL_TILE:
        return from_tiles(plain.reshape(shape.z, shape.rt, shape.ct, TILE, TILE))
    if queue.tile_dim == FULL_TILE:
        return plain
    whole = np.zeros((shape.z, shape.rt, TILE, shape.ct, TILE), plain.dtype)
    whole[:, :, :height, :, :width] = plain.reshape(shape.z, shape.rt, height, shape.ct, width)
    return whole.reshape(shape.elements)


def to_plain(data: Array, queue: Queue) -> Array:
    """The host's tensor [t, rows, columns] of what lies in an IO; the inverse of `from_host`."""
    shape, (height, width) = queue.shape, queue.tile_dim
    if queue.is_flat and queue.tile_dim == FULL_TILE:
        return np.ascontiguousarray(tiles_of(data)).reshape(shape.elements)
    whole = data.reshape(shape.z, shape.rt, TILE, shape.ct, TILE)
    return np.ascontiguousarray(whole[:, :, :height, :, :width]).reshape(queue.host_shape)


def corner(data: Array, height: int, width: int) -> Array:
    """With zeros outside of the top left corner of every tile."""
    if (height, width) == FULL_TILE:
        return data
    z, rows, columns = data.shape
    tiles = data.reshape(z, rows // TILE, TILE, columns // TILE, TILE)[:, :, :height, :, :width]
    return xp(data).pad(tiles, ((0, 0), (0, 0), (0, TILE - height), (0, 0), (0, TILE - width))).reshape(data.shape)


def vectors(made: Array, mode: str, rest: Array | None = None) -> Array:
    """The first 4 rows of every tile (r), its first 16 columns (c) or all of it; elsewhere `rest`, else 0."""
    if mode == "rc":
        return made
    if rest is None:
        return corner(made, 4, TILE) if mode == "r" else corner(made, TILE, 16)
    axis, first = (2, 4) if mode == "r" else (4, 16)
    z, rows, columns = made.shape
    own, other = (data.reshape(z, rows // TILE, TILE, columns // TILE, TILE).swapaxes(axis, -1) for data in (made, rest))
    joined = xp(made).concatenate([own[..., :first], other[..., first:]], axis=-1)
    return joined.swapaxes(axis, -1).reshape(made.shape)
