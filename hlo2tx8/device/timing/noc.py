"""The mesh between tiles: ways of packets, and links that transfers share."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.timing.fluid import Fluid, Link, Transfer


class Packet(NamedTuple):
    """`bytes` from a tile to others; if `is_pull`, from the other to it. A packet for several takes every link once."""

    others: tuple[int, ...]
    is_pull: bool
    bytes: int

    def ways(self, tile: int, chip: Chip) -> list[tuple[Link, ...]]:
        """The links on the way to each tile a packet goes to, or from each it comes from; tiles that are none have no way."""
        pairs = [(other, tile) if self.is_pull else (tile, other) for other in self.others if 0 <= other < chip.tiles]
        return [way(source, target, chip.mesh[-1]) for source, target in pairs]


LineRates: TypeAlias = "dict[tuple[str, int, str], float]"
"""Bytes per cycle over all links of one direction: ("row" or "column", its number, "east", "west", "south" or "north")."""


@dataclass
class SharedNoc(Fluid):
    """Transfers share each link evenly; the most crowded of a transfer's links gives its rate.

    `samples`, where somebody wants them, are (cycle, what the mesh's lines move from there on).
    """

    samples: list[tuple[float, LineRates]] | None = field(default=None, kw_only=True)

    def rates(self) -> Sequence[float]:
        """Bytes per cycle of each packet under way, by the busiest link on its way."""
        crowd = Counter(link for t in self.flowing for link in t.links)
        return [self.chip.cycles.dte_bytes_per_cycle / max((crowd[link] for link in t.links), default=1) for t in self.flowing]

    def step(self) -> list[Transfer]:
        """Goes on to the next event; returns the transfers that ended in it."""
        done = super().step()
        if self.samples is not None:
            lines: LineRates = {}
            for transfer, rate in zip(self.flowing, self.rates(), strict=True):
                for link in transfer.links:
                    key = line_of(link, self.chip.mesh[-1])
                    lines[key] = lines.get(key, 0.0) + rate
            self.samples.append((self.now, lines))
        return done

    def repeat(self, since: float) -> None:
        """Notes that until the next sample lines move on average what they moved since that cycle."""
        if not self.samples or self.now <= since:
            return
        moved: LineRates = {}
        end = self.now
        for cycle, lines in reversed(self.samples):
            cycles = max(end - max(cycle, since), 0.0)
            for key, rate in lines.items():
                moved[key] = moved.get(key, 0.0) + rate * cycles
            end = cycle
            if cycle <= since:
                break
        self.samples.append((self.now, {key: bytes / (self.now - since) for key, bytes in moved.items()}))


def line_of(link: Link, columns: int) -> tuple[str, int, str]:
    """The row or column of the mesh that a link is in, and where it leads."""
    source, target = link
    if source // columns == target // columns:
        return "row", source // columns, "east" if target > source else "west"
    return "column", source % columns, "south" if target > source else "north"


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
