"""Where the modelled time of a program goes: by fusion, by HLO instruction, by engine.

Fusions follow each other, so their cycles and the launch add up to the program's. Within a fusion everything overlaps: its time is
divided among its HLO instructions in proportion to how long they needed the DDR and engines.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.isa.encoding import origins_of
from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.program import Launch, LibraryKernel, Program
from hlo2tx8.device.timing import Part, RecordCost, Report, report_of
from hlo2tx8.device.timing.bundle import (
    BUSY,
    ELAPSED,
    ENGINE_BUSY,
    ENGINE_INSTRUCTIONS,
    INSTRUCTIONS,
    PER_ENGINE,
    PER_RECORD,
    PER_TILE,
)
from hlo2tx8.device.timing.counters import engines_of
from hlo2tx8.runtime.origin import split_origin

TRANSFERS = ("RDMA", "WDMA")


@dataclass(frozen=True)
class Row:
    """The cost of a fusion or an HLO instruction: cycles and their share of the program's, what bounds it, DDR bytes, operations of
    the chip, busy cycles per engine (mean over tiles).

    `roofline` of a fusion is its roofline time divided by its time; of an HLO instruction, the share of the peak rate reached while
    its bounding resource was busy with it. `records` of a fusion are the ranges [first, end) of the program's that are its own,
    `origins` its cycles by the origin of its records.
    """

    name: str
    source: str
    cycles: float
    share: float
    bound: str
    next_bound: str
    bytes: int
    flops: int
    roofline: float
    busy_cycles: Mapping[str, float]
    records: tuple[tuple[int, int], ...] = ()
    origins: Mapping[str, float] = field(default_factory=dict[str, float])

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "source": self.source,
            "cycles": self.cycles,
            "share": self.share,
            "bound": self.bound,
            "next_bound": self.next_bound,
            "bytes accessed": self.bytes,
            "flops": self.flops,
            "roofline": self.roofline,
            "busy_cycles": dict(self.busy_cycles),
        }


@dataclass(frozen=True)
class Profile:
    """Rows of HLO instructions by decreasing cycles, and rows of fusions in the order in which they run; what the program does
    beyond its lower bound, by cause, in cycles; registered kernels.
    """

    program: str
    report: Report
    fusions: tuple[Row, ...]
    instructions: tuple[Row, ...]
    lost_cycles: Mapping[str, float] = field(default_factory=dict[str, float])
    library: tuple[LibraryKernel, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        rows = {"fusions": self.fusions, "instructions": self.instructions}
        whole = {"program": self.program, **self.report.as_dict(), "lost_cycles": dict(self.lost_cycles)}
        whole |= {"library": [asdict(kernel) for kernel in self.library]}
        return whole | {k: [r.as_dict() for r in v] for k, v in rows.items()}


def profile(program: Program, chip: Chip, name: str, report: Report) -> Profile:
    """The profile of a program with this report."""
    origins = origins_of(program.code, program.origins)
    fusions: list[Row] = []
    attributed: dict[str, _Sum] = {}
    start = report.overhead["launch"]
    fusions.append(Row("(launch)", "", start, start / report.cycles, "launch", "", 0, 0, 0.0, {}))
    for label, parts in grouped(program, report, origins):
        own, own_origins = _apart(program, chip, parts, origins)
        ranges = tuple((part.first, part.end) for part in parts)
        shares = _attribute(own, chip, own_origins, attributed)
        fusions.append(replace(_fusion(*label, own, report.cycles), records=ranges, origins=shares))
    ordered = sorted(attributed.items(), key=lambda item: (-item[1].cycles, item[0]))
    return Profile(
        name,
        report,
        tuple(fusions),
        tuple(_instruction(origin, s, report.cycles) for origin, s in ordered),
        library=program.library,
    )


def grouped(program: Program, report: Report, origins: Sequence[str]) -> list[tuple[tuple[str, str], list[Part]]]:
    """The program's launches with the parts of the report that belong to them: ((name, source), parts). Parts of no launch go with
    the launch before; one of several launches, between which nothing is waited for, is divided.
    """
    launches = program.launches or tuple(_guessed(report, origins))
    found: list[tuple[tuple[str, str], list[Part]]] = []
    firsts = [launch.first for launch in launches]
    engines = engines_of(program.code)
    for part in report.parts:
        here = launches[bisect_left(firsts, part.first) : bisect_left(firsts, part.end)]
        if not here and found:
            found[-1][1].append(part)
            continue
        labels = [(launch.name, split_origin(launch.origin).get("source", "")) for launch in here] or [("(control)", "")]
        shares = _divided(part, [launch.first for launch in here[1:]], engines, report.chip.tiles)
        found += [(label, [share]) for label, share in zip(labels, shares, strict=True)]
    return found


def _apart(program: Program, chip: Chip, parts: Sequence[Part], origins: Sequence[str]) -> tuple[Report, list[str]]:
    """The report of some parts as if the program had no other records, and the origins of those: a program may have many parts."""
    code = np.concatenate([program.code[part.first : part.end] for part in parts])
    moved: list[Part] = []
    for part in parts:
        first = moved[-1].end if moved else 0
        moved.append(Part(first, first + part.end - part.first, part.timed))
    return report_of(replace(program, code=code), chip, moved), [o for part in parts for o in origins[part.first : part.end]]


def _divided(part: Part, cuts: Sequence[int], engines: np.ndarray, tiles: int) -> list[Part]:
    """A part cut before some records. Each share takes of its time what kernel cores need from its first record on until they are
    past its last, which is when the next ones are issued; its engines are taken to work equally long on all tiles.
    """
    if not cuts:
        return [part]
    rows = part.timed.records[: (part.end - part.first) * PER_RECORD].reshape(-1, PER_RECORD)
    ends = [*cuts, part.end]
    elapsed = max(float(rows[:, ELAPSED].sum()), 1.0)
    found: list[Part] = []
    for first, end in zip([part.first, *cuts], ends, strict=True):
        own = rows[first - part.first : end - part.first]
        cycles = part.cycles * float(own[:, ELAPSED].sum()) / elapsed
        found.append(
            Part(
                first,
                end,
                part.timed._replace(
                    cycles=cycles, records=own.reshape(-1), counters=_mean_counters(own, engines[first:end], tiles)
                ),
            )
        )
    return found


def _mean_counters(rows: np.ndarray, engines: np.ndarray, tiles: int) -> np.ndarray:
    """Counters of each tile from sums of records over all tiles: instructions and busy cycles, each tile's as the mean."""
    found = np.zeros(PER_TILE)
    for column, counter in ((BUSY, ENGINE_BUSY), (INSTRUCTIONS, ENGINE_INSTRUCTIONS)):
        found[counter : PER_ENGINE * len(Engine) : PER_ENGINE] = np.bincount(engines, rows[:, column], len(Engine)) / tiles
    return np.tile(found, (tiles, 1))


