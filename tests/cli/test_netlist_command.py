"""`hlo2tx8 netlist`: what is wrong is listed, pictures are drawn."""

from pathlib import Path

import pytest

from hlo2tx8.tools.main import main

SOFTMAX = Path(__file__).parents[2] / "hlo_samples" / "netlists" / "softmax.yaml"


def test_check_names_every_broken_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["netlist", "check", str(SOFTMAX)]) == 0
    assert capsys.readouterr().out == "3 queues, 1 graphs, 4 ops on grayskull: no rule broken\n"
    file = tmp_path / "wrong.yaml"
    file.write_text(SOFTMAX.read_text().replace("m_k: 2", "m_k: 3").replace("entries: 4", "entries: 5", 1))
    assert main(["netlist", "check", "--arch=wormhole_b0", str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{file}:14: op total: m_k 3 times u_kt 2 is 6, not the 4 tile rows of input 1"
    assert lines[-1] == "3 queues, 1 graphs, 4 ops on wormhole_b0: 2 rules broken"


def test_an_architecture_is_one_of_the_file(capsys: pytest.CaptureFixture[str]):
    assert main(["netlist", "check", "--arch=blackhole", str(SOFTMAX)]) == 1
    assert "is for grayskull or wormhole_b0, not blackhole" in capsys.readouterr().err


def test_show_draws_the_grid(capsys: pytest.CaptureFixture[str]):
    assert main(["netlist", "show", str(SOFTMAX)]) == 0
    shown = capsys.readouterr().out
    assert "     0 1 2\n   0 A B B\n   1 C D D\n   2 . D D\n" in shown
    assert "D  share    multiply    [1x64x128] on 2x2  Float16_b  power, inverse -> shares" in shown
