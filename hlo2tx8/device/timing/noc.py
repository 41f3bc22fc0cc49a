"""The mesh between tiles: ways of packets, and links that transfers share."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.timing.fluid import Fluid, Link


class Packet(NamedTuple):
    """`bytes` from a tile to others; if `is_pull`, from the other to it. A packet for several takes every link once."""

    others: tuple[int, ...]
    is_pull: bool
    bytes: int

    def ways(self, tile: int, chip: Chip) -> list[tuple[Link, ...]]:
        """The links on the way to each tile a packet goes to, or from each it comes from; tiles that are none have no way."""
        pairs = [(other, tile) if self.is_pull else (tile, other) for other in self.others if 0 <= other < chip.tiles]
        return [way(source, target, chip.mesh[-1]) for source, target in pairs]


@dataclass
class SharedNoc(Fluid):
    """Transfers share each link evenly; the most crowded of a transfer's links gives its rate."""

    def rates(self) -> Sequence[float]:
        """Bytes per cycle of each packet under way, by the busiest link on its way."""
        crowd = Counter(link for t in self.flowing for link in t.links)
        return [self.chip.cycles.dte_bytes_per_cycle / max((crowd[link] for link in t.links), default=1) for t in self.flowing]


def way(source: int, target: int, columns: int) -> tuple[Link, ...]:
    """The links from a tile to another one: along its row first, then along the column."""
    links: list[Link] = []
    at = source
    while at != target:
        row, column = divmod(at, columns)
        if column != target % columns:
            step = 1 if column < target % columns else -1
        else:
            step = columns if row < target // columns else -columns
        links.append((at, at + step))
        at += step
    return tuple(links)
