"""Damaged files: a few of each kind do no harm, and harm would be seen."""

import json
from pathlib import Path

import pytest

from hlo2tx8.dev import fuzz_files


@pytest.mark.parametrize("kind", fuzz_files.KINDS)
def test_damaged_files_do_no_harm(kind: str):
    count = 15 if kind == "mlirbc" else 60  # of which some end a reader, and it begins again
    assert {seed: harm for seed in range(count) if (harm := fuzz_files.harm(kind, seed))} == {}


def test_other_exceptions_are_failures(monkeypatch: pytest.MonkeyPatch):
    def breaks(_: int) -> None:
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(fuzz_files, "KINDS", {"hlo": breaks})
    assert fuzz_files.harm("hlo", 7) == "ZeroDivisionError: by zero"


def test_processes_try_them_and_one_that_dies_is_a_failure():
    assert list(fuzz_files.failures("literals", range(3))) == []
    (line,) = fuzz_files.failures("no kind", range(5, 6))
    assert line.startswith("failed 5 KeyError")


def test_a_secret_in_a_result_is_a_failure():
    with pytest.raises(RuntimeError, match="left in memory"):
        fuzz_files.holds_no_secret([bytes([fuzz_files.CANARY] * 64)])


def test_what_was_tried_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for seed, found in ((7, ["failed 8 KeyError: 1"]), (10, [])):
        monkeypatch.setattr(fuzz_files, "failures", lambda *_, found=found: iter(found))
        command = ["--kind=hlo", f"--seed={seed}", "--count=3", f"--record={tmp_path / 'tried.json'}"]
        assert fuzz_files.main(command) == len(found)
    assert json.loads((tmp_path / "tried.json").read_text()) == [
        {"kind": "hlo", "seed": 7, "count": 3, "failed": ["failed 8 KeyError: 1"]},
        {"kind": "hlo", "seed": 10, "count": 3, "failed": []},
    ]
