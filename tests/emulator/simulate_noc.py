"""Packets on the links of the mesh, for the full simulation; the most crowded of its links decides how fast a packet is."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.timing.noc import Packet

NO_BYTES = 1e-6


@dataclass(eq=False)
class _Flow:
    links: frozenset[tuple[int, int]]
    rest: float
    arrived: Callable[[], None]


class Noc:
    """`after(cycles, happen)` lets something happen later; `now` is set by whoever keeps the time."""

    def __init__(self, chip: Chip, after: Callable[[float, Callable[[], None]], None]) -> None:
        self.chip, self.after = chip, after
        self.now = 0.0
        self.flows: list[_Flow] = []
        self.version = 0
        self.since = 0.0

    def farthest(self, tile: int, packet: Packet) -> int:
        """Hops to the tile that is farthest away."""
        places = [(self._place(a), self._place(b)) for a, b in self._pairs(tile, packet)]
        return max((abs(a[0] - b[0]) + abs(a[1] - b[1]) for a, b in places), default=0)

    def flow(self, tile: int, packet: Packet, arrived: Callable[[], None]) -> None:
        """The bytes of a packet begin to flow."""
        self._count()
        self.flows.append(_Flow(self._links(tile, packet), float(packet.bytes), arrived))
        self._await()

    def _links(self, tile: int, packet: Packet) -> frozenset[tuple[int, int]]:
        """Rows first, then columns; links that several ways share are used once."""
        found: set[tuple[int, int]] = set()
        for a, b in self._pairs(tile, packet):
            (row, column), (last_row, last_column) = self._place(a), self._place(b)
            corners = [(row, c) for c in _from_to(column, last_column)] + [(r, last_column) for r in _from_to(row, last_row)]
            found.update(pairwise(dict.fromkeys(r * self.chip.mesh[-1] + c for r, c in corners)))
        return frozenset(found)

    def _pairs(self, tile: int, packet: Packet) -> list[tuple[int, int]]:
        others = [other for other in packet.others if 0 <= other < self.chip.tiles]
        return [(other, tile) if packet.is_pull else (tile, other) for other in others]

    def _place(self, tile: int) -> tuple[int, int]:
        return divmod(tile, self.chip.mesh[-1])

    def _rate(self, flow: _Flow) -> float:
        most = max((sum(link in other.links for other in self.flows) for link in flow.links), default=1)
        return self.chip.cycles.dte_bytes_per_cycle / most

    def _count(self) -> None:
        """Up to now."""
        rates = [self._rate(flow) for flow in self.flows]
        for flow, rate in zip(self.flows, rates, strict=True):
            flow.rest -= rate * (self.now - self.since)
        self.since = self.now

    def _await(self) -> None:
        self.version += 1
        if self.flows:
            version, cycles = self.version, min(max(flow.rest, 0.0) / self._rate(flow) for flow in self.flows)
            self.after(cycles, lambda: self._arrive(version))

    def _arrive(self, version: int) -> None:
        if version != self.version:
            return
        self._count()
        done = [flow for flow in self.flows if flow.rest <= NO_BYTES]
        self.flows = [flow for flow in self.flows if flow.rest > NO_BYTES]
        self._await()
        for flow in done:
            flow.arrived()


def _from_to(a: int, b: int) -> range:
    return range(a, b + 1) if a <= b else range(a, b - 1, -1)
