"""`hlo2tx8 opcase`: cases are written and replayed; a wrong or damaged one is found, and said in one line."""

import json
import shutil
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from hlo2tx8.tools.main import main
from hlo2tx8.vendor import platforms
from hlo2tx8.vendor.platforms import missing, platform_named

REFERENCE = "chip0/agent/data/out0_ref.bin"
FLAGS = {
    "seed": "--seed=3",
    "count": "--count=1",
    "dtype": "--dtype=float32",
    "fix": "--fix=shape=2x3",
    "output": "-o {}/new",
    "run": "--run {}/tanh",
    "platform": "--platform=Cmodel",
    "list": "--list",
}


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """A folder with one case of tanh."""
    argv = ["opcase", "tanh", "--count=1", "--dtype=float32", "--fix=shape=3x4", "-o", str(tmp_path / "tanh")]
    assert main(argv) == 0
    return tmp_path / "tanh" / "stablehlo.tanh_0_0"


def test_cases_are_written_and_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["opcase", "add", "softmax", "reshape", "--count=2", "--seed=5", "-o", str(tmp_path / "cases")]) == 0
    assert {path.name for path in (tmp_path / "cases").iterdir()} == {
        *(f"{op}_5_{k}" for op in ("stablehlo.add", "softmax", "stablehlo.reshape") for k in range(2))
    }
    assert main(["opcase", "--run", str(tmp_path / "cases")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert lines[-1] == "6 of 6 cases agree"
    assert all("  agrees  " in line for line in lines[:-1])


def test_a_case_is_a_chip_folder_too(case: Path):
    assert main(["run", str(case)]) == 0
    assert json.loads((case / "case.json").read_text())["sizes"] == {"shape": "3x4"}
    assert main(["opcase", "--run", str(case)]) == 0


def test_a_result_that_is_off_is_found(case: Path, capsys: pytest.CaptureFixture[str]):
    values = np.fromfile(case / REFERENCE, np.float32)
    values[5] += 1
    values.tofile(case / REFERENCE)
    assert main(["opcase", "--run", str(case.parent)]) == 1
    out = capsys.readouterr().out
    assert "DIFFERS" in out and "[1, 1]" in out
    assert out.endswith("0 of 1 cases agree\n")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (REFERENCE, b"12", "out0_ref.bin has 2 bytes"),
        (REFERENCE, None, "has no results of output 0"),
        ("chip0/agent/data/in0.bin", None, "in0.bin: No such file"),
        ("case.json", b"{", "case.json: Expecting property name"),
        ("case.json", b"[1]", "case.json: list indices"),
        ("model_info.json", b"{}", "there is no chip_num"),
        ("model_info.json", None, "model_info.json: No such file"),
        ("stablehlo.mlir", b"module {", "E1003"),
    ],
)
def test_a_damaged_case_fails_with_a_line(
    case: Path, file: str, content: bytes | None, message: str, capsys: pytest.CaptureFixture[str]
):
    path = next(case.glob("*.mlir")) if file.endswith(".mlir") else case / file
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert main(["opcase", "--run", str(case.parent)]) == 1
    captured = capsys.readouterr()
    line, end = captured.out.splitlines()
    assert "FAILED  error E100" in line and message in line
    assert end == "0 of 1 cases agree"
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["tanhh", "-o", "x"], "did you mean tanh"),
        (["tanh"], "-o DIR says where"),
        (["--run", "nowhere"], "there is no folder nowhere"),
        ([], "one of OP, --run and --list"),
        (["tanh", "--dtype=int8", "-o", "x"], "stablehlo.tanh takes no int8"),
        (["tanh", "-o", "file"], "file is not a folder"),
    ],
)
def test_what_cannot_be_done_is_refused(
    argv: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert main(["opcase", *argv]) == 1
    assert message in capsys.readouterr().err


def test_a_folder_that_is_there_is_not_overwritten(case: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["opcase", "tanh", "--count=1", "-o", str(case.parent)]) == 1
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.skipif(missing(platform_named("Cmodel")) != "", reason="gcc libc6-dev")
def test_main_programs_run_too(case: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    ran: list[str] = []
    own = platforms.run_program
    monkeypatch.setattr(platforms, "run_program", lambda e, a, platform: (ran.append(platform.name), own(e, a, platform))[1])
    assert main(["opcase", "--run", str(case.parent), "--platform=cmodel"]) == 0
    assert ran == ["Cmodel"]
    assert main(["opcase", "--run", str(case.parent), "--platform=amodel"]) == 1
    assert "unknown platform 'amodel'" in capsys.readouterr().err
    monkeypatch.setattr(platforms, "run_program", lambda *_: (own(*_)[0], 1.0))
    assert main(["opcase", "--run", str(case.parent), "--platform=cmodel"]) == 1
    assert "takes 1.0 cycles" in capsys.readouterr().out


def test_flags_act_or_are_refused_in_pairs(case: Path, capsys: pytest.CaptureFixture[str]):
    folder = case.parents[1]
    for names in combinations(FLAGS, 2):
        if {*names} == {"run", "platform"}:  # tried below
            continue
        ops = [] if {"run", "list"} & {*names} else ["negate"]
        ops += ["--count=2"] if ops and "count" not in names else []
        argv = ["opcase", *ops, *(word for name in names for word in FLAGS[name].replace("{}", str(folder)).split(" "))]
        code = main(argv if "output" in names or not ops else [*argv, "-o", str(folder / "-".join(names))])
        err = capsys.readouterr().err
        is_refused = bool({"run", "list", "platform"} & {*names})
        assert code == int(is_refused), (names, err)
        assert not is_refused or any(f"--{name}" in err for name in names), (names, err)
        if not is_refused and "output" in names:
            shutil.rmtree(folder / "new")
