"""`hlo2tx8 check`: everything that is refused at once, with types, places and reasons; engines and emitters of the rest."""

import json
from pathlib import Path

import pytest

from hlo2tx8.tools.main import main

SAMPLES = Path(__file__).parents[2] / "hlo_samples"
UNKNOWN = """module @m {
func.func @main(%a: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) {
  %b = stablehlo.tanh %a : tensor<3x4xf32>
  %c = stablehlo.custom_call @nobody(%b) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %d = stablehlo.custom_call @nobody(%c) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %b, %c, %d : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
}
}
"""


def test_what_compiles_is_told_with_engines_and_emitters(capsys: pytest.CaptureFixture[str]):
    assert main(["check", str(SAMPLES / "control" / "case_if.mlir"), "--format=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["error"] == ""
    ops = {op["name"]: op for op in found["ops"]}
    assert ops["stablehlo.multiply"]["engines"] == "KC"
    assert ops["stablehlo.multiply"]["places"][0].endswith("case_if.mlir:21:18")
    fusions = {fusion["name"]: fusion for fusion in found["fusions"]}
    assert (fusions["multiply_fusion"]["emitter"], fusions["multiply_fusion"]["engines"]) == ("loop", "KC")
    assert (fusions["copy"]["emitter"], fusions["copy"]["engines"]) == ("linker", "DMA")
    assert main(["check", str(SAMPLES / "control" / "case_if.mlir")]) == 0
    assert capsys.readouterr().out.endswith("compiles: 0 of 7 operations refused\n")


def test_everything_refused_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "unknown.mlir"
    file.write_text(UNKNOWN)
    assert main(["check", str(file)]) == 1
    head, row, *rest = capsys.readouterr().out.splitlines()
    assert head.split() == ["refused", "types", "uses", "reason", "places"]
    assert row.startswith("stablehlo.custom_call") and "f32[,] → f32[,]     2" in row
    assert row.endswith("unknown.mlir:4:8, unknown.mlir:5:8")
    assert any(line.startswith("stablehlo.tanh") and " CT " in line for line in rest)
    assert rest[-1] == "does not compile: 2 of 3 operations refused"
