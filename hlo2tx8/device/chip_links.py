"""Links between chips: the mesh that chips form, the way a packet takes in it, and how long packets take that are sent at once.

DTE sends a packet from the SPM of one chip to that of others. It goes along the row of chips first, then along the column, each the
shorter way where it is a ring, and is handed on by each chip on its way; one that is for several chips (multicast) passes each link
once. Data in DDR is read before and written behind it, in a stream. What is published is the rate of a chip's links and how long a
packet takes to a neighbour; that packets on one link share its rate, and that no other thing slows them, is chosen here.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isqrt

from hlo2tx8.device.chip import Chip, ChipError

Link = tuple[int, int]
"""From a chip to its neighbour."""


@dataclass(frozen=True)
class ChipMesh:
    """Chips in rows, in `rings` if there are links between the ends of each row, and of each column.

    They are numbered row by row, or block by block where `block` is the columns and rows of one, and row by row in it.
    """

    columns: int
    rows: int
    rings: tuple[bool, bool] = (False, False)
    block: tuple[int, int] = (0, 0)

    @staticmethod
    def of(chip: Chip, count: int) -> "ChipMesh":
        """The mesh of the chip's description, ChipError if it has no room; without one as near to a square as `count` fills."""
        if chip.chip_mesh:
            (rows, columns), block = chip.chip_rings or (0, 0), chip.chip_block or (0, 0)
            mesh = ChipMesh(chip.chip_mesh[0], chip.chip_mesh[1], (bool(rows), bool(columns)), (block[0], block[1]))
            if mesh.columns * mesh.rows < count:
                raise ChipError(f"{count} chips do not fit into chip_mesh, {mesh.columns} x {mesh.rows}")
            return mesh
        rows = next(rows for rows in range(isqrt(count), 0, -1) if count % rows == 0)
        rings = chip.chip_rings or (0, 0)
        return ChipMesh(count // rows, rows, (bool(rings[0]), bool(rings[1])))

    def place(self, number: int) -> tuple[int, int]:
        """The column and row of a chip."""
        width, height = self.block if self.block[0] else (self.columns, self.rows)
        number, within = divmod(number, width * height)
        return number % (self.columns // width) * width + within % width, number // (
            self.columns // width
        ) * height + within // width

    def number(self, x: int, y: int) -> int:
        """The chip in a column and row."""
        width, height = self.block if self.block[0] else (self.columns, self.rows)
        block = y // height * (self.columns // width) + x // width
        return block * width * height + y % height * width + x % width

    def steps(self, begin: int, end: int, dim: int) -> tuple[int, int]:
        """How many links there are along a row (0) or column (1), and in which direction: the shorter way in a ring."""
        size, away = (self.columns, self.rows)[dim], end - begin
        if self.rings[dim] and 2 * abs(away) > size:
            away -= size if away > 0 else -size
        return abs(away), 1 if away > 0 else -1

    def distance(self, source: int, target: int) -> int:
        """Links from one chip to another."""
        return sum(self.steps(a, b, dim)[0] for dim, (a, b) in enumerate(zip(self.place(source), self.place(target), strict=True)))

    def way(self, source: int, target: int) -> Iterator[Link]:
        """The links from one chip to another, in order."""
        at, end, sizes = [*self.place(source)], self.place(target), (self.columns, self.rows)
        chip = source
        for dim in (0, 1):
            count, direction = self.steps(at[dim], end[dim], dim)
            for _ in range(count):
                at[dim] = (at[dim] + direction) % sizes[dim]
                following = self.number(at[0], at[1])
                yield chip, following
                chip = following


@dataclass(frozen=True)
class Packet:
    """Bytes that a chip sends to others, perhaps also to itself."""

    source: int
    targets: tuple[int, ...]
    num_bytes: int


@dataclass(frozen=True)
class Exchange:
    """Packets that are sent at once: cycles until all have arrived, links of the longest way, and bytes on each link."""

    cycles: float
    hops: int
    loads: Mapping[Link, int]

    def sent_by(self, number: int) -> int:
        """Bytes that leave a chip, its own and those it hands on."""
        return sum(load for (source, _), load in self.loads.items() if source == number)


def start_cycles(hops: int, chip: Chip) -> float:
    """Cycles until the first byte has arrived over so many links, or in another place of the same chip."""
    return chip.cycles.dte_startup + hops * chip.cycles.link_startup if hops else chip.cycles.dma_startup


def exchange(packets: Sequence[Packet], mesh: ChipMesh, chip: Chip) -> Exchange:
    """The time of packets that are sent at once: that of the busiest link, or DDR, behind the start of the longest way."""
    loads: Counter[Link] = Counter()
    moved: Counter[int] = Counter()  # in bytes of the rate of DDR
    hops = 0
    for packet in packets:
        links = {link for target in packet.targets for link in mesh.way(packet.source, target)}
        loads.update(dict.fromkeys(links, packet.num_bytes))
        moved[packet.source] += round(packet.num_bytes * chip.ddr_read_charge)
        moved.update(dict.fromkeys(packet.targets, round(packet.num_bytes * chip.ddr_write_charge)))
        hops = max(hops, *(mesh.distance(packet.source, target) for target in packet.targets))
    if not packets:
        return Exchange(0.0, 0, {})
    on_links = max(loads.values(), default=0) / chip.neighbour_bytes_per_second * chip.clock_hz
    return Exchange(start_cycles(hops, chip) + max(on_links, max(moved.values()) / chip.ddr_bytes_per_cycle), hops, loads)
