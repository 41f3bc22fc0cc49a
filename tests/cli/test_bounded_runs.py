"""Runs end when they should, files that cannot be written are named, and every locale can print."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.errors import DeviceError, InputError
from hlo2tx8.options import Options
from hlo2tx8.runtime.tensors import write_tensors
from hlo2tx8.tools.main import main

SAMPLE = str(Path(__file__).parents[2] / "hlo_samples" / "elementwise" / "empty.hlo")
ENDLESS = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.while(%x = %a) : tensor<4xf32>
  cond {
    %s = stablehlo.slice %x [0:1] : (tensor<4xf32>) -> tensor<1xf32>
    %t = stablehlo.reshape %s : (tensor<1xf32>) -> tensor<f32>
    %c = stablehlo.compare LE, %t, %t : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %y = stablehlo.add %x, %x : tensor<4xf32>
    stablehlo.return %y : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}"""


@pytest.mark.parametrize("mode", ["fast", "strict", "definition"])
def test_a_timeout_ends_a_run(mode: str):
    executable = hlo2tx8.compile(ENDLESS, Options(mode=mode, timeout=0.3))
    with pytest.raises(DeviceError, match=r"still running after 0\.3 s") as caught:
        executable.run(np.ones(4, np.float32))
    assert caught.value.code == "E1008"


@pytest.mark.parametrize("flags", [(), ("--platform=interpreter",), ("--level=loops",), ("--level=all",)])
def test_timeout_of_every_platform(flags: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "endless.mlir"
    path.write_text(ENDLESS)
    assert main(["run", "--timeout=0.5", *flags, str(path)]) == 1
    assert "still running after 0.5 s" in capsys.readouterr().err


@pytest.mark.parametrize("mode", ["fast", "strict", "definition"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_ends_after_so_many_turns(mode: str, threads: int):
    """At the same place in every mode, and the program runs again."""
    executable = hlo2tx8.compile(ENDLESS, Options(mode=mode, threads=threads, max_steps=200))
    for _ in range(2):
        with pytest.raises(DeviceError) as caught:
            executable.run(np.ones(4, np.float32))
        assert caught.value.code == "E1008"
        assert "fault runaway: more than 200 turns of loops\n  at tile 0, engine KC, record" in str(caught.value)
        assert "loop counters [200]\n  from <text>:9" in str(caught.value)
    assert np.isnan(executable.run(np.full(4, np.nan, np.float32))).all()


def test_turns_are_counted_alike(tmp_path: Path):
    """As many as there are are enough, one fewer is not; those of all loops of a tile count together."""
    text = """func.func @main(%n: tensor<i32>) -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %a, %b = stablehlo.while(%x = %zero, %s = %zero) : tensor<i32>, tensor<i32>
  cond {
    %c = stablehlo.compare LT, %x, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %d, %e = stablehlo.while(%u = %x, %v = %s) : tensor<i32>, tensor<i32>
    cond {
      %c = stablehlo.compare LT, %u, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %w = stablehlo.add %u, %one : tensor<i32>
      %t = stablehlo.multiply %v, %w : tensor<i32>
      stablehlo.return %w, %t : tensor<i32>, tensor<i32>
    }
    %z = stablehlo.add %x, %one : tensor<i32>
    stablehlo.return %z, %e : tensor<i32>, tensor<i32>
  }
  return %b : tensor<i32>
}"""
    path = tmp_path / "nested.mlir"
    path.write_text(text)
    write_tensors(tmp_path / "n.safetensors", {"input0": np.array(4, np.int32)})
    run = ["run", f"--input_literals_file={tmp_path / 'n.safetensors'}", "--reference_platform=", str(path)]
    module = 4 + 4 + 3 + 2 + 1
    for level in ("hlo", "fused", "loops", "flat", "vector"):
        assert [main([*run, f"--level={level}", f"--max_steps={n}"]) for n in (module, module - 1)] == [0, 1]
    modes = [[], ["--mode=strict"], ["--mode=definition"], ["--level=scheduled"]]
    found = {next(n for n in range(module - 1, 99) if not main([*run, *mode, f"--max_steps={n}"])) for mode in modes}
    assert len(found) == 1


@pytest.mark.parametrize("flags", [(), ("--platform=interpreter",), ("--level=loops",), ("--level=all",), ("--compare_each",)])
def test_turns_of_every_platform(flags: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "endless.mlir"
    path.write_text(ENDLESS)
    assert main(["run", "--max_steps=500", *flags, str(path)]) == 1
    assert "more than 500 turns of loops" in capsys.readouterr().err
    assert main(["bisect", "--max_steps=500", str(path)]) == 1
    assert "more than 500 turns of loops" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max_steps", -1, "max_steps is -1"),
        ("max_steps", 1.5, "max_steps is 1.5"),
        ("timeout", -1, "timeout is -1"),
        ("timeout", float("nan"), "timeout is nan"),
        ("timeout", True, "timeout is True"),
        ("threads", -1, "threads is -1"),
        ("threads", 1.5, "threads is 1.5"),
        ("step_elements", "8", "step_elements is '8'"),
        ("mode", "slow", "no mode 'slow'"),
        ("mode", ["fast"], "no mode"),
        ("until", "flat", "until is 'flat'"),
        ("chip", "chip.yaml", "chip is 'chip.yaml'"),
        ("verify", 1, "verify is 1"),
        ("dump_emitter_re", "(", r"'\(' is not a regular expression"),
    ],
)
def test_a_wrong_value_is_refused_where_it_is_given(name: str, value: object, message: str):
    with pytest.raises(InputError, match=message):
        Options(**{name: value})


def test_a_timeout_may_be_as_long_as_it_likes():
    assert main(["run", "--timeout=inf", SAMPLE]) == 0


@pytest.mark.parametrize("flags", [["run", "--trace"], ["run", "--output_literals_file"], ["compile", "-o"]])
def test_where_nothing_can_be_written(flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for path, message in ((tmp_path / "no" / "file", f"there is no folder {tmp_path / 'no'}"), (tmp_path, "is a folder")):
        assert main([*flags, str(path), SAMPLE]) == 1
        said = capsys.readouterr().err
        assert said == f"error E1004: {path}{': ' if 'there' in message else ' '}{message}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("flags", [["run", "--trace"], ["run", "--output_literals_file"], ["compile", "-o"], ["opt", "-o"]])
def test_a_full_disk_is_named(flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "a.mlir").write_text("builtin.module {}")
    assert main([*flags, "/dev/full", str(tmp_path / "a.mlir") if flags[0] == "opt" else SAMPLE]) == 1
    assert "error E1004: /dev/full: No space left on device" in capsys.readouterr().err


def test_ascii_locales_print(tmp_path: Path):
    path = tmp_path / "größe.hlo"
    path.write_bytes(Path(SAMPLE).read_bytes())
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    command = [sys.executable, "-m", "hlo2tx8", "profile", str(path)]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert b"gr??e.hlo" in done.stdout
