"""`hlo2tx8 run` and `compile` of modules for several chips, and with infeed and outfeed."""

import json
from pathlib import Path

import numpy as np
import pytest

from hlo2tx8.runtime.tensors import read_tensors, write_tensors
from hlo2tx8.tools.main import main

TEXT = """HloModule m, replica_count=2
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  x = f32[5] parameter(0)
  ROOT r = f32[5] all-reduce(x), replica_groups={}, to_apply=add
}"""
FED = """HloModule m
ENTRY e {
  t = token[] after-all()
  f = (f32[3], token[]) infeed(t)
  x = f32[3] get-tuple-element(f), index=0
  t1 = token[] get-tuple-element(f), index=1
  y = f32[3] sine(x)
  o = token[] outfeed(y, t1)
  ROOT r = f32[3] add(x, y)
}"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "m.hlo").write_text(TEXT)
    (tmp_path / "fed.hlo").write_text(FED)
    return tmp_path


@pytest.mark.parametrize(("flags", "count"), [([], 2), (["--chips=3"], 3), (["--replicas=2", "--partitions=2"], 4)])
def test_run_on_several_chips(files: Path, capsys: pytest.CaptureFixture[str], flags: list[str], count: int) -> None:
    out = files / "out.safetensors"
    assert main(["run", str(files / "m.hlo"), "--report", f"--output_literals_file={out}", *flags]) == 0
    told = capsys.readouterr()
    assert f"{count} chips: " in told.err
    assert "close enough" in told.err
    assert "links" in told.out
    stored = read_tensors(out)
    assert [f"result0@{chip}" in stored for chip in range(count + 1)] == [True] * count + [False]
    if count < 4:
        np.testing.assert_allclose(stored["result0@0"], sum(stored[f"input0@{chip}"] for chip in range(count)), rtol=1e-6)


def test_inputs_of_chips_in_a_file(files: Path) -> None:
    given, out = files / "in.safetensors", files / "out.safetensors"
    write_tensors(given, {"input0": np.ones(5, np.float32), "input0@1": np.full(5, 2, np.float32)})
    assert main(["run", str(files / "m.hlo"), f"--input_literals_file={given}", f"--output_literals_file={out}"]) == 0
    np.testing.assert_array_equal(read_tensors(out)["result0@1"], np.full(5, 3))


def test_xla_cpu_as_the_reference(files: Path) -> None:
    assert main(["run", str(files / "m.hlo"), "--reference_platform=cpu"]) == 0


def test_every_mode_of_the_emulator_and_what_a_wrong_bound_says(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(files / "fed.hlo"), "--level=all"]) == 0
    assert "definition and interpreter are close enough" in capsys.readouterr().err
    given, out = files / "feed.safetensors", files / "out.safetensors"
    write_tensors(given, {"infeed0": np.arange(3, dtype=np.float32)})
    assert main(["run", str(files / "fed.hlo"), f"--infeed={given}", f"--output_literals_file={out}", "--print_literals"]) == 0
    assert "** outfeed0 **" in capsys.readouterr().out
    np.testing.assert_allclose(read_tensors(out)["outfeed0"], np.sin(np.arange(3)), rtol=1e-6)


def test_compile_reports_the_programs_between_the_ops_of_the_host(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(files / "fed.hlo"), "--report"]) == 0
    assert "part 1" in capsys.readouterr().out
    assert main(["compile", str(files / "fed.hlo"), "-o", str(files / "p.tx8x")]) == 1
    assert "holds the program of one chip" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--chips=3", "--replicas=2"], "--chips=3 cannot be shared by 2"),
        (["--chips=4", "--replicas=2", "--partitions=2"], "--chips is --replicas times --partitions"),
        (["--chips=2", "--until=flat"], "--chips is of runs, and --until prints"),
        (["--chips=2", "--isolate_instructions"], "--chips is of whole modules"),
        (["--reference_platform=tx8"], "--reference_platform=tx8 is for modules on one chip"),
        (["--explain"], "--explain is for modules on one chip"),
        (["--compare_each"], "--compare_each is for modules on one chip"),
        (["--level=loops"], "--level is for modules on one chip"),
    ],
)
def test_flags_that_do_not_fit(files: Path, capsys: pytest.CaptureFixture[str], flags: list[str], said: str) -> None:
    assert main(["run", str(files / "m.hlo"), *flags]) == 1
    assert said in capsys.readouterr().err


def test_profiles_have_parts_and_links(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(files / "m.hlo"), "--chips=3"]) == 0
    told = capsys.readouterr().out
    assert "part 0, times: 1\ncombine_all_reduce: " in told and "chip of 3 x 1" in told
    assert main(["profile", str(files / "m.hlo"), "--format=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [len(found[key]) for key in ("parts", "link", "chip")] == [1, 1, 2]
    assert found["link"][0]["op"] == "all_reduce" and found["parts"][0]["times"] == 1
    assert main(["profile", str(files / "m.hlo"), "--format=jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"program", "fusion", "engine", "link", "chip"} <= {row["kind"] for row in rows}


def test_check_says_what_goes_over_links(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(files / "m.hlo")]) == 0
    assert "links+CT" in capsys.readouterr().out
    assert main(["check", str(files / "fed.hlo")]) == 0
    told = capsys.readouterr().out
    assert "host" in told and "0 of 5 operations refused" in told
