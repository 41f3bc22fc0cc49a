"""What searches find is kept in files that are right, or are ignored with a word."""

import json
import multiprocessing
import warnings
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

import hlo2tx8
from hlo2tx8 import Options
from hlo2tx8.compiler.found_plans import PlanFolder, plans_of
from hlo2tx8.device.chip import load_chip
from hlo2tx8.emitters.search_kernels import Found, KernelSearch
from hlo2tx8.errors import CompileError
from hlo2tx8.tools.main import main

CHIP = load_chip("")
FOUND = Found("blocks of [8, 64], 64 deep", 0, 1234.5, ("a is rejected: 2,000 modelled", "b is taken"))
TEXT = """
func.func @main(%a: tensor<64x256xf32>, %b: tensor<256x128xf32>) -> tensor<64x128xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x128xf32>) -> tensor<64x128xf32>
  %1 = stablehlo.tanh %0 : tensor<64x128xf32>
  return %1 : tensor<64x128xf32>
}
"""


def stored(folder: Path) -> PlanFolder:
    plans = plans_of(folder, CHIP)
    assert isinstance(plans, PlanFolder)
    return plans


def test_what_was_put_is_got_by_others(tmp_path: Path):
    stored(tmp_path).put("key", FOUND)
    assert stored(tmp_path).get("key") == FOUND
    assert stored(tmp_path).get("other") is None
    assert PlanFolder(folder=tmp_path, chip=replace(CHIP, name="another")).get("key") is None
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".json"]


def test_what_cannot_be_computed_is_not_kept(tmp_path: Path):
    plans = stored(tmp_path)
    plans.put("key", replace(FOUND, cycles=inf))
    assert plans.get("key") is not None and not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        "null",
        "{}",
        '{"plan": "x", "cut": 0, "cycles": 1, "lines": [], "check": ""}',
        "[" * 100_000,
        "\0" * 64,
        '"' * 9,
    ],
)
def test_damaged_files_are_ignored_and_written_again(text: str, tmp_path: Path):
    stored(tmp_path).put("key", FOUND)
    path = stored(tmp_path).path("key")
    path.write_text(text)
    again = stored(tmp_path)
    with pytest.warns(UserWarning, match="holds no plan and is ignored"):
        assert again.get("key") is None
    again.put("key", FOUND)
    assert stored(tmp_path).get("key") == FOUND


def test_a_changed_plan_does_not_fit_its_check(tmp_path: Path):
    stored(tmp_path).put("key", FOUND)
    path = stored(tmp_path).path("key")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"cycles": 1.0}))
    with pytest.warns(UserWarning, match="its check does not fit"):
        assert stored(tmp_path).get("key") is None


def test_a_folder_that_cannot_be_written_is_left_alone(tmp_path: Path):
    (tmp_path / "file").write_text("")
    plans = stored(tmp_path / "file")
    with pytest.warns(UserWarning, match="are not kept"):
        plans.put("key", FOUND)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plans.put("other", FOUND)
    assert plans.get("key") == plans.get("other") == FOUND


def _write(folder: Path) -> bool:
    plans = stored(folder)
    for number in range(50):
        plans.put(f"{number % 5}", FOUND)
    return all(stored(folder).get(f"{number}") == FOUND for number in range(5))


def test_processes_share_a_folder(tmp_path: Path):
    with multiprocessing.get_context("spawn").Pool(3) as pool, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(pool.map(_write, [tmp_path] * 6))


def test_a_second_compilation_searches_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    options = Options(search="full", search_cache=tmp_path, explain=True)
    first = hlo2tx8.compile(TEXT, options)
    monkeypatch.setattr(KernelSearch, "_find_kernel", None)
    second = hlo2tx8.compile(TEXT, options)
    assert first.program.code.tobytes() == second.program.code.tobytes() and first.explanation == second.explanation
    with pytest.raises(CompileError):
        hlo2tx8.compile(TEXT, replace(options, step_elements=64))


def test_a_plan_of_another_name_is_not_taken(tmp_path: Path):
    """A file of the right form whose plan is none: what comes first is taken, and a note says so."""
    options = Options(search="full", search_cache=tmp_path, explain=True)
    hlo2tx8.compile(TEXT, options)
    (path,) = tmp_path.rglob("*.json")
    from hlo2tx8.compiler import found_plans

    wrong = replace(FOUND, plan="no such plan")
    path.write_text(json.dumps(wrong.__dict__ | {"check": found_plans._check(wrong)}))  # pyright: ignore[reportPrivateUsage]
    again = hlo2tx8.compile(TEXT, options)
    assert again.program.code.tobytes() == hlo2tx8.compile(TEXT).program.code.tobytes()
    assert any("nothing that was searched for is taken" in line for line in again.explanation)


def test_the_command_keeps_plans_where_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    source = tmp_path / "dot.mlir"
    source.write_text(TEXT)
    outputs: list[str] = []
    for cache in ("none", str(tmp_path / "given")):
        assert main(["compile", "--search=full", f"--search_cache={cache}", "--explain", str(source)]) == 0
        outputs.append(capsys.readouterr().out)
    assert not (tmp_path / "user").exists() and list((tmp_path / "given").rglob("*.json"))
    assert main(["profile", "--search=full", str(source)]) == 0
    assert list((tmp_path / "user" / "hlo2tx8" / "plans").rglob("*.json"))
    assert main(["profile", str(source)]) == 0
    assert outputs[0] == outputs[1] and "is the fastest" in outputs[0]
