"""The fuzzer's processes: failures, deaths and silence are findings, and the other seeds are still checked."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from hlo2tx8.dev.fuzz import __main__ as fuzz
from hlo2tx8.dev.fuzz.check import check
from hlo2tx8.dev.fuzz.draw import draw
from hlo2tx8.dev.fuzz.farm import Farm, Finding, Plan

WORKER = """
import os, sys, time
from hlo2tx8.sweep.child import ENDS, MORE, serve

def answers(seed):
    if seed == 3:
        print("the core was dumped", file=sys.stderr, flush=True)
        os.abort()
    if seed == 5:
        time.sleep(1000)
    if seed == 7:
        yield dict(seconds=2.0, module="large", run="flat", kind="wrong answer", message="output 0", **{MORE: 900.0})
        yield dict(module="small")
    elif seed == 9:
        yield dict(seconds=1.0, run="flat", kind="hang", message="", module="m", **{ENDS: True})
    else:
        yield dict(seconds=0.5)

serve(answers)
"""


@dataclass(frozen=True)
class Faked(Plan):
    """Workers that do what the seed says."""

    def arguments(self) -> list[str]:
        return ["-c", WORKER]


@pytest.fixture(autouse=True)
def starts_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hlo2tx8.sweep.child.STARTUP_SECONDS", 5.0)


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_seed_is_checked_whatever_workers_die_of(jobs: int, tmp_path: Path):
    told: list[Finding] = []
    farm = Farm(Faked(range(12), jobs, limit=0.5, write=tmp_path, grace=0.5), told.append)
    farm.run()
    assert sorted(farm.done) == list(range(12))
    kinds = {seed: finding.kind for seed, finding in farm.findings.items()}
    assert kinds == {3: "crash", 5: "hang", 7: "wrong answer", 9: "hang"}
    assert "SIGABRT" in farm.findings[3].message and "the core was dumped" in farm.findings[3].message
    assert farm.findings[7].module == "small"
    assert [f.module for f in told if f.seed == 7] == ["large", "small"]
    assert "HloModule" in Path(farm.findings[3].module).read_text()
    assert farm.result()["failed_seeds"] == [3, 5, 7, 9]


def test_seeds_are_recorded_once_per_revision(tmp_path: Path):
    farm = Farm(Plan(range(20, 24), 1, 1.0, tmp_path), lambda _: None)
    farm.done.update(dict.fromkeys(range(20, 24), 1.0))
    record = tmp_path / "record.json"
    fuzz.add_record(record, farm)
    farm.findings[21] = Finding(21, "flat", "hang", "", "")
    fuzz.add_record(record, farm)
    (entry,) = json.loads(record.read_text())
    assert (entry["seed"], entry["count"], entry["failed"]) == (20, 4, [21])


def test_a_real_worker_answers(tmp_path: Path):
    farm = Farm(Plan(range(2), 1, 60.0, tmp_path, cpu=False), lambda _: None)
    farm.run()
    assert sorted(farm.done) == [0, 1]
    assert farm.findings == {}


def test_no_time_is_a_hang():
    found = check(draw(0), limit=0.0)
    assert found is not None and found.kind == "hang"
