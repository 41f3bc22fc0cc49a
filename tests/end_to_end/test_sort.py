"""sort and top_k on the emulator: keys, ties, several operands, dimensions, dtypes; at every level once."""

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax_programs import FAST, LEVELS, check

import hlo2tx8

X = np.random.default_rng(0).normal(size=(3, 13)).astype(np.float32)
SPECIAL = np.array([[np.nan, 0.0, -0.0, np.inf, -np.inf, -np.nan, 1e-30, -1e-30, 3.0]], np.float32)


def test_at_every_level() -> None:
    check(lambda x: lax.sort((jnp.round(x), x), dimension=0, num_keys=1), X, levels=LEVELS)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float64, np.int8, np.uint32, np.int64, np.bool_])
def test_keys_of_any_dtype(dtype: Any) -> None:
    check(lambda x: jnp.sort(x, axis=1, descending=True), (X * 3).astype(dtype), levels=(), modes=FAST)


def test_order_of_special_values() -> None:
    check(lambda x: (jnp.argsort(x, axis=1), jnp.argsort(-x, axis=1)), SPECIAL, levels=(), modes=FAST)


def test_equal_keys_keep_their_order() -> None:
    check(lambda x: jnp.argsort(jnp.round(x), axis=1), X, levels=())
    check(lambda x: lax.sort((jnp.round(x), -jnp.round(x * 2), x), num_keys=2), X, levels=(), modes=FAST)


def test_sizes() -> None:
    check(lambda x: (jnp.sort(x[:, :1]), jnp.sort(x[:, :2]), jnp.sort(x[:, :8]), jnp.sort(x[:0])), X, levels=(), modes=FAST)
    check(lambda x: jnp.sort(x.reshape(1, 3, 13), axis=1), X, levels=(), modes=FAST)
    check(jnp.sort, np.random.default_rng(1).integers(-100, 100, 700).astype(np.int32), levels=(), modes=FAST)


def test_top_k() -> None:
    check(lambda x: lax.top_k(jnp.round(x), 4), X, levels=())


def test_approximate_top_k() -> None:
    check(lambda x: lax.approx_max_k(x, 4), X, levels=(), modes=FAST)
    check(lambda x: lax.approx_min_k(x, 2, reduction_dimension=0), X, levels=(), modes=FAST)


def test_operands_too_large_to_be_read_at_numbers() -> None:
    x = np.round(np.random.default_rng(2).normal(size=(4, 66000)) * 100).astype(np.float32)
    check(lambda x: lax.sort((x, -x), dimension=1, num_keys=1), x, levels=(), modes=FAST)


@pytest.mark.parametrize("body", ["LT, %a, %b, TOTALORDER", "GT, %a, %b, FLOAT", "LT, %a, %b, FLOAT"])
def test_order_of_floats_as_they_are(body: str) -> None:
    """Of zeros with signs, which total order tells apart, and the others keep in their order."""
    text = f"""func.func @main(%x: tensor<6xf32>) -> tensor<6xf32> {{
      %y = "stablehlo.sort"(%x) <{{dimension = 0 : i64, is_stable = true}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %p = stablehlo.compare {body} : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }}) : (tensor<6xf32>) -> tensor<6xf32>
      return %y : tensor<6xf32>
    }}"""
    x = np.array([0.0, -0.0, 1.0, -1.0, -0.0, np.inf], np.float32)
    number = np.signbit(x).astype(int) * ("TOTAL" in body)
    order = np.lexsort((np.arange(6), -number, -x if "GT" in body else x))
    assert hlo2tx8.compile(text).execute(x)[0].tobytes() == x[order].tobytes()
