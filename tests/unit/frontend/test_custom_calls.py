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


def test_top_k_that_says_that_it_is_stable() -> None:
    top = "topk(x), k=3, largest=true, is_stable=true"
    text = f"HloModule m\nENTRY e {{ x = f32[2,7] parameter(0)\n ROOT r = (f32[2,3], s32[2,3]) {top} }}"
    assert run(text, X)[1].tolist() == [[2, 3, 4], [2, 6, 0]]


SCALED = """HloModule m
ENTRY e {{
  a = {a} parameter(0)
  b = {b} parameter(1)
  s = {s} parameter(2)
  t = {t} parameter(3)
  ROOT r = {r} scaled-dot(a, b, s, t), {dims}
}}"""


@pytest.mark.parametrize("result", ["f32", "bf16"])
def test_scaled_dot_scales_blocks(result: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((3, 5, 64), (3, 64, 6)))
    s, t = (2.0 ** rng.integers(-3, 4, shape) for shape in ((3, 5, 2), (3, 4, 3)))
    dims = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
    types = {"a": "f8e4m3fn[3,5,64]", "b": "f8e4m3fn[3,64,6]", "s": "f8e8m0fnu[3,5,2]", "t": "f8e8m0fnu[3,4,3]"}
    text = SCALED.format(**types, r=f"{result}[3,5,6]", dims=dims)
    (found,) = run(text, a, b, *(v.astype(ml_dtypes.float8_e8m0fnu) for v in (s, t)))
    left = a.astype(np.float64) * s.repeat(32, 2)
    right = b.astype(np.float64) * t.repeat(16, 1).repeat(2, 2)
    np.testing.assert_allclose(found.astype(np.float64), left @ right, rtol=1e-2 if result == "bf16" else 1e-5, atol=1e-1)


def test_scaled_dot_without_scales_and_with_ones_that_do_not_fit() -> None:
    types = {"a": "f8e5m2[4,8]", "b": "bf16[8,2]", "t": "bf16[]", "r": "f32[4,2]"}
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    a, b = np.eye(4, 8).astype(ml_dtypes.float8_e5m2), np.arange(16).reshape(8, 2).astype(ml_dtypes.bfloat16)
    one = np.ones((), ml_dtypes.bfloat16)
    (found,) = run(SCALED.format(**types, s="bf16[]", dims=dims), a, b, one, one)
    np.testing.assert_array_equal(found, b[:4].astype(np.float32))
    with pytest.raises(Hlo2tx8Error, match=r"scaled-dot: scales .* do not cut"):
        run(SCALED.format(**types, s="f8e8m0fnu[4,3]", dims=dims))
