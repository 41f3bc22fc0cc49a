"""`hlo2tx8 sweep`: the table, what it already has, and what is refused before anything runs."""

import csv
from pathlib import Path

import pytest

from hlo2tx8.tools.main import main

ADD = "HloModule m\nENTRY e { a = f32[1000] parameter(0)\n ROOT b = f32[1000] add(a, a) }"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "add.hlo"
    path.write_text(ADD)
    return path


def sweep(module: Path, *flags: str, scheduler: str = "") -> int:
    given = [f"--workloads={module}", f"--output={module.with_name('out.parquet')}", "--jobs=1", f"--scheduler={scheduler}"]
    return main(["sweep", *given, *flags])


def test_a_table_is_added_to_and_joined(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    report = module.with_name("report")
    assert sweep(module, "--chip=ddr=200,400") == 0
    assert sweep(module, "--chip=ddr=400,800", "--chip=tiles=4x4,9x9", f"--report={report}") == 0
    said = capsys.readouterr()
    assert "4 points, 1 are known" in said.err
    assert "2 ok, 2 refused" in said.out
    rows = parquet.read_table(module.with_name("out.parquet")).to_pylist()
    assert [row["chip"] for row in rows][:2] == ["ddr=400", "ddr=400 tiles=9x9"]
    assert len(rows) == len({row["key"] for row in rows}) == 5
    assert [row["why"] for row in rows[:2]] == ["", "tiles must be at most 64"]
    assert sorted(path.name for path in module.parent.iterdir()) == ["add.hlo", "out.parquet", "report"]
    with (report / "fronts.csv").open() as file:
        assert next(csv.DictReader(file))["chip"] == "ddr=400 tiles=4x4"
    assert "ddr 400 → 800" in (report / "index.html").read_text()


def test_rows_of_an_ended_sweep_are_not_measured_again(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    from hlo2tx8.compiler.found_plans import code_version
    from hlo2tx8.device.chip import DEFAULT_PATH, described
    from hlo2tx8.sweep.points import ModuleSource, cross_product
    from hlo2tx8.sweep.results import Results, read

    options = {"matmul_precision": "default", "search": "fast", "reassociate": True}
    (point,) = cross_product([ModuleSource(str(module), ADD.encode(), "hlo")], [], described(DEFAULT_PATH), options)
    path = module.with_name("out.parquet")
    row = point.known | {"version": code_version(), "status": "ok", "cycles": 1.0, "microseconds": 1.0}
    with Results(path, code_version()) as results:
        results.add(row)
        (results.parts / "half.parquet.new").write_bytes(b"PAR")
        assert main(["sweep", f"--workloads={module}", f"--output={path}"]) == 1
        assert "another sweep writes to" in capsys.readouterr().err
    assert sweep(module) == 0
    assert [found["cycles"] for found in read(path)] == [1.0]
    with Results(path, code_version()) as results:
        results.add(point.known | {"key": "k", "version": "", "status": "lost"})
    with Results(path, code_version()) as results:
        assert set(results.rows) == {point.key}
    with Results(path, code_version()) as results:
        results.add(row | {"version": "older"})
    assert sweep(module) == 1
    assert "another version of hlo2tx8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--chip=warp=1"], "a chip has no parameter 'warp'"),
        (["--chip=ddr=x"], "ddr cannot be 'x'"),
        (["--output=/nowhere/out.parquet"], "there is no folder /nowhere"),
        (["--output=/proc/out.parquet"], "/proc/out.parquet"),
        (["--workloads=no_such_model"], "no_such_model"),
        (["--base=/nowhere.yaml"], "/nowhere.yaml: No such file"),
    ],
)
def test_wrong_usage_is_told_first(module: Path, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    assert sweep(module, *flags) == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("error E1004")


def test_files_that_are_none(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    module.write_text("HloModule m\nENTRY {")
    assert sweep(module) == 1
    module.write_text(ADD)
    module.with_name("out.parquet").write_bytes(b"PAR1 and so on")
    assert sweep(module) == 1
    assert "out.parquet cannot be read" in capsys.readouterr().err


def test_the_extra_is_asked_for(module: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    assert sweep(module) == 1
    assert "pip install 'hlo2tx8[sweep]'" in capsys.readouterr().err
