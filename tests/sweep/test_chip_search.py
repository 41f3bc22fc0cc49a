"""Objectives are arithmetic and nothing else; a search tries the same chips again, and finds them in the table."""

from pathlib import Path

import pytest

from hlo2tx8.errors import InputError
from hlo2tx8.sweep.objective import NAMES, Objective
from hlo2tx8.tools.main import main

ROW = dict.fromkeys(NAMES, 2.0) | {"area": 9.0, "power": None}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("microseconds * area", 18),
        ("-cycles + 3 / 2 - (1 - area) ** 2", -2 + 1.5 - 64),
        ("max(cycles, sqrt(area), 1) + min(5) + abs(-1)", 3 + 5 + 1),
        ("log(1)", 0),
        ("power * 2", None),
        ("area / (cycles - 2)", None),
        ("(0 - area) ** 0.5", None),
        ("log(0 - area)", None),
        ("9 ** 9 ** 9 ** 9", None),
    ],
)
def test_arithmetic(text: str, number: float | None) -> None:
    assert Objective(text).of(ROW) == number


@pytest.mark.parametrize(
    "text",
    ["", "1 +", "speed", "__import__('os')", "area.real", "cycles if area else 1", "[area]", "'a'", "True", "lambda: 1"],
)
def test_nothing_else(text: str) -> None:
    with pytest.raises(InputError, match="is no objective"):
        Objective(text)


@pytest.mark.parametrize(
    "text",
    [
        "log(0 - 1) + speed",
        "max()",
        "max(*area)",
        "sqrt(x=1)",
        "sqrt(1, 2)",
        "(area := 1)",
        "1j",
        "area @ area",
        "~1",
        "f'{area}'",
        "1 < 2",
        "(" * 500,
        "1+" * 600 + "1",
        "eval(area)",
        "cpu_seconds",
        "area; area",
        "1,2",
    ],
)
def test_nothing_that_looks_like_it(text: str) -> None:
    with pytest.raises(InputError, match="is no objective"):
        Objective(text)


def test_a_search_finds_the_best_and_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna")
    pytest.importorskip("pyarrow")
    module = tmp_path / "add.hlo"
    module.write_text("HloModule m\nENTRY e { a = f32[1000] parameter(0)\n ROOT b = f32[1000] add(a, a) }")
    given = ["search-chip", f"--workloads={module}", f"--output={tmp_path / 'out.parquet'}", "--jobs=1", "--scheduler="]
    given += ["--chip=ddr=100,200,400", "--chip=tiles=2x2,4x4,9x9", "--objective=area", "--trials=12"]
    assert main(given) == 0
    first = capsys.readouterr()
    assert "ddr=100 tiles=2x2" in first.out.splitlines()[0]
    assert "12/12" not in first.err
    assert main(given) == 0
    again = capsys.readouterr()
    assert (again.out, again.err) == (first.out, "")
    assert main([*given, "--objective=area * speed"]) == 1
    assert "it has 'speed'" in capsys.readouterr().err
