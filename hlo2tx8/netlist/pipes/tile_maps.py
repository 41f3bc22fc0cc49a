"""Where tiles come from: numbers of tiles instead of tiles go through manipulations, and places of tiles in buffers."""

import numpy as np

from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.model import Op
from hlo2tx8.netlist.shapes import TILE, Blocked, Shape
from hlo2tx8.netlist.tensors import from_tiles, tiles_of
from hlo2tx8.netlist.tms import apply_tms


def numbers_after(op: Op, number: int, shape: Shape) -> tuple[Array, tuple[float, ...]]:
    """[z, rt, ct]: the tile of a source of that shape at each place of the op's input; -1 - n is padding with value n."""
    tiles: Array = np.arange(shape.num_tiles).reshape(shape.z, shape.rt, shape.ct)
    values: list[float] = []
    if cut := op.unpads.get(number):
        tiles = tiles[:, : shape.rt - cut.rt, : shape.ct - cut.ct]
    more = op.pads.get(number)
    for tm in op.tms.get(number, ()):
        if tm.name == "pad":
            rt, ct, value = tm.args
            tiles = _padded(tiles, rt, ct, value, values)
        else:
            tiles = apply_tms((tm,), tiles)
    return _padded(tiles, more.rt, more.ct, more.pad_value, values) if more else tiles, tuple(values)


def _padded(tiles: Array, rt: int, ct: int, value: float, values: list[float]) -> Array:
    if not rt and not ct:
        return tiles
    values.append(value)
    return np.pad(tiles, ((0, 0), (0, rt), (0, ct)), constant_values=-len(values))


def places(of: Blocked) -> Array:
    """[z, rt, ct]: the place of a tile in what the buffers of the grid hold of one tensor, all buffers one after the other."""
    (gr, gc), (mr, mc), (ur, uc) = of.grid_size, of.mblock, of.ublock
    if of.ublock_order == "r":
        order = np.arange(of.shape.num_tiles).reshape(gr, gc, of.t, mr, mc, ur, uc).transpose(2, 0, 3, 5, 1, 4, 6)
    else:
        order = np.arange(of.shape.num_tiles).reshape(gr, gc, of.t, mc, mr, ur, uc).transpose(2, 0, 4, 5, 1, 3, 6)
    return order.reshape(of.shape.z, of.shape.rt, of.shape.ct)


def to_buffers(of: Blocked, data: Array) -> Array:
    """[buffer, tile, 32, 32] of a tensor [z, rows, columns]."""
    found = np.empty((of.shape.num_tiles, TILE, TILE), data.dtype)
    found[places(of)] = tiles_of(data)
    return found.reshape(of.grid_size[0] * of.grid_size[1], -1, TILE, TILE)


def from_buffers(of: Blocked, tiles: Array) -> Array:
    """The tensor; the inverse of `to_buffers`."""
    return from_tiles(tiles.reshape(-1, TILE, TILE)[places(of)])
