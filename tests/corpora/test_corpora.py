"""The runners of foreign corpora, on corpora written here: what passes, fails, crashes and is left out."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

STABLEHLO = """
func.func @agrees() {
  %0 = stablehlo.constant dense<[1, 2, -3]> : tensor<3xi32>
  %1 = stablehlo.add %0, %0 : tensor<3xi32>
  check.expect_eq_const %1, dense<[2, 4, -6]> : tensor<3xi32>
  func.return
}
// -----
func.func @differs() {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = stablehlo.negate %0 : tensor<2xf32>
  check.expect_almost_eq_const %1, dense<[-1.0, -2.001]> : tensor<2xf32>, tolerance = 0.0001
  func.return
}
// -----
module {
  func.func @near() {
    %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %1 = stablehlo.constant dense<[1.0000001, 2.0]> : tensor<2xf32>
    %2 = stablehlo.multiply %0, %0 : tensor<2xf32>
    %3 = stablehlo.sqrt %2 : tensor<2xf32>
    check.expect_close %3, %1, max_ulp_difference = 1 : tensor<2xf32>, tensor<2xf32>
    func.return
  }
}
// -----
module {
  func.func public @main() -> tensor<2xi8> {
    %0 = call @inputs() : () -> tensor<2xi8>
    %1 = stablehlo.constant dense<[3, 4]> : tensor<2xi8>
    %2 = stablehlo.constant dense<1> : tensor<2xi8>
    %3 = stablehlo.subtract %0, %2 : tensor<2xi8>
    stablehlo.custom_call @check.expect_eq(%3, %1) {has_side_effect = true} : (tensor<2xi8>, tensor<2xi8>) -> ()
    return %3 : tensor<2xi8>
  }
  func.func private @inputs() -> tensor<2xi8> {
    %0 = stablehlo.constant dense<[4, 5]> : tensor<2xi8>
    return %0 : tensor<2xi8>
  }
}
// -----
func.func @quantised() {
  %0 = stablehlo.constant dense<[4.0, 15.0]> : tensor<2xf32>
  %1 = stablehlo.uniform_quantize %0 : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:-3>>
  %2 = stablehlo.uniform_dequantize %1 : (tensor<2x!quant.uniform<i8:f32, 0.5:-3>>) -> tensor<2xf32>
  %3 = stablehlo.custom_call @check.eq(%0, %2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<i1>
  func.return
}
// -----
func.func @main(%n: tensor<i64>, %x: tensor<?x8xf32>) -> tensor<?x?xf32> {
  %0 = stablehlo.constant dense<2> : tensor<1xi64>
  %1 = stablehlo.reshape %n : (tensor<i64>) -> tensor<1xi64>
  %2 = stablehlo.constant dense<4> : tensor<1xi64>
  %5 = stablehlo.multiply %1, %2 : tensor<1xi64>
  %3 = stablehlo.concatenate %0, %5, dim = 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %4 = stablehlo.dynamic_reshape %x, %3 : (tensor<?x8xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  func.return %4 : tensor<?x?xf32>
}
// -----
func.func @several() {
  %0 = stablehlo.replica_id : tensor<ui32>
  check.expect_eq_const %0, dense<0> : tensor<ui32>
  func.return
}
"""
FUSION = """// RUN: nothing
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}
 fused {
   p0 = f32[8,33] parameter(0)
   start = f32[] parameter(1)
   ROOT sums = f32[8] reduce(p0, start), dimensions={1}, to_apply=add
 }
// CHECK: nothing
"""

IREE = """
func.func @sums() {
  %0 = util.unfoldable_constant dense<[1.5, 2.5]> : tensor<2xf32>
  %1 = call @twice(%0) : (tensor<2xf32>) -> tensor<2xf32>
  // check.expect_eq_const(%1, dense<0.0> : tensor<2xf32>) : tensor<2xf32>
  check.expect_almost_eq_const(
      %1,
      dense<[3.0, 5.0]> : tensor<2xf32>
  ) : tensor<2xf32>
  return
}
func.func @differs () {
  %0 = util.unfoldable_constant dense<3> : tensor<i32>
  %1 = stablehlo.add %0, %0 : tensor<i32>
  check.expect_eq(%1, %0) : tensor<i32>
  return
}
func.func private @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @draws() {
  %0 = util.unfoldable_constant dense<3> : tensor<2xui64>
  %1, %2 = stablehlo.rng_bit_generator %0, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  check.expect_eq_const(%2, dense<0> : tensor<4xui32>) : tensor<4xui32>
  return
}
"""


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_stablehlo_cases_are_judged_and_counted(tmp_path: Path) -> None:
    folder = tmp_path / "stablehlo" / "tests" / "interpret"
    folder.mkdir(parents=True)
    (folder / "ops.mlir").write_text(STABLEHLO)
    done = run("stablehlo.py", tmp_path)
    assert done.returncode == 1
    assert "tests/interpret                     5       1        1" in done.stdout, done.stdout + done.stderr
    assert "83.33 % of 6 cases pass" in done.stdout
    assert "wrong answer (almost_eq): 1 of 2 elements, first at [1]: got -2.0, expected -2.00" in done.stdout
    assert "1  several devices" in done.stdout


def test_each_function_that_checks_something_is_a_case(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "e2e" / "stablehlo_ops"
    folder.mkdir(parents=True)
    (folder / "ops.mlir").write_text(IREE)
    done = run("iree.py", tmp_path)
    assert done.returncode == 1
    assert "50.00 % of 2 cases pass" in done.stdout, done.stdout + done.stderr
    assert "ops.mlir@differs: wrong answer (eq): 1 of 1 elements" in done.stderr
    assert "1  random numbers of IREE's own" in done.stdout


def test_a_fusion_is_compiled_as_one_and_compared(tmp_path: Path) -> None:
    folder = tmp_path / "xla" / "emitters" / "tests" / "reduce_row"
    folder.mkdir(parents=True)
    (folder / "sum.hlo").write_text(FUSION)
    done = run("xla_emitters.py", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "reduce_row                          1       0        0" in done.stdout
    assert "reduction of hero reduction       1" in done.stdout


def test_a_child_that_dies_is_a_failure_and_the_next_case_runs(tmp_path: Path) -> None:
    child = tmp_path / "child.py"
    child.write_text(
        "import os, sys\nsys.path.insert(0, " + repr(str(HERE)) + ")\nfrom pool import serve\n"
        "serve(lambda r: os._exit(3) if r['case'] == 'dies' else {'outcome': 'passed', 'cause': ''})\n"
    )
    probe = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pool import run_cases\n"
        "print([o['outcome'] + o['cause'] for o in run_cases([sys.argv[2]], [{'case': 'dies'}, {'case': 'lives'}], 20)])"
    )
    command = [sys.executable, "-c", probe, str(HERE), str(child)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['failedcrashed, exit code 3', 'passed']"
