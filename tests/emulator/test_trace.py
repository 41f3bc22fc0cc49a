"""Traces: the format, events that are those the report counts, and long programs that are cut short and say so."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.timing.bundle import Issued
from hlo2tx8.device.timing.costs import Range
from hlo2tx8.device.timing.model import model
from hlo2tx8.device.timing.scratchpad import follow_scratchpad
from hlo2tx8.device.timing.timeline import Slice, Timeline
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.origin import split_origin
from hlo2tx8.runtime.trace import trace

SAMPLES = Path(__file__).parents[2] / "hlo_samples"
GEMM = """HloModule gemm

ENTRY main {
  x = bf16[2048,1024] parameter(0)
  w = bf16[1024,2048] parameter(1)
  ROOT y = bf16[2048,2048] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
KEYS = {
    "X": {"name", "cat", "ph", "pid", "tid", "ts", "dur", "args"},
    "C": {"name", "ph", "pid", "ts", "args"},
    "s": {"name", "cat", "ph", "id", "pid", "tid", "ts"},
    "f": {"name", "cat", "ph", "id", "pid", "tid", "ts", "bp"},
}
NAMES = {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}
Event = dict[str, Any]


@pytest.fixture(scope="module")
def executable() -> Executable:
    """Two launches; the last tiles of one have less to do."""

    def f(x: Any, y: Any) -> Any:
        return (jnp.tanh(x) * y).sum(axis=0)

    compiled: Any = hlo2tx8.compile(f, args=(np.ones((61, 512), np.float32),) * 2)
    return compiled


@pytest.fixture(scope="module")
def events(executable: Executable, tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    path = tmp_path_factory.mktemp("trace") / "out.json"
    content: Any = executable.trace(path)
    assert json.loads(path.read_text()) == json.loads(json.dumps(content))
    assert content["otherData"]["cut"] == ""
    return content["traceEvents"]


def slices_of(events: list[Event]) -> dict[tuple[int, int], list[Event]]:
    threads: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append(event)
    return threads


@dataclass
class Packets(Timeline):
    """Counts the bytes that packets take over links."""

    link_bytes: int = 0

    def instruction(self, tiles: Sequence[int], issued: Issued) -> None:
        packet = issued.shape.work.packet
        if packet is not None:
            self.link_bytes += packet.bytes * len({link for way in packet.ways(tiles[0], load_chip()) for link in way})


def names_of(events: list[Event], what: str) -> dict[tuple[int, int], str]:
    return {(e["pid"], e.get("tid", 0)): e["args"]["name"] for e in events if e["name"] == what}


def check_format(events: list[Event]) -> None:
    processes, threads = names_of(events, "process_name"), names_of(events, "thread_name")
    for event in events:
        if event["ph"] == "M":
            assert event["name"] in NAMES
            continue
        assert set(event) == KEYS[event["ph"]]
        assert event["ts"] >= 0
        assert (event["pid"], 0) in processes
        assert "tid" not in event or (event["pid"], event["tid"]) in threads
    for slices in slices_of(events).values():
        slices.sort(key=lambda e: e["ts"])
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-5 for a, b in pairwise(slices))
    starts, ends = ({e["id"]: e for e in events if e["ph"] == phase} for phase in "sf")
    threads_of = slices_of(events)
    assert starts.keys() == ends.keys()
    for number, start in starts.items():
        assert start["ts"] <= ends[number]["ts"] + 1e-5
        assert start["tid"] != ends[number]["tid"]
        for e in (start, ends[number]):
            assert any(s["ts"] - 1e-5 <= e["ts"] <= s["ts"] + s["dur"] + 1e-5 for s in threads_of[e["pid"], e["tid"]])


def test_format(events: list[Event]) -> None:
    check_format(events)


def test_slices_are_what_the_report_counts(events: list[Event], executable: Executable) -> None:
    report, us = executable.report, 1e6 / executable.chip.clock_hz
    threads, processes = names_of(events, "thread_name"), names_of(events, "process_name")
    slices = slices_of(events)
    for (process, thread), name in threads.items():
        tile = processes[process, 0].split()[1]
        if process == 1 or name == "kernel core":
            continue
        counters = report.tiles[int(tile)][name]
        found = slices[process, thread]
        assert len(found) == counters.instructions
        assert sum(e["dur"] for e in found) == pytest.approx(counters.busy_cycles * us, abs=1e-4)
    assert max(e["ts"] + e["dur"] for found in slices.values() for e in found) == pytest.approx(report.seconds * 1e6, abs=1e-4)


def test_every_instruction_says_where_it_is_from(events: list[Event]) -> None:
    threads = names_of(events, "thread_name")
    instructions = [e for e in events if e["ph"] == "X" and threads[e["pid"], e["tid"]] in ("CT", "RDMA", "WDMA", "TDMA")]
    assert instructions
    for event in instructions:
        assert event["args"]["source"].startswith(f"{__file__}:"), event
        assert event["args"]["hlo"], event


def test_data_goes_from_loads_to_compute_to_stores(events: list[Event]) -> None:
    threads = names_of(events, "thread_name")
    pairs: dict[int, list[str]] = defaultdict(list)
    for e in events:
        if e["ph"] in "sf":
            pairs[e["id"]].append(threads[e["pid"], e["tid"]])
    assert {("RDMA", "CT"), ("CT", "WDMA")} <= {tuple(p) for p in pairs.values()}


def test_counters_stay_within_the_chip(events: list[Event], executable: Executable) -> None:
    rates = [e["args"]["GB/s"] for e in events if e["ph"] == "C" and e["name"] == "DDR"]
    assert 0 < max(rates) <= 200.001
    assert rates[-1] == 0
    sizes = [e["args"]["KiB"] for e in events if e["ph"] == "C" and e["name"] == "SPM"]
    assert min(sizes) == 0
    assert 0 < max(sizes) <= executable.chip.spm_bytes / 1024


def test_groups_stand_beside_their_bounds(events: list[Event], executable: Executable) -> None:
    threads, slices = names_of(events, "thread_name"), slices_of(events)
    groups, bounds, module = (slices[key] for key, name in threads.items() if key[0] == 1 and key[1] in (1, 2, 3) and name)
    rows = executable.profile().fusions
    assert [e["name"] for e in groups] == [row.name for row in rows]
    assert [e["args"]["cycles"] for e in groups] == pytest.approx([row.cycles for row in rows], abs=1e-3)
    of_groups = {e["ts"]: e for e in groups}
    assert len(bounds) == len(rows) - 1
    for e in bounds:
        own = of_groups[e["ts"]]
        assert e["dur"] == pytest.approx(own["dur"] * e["args"]["bound/time"], rel=1e-3)
    bound = executable.lower_bound
    assert bound is not None
    assert module[0]["args"]["cycles"] == pytest.approx(bound.cycles, abs=1e-3)


def test_mesh_moves_every_byte_over_every_link() -> None:
    """What lines move in all are the bytes of packets times the links on their ways, also where turns are left out."""
    program: Any = hlo2tx8.compile(GEMM)
    found: list[float] = []
    for limit in (1_000_000, 200):
        content: Any = trace(program.program, program.chip, program.name, limit=limit)
        counters: dict[str, list[Event]] = defaultdict(list)
        for e in content["traceEvents"]:
            if e["ph"] == "C" and e["pid"] == 2:
                counters[e["name"]].append(e)
        assert {name.split()[0] for name in counters} <= {"row", "column"}
        found.append(
            sum(
                sum(a["args"].values()) * (b["ts"] - a["ts"]) * 1e3  # GB/s times us
                for line in counters.values()
                for a, b in pairwise(line)
            )
        )
    packets = Packets(1_000_000)
    model(program.program, program.chip, packets)
    assert packets.link_bytes > 0
    assert found == pytest.approx([packets.link_bytes] * 2, rel=1e-3)


def test_long_programs_are_cut_short() -> None:
    gelu: Any = hlo2tx8.compile(str(SAMPLES / "elementwise" / "gelu_f32.hlo"))
    whole = gelu.trace()
    assert whole["otherData"]["cut"] == ""
    content: Any = trace(gelu.program, gelu.chip, gelu.name, limit=2000)
    events = content["traceEvents"]
    check_format(events)
    assert "turns of steady loops are not drawn" in content["otherData"]["cut"]
    assert sum(e["ph"] == "X" for e in events) < 6000
    assert any("turns like those before" in e["name"] for e in events)
    assert max(e["ts"] + e["dur"] for e in events if e["ph"] == "X") == pytest.approx(gelu.report.seconds * 1e6, abs=1e-3)
    assert 190 < max(e["args"]["GB/s"] for e in events if e["name"] == "DDR") <= 200.001


def test_occupied_bytes() -> None:
    """A buffer counts from the load that fills it to its last reader; bytes written again count once."""

    def at(start: float, end: float, engine: int, *ranges: tuple[int, int, bool]) -> Slice:
        return Slice((0,), 0, engine, start, start, start, end, -1, tuple(Range(*r) for r in ranges), 0)

    found = follow_scratchpad([
        at(0, 10, 2, (0, 100, True)),
        at(10, 15, 0, (0, 100, False), (200, 250, True)),
        at(15, 18, 3, (200, 250, False)),
        at(20, 30, 2, (50, 100, True)),
        at(30, 40, 0, (40, 60, False)),
    ])  # fmt: skip
    assert found.occupied == ((0, 100), (10, 150), (15, 100), (18, 50), (20, 100), (40, 0))
    assert found.flows == ((0, 1), (1, 2), (0, 4), (3, 4))


def test_origins() -> None:
    assert split_origin("a b.py:3:8 jit(f)/tanh") == {"source": "a b.py:3:8", "hlo": "jit(f)/tanh"}
    assert split_origin("x.hlo:7 exp") == {"source": "x.hlo:7", "hlo": "exp"}
    assert split_origin("x.hlo:7") == {"source": "x.hlo:7"}
    assert split_origin("add.1") == {"hlo": "add.1"}
    assert split_origin("") == {}
