"""Tiles, blocks and grids: what the fields grid_size, t, mblock, ublock and tile_dim of an op or queue make of a tensor."""

from dataclasses import dataclass

from hlo2tx8.netlist.fields import Place, choice, known, means, several, whole
from hlo2tx8.netlist.tree import Node

TILE = 32
TILE_DIMS = ((1, 32), (2, 32), (4, 32), (8, 32), (16, 32), (32, 16), (32, 32))
FULL_TILE = (TILE, TILE)
LARGEST = 1 << 16


@means({"enum": [list(dim) for dim in TILE_DIMS]})
def tile_dim(node: Node, place: Place) -> tuple[int, int]:
    """One of the tile sizes that there are."""
    rows, columns = several(whole(1, TILE), 2)(node, place)
    if (rows, columns) not in TILE_DIMS:
        place.refuse(f"there are no tiles of {rows}x{columns}", node.line)
    return rows, columns


@dataclass(frozen=True)
class Shape:
    """A tensor in tiles: z slices of rt times ct tiles."""

    z: int
    rt: int
    ct: int

    def __str__(self) -> str:
        return f"z {self.z}, {self.rt}x{self.ct} tiles"

    @property
    def elements(self) -> tuple[int, int, int]:
        """As whole tiles of 32x32."""
        return self.z, self.rt * TILE, self.ct * TILE

    @property
    def num_tiles(self) -> int:
        return self.z * self.rt * self.ct


@dataclass(frozen=True, kw_only=True)
class Blocked:
    """A tensor on a grid: each core or buffer has t times mblock ublocks of ublock tiles."""

    grid_size: tuple[int, int] = known(several(whole(1, LARGEST), 2))
    t: int = known(whole(1, LARGEST))
    mblock: tuple[int, int] = known(several(whole(1, LARGEST), 2))
    ublock: tuple[int, int] = known(several(whole(1, LARGEST), 2))
    ublock_order: str = known(choice("r", "c"), "r")
    tile_dim: tuple[int, int] = known(tile_dim, FULL_TILE)

    @property
    def core_tiles(self) -> tuple[int, int]:
        """Tile rows and columns of one core in one z."""
        return self.mblock[0] * self.ublock[0], self.mblock[1] * self.ublock[1]

    @property
    def shape(self) -> Shape:
        rows, columns = self.core_tiles
        return Shape(self.t, self.grid_size[0] * rows, self.grid_size[1] * columns)

    @property
    def host_shape(self) -> tuple[int, int, int]:
        """The plain tensor [t, rows, columns] that the host sees."""
        return self.t, self.shape.rt * self.tile_dim[0], self.shape.ct * self.tile_dim[1]
