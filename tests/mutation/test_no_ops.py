"""A pass that does nothing, or an emitter that takes nothing, fails the test that bears its name."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from run_lines import Failure, run_test

from hlo2tx8.compiler.pipeline import EXTRA_STAGES, PIPELINE, Stage
from hlo2tx8.emitters import EMITTERS, Declined, Emitter

TESTS = Path(__file__).parents[1]
ALL_EMITTERS: tuple[Emitter, ...] = tuple(EMITTERS.values())

FEWEST = 5
"""Tests in which an emitter takes a fusion, at least."""


def first_failure(files: Iterable[Path]) -> Failure | None:
    """The failure of the first test that fails, None if none does."""
    return next((failure for file in files if (failure := run_test(file)) is not None), None)


def do_nothing(self: object, ctx: object, op: object) -> None:
    """A pass's `apply` that leaves the module as it is."""


@pytest.mark.parametrize("stage", [*PIPELINE, *EXTRA_STAGES], ids=lambda stage: stage.step.name)
def test_pass_that_does_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    files = sorted((TESTS / "filecheck").rglob(f"{stage.step.name.replace('-', '_')}.mlir"))
    assert first_failure(files) is None
    monkeypatch.setattr(type(stage.step), "apply", do_nothing)
    assert first_failure(files) is not None


@pytest.mark.parametrize("emitter", ALL_EMITTERS, ids=lambda emitter: emitter.name)
def test_emitter_that_takes_nothing(emitter: Emitter, monkeypatch: pytest.MonkeyPatch):
    taken = re.compile(rf"// CHECK.*\b{emitter.name}\b\S* emitter(?! declines)")
    files = [file for file in sorted((TESTS / "hlo" / emitter.name).glob("*.hlo")) if taken.search(file.read_text())]
    assert len(files) >= FEWEST
    assert run_test(files[0]) is None
    monkeypatch.setattr(type(emitter), "match", lambda self, fusion: Declined("it takes nothing"))
    assert [file.name for file in files if run_test(file) is None] == []
