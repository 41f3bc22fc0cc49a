"""A modelled run as a trace that Perfetto and chrome://tracing open (the Trace Event Format): JSON, one event per line.

Process 1 is the chip: its groups, beside them the least that each and the whole module take, and the DDR's bandwidth. Process 2
is the mesh between tiles, a counter per row and column with what its links move each way. Process 3 + t is tile t: a thread per
engine with a slice per instruction, the bytes of its scratchpad in use, and arrows from the instruction that wrote data to those on
other engines that read it. Slices have their HLO instruction and source line. Long programs are cut short, which `otherData` says:
steady turns of a loop are one slice, tiles in step are drawn once.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.decisions import Decisions
from hlo2tx8.device.isa.encoding import Record, decode_records
from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing import Report
from hlo2tx8.device.timing.scratchpad import ScratchpadUse, follow_scratchpad
from hlo2tx8.device.timing.timeline import MOST_EVENTS, Pause, Slice, Timeline, follow
from hlo2tx8.errors import writing
from hlo2tx8.link.listing import name_of
from hlo2tx8.runtime.lower_bound import LowerBound
from hlo2tx8.runtime.origin import split_origin
from hlo2tx8.runtime.profile import profile

Event: TypeAlias = "dict[str, Any]"
CHIP = 1
MESH = 2
FIRST_TILE = 3
GROUPS, BOUNDS, MODULE_BOUND = 1, 2, 3
"""Threads of the chip."""
ORDER = (Engine.KC, Engine.RDMA, Engine.TDMA, Engine.NE, Engine.CT, Engine.DTE, Engine.WDMA)
"""Of the threads of a tile: the way data takes."""
THREADS: dict[int, int] = {engine: 1 + place for place, engine in enumerate(ORDER)}


def trace(
    program: Program,
    chip: Chip,
    name: str,
    limit: int = MOST_EVENTS,
    decisions: Decisions | None = None,
    bound: LowerBound | None = None,
) -> dict[str, object]:
    """The modelled run as a dictionary in the Trace Event Format, with about `limit` slices at most; with the decisions of a run if
    they are given, and with the module's bound if it is known.
    """
    timeline, report = follow(program, chip, limit, decisions)
    drawing = _Drawing(program, chip, timeline, limit)
    events = [*drawing.names(), *drawing.groups(name, report, bound), *drawing.bandwidth(), *drawing.mesh(), *drawing.tiles()]
    return {"displayTimeUnit": "ns", "otherData": _facts(name, chip, report, timeline, drawing), "traceEvents": events}


def write_trace(content: Mapping[str, object], path: Path) -> None:
    """One event per line; InputError if the file cannot be written."""
    head = {key: value for key, value in content.items() if key != "traceEvents"}
    events = content["traceEvents"]
    assert isinstance(events, list)
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)  # pyright: ignore[reportUnknownVariableType]
    with writing(path):
        path.write_text(f'{json.dumps(head)[:-1]}, "traceEvents": [\n{lines}\n]}}\n')


def _facts(name: str, chip: Chip, report: Report, timeline: Timeline, drawing: "_Drawing") -> dict[str, object]:
    turns = sum(p.turns * len(p.tiles) for p in timeline.pauses)
    cuts = [
        f"{turns} turns of steady loops are not drawn, one slice stands for those that follow each other" if turns else "",
        "tiles that do the same at the same times are drawn once, as the first of them" if drawing.draws_once else "",
        f"{timeline.num_missing} events are not drawn" if timeline.num_missing else "",
        "loops of unknown length have one turn" if report.unknown else "",
    ]
    return {
        "program": name,
        "chip": chip.name,
        "cycles": report.cycles,
        "clock_hz": chip.clock_hz,
        "bound": report.bound,
        "next_bound": report.next_bound,
        "spm_bytes": chip.spm_bytes,
        "cut": "; ".join(cut for cut in cuts if cut),
    }


class _Drawing:
    """Events of a timeline; times are microseconds."""

    def __init__(self, program: Program, chip: Chip, timeline: Timeline, limit: int) -> None:
        self.chip, self.timeline = chip, timeline
        self.program = program
        self.records: Sequence[Record] = decode_records(program.code, program.origins)
        self.labels = [name_of(record) for record in self.records]
        self.places = [split_origin(record.origin) for record in self.records]
        self.us_per_cycle = 1e6 / chip.clock_hz
        self.draws_once = sum(len(s.tiles) for s in timeline.slices) > 2 * limit
        self.num_flows = 0

    def names(self) -> Iterator[Event]:
        """Events that name processes and threads."""
        yield from _process(CHIP, f"chip {self.chip.name}")
        yield from _thread(CHIP, GROUPS, "groups")
        yield from _thread(CHIP, BOUNDS, "bounds of groups")
        yield from _thread(CHIP, MODULE_BOUND, "bound of the module")
        if self.timeline.noc:
            yield from _process(MESH, "mesh")
        columns = self.chip.mesh[-1]
        for tile in range(self.chip.tiles):
            if self.drawn(tile):
                yield from _process(FIRST_TILE + tile, f"tile {tile} ({tile // columns}, {tile % columns})")
                for engine in ORDER:
                    yield from _thread(FIRST_TILE + tile, THREADS[engine], "kernel core" if engine is Engine.KC else engine.name)

    def drawn(self, tile: int) -> tuple[list[Slice], list[Pause]] | None:
        """The part of a tile's timeline that is drawn; None if the tile is drawn with another that does the same."""

        def is_here(tiles: Sequence[int]) -> bool:
            return tiles[0] == tile if self.draws_once else tile in tiles

        slices = [s for s in self.timeline.slices if is_here(s.tiles)]
        pauses = [p for p in self.timeline.pauses if is_here(p.tiles)]
        return (slices, pauses) if slices or pauses else None

    def groups(self, name: str, report: Report, bound: LowerBound | None) -> Iterator[Event]:
        """A slice per group of the program, and one below it as long as its bound; one that is as long as the module's."""
        now = 0.0
        for row in profile(self.program, self.chip, name, report).fusions:
            args: Event = {"source": row.source, "cycles": round(row.cycles, 3), "records": row.records}
            least = min(row.roofline, 1.0) * row.cycles
            if row.bound and least:
                args |= {"bound": row.bound, "bound_cycles": round(least, 3), "bound/time": round(row.roofline, 4)}
                yield self._slice(f"{row.bound} {row.roofline:.0%} of {row.name}", CHIP, BOUNDS, now, now + least, args)
            yield self._slice(row.name, CHIP, GROUPS, now, now + row.cycles, args)
            now += row.cycles
        if bound is not None:
            args = {"cycles": round(bound.cycles, 3), "bound/time": round(bound.cycles / report.cycles, 4), **bound.resources}
            yield self._slice(f"launch and {bound.resource}", CHIP, MODULE_BOUND, 0.0, bound.cycles, args)

    def bandwidth(self) -> Iterator[Event]:
        """Counter events of the DDR's throughput in GB/s."""
        for cycle, rate in self.timeline.ddr:
            yield self._counter("DDR", CHIP, cycle, {"GB/s": round(rate * self.chip.clock_hz / 1e9, 3)})

    def mesh(self) -> Iterator[Event]:
        """Counter events of what the links of each row and column move, in GB/s by direction, where it changes."""
        ways = {"row": ("east", "west"), "column": ("south", "north")}
        used = sorted(
            {(what, number) for _, lines in self.timeline.noc for what, number, _ in lines}, key=lambda u: (u[0] != "row", u[1])
        )
        for what, number in used:
            last: Event = {}
            for cycle, lines in self.timeline.noc:
                values = {way: round(lines.get((what, number, way), 0.0) * self.chip.clock_hz / 1e9, 3) for way in ways[what]}
                if values != last:
                    yield self._counter(f"{what} {number}", MESH, cycle, values)
                last = values

    def tiles(self) -> Iterator[Event]:
        """Events of the tiles: a slice per instruction, arrows from writers to readers, bytes of SPM in use."""
        scratchpads: dict[tuple[int, ...], ScratchpadUse] = {}
        for tile in range(self.chip.tiles):
            drawn = self.drawn(tile)
            if drawn is None:
                continue
            slices, pauses = sorted(drawn[0], key=lambda s: s.issue), drawn[1]
            process = FIRST_TILE + tile
            yield from (self._instruction(s, process) for s in slices)
            yield from (self._pause(p, process) for p in pauses)
            key = tuple(map(id, slices))
            if key not in scratchpads:
                scratchpads[key] = follow_scratchpad(slices)
            scratchpad = scratchpads[key]
            steady = [p for p in pauses if p.turns]
            for writer, reader in scratchpad.flows:
                if not any(slices[writer].start < p.end <= slices[reader].start for p in steady):
                    yield from self._arrow(slices[writer], slices[reader], process)
            if not (self.draws_once and tile):
                for cycle, num_bytes in scratchpad.occupied:
                    yield self._counter("SPM", process, cycle, {"KiB": round(num_bytes / 1024, 3)})

    def _instruction(self, s: Slice, process: int) -> Event:
        args: Event = {"record": s.record, **self.places[s.record], "cycles": round(s.end - s.start, 3)}
        if s.bytes:
            args["bytes"] = s.bytes
        if s.start > s.issue:
            args["queued_cycles"] = round(s.start - s.issue, 3)
        if s.cause >= 0:
            args["waited_for"] = Engine(s.cause).name
        return self._slice(self.labels[s.record], process, THREADS[s.engine], s.start, s.end, args)

    def _pause(self, p: Pause, process: int) -> Event:
        name = f"{p.turns} turns like those before" if p.turns else p.what
        return self._slice(name, process, THREADS[Engine.KC], p.start, p.end, {"record": p.record})

    def _arrow(self, writer: Slice, reader: Slice, process: int) -> Iterator[Event]:
        self.num_flows += 1
        inside = max((writer.start + writer.end) / 2, writer.end - 1)
        for phase, engine, cycle in (("s", writer.engine, inside), ("f", reader.engine, reader.start)):
            event = {"name": "data", "cat": "data", "ph": phase, "id": self.num_flows, "pid": process}
            yield event | {"tid": THREADS[engine], "ts": self._us(cycle)} | ({"bp": "e"} if phase == "f" else {})

    def _slice(self, name: str, process: int, thread: int, start: float, end: float, args: Event) -> Event:
        at = self._us(start)
        event = {"name": name, "cat": "modelled", "ph": "X", "pid": process, "tid": thread, "ts": at}
        return event | {"dur": round(self._us(end) - at, 6), "args": args}

    def _counter(self, name: str, process: int, cycle: float, values: Event) -> Event:
        return {"name": name, "ph": "C", "pid": process, "ts": self._us(cycle), "args": values}

    def _us(self, cycle: float) -> float:
        return round(cycle * self.us_per_cycle, 6)


def _process(number: int, name: str) -> Iterable[Event]:
    yield {"name": "process_name", "ph": "M", "pid": number, "args": {"name": name}}
    yield {"name": "process_sort_index", "ph": "M", "pid": number, "args": {"sort_index": number}}


def _thread(process: int, number: int, name: str) -> Iterable[Event]:
    yield {"name": "thread_name", "ph": "M", "pid": process, "tid": number, "args": {"name": name}}
    yield {"name": "thread_sort_index", "ph": "M", "pid": process, "tid": number, "args": {"sort_index": number}}
