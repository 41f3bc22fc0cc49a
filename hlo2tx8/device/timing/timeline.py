"""What happens when in a program, as the timing model follows it: the material of a trace.

Tiles that do the same at the same times are followed as one, so an event names several. The number of events is bounded: a part
of the program is followed turn by turn until its share of them is used up, then turns of steady loops are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.decisions import Decisions
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing.bundle import Issued
from hlo2tx8.device.timing.costs import Range
from hlo2tx8.device.timing.model import model
from hlo2tx8.device.timing.noc import LineRates
from hlo2tx8.device.timing.report import Report

MOST_EVENTS = 40_000
LEAST_EVENTS = 48
"""Instructions of one part of a program that are followed anyway."""
MOST_RATIO = 4
"""To the wanted events, of those that many parts may make together."""


@dataclass(frozen=True, slots=True)
class Slice:
    """An instruction on an engine, cycles from the launch on: issued, begun, ended. It waited for data of engine `cause` until
    `ready`; -1 if it did not wait. The kernel core's vector operations are slices too."""

    tiles: tuple[int, ...]
    record: int
    engine: int
    issue: float
    ready: float
    start: float
    end: float
    cause: int
    ranges: tuple[Range, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Pause:
    """The kernel core waits, for `what`; or `turns` turns of a loop are left out, each like those before."""

    tiles: tuple[int, ...]
    record: int
    what: str
    start: float
    end: float
    turns: int = 0


@dataclass
class Timeline:
    """A recorder of the timing model; `follow` gives one with everything in it.
    `ddr` are (cycle, bytes per cycle of the chip), `noc` the same by row and column of the mesh.

    Events beyond the limit are counted in `num_missing` and not kept.
    """

    limit: int = MOST_EVENTS
    slices: list[Slice] = field(default_factory=list[Slice])
    pauses: list[Pause] = field(default_factory=list[Pause])
    ddr: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    noc: list[tuple[float, LineRates]] = field(default_factory=list[tuple[float, LineRates]])
    num_missing: int = 0
    _base: float = 0.0
    _first: int = 0
    _left: int = 0

    def begin(self, first_record: int, cycle: float, parts: int) -> int:
        """A part of the program begins; the number of instructions to follow in it before turns may be left out."""
        self._first, self._base = first_record, cycle
        self._left = max(self.limit // parts, 8 * LEAST_EVENTS)
        return max(self.limit // parts // 16, LEAST_EVENTS)

    def end(self, ddr: Sequence[tuple[float, float]], noc: Sequence[tuple[float, LineRates]]) -> None:
        """It ends; what the DDR and the mesh moved meanwhile."""
        self.ddr += [(self._base + cycle, rate) for cycle, rate in ddr]
        self.noc += [(self._base + cycle, lines) for cycle, lines in noc]

    def instruction(self, tiles: Sequence[int], issued: Issued) -> None:
        """Notes an instruction that has ended."""
        assert issued.start is not None and issued.end is not None
        if not self._has_room():
            return
        base, shape = self._base, issued.shape
        times = (base + issued.issue, base + issued.ready, base + issued.start, base + issued.end)
        cause = issued.cause if issued.ready > issued.issue else -1
        where = (tuple(tiles), self._first + issued.step.record, int(issued.engine))
        self.slices.append(Slice(*where, *times, cause, shape.ranges, shape.work.bytes))

    def work(self, tiles: Sequence[int], record: int, engine: int, ranges: tuple[Range, ...], start: float, end: float) -> None:
        """Notes work of kernel cores."""
        if self._has_room():
            start, end = self._base + start, self._base + end
            self.slices.append(Slice(tuple(tiles), self._first + record, engine, start, start, start, end, -1, ranges, 0))

    def pause(self, tiles: Sequence[int], record: int, what: str, start: float, end: float, turns: int = 0) -> None:
        """Notes that kernel cores waited."""
        if turns or self._has_room():
            start, end = self._base + start, self._base + end
            self.pauses.append(Pause(tuple(tiles), self._first + record, what, start, end, turns))

    def _has_room(self) -> bool:
        self._left -= 1
        has_room = self._left >= 0 and len(self.slices) + len(self.pauses) < MOST_RATIO * self.limit
        self.num_missing += not has_room
        return has_room


def follow(program: Program, chip: Chip, limit: int = MOST_EVENTS, decisions: Decisions | None = None) -> tuple[Timeline, Report]:
    """What happens in a program that decodes, and what it costs; with the decisions of a run, in that run."""
    timeline = Timeline(limit)
    return timeline, model(program, chip, timeline, decisions=decisions)
