"""What kernels were found to take is remembered in the process, and a compilation that remembers ends as one that does not."""

from pathlib import Path

import pytest

import hlo2tx8
from hlo2tx8.compiler import known_kernels, trial
from hlo2tx8.compiler.known_kernels import KnownKernels
from hlo2tx8.errors import CompileError
from hlo2tx8.options import Level, Options
from hlo2tx8.schedule.plan import Feasibility

SOURCE = Path(__file__).parents[2] / "hlo" / "group" / "products_stay.hlo"


def test_it_is_found_once() -> None:
    known = KnownKernels()
    assert known.get("a", lambda: Feasibility(1)) == known.get("a", lambda: Feasibility(2)) == Feasibility(1)


def test_what_is_raised_is_not_remembered() -> None:
    def fail() -> Feasibility:
        raise CompileError("E1006", "no")

    known = KnownKernels()
    with pytest.raises(CompileError):
        known.get("a", fail)
    assert known.get("a", lambda: Feasibility(2)) == Feasibility(2)


def test_the_first_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_kernels, "MOST_KERNELS", 2)
    known = KnownKernels()
    for number, key in enumerate("abc"):
        known.get(key, lambda number=number: Feasibility(number))
    assert list(known.found) == ["b", "c"]


def test_a_second_compilation_times_nothing_and_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "KNOWN", KnownKernels())
    timed: list[int] = []
    time = trial.KernelTrial._timed
    monkeypatch.setattr(trial.KernelTrial, "_timed", lambda *given: timed.append(given[2]) or time(*given))
    options = Options(explain=True)
    first = hlo2tx8.compile(SOURCE.read_text(), options, format="hlo")
    times = len(timed)
    again = hlo2tx8.compile(SOURCE.read_text(), options, format="hlo")
    assert len(timed) == times > 0
    assert again.explanation == first.explanation
    assert again.as_text(Level.PROGRAM) == first.as_text(Level.PROGRAM)
    assert len(timed) == times
