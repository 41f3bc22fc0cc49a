"""`hlo2tx8 netlist compile|run|show` and streams: files in a folder, a run from them, pipes as text, failures with an exit code."""

from pathlib import Path

import pytest
import yaml

from hlo2tx8.tools.main import main

SOFTMAX = Path(__file__).parents[2] / "hlo_samples" / "netlists" / "softmax.yaml"


def test_a_folder_has_streams_from_which_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "out"
    assert main(["netlist", "compile", str(SOFTMAX), "-o", str(folder)]) == 0
    assert yaml.safe_load((folder / "compile_result.yaml").read_text()) == {"success": True, "failures": []}
    epoch = folder / "temporal_epoch_0"
    assert len(list(epoch.glob("core_0_*.yaml"))) == len(list(epoch.glob("core_0_*.blob"))) == 8
    assert main(["netlist", "run", str(folder), "--on=streams"]) == 0
    assert "shares [4, 1, 64, 128]: 32 of 32 tiles agree with golden" in capsys.readouterr().out
    (epoch / "core_0_1_0.blob").unlink()
    assert main(["netlist", "run", str(folder), "--on=streams"]) == 1
    assert "blobs of epoch softmax: are not those of its cores" in capsys.readouterr().err


def test_streams_that_do_not_fit_are_a_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file, folder = tmp_path / "large.yaml", tmp_path / "out"
    file.write_text(SOFTMAX.read_text().replace("buf_size_mb: 2", "buf_size_mb: 200", 1))
    assert main(["netlist", "compile", "--arch=grayskull", str(file), "-o", str(folder)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error E1014: L1Size: epoch 0, graph softmax: op power: buffers of 3361280 bytes on core 0-0-0 for the")
    (failure,) = yaml.safe_load((folder / "compile_result.yaml").read_text())["failures"]
    assert (failure["failure_type"], failure["core"], failure["maximum_bytes"]) == ("L1Size", [0, 0], (1024 - 204) * 1024)
    assert main(["netlist", "run", str(folder)]) == 0
    assert main(["netlist", "run", str(file), "--on=streams"]) == 1
    assert main(["netlist", "show", "--pipes", str(file)]) == 1


def test_pipes_are_shown(capsys: pytest.CaptureFixture[str]):
    assert main(["netlist", "show", "--pipes", "--arch=wormhole_b0", str(SOFTMAX)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("epoch 0, softmax on wormhole_b0: 14 pipes, 8 cores\n")
    assert (
        "multicast, 8 tiles, 2 hops on network 0\n    power[0] -> total[0].input 0 total[1].input 0\n    tiles 0..1+4 x2" in shown
    )
    assert "core 0-0-1 total: 3 streams; output 0x33000+16640 (8 tiles)" in shown
