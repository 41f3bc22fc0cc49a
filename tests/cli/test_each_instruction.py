"""`run --compare_each`, `--dump_results` and `--check_values`: the instruction that goes wrong is named."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.math import ExpOp, Log1pOp
from xdsl.rewriter import Rewriter

from hlo2tx8.lower.loops.flatten_tensors import FlattenTensorsPass
from hlo2tx8.runtime.tensors import read_tensors, write_tensors
from hlo2tx8.tools.main import main

MODULE = """HloModule m
fused {
  p = f32[6,33] parameter(0)
  t = f32[6,33] tanh(p)
  ROOT e = f32[6,33] exponential(t)
}
ENTRY main {
  a = f32[6,33] parameter(0)
  c = bf16[6,33] convert(a)
  w = f32[6,33] convert(c)
  ROOT f = f32[6,33] fusion(w), kind=kLoop, calls=fused
}
"""
VALUES = """HloModule v
ENTRY main {
  a = f32[70] parameter(0)
  b = f32[70] parameter(1)
  d = f32[70] subtract(a, b)
  r = f32[70] OP(ARGUMENTS)
  ROOT s = f32[70] add(r, a)
}
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "module.hlo"
    path.write_text(MODULE)
    return path


def test_every_instruction_is_compared_also_inside_of_fusions(module: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["run", "--compare_each", str(module)]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert len(rows) == 4
    assert all(row.endswith("agrees") for row in rows)
    assert [sum(f" {name} " in row for row in rows) for name in ("convert", "tanh", "exponential")] == [2, 1, 1]
    assert main(["run", "--compare_each", "--filter=tanh", "--level=flat", str(module)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["run", "--compare_each", "--filter=cosine", str(module)]) == 1


def test_the_instruction_that_is_wrong_comes_first(
    module: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    correct = FlattenTensorsPass.apply

    def broken(self: FlattenTensorsPass, ctx: Context, op: ModuleOp) -> None:
        correct(self, ctx, op)
        for exponential in [inner for inner in op.walk() if isinstance(inner, ExpOp)]:
            Rewriter.replace_op(exponential, Log1pOp(exponential.operands[0]))

    monkeypatch.setattr(FlattenTensorsPass, "apply", broken)
    assert main(["run", "--compare_each", "--level=flat", str(module)]) == 1
    first, *others = capsys.readouterr().out.splitlines()[1:]
    assert "exponential" in first
    assert "WRONG at [" in first
    assert all(row.endswith("agrees") for row in others)


def test_values_are_written_as_numpy_reads_them(module: Path, tmp_path: Path):
    inputs, folder = tmp_path / "inputs.safetensors", tmp_path / "values"
    x = np.linspace(-2, 2, 198, dtype=np.float32).reshape(6, 33)
    write_tensors(inputs, {"input0": x})
    assert main(["run", f"--dump_results={folder}", f"--input_literals_file={inputs}", str(module)]) == 0
    files = sorted(folder.iterdir())
    assert len(files) == 4
    narrow, wide, tangent, result = (np.load(file) for file in files)
    assert narrow.dtype == np.float32
    assert (narrow == wide).all()
    assert np.abs(narrow - x).max() < 2.0**-7
    assert np.allclose(tangent, np.tanh(wide), atol=1e-5)
    assert np.allclose(result, np.exp(tangent), atol=1e-5)
    at_level = ["--level=vector", "--filter=tanh", f"--dump_results={folder / 'vector'}"]
    assert main(["run", *at_level, f"--input_literals_file={inputs}", str(module)]) == 0
    (only,) = (folder / "vector").iterdir()
    assert np.allclose(np.load(only), tangent, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "arguments", "a", "b", "found"),
    [
        ("sqrt", "d", 1.0, 3.0, "elements are NaN, the first element 0 of -2; operand 0: -2 to -2"),
        ("exponential", "d", 200.0, 1.0, "elements are infinite, the first element 0 of 199"),
        ("divide", "a, d", 2.0, 2.0, "elements are infinite, the first element 0 of 2, 0; operand 0: 2 to 2; operand 1: 0 to 0"),
    ],
)
def test_the_first_value_that_is_no_number_is_named(
    op: str, arguments: str, a: float, b: float, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path, inputs = tmp_path / "values.hlo", tmp_path / "inputs.safetensors"
    path.write_text(VALUES.replace("OP", op).replace("ARGUMENTS", arguments))
    write_tensors(inputs, {"input0": np.full(70, a, np.float32), "input1": np.full(70, b, np.float32)})
    assert main(["run", "--check_values", f"--input_literals_file={inputs}", str(path)]) == 1
    error = capsys.readouterr().err
    assert found in error
    assert "at tile 0, engine CT" in error
    assert "values.hlo:6 r" in error
    assert main(["run", f"--input_literals_file={inputs}", str(path)]) == 0


def test_values_that_are_given_are_not_made(tmp_path: Path):
    path, inputs = tmp_path / "values.hlo", tmp_path / "inputs.safetensors"
    path.write_text(VALUES.replace("OP", "maximum").replace("ARGUMENTS", "d, b"))
    given = np.full(70, 1, np.float32)
    given[3:5] = np.nan, np.inf
    write_tensors(inputs, {"input0": given, "input1": np.ones(70, np.float32)})
    assert sorted(read_tensors(inputs)) == ["input0", "input1"]
    assert main(["run", "--check_values", f"--input_literals_file={inputs}", str(path)]) == 0
