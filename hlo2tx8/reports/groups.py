"""A program's groups, what the chip runs one after the other: time and bounds, bytes by array, what stays in SPM."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.program import Program, SlotKind
from hlo2tx8.device.timing import Report
from hlo2tx8.reports.graph import FusedGraph
from hlo2tx8.reports.shown import Shown
from hlo2tx8.runtime.named_slots import named_slots
from hlo2tx8.runtime.profile import Profile


@dataclass
class Moved:
    """Bytes a group reads and writes in DDR, by kind of array; `rereads` are those it reads of an array beyond its size, `unnamed`
    those of arrays that a register names of which nothing is known.
    """

    read: dict[str, int]
    written: dict[str, int]
    rereads: int = 0
    unnamed: int = 0


def group_of_records(profile: Profile, num_records: int) -> np.ndarray:
    """The group of every record; -1 of those in none."""
    found = np.full(max(num_records, 1), -1, np.int64)
    for number, row in enumerate(profile.fusions[1:]):
        for first, end in row.records:
            found[first:end] = number
    return found


def moved_by(program: Program, records: Sequence[Record], report: Report, group_of: np.ndarray, num: int) -> list[Moved]:
    """What each group moves."""
    found = [Moved({}, {}) for _ in range(num)]
    of_slot: list[dict[int, float]] = [{} for _ in range(num)]
    for number, slots in named_slots(records):
        record, size, group = records[number], report.records[number].bytes, int(group_of[number])
        if not size or group < 0:
            continue
        own, is_read = found[group], record.kind.ENGINE is Engine.RDMA
        into = own.read if is_read else own.written
        kinds = Counter(program.slots[slot].kind for slot in slots) or Counter([SlotKind.SCRATCH])
        for kind, times in kinds.items():
            into[kind.value] = into.get(kind.value, 0) + round(size * times / kinds.total())
        if not slots:
            own.unnamed += size
        for slot in slots if is_read else ():
            of_slot[group][slot] = of_slot[group].get(slot, 0) + size / len(slots)
    for own, slots in zip(found, of_slot, strict=True):
        own.rereads = round(sum(max(0, size - program.slots[slot].size_bytes) for slot, size in slots.items()))
    return found


def kernel_of_groups(profile: Profile, shown: Shown) -> list[int]:
    """The kernel of the graph that each group launches, by number; -1 of copies, and where that cannot be told."""
    at = 0
    found: list[int] = []
    fused = shown.fused
    for row in profile.fusions[1:]:
        place = next((n for n in range(at, len(fused)) if shown.launched[n] == row.name), -1)
        found.append(fused[place] if place >= 0 else -1)
        at = place + 1 if place >= 0 else at
    return found


def group_rows(
    program: Program,
    records: Sequence[Record],
    profile: Profile,
    shown: Shown,
    spans: Sequence[tuple[float, float]],
    group_of: np.ndarray,
) -> list[dict[str, object]]:
    """Plain values for each group in the order in which they run."""
    rows = profile.fusions[1:]
    moved = moved_by(program, records, profile.report, group_of, len(rows))
    kernels = kernel_of_groups(profile, shown)
    return [
        row.as_dict()
        | {"records": [list(pair) for pair in row.records], "start": round(start, 1), "end": round(end, 1), "kernel": kernel}
        | {"read": own.read, "written": own.written, "rereads": own.rereads, "unnamed": own.unnamed}
        | {"kept": _kept(shown.graph, kernel, own.written)}
        for row, own, (start, end), kernel in zip(rows, moved, spans, kernels, strict=True)
    ]


def _kept(graph: FusedGraph, kernel: int, written: Mapping[str, int]) -> int | None:
    """Bytes that go from one fusion of a group to another and are not written to DDR: all such bytes less what the group writes
    beyond its results. None if nobody knows its fusions.
    """
    if kernel < 0:
        return None
    spilled = max(0, sum(written.values()) - graph.results[kernel])
    return max(0, graph.inside[kernel] - spilled)
