"""Custom calls by which other systems write operations: what they give, from StableHLO and from HLO text."""

import ml_dtypes
import numpy as np
import pytest
from scipy import special

import hlo2tx8
from hlo2tx8.errors import Hlo2tx8Error

X = np.array([[3, -1, np.nan, 7, 7, -np.inf, 0], [2, 2, 5, -0.0, 0, 1, 4]], np.float32)
COMPARATOR = """
by {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT less = pred[] compare(a, b), direction=LT
}
"""
FINITE = np.where(np.isfinite(X), X, 9).astype(np.float32)


def run(text: str, *inputs: np.ndarray) -> list[np.ndarray]:
    return hlo2tx8.compile(text).execute(*inputs)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("form", ["op", "call"])
def test_top_k_of_the_largest_and_of_the_smallest(form: str, largest: bool) -> None:
    word = str(largest).lower()
    text = {
        "op": f"HloModule m\nENTRY e {{ x = f32[2,7] parameter(0)\n ROOT r = (f32[2,3], s32[2,3]) topk(x), k=3, largest={word} }}",
        "call": f"""func.func @main(%x: tensor<2x7xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {{
            %0:2 = stablehlo.custom_call @mhlo.topk(%x) {{mhlo.attributes = {{k = 3 : i64, largest = {word}}}}}
                : (tensor<2x7xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>)
            return %0#0, %0#1 : tensor<2x3xf32>, tensor<2x3xi32>
        }}""",
    }[form]
    values, places = run(text, X)
    expected = [[2, 3, 4], [2, 6, 0]] if largest else [[5, 1, 6], [3, 4, 5]]
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(X, places, 1))


@pytest.mark.parametrize("target", ["TopK", "ApproxTopK"])
def test_a_comparator_says_which_come_first(target: str) -> None:
    more = ', backend_config={"top_k":3, "reduction_dim":1, "recall_target":0.9}' if target == "ApproxTopK" else ""
    operands = "x, i, z, m" if target == "ApproxTopK" else "x"
    text = f"""HloModule m
{COMPARATOR}
ENTRY e {{
  x = f32[2,7] parameter(0)
  i = s32[2,7] iota(), iota_dimension=1
  z = f32[] constant(inf)
  m = s32[] constant(-1)
  ROOT r = (f32[2,3], s32[2,3]) custom-call({operands}), custom_call_target="{target}", called_computations={{by}}{more}
}}"""
    values, places = run(text, FINITE)
    np.testing.assert_array_equal(places, np.argsort(FINITE, 1, kind="stable")[:, :3])
    np.testing.assert_array_equal(values, np.take_along_axis(FINITE, places, 1))


def test_without_a_comparator_the_largest_are_taken() -> None:
    body = 'x = bf16[2,7] parameter(0)\n ROOT r = (bf16[2,2], s32[2,2]) custom-call(x), custom_call_target="TopK"'
    values, places = run(f"HloModule m\nENTRY e {{ {body} }}", FINITE.astype(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(places, np.argsort(-FINITE, 1, kind="stable")[:, :2])
    np.testing.assert_array_equal(values.astype(np.float32), np.take_along_axis(FINITE, places, 1))


@pytest.mark.parametrize("name", ["mhlo.erf", "chlo.erf"])
def test_a_name_of_chlo_is_that_op(name: str) -> None:
    (actual,) = run(
        f"""func.func @main(%x: tensor<2x7xf32>) -> tensor<2x7xf32> {{
            %0 = stablehlo.custom_call @{name}(%x) {{mhlo.attributes = {{}}, mhlo.version = 1 : i64}}
                : (tensor<2x7xf32>) -> tensor<2x7xf32>
            return %0 : tensor<2x7xf32>
        }}""",
        FINITE / 4,
    )
    np.testing.assert_allclose(actual, special.erf(FINITE / 4), rtol=1e-5)


def test_what_is_not_known_is_refused_by_its_name() -> None:
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %0 = stablehlo.custom_call @mhlo.erf(%x) {mhlo.attributes = {turns = 2 : i64}} : (tensor<2xf32>) -> tensor<2xf32>
        return %0 : tensor<2xf32>
    }"""
    with pytest.raises(Hlo2tx8Error, match=r"custom call of target mhlo.erf is not supported"):
        hlo2tx8.compile(text)
