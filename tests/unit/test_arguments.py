"""Inputs drawn for a module fit what they are used for."""

import numpy as np

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
