import ml_dtypes
import numpy as np
import pytest

from hlo2tx8.errors import OracleError
from hlo2tx8.tools.xla_cpu import run_on_cpu

TANH = """func.func @main(%a: tensor<2xbf16>, %i: tensor<i4>, %d: tensor<f64>)
    -> (tensor<2xbf16>, tensor<i4>, tensor<f64>) {
  %0 = stablehlo.tanh %a : tensor<2xbf16>
  return %0, %i, %d : tensor<2xbf16>, tensor<i4>, tensor<f64>
}"""


def test_results_come_back_in_every_dtype():
    a = np.array([0, 1], ml_dtypes.bfloat16)
    i, d = np.array(-3, ml_dtypes.int4), np.array(1e300)
    tanh, same_i, same_d = run_on_cpu(TANH, [a, i, d])
    assert tanh.dtype == a.dtype
    assert float(tanh[1]) == 0.76171875
    assert int(same_i) == -3
    assert float(same_d) == 1e300


def test_a_refusal_is_one_line():
    with pytest.raises(OracleError, match="XLA:CPU could not run the module") as caught:
        run_on_cpu("func.func @main() { oops }", [])
    assert "\n" not in str(caught.value)
