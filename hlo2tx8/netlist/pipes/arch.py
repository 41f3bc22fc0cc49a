"""What the architectures have for streams: memory of a core, places on the network, channels of DRAM, bytes of a tile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hlo2tx8.netlist.formats import Format, tile_bytes

KIB = 1024
Place: TypeAlias = tuple[int, int]
"""A column and a row of the network."""
ETHERNET = 255
"""The row of cores of ops that run on the ethernet, which have no place on the grid."""


@dataclass(frozen=True)
class Arch:
    """Of one architecture: L1 has `l1_bytes`, of which buffers begin at `data_base`; the streams' description has `blob_bytes`.

    `columns` and `rows` are the network coordinates of the grid of cores, `dram` those of each channel; the network is a torus of
    `size` columns and rows. Tiles and buffers are multiples of `align` bytes.
    """

    name: str
    l1_bytes: int
    data_base: int
    columns: tuple[int, ...]
    rows: tuple[int, ...]
    dram: tuple[tuple[int, int], ...]
    size: tuple[int, int]
    align: int = 32
    blob_bytes: int = 64 * KIB - 128

    def tile_bytes(self, format: Format, tile_dim: tuple[int, int], *, header: bool = True) -> int:
        """Of one tile: a header, exponents that blocks share, elements; up to the next multiple of `align`."""
        return tile_bytes(format, tile_dim, self.align, has_header=header)

    def aligned(self, size: int) -> int:
        return -(-size // self.align) * self.align

    def ways(self, source: Place, target: Place) -> tuple[int, int]:
        """Hops on network 0, which goes right and down, and on network 1, left and up; both go around the edge."""
        forth = [(t - s) % n for s, t, n in zip(source, target, self.size, strict=True)]
        return sum(forth), sum(n - hops for n, hops in zip(self.size, forth, strict=True) if hops)

    def nearer(self, ways: Sequence[tuple[Place, Place]]) -> tuple[int, int]:
        """The network on which the farthest of some ways is the shorter one, and its hops."""
        both = [self.ways(source, target) for source, target in ways]
        forth, back = (max((way[noc] for way in both), default=0) for noc in (0, 1))
        return (0, forth) if forth <= back else (1, back)


_GRAYSKULL_ROWS = (*range(1, 6), *range(7, 12))
_WORMHOLE_COLUMNS = (*range(1, 5), *range(6, 10))
_WORMHOLE_DRAM = ((0, 0), (0, 5), (5, 0), (5, 2), (5, 3), (5, 5))
_DATA_BASE = 204 * KIB
ARCHES: Mapping[str, Arch] = {
    arch.name: arch
    for arch in (
        Arch(
            "grayskull",
            1024 * KIB,
            _DATA_BASE,
            tuple(range(1, 13)),
            _GRAYSKULL_ROWS,
            tuple((x, y) for x in (1, 4, 7, 10) for y in (0, 6)),
            (13, 12),
        ),
        Arch("wormhole", 1499136, _DATA_BASE, _WORMHOLE_COLUMNS, _GRAYSKULL_ROWS, _WORMHOLE_DRAM, (10, 12)),
        Arch("wormhole_b0", 1499136, _DATA_BASE, _WORMHOLE_COLUMNS, _GRAYSKULL_ROWS, _WORMHOLE_DRAM, (10, 12)),
        Arch("blackhole", 1499136, 220 * KIB, _WORMHOLE_COLUMNS, _GRAYSKULL_ROWS, _WORMHOLE_DRAM, (10, 12), align=64),
    )
}
"""From the address maps and device descriptions that are published."""
