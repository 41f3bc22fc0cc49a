"""Streams of chips and tiles: what StreamConfigMap.txt lists, from the arrays, the programs' packets, and packets between chips."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.chip_links import Packet
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing.costs import Range
from hlo2tx8.device.timing.engines import Issued
from hlo2tx8.device.timing.model import model
from hlo2tx8.device.timing.noc import LineRates
from hlo2tx8.hlo.signature import Port

FOLLOWED = 4096
"""Instructions of a stretch of a program that are followed; turns of loops behind them are alike."""


@dataclass(frozen=True)
class TileStream:
    """What a tile takes in or gives out: `scope` DDR for inputs and outputs, SPM between tiles, Chip between chips; bytes of its
    largest packet; the other ends as chip, tile, number of the stream there."""

    is_in: bool
    scope: str
    size_bytes: int
    ends: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])


Tiles = list[list[TileStream]]
"""The streams of each tile."""


@dataclass
class TilePackets:
    """A recorder of the timing model that keeps which tile sends to which, and bytes of the largest packet."""

    found: dict[tuple[int, tuple[int, ...]], int] = field(default_factory=dict[tuple[int, tuple[int, ...]], int])

    def begin(self, first_record: int, cycle: float, parts: int) -> int:
        """How many instructions are followed."""
        return FOLLOWED

    def end(self, ddr: Sequence[tuple[float, float]], noc: Sequence[tuple[float, LineRates]]) -> None:
        """Nothing is kept of rates."""

    def instruction(self, tiles: Sequence[int], issued: Issued) -> None:
        """Keeps what DTE moves."""
        packet = issued.shape.work.packet
        for tile in tiles if packet is not None else ():
            assert packet is not None
            others = tuple(other for other in packet.others if other != tile)
            pairs = [(other, (tile,)) for other in others] if packet.is_pull else [(tile, others)] if others else []
            for key in pairs:
                self.found[key] = max(self.found.get(key, 0), packet.bytes)

    def work(self, tiles: Sequence[int], record: int, engine: int, ranges: tuple[Range, ...], start: float, end: float) -> None:
        """Nothing is kept of kernel cores."""

    def pause(self, tiles: Sequence[int], record: int, what: str, start: float, end: float, turns: int = 0) -> None:
        """Nothing is kept of waits."""


def tile_packets(programs: Iterable[Program], chip: Chip) -> list[Packet]:
    """What tiles send each other in the programs: one packet for each sender and those that it sends to."""
    recorder = TilePackets()
    for program in programs:
        model(program, chip, recorder)
    return [Packet(source, targets, size) for (source, targets), size in sorted(recorder.found.items())]


def streams_of(
    inputs: Sequence[Port], outputs: Sequence[Port], tiles: Sequence[Packet], chips: Sequence[Packet], num_chips: int, chip: Chip
) -> list[Tiles]:
    """The streams of every chip's tiles: arrays at tile 0, then those between tiles, then those between chips, also at tile 0."""
    found: list[Tiles] = [[[] for _ in range(chip.tiles)] for _ in range(num_chips)]
    for own in found:
        own[0] += [TileStream(True, "DDR", port.size_bytes) for port in inputs]
        own[0] += [TileStream(False, "DDR", port.size_bytes) for port in outputs]
    for number in range(num_chips):
        for packet in tiles:
            _join(found, (number, packet.source), [(number, tile) for tile in packet.targets], "SPM", packet.num_bytes)
    largest: dict[tuple[int, tuple[int, ...]], int] = {}
    for packet in chips:
        key = packet.source, tuple(target for target in packet.targets if target != packet.source)
        largest[key] = max(largest.get(key, 0), packet.num_bytes)
    for (source, targets), size in largest.items():
        _join(found, (source, 0), [(target, 0) for target in targets], "Chip", size)
    return found


def _join(found: list[Tiles], source: tuple[int, int], targets: Sequence[tuple[int, int]], scope: str, size: int) -> None:
    """A stream out at the source and one in at every target."""
    if not targets:
        return
    out = TileStream(False, scope, size)
    own = found[source[0]][source[1]]
    for chip, tile in targets:
        there = found[chip][tile]
        out.ends.append((chip, tile, len(there)))
        there.append(TileStream(True, scope, size, [(*source, len(own))]))
    own.append(out)
