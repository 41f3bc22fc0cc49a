"""Inputs drawn for a module fit what they are used for."""

import numpy as np
import pytest

from hlo2tx8.frontend import load
from hlo2tx8.hlo.signature import signature_of
from hlo2tx8.tools.arguments import random_arguments, seeded

SUM = """
func.func @main(%x: tensor<4x8xf32>, %start: tensor<f32>) -> tensor<4xf32> {
  %0 = stablehlo.reduce(%x init: %start) applies stablehlo.OP across dimensions = [1]
    : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def drawn(text: str) -> tuple[np.ndarray, ...]:
    module = load(text)
    return random_arguments(module, signature_of(module), seeded(0, different_seeds=False))


def test_sums_and_products_start_with_their_neutral_element() -> None:
    assert drawn(SUM.replace("OP", "add"))[1] == 0
    assert drawn(SUM.replace("OP", "multiply"))[1] == 1
    assert drawn(SUM.replace("OP", "maximum"))[1] not in (0, 1)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_floats_reach_where_functions_bend_and_stay_where_they_are_defined(dtype: str) -> None:
    text = """func.func @main(%x: TYPE, %y: TYPE, %z: TYPE) -> (TYPE, TYPE, TYPE) {
      %0 = stablehlo.tanh %x : TYPE
      %1 = stablehlo.log %y : TYPE
      %2 = stablehlo.divide %0, %z : TYPE
      return %0, %1, %2 : TYPE, TYPE, TYPE
    }"""
    x, y, z = (array.astype(np.float64) for array in drawn(text.replace("TYPE", f"tensor<32x64x{dtype}>")))
    assert x.min() < -5 and x.max() > 5 and 0.3 < (np.abs(x) < 1).mean() < 0.8 and (x == 0).any()
    assert 0 < y.min() < 0.1 and y.max() > 10
    assert np.abs(z).min() >= 1 / 8 and z.min() < -5 < 5 < z.max()