def _guessed(report: Report, origins: Sequence[str]) -> Iterator[Launch]:
    """Where nobody said: parts that have an origin."""
    for part in report.parts:
        last = next((o for o in reversed(origins[part.first : part.end]) if o), "")
        if last:
            yield Launch(split_origin(last).get("hlo", last), last, part.first)


def _fusion(name: str, source: str, own: Report, total: float) -> Row:
    busy = {engine: counters.busy_cycles for engine, counters in own.engines.items() if counters.busy_cycles}
    reached = own.least_cycles / own.cycles if own.cycles else 0.0
    bounds = (own.bound, own.next_bound) if own.cycles else ("", "")
    return Row(name, source, own.cycles, own.cycles / total, *bounds, own.ddr_bytes, own.operations, reached, busy)


@dataclass
class _Sum:
    """Sums for one HLO instruction: `busy` cycles per engine, cycles per resource that it `needs`, and cycles at peak rate,
    `at_least`.
    """

    cycles: float = 0.0
    bytes: int = 0
    flops: int = 0
    busy: dict[str, float] = field(default_factory=dict[str, float])
    needs: dict[str, float] = field(default_factory=dict[str, float])
    least: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, record: RecordCost, chip: Chip) -> None:
        """Add the cost of one record, without the time that transfers wait for each other."""
        resource, needed, least = record.engine, record.busy_cycles, record.least_cycles
        if record.engine in TRANSFERS:
            shared = record.charged_bytes / chip.ddr_bytes_per_cycle
            alone = record.charged_bytes / (chip.tiles * chip.cycles.dma_bytes_per_cycle)
            startup = record.instructions * chip.cycles.dma_startup
            resource, needed, least = "DDR", max(shared, startup + alone), record.bytes / chip.ddr_bytes_per_cycle
        self.bytes, self.flops = self.bytes + record.bytes, self.flops + record.operations
        for into, name, cycles in ((self.busy, record.engine, record.busy_cycles), (self.needs, resource, needed)):
            into[name] = into.get(name, 0.0) + cycles
        self.least[resource] = self.least.get(resource, 0.0) + least


def _attribute(own: Report, chip: Chip, origins: Sequence[str], sums: dict[str, _Sum]) -> dict[str, float]:
    """Divides a fusion's time among the origins of its records, and adds each share to its origin's sum: the shares."""
    here: dict[str, _Sum] = {}
    for record, origin in zip(own.records, origins, strict=True):
        if record.busy_cycles:
            here.setdefault(origin, _Sum()).add(record, chip)
    needed = sum(sum(s.needs.values()) for s in here.values())
    shares = {origin: own.cycles * sum(s.needs.values()) / needed for origin, s in here.items()}
    for origin, s in here.items():
        total = sums.setdefault(origin, _Sum())
        total.cycles += shares[origin]
        total.bytes, total.flops = total.bytes + s.bytes, total.flops + s.flops
        for into, values in ((total.busy, s.busy), (total.needs, s.needs), (total.least, s.least)):
            for name, cycles in values.items():
                into[name] = into.get(name, 0.0) + cycles
    return shares


def _instruction(origin: str, s: _Sum, total: float) -> Row:
    needs = s.needs
    first, second, *_ = [*sorted(needs, key=lambda name: (-needs[name], name)), ""]
    parts = split_origin(origin)
    where = (parts.get("hlo", "(none)"), parts.get("source", ""))
    reached = s.least[first] / needs[first]
    return Row(*where, s.cycles, s.cycles / total, first, second, s.bytes, s.flops, reached, dict(s.busy))
