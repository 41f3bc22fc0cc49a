"""chlo.scan becomes a loop that gives what a loop in Python gives."""

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate

TEXT = """
func.func @main(%x: tensor<2x5xi32>, %y: tensor<5x3xf32>, %a: tensor<2xi32>, %b: tensor<3xf32>)
    -> (tensor<2x5xi32>, tensor<2xi32>) {
  %0:2 = chlo.scan(%x) inits(%a) dimension=1 REVERSE {
  ^bb0(%value: tensor<2xi32>, %carry: tensor<2xi32>):
    %1 = stablehlo.multiply %carry, %value : tensor<2xi32>
    %2 = stablehlo.add %1, %value : tensor<2xi32>
    stablehlo.return %1, %2 : tensor<2xi32>, tensor<2xi32>
  } : (tensor<2x5xi32>, tensor<2xi32>) -> (tensor<2x5xi32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2x5xi32>, tensor<2xi32>
}
"""


@pytest.mark.parametrize("is_reverse", [False, True])
def test_scan_is_a_loop(is_reverse: bool) -> None:
    text = TEXT.replace("REVERSE", "attributes {is_reverse = true}" if is_reverse else "")
    rng = np.random.default_rng(0)
    x, a = rng.integers(-5, 6, (2, 5)).astype(np.int32), rng.integers(-5, 6, 2).astype(np.int32)
    y, b = np.zeros((5, 3), np.float32), np.zeros(3, np.float32)
    carry, out = a, np.zeros_like(x)
    for i in reversed(range(5)) if is_reverse else range(5):
        out[:, i] = carry * x[:, i]
        carry = out[:, i] + x[:, i]
    for found in (evaluate(load(text), x, y, a, b), hlo2tx8.compile(text).execute(x, y, a, b)):
        np.testing.assert_array_equal(found[0], out)
        np.testing.assert_array_equal(found[1], carry)
