"""Compiled programs where a command takes modules: run executes the program, all else works on the module it was made from."""

from pathlib import Path

import pytest

from hlo2tx8.tools.main import main

SAMPLES = Path(__file__).parents[2] / "hlo_samples"


@pytest.fixture
def saved(tmp_path: Path) -> str:
    path = str(tmp_path / "relations.tx8x")
    assert main(["compile", "-o", path, str(SAMPLES / "instructions" / "relations.hlo")]) == 0
    return path


@pytest.mark.parametrize("flags", [[], ["--mode=strict"], ["--level=flat"], ["--isolate_instructions"], ["--iterations=2"]])
def test_run(saved: str, flags: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["run", *flags, saved]) == 0
    assert capsys.readouterr().err.rstrip().splitlines()[-1].endswith("runs failed.")


def test_the_program_itself_is_run(saved: str, capsys: pytest.CaptureFixture[str]):
    assert main(["run", "--print_program", saved]) == 0
    again = capsys.readouterr().out
    assert main(["run", "--print_program", str(SAMPLES / "instructions" / "relations.hlo")]) == 0
    assert again == capsys.readouterr().out
    assert main(["run", "--step_elements=64", saved]) == 1
    assert "is compiled already" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["compile", "--until=fused"], ["compile", "--report"], ["check"], ["profile"]])
def test_other_commands(saved: str, command: list[str], capsys: pytest.CaptureFixture[str]):
    assert main([*command, saved]) == 0
    assert "fusion" in capsys.readouterr().out or command == ["compile", "--report"]


def test_a_program_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "a.tx8x").write_bytes(b"PK")
    for command in ("run", "compile", "check", "profile"):
        assert main([command, str(tmp_path / "a.tx8x")]) == 1
        assert "error E1007" in capsys.readouterr().err
