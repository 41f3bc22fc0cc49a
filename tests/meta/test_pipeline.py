"""A pass is one file, one class, one stage, one FileCheck test of its name: held together here."""

import ast
import re
from pathlib import Path

import pytest

from hlo2tx8.compiler.pipeline import ALLOWED, EXTRA_STAGES, PIPELINE, Stage
from hlo2tx8.options import Level

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("stage", [*PIPELINE, *EXTRA_STAGES], ids=lambda stage: stage.step.name)
def test_pass_has_its_file_docstring_and_test(stage: Stage):
    cls = type(stage.step)
    stem = stage.step.name.replace("-", "_")
    assert cls.__module__.rpartition(".")[2] == stem
    assert cls.__name__.removesuffix("Pass").lower() == stem.replace("_", "")
    assert cls.__doc__
    tests = sorted((ROOT / "tests" / "filecheck").rglob(f"{stem}.mlir"))
    assert len(tests) == 1, f"one FileCheck test {stem}.mlir with the IR before and after pass {stage.step.name}: {tests}"
    run = re.search(r"// RUN: %opt -p '?([^\s{']+)", tests[0].read_text())
    assert run is not None and stage.step.name in run[1].split(","), f"{tests[0]} does not run {stage.step.name}"


def test_every_pass_is_in_the_pipeline():
    known = {type(stage.step).__name__ for stage in (*PIPELINE, *EXTRA_STAGES)} | {"NestedPasses"}  # runs others
    written: list[str] = []
    for file in sorted((ROOT / "hlo2tx8").rglob("*.py")):
        text = file.read_text()
        for node in ast.parse(text).body if "ModulePass" in text else ():
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "ModulePass" for base in node.bases):
                written.append(node.name)
    assert set(written) == known


def test_levels_only_go_down():
    levels = [stage.after for stage in PIPELINE]
    assert levels == sorted(levels)
    assert set(ALLOWED) == set(Level)


def test_room_of_passes_holds_one_pass_a_file():
    """Packages beside them hold what several passes share, and no pass."""
    room = ROOT / "hlo2tx8" / "passes"
    for file in sorted(room.rglob("*.py")):
        classes = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
        bases = [ast.unparse(base) for node in classes for base in node.bases]
        expected = 1 if file.parent == room and file.name != "__init__.py" else 0
        assert bases.count("ModulePass") == expected, file
