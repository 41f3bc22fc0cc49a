"""`hlo2tx8 netlist`: what is wrong is listed, pictures are drawn, programs run on files of arrays."""

import json
import re
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import yaml

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


def test_check_names_queues_that_overlap(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """But for rams under two names; a run gives each queue memory of its own."""
    file, text = tmp_path / "near.yaml", SOFTMAX.read_text()
    ones = re.search(r"ones: .*dram: (\[\[.*?\]\])", text)
    assert ones
    file.write_text(text.replace(ones[1], "[[0, 0x10000400]]"))
    assert main(["netlist", "check", str(file)]) == 1
    assert "queue ones: field dram: 0x10000400 lies in scores, which ends at 0x10010420" in capsys.readouterr().out
    assert main(["netlist", "run", str(file)]) == 0
    assert all(main(["netlist", "check", str(path)]) == 0 for path in SOFTMAX.parent.glob("*.yaml"))


def test_schema_is_json(capsys: pytest.CaptureFixture[str]):
    assert main(["netlist", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["required"] == ["devices", "queues", "graphs", "programs"]


def test_an_architecture_is_one_of_the_file(capsys: pytest.CaptureFixture[str]):
    assert main(["netlist", "check", "--arch=blackhole", str(SOFTMAX)]) == 1
    assert "is for grayskull or wormhole_b0, not blackhole" in capsys.readouterr().err


def test_an_architecture_is_found_whose_rules_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file, text = tmp_path / "wide.yaml", SOFTMAX.read_text().replace("acc_df: Float16_b", "acc_df: Float32")
    file.write_text(text)
    assert main(["netlist", "check", str(file)]) == 1
    assert "on grayskull" in capsys.readouterr().out
    file.write_text(text.replace("mblock: [1, 1], ublock: [2, 4], in", "mblock: [1, 2], ublock: [2, 2], in"))
    assert main(["netlist", "check", str(file)]) == 0
    assert "on wormhole_b0: no rule broken" in capsys.readouterr().out


def test_show_draws_the_grid(capsys: pytest.CaptureFixture[str]):
    assert main(["netlist", "show", str(SOFTMAX)]) == 0
    shown = capsys.readouterr().out
    assert "     0 1 2\n   0 A B B\n   1 C D D\n   2 . D D\n" in shown
    assert "D  share    multiply    [1x64x128] on 2x2  Float16_b  power, inverse -> shares" in shown


def test_run_compares_with_exact_arithmetic(capsys: pytest.CaptureFixture[str]):
    assert main(["netlist", "run", str(SOFTMAX)]) == 0
    assert capsys.readouterr().out.startswith(
        "shares [4, 1, 64, 128]: 32 of 32 tiles agree with exact arithmetic, at least 100.0% of"
    )


def test_run_reads_and_writes_arrays_and_takes_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    training = SOFTMAX.with_name("training.yaml")
    inputs, outputs, params = (tmp_path / name for name in ("in.npz", "out.npz", "params.json"))
    x = np.arange(4 * 32 * 64, dtype=np.float32).reshape(4, 1, 32, 64) % 16
    weight, gradient = (np.full((1, 1, 32, 64), value, np.float32) for value in (2, 0))
    np.savez(inputs, x=x, weight=weight, gradient=gradient, pairs=np.zeros((2, 2, 32, 64), np.float32))
    params.write_text(json.dumps({"$p_microbatch_count": 1}))
    flags = [f"--inputs={inputs}", f"--outputs={outputs}", f"--params={params}", "--arch=grayskull", "--on=golden"]
    x[2:] = 0
    assert main(["netlist", "run", str(training), *flags]) == 0
    with np.load(outputs) as found:
        assert sorted(found.files) == ["gradient", "log", "sums", "weight", "y"]
        assert np.array_equal(found["y"], 2 * x[:2])
        assert np.array_equal(found["log"], 2 * x)
        assert np.array_equal(found["gradient"], (x * x).sum(axis=0, keepdims=True))
    params.write_text("[1]")
    assert main(["netlist", "run", str(training), *flags]) == 1
    assert 'is not {"$p_name": integer, ..}' in capsys.readouterr().err
    inputs.write_bytes(b"PK nothing")
    assert main(["netlist", "run", str(training), f"--inputs={inputs}"]) == 1
    assert "is no file of arrays" in capsys.readouterr().err


def test_run_on_the_chip_compares_with_golden_and_prints_cycles(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["netlist", "run", str(SOFTMAX), "--on=tx8", "--report"]) == 0
    found = capsys.readouterr().out
    assert found.startswith("shares [4, 1, 64, 128]: 32 of 32 tiles agree with golden, at least 100.0% of")
    assert "graph softmax: 4 tensors, " in found
    assert "** Modelled cost on tx8 **" in found
    far = tmp_path / "far.yaml"
    far.write_text(SOFTMAX.read_text().partition("test-config")[0] + "test-config: {comparison-config: {type: Exact}}\n")
    assert main(["netlist", "run", str(far), "--on=tx8", "--level=vector"]) == 1
    assert "0 of 32 tiles agree with golden" in capsys.readouterr().out


def test_every_level_of_a_netlist_agrees(capsys: pytest.CaptureFixture[str]):
    assert main(["netlist", "run", str(SOFTMAX.with_name("training.yaml")), "--on=tx8", "--level=all"]) == 0
    assert "** strict mode **" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--mode=strict", "--level=flat", "--report", "--chip=chip.yaml"])
def test_flags_of_the_chip_are_refused_without_it(flag: str, capsys: pytest.CaptureFixture[str]):
    assert main(["netlist", "run", str(SOFTMAX), flag]) == 1
    assert f"{flag.partition('=')[0]} is of tx8, and --on is golden" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["training", "sparse", "softmax"])
def test_a_compiled_folder_runs_and_compiles_nothing(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file, folder = SOFTMAX.with_name(f"{name}.yaml"), tmp_path / "compiled"
    assert main(["netlist", "compile", str(file), "-o", str(folder)]) == 0
    assert f"cycles a tensor, {folder}/0.tx8x\n" in capsys.readouterr().out
    with patch("hlo2tx8.netlist.tx8.compile_source", side_effect=AssertionError):
        assert main(["netlist", "run", str(folder)]) == 0
        taken = re.findall(r"graph (\S+): \d+ tensors, (\S+) cycles each", capsys.readouterr().out)
        assert main(["netlist", "analyze", str(folder), "--format=yaml"]) == 0
    costs = yaml.safe_load(capsys.readouterr().out)
    assert [(cost["epoch"], f"{cost['cycles']:,.0f}") for cost in costs] == taken
    assert all(sum(cost["ops"].values()) == pytest.approx(cost["cycles"], abs=1) for cost in costs)
    assert main(["netlist", "compile", str(file), "-o", str(folder)]) == 1
    assert "is there and no empty folder" in capsys.readouterr().err
    assert main(["netlist", "run", str(folder), "--arch=grayskull"]) == 1
    assert "--arch is of what is compiled" in capsys.readouterr().err
    (folder / "compiled.json").write_text('{"format_version": 1}')
    assert main(["netlist", "run", str(folder)]) == 1
    assert "error E1007" in capsys.readouterr().err


def test_analyze_names_the_slowest_op(capsys: pytest.CaptureFixture[str]):
    assert main(["netlist", "analyze", str(SOFTMAX)]) == 0
    found = capsys.readouterr().out
    assert re.match(
        r"epoch softmax: \S+ cycles a tensor, 2 an execution; the bound is \S+, \S+ of them\n"
        r"placement given, 2 inputs at once; cycles of placement chip: \S+ a tensor\nslowest op: power; busy: ",
        found,
    )
    assert {"power", "total", "inverse", "share"} <= {line.split()[0] for line in found.splitlines()[2:]}


def test_analyze_tells_what_goes_between_ops(capsys: pytest.CaptureFixture[str]):
    assert main(["netlist", "analyze", str(SOFTMAX), "--format=json"]) == 0
    (cost,) = json.loads(capsys.readouterr().out)
    edges = {(edge["from"], edge["to"]): edge["bytes"] for edge in cost["edges"]}
    tensor = 64 * 128 * 2
    once = {("scores", "power"), ("total", "inverse"), ("power", "share"), ("inverse", "share"), ("share", "shares")}
    assert edges.keys() == once | {("power", "total"), ("ones", "total")}
    assert all(edges[edge] == tensor for edge in once)
    assert cost["tiles"] == {"power": "0,0,1,1", "total": "0,1,1,2", "inverse": "1,0,1,1", "share": "1,1,2,2"}
    assert main(["netlist", "analyze", str(SOFTMAX), "--format=yaml", "--placement=chip"]) == 0
    (other,) = yaml.safe_load(capsys.readouterr().out)
    assert (other["placement"], other["cycles"]) == ("chip", cost["cycles of placement chip"])
    assert other["cycles of placement netlist"] == cost["cycles"]


SOFTMAX_HLO = Path(__file__).parents[2] / "hlo_samples" / "reduce" / "softmax_f32.hlo"


def test_emit_writes_a_netlist_that_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file, outputs = tmp_path / "softmax.yaml", tmp_path / "out.npz"
    flags = ["--check", "--microbatches=2", "--microbatch_size=3", "--grid=4x4", "--arch=blackhole", "--format=Float16_b"]
    assert main(["netlist", "emit", str(SOFTMAX_HLO), "-o", str(file), *flags]) == 0
    assert re.search(r"1 graphs, \d+ ops; .*\nout0 f32\[48,100\]: 48 of 48 tiles agree", capsys.readouterr().out)
    assert main(["netlist", "check", str(file)]) == 0
    assert main(["netlist", "run", str(file), f"--inputs={file.with_suffix('.npz')}", f"--outputs={outputs}"]) == 0
    with np.load(outputs) as found:
        assert found["out0"].shape == (6, 1, 64, 128)
        assert np.allclose(found["out0"][:, 0, :48, :100].sum(axis=-1), 1, atol=0.05)


def test_emit_takes_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file, inputs = tmp_path / "softmax.yaml", tmp_path / "args.npz"
    np.savez(inputs, arg0=np.arange(4800, dtype=np.float32).reshape(48, 100) % 7)
    assert main(["netlist", "emit", str(SOFTMAX_HLO), "-o", str(file), f"--inputs={inputs}"]) == 0
    with np.load(file.with_suffix(".npz")) as found:
        assert (found["arg0"][0, 0, 3, :100] == np.arange(300, 400) % 7).all()
    np.savez(inputs, x=np.zeros(3))
    assert main(["netlist", "emit", str(SOFTMAX_HLO), "-o", str(file), f"--inputs={inputs}"]) == 1
    assert "has no arg0" in capsys.readouterr().err


def test_emit_names_what_it_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    sample = SOFTMAX_HLO.parents[1] / "control" / "doubling_f32.hlo"
    assert main(["netlist", "emit", str(sample), "-o", str(tmp_path / "x.yaml")]) == 3
    assert "1 x stablehlo.while: how often it runs depends on data at" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["netlist", "emit", str(sample), "-o", str(tmp_path / "x.yaml"), "--grid=8"])
