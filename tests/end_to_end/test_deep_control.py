"""Loops inside each other, as deep as they may be: programs in every mode, and their modelled time."""

from dataclasses import replace

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.frontend.walker import MOST_AROUND


def nested_loops(depth: int) -> str:
    """Each doubles its state before and after the loop inside, as long as it is below 8."""
    lines = ["%limit = stablehlo.constant dense<8.0> : tensor<f32>"]
    value = "%a"
    for n in range(depth):
        lines += [
            f"%r{n} = stablehlo.while(%x{n} = {value}) : tensor<f32>",
            "cond {",
            f"%c{n} = stablehlo.compare LT, %x{n}, %limit : (tensor<f32>, tensor<f32>) -> tensor<i1>",
            f"stablehlo.return %c{n} : tensor<i1>",
            "} do {",
            f"%d{n} = stablehlo.add %x{n}, %x{n} : tensor<f32>",
        ]
        value = f"%d{n}"
    for n in reversed(range(depth)):
        result = f"%r{n + 1}" if n + 1 < depth else value
        lines += [f"%s{n} = stablehlo.add {result}, {result} : tensor<f32>", f"stablehlo.return %s{n} : tensor<f32>", "}"]
    body = "\n  ".join(lines)
    return f"func.func @main(%a: tensor<f32>) -> tensor<f32> {{\n  {body}\n  return %r0 : tensor<f32>\n}}"


@pytest.mark.parametrize("depth", [3, 40, pytest.param(MOST_AROUND, marks=pytest.mark.slow)])
def test_loops_in_loops(depth: int):
    executable = hlo2tx8.compile(nested_loops(depth))
    start = np.float32(2.0 ** (2 - depth / 2))
    results = [replace(executable, options=replace(executable.options, mode=mode)).run(start) for mode in ("fast", "strict")]
    assert results[0] == results[1] and results[0] >= 8
    assert executable.report.cycles > 0
