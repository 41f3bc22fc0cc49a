"""What ran on the device while jax.profiler was listening, as the planes of an XSpace: one for each chip, with three lines.

    on the emulator     programs, as long as the emulator took
    on the chip         programs, as long as the chip would take, from the same beginning
    fusions             what a program's modelled time consists of

The numbers of fields are those of tsl's xplane.proto.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hlo2tx8.protobuf import message

PLANE = "/device:CUSTOM:tx8:{}"
"""The prefix is how profilers know a device of a kind that they do not know."""
LINES = ("on the emulator", "on the chip, modelled", "fusions, modelled")
MOST_RUNS = 100_000
"""Later ones are not kept."""


@dataclass(frozen=True)
class Run:
    """A program on some devices; the times are of the clock since 1970, in ns."""

    executable: Any
    devices: tuple[int, ...]
    begin_ns: int
    end_ns: int


@dataclass
class Timeline:
    """Runs while `is_on`."""

    is_on: bool = False
    runs: list[Run] = field(default_factory=list[Run])

    def start(self) -> None:
        """Forgets earlier runs."""
        self.runs.clear()
        self.is_on = True

    def stop(self) -> None:
        """What is there stays."""
        self.is_on = False

    def add(self, executable: Any, devices: Iterable[int], seconds: float) -> None:
        """Notes a run that has just ended."""
        if len(self.runs) < MOST_RUNS:
            now = time.time_ns()
            self.runs.append(Run(executable, tuple(devices), now - round(seconds * 1e9), now))

    def space(self) -> bytes:
        """An XSpace."""
        devices = sorted({device for run in self.runs for device in run.devices})
        return b"".join(message(1, _plane(device, [run for run in self.runs if device in run.devices])) for device in devices)


Event = tuple[str, int, int, Mapping[str, float]]
"""Name, beginning and duration in ps since the line's, figures."""


def _plane(device: int, runs: list[Run]) -> bytes:
    origin_ns = runs[0].begin_ns
    names: dict[str, int] = {}
    figures: dict[str, int] = {}
    lines = [list(events) for events in zip(*(_events(run, origin_ns) for run in runs), strict=True)]
    parts = [message(1, device), message(2, PLANE.format(device))]
    for number, (name, events) in enumerate(zip(LINES, lines, strict=True)):
        text = b"".join(_event(event, names, figures) for group in events for event in group)
        parts.append(message(3, message(1, number) + message(2, name) + message(3, origin_ns) + text))
    for number, table in ((4, names), (5, figures)):
        parts += [message(number, message(1, id) + message(2, message(1, id) + message(2, name))) for name, id in table.items()]
    return b"".join(parts)


def _events(run: Run, origin_ns: int) -> Iterator[list[Event]]:
    """The events of each line."""
    begin = (run.begin_ns - origin_ns) * 1000
    costs = run.executable.cost_analysis()
    figures = {key: float(costs[key]) for key in ("cycles", "flops", "bytes accessed", "link_cycles") if key in costs}
    yield [(run.executable.name, begin, (run.end_ns - run.begin_ns) * 1000, {})]
    seconds = float(costs.get("seconds", 0.0))
    yield [(run.executable.name, begin, round(seconds * 1e12), figures)]
    rows = run.executable.profile().fusions if hasattr(run.executable, "profile") else ()
    total = sum(row.cycles for row in rows)
    found: list[Event] = []
    for row in rows:
        duration = round(seconds * 1e12 * row.cycles / total) if total else 0
        found.append((row.name, begin, duration, {"cycles": row.cycles}))
        begin += duration
    yield found


def _event(event: Event, names: dict[str, int], figures: dict[str, int]) -> bytes:
    name, begin, duration, stats = event
    parts = [message(1, names.setdefault(name, len(names) + 1)), message(2, begin), message(3, duration)]
    for key, value in stats.items():
        parts.append(message(4, message(1, figures.setdefault(key, len(figures) + 1)) + message(2, value)))
    return message(4, b"".join(parts))
