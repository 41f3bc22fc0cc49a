"""sort and top_k on the emulator: keys, ties, several operands, dimensions, dtypes; at every level once."""

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax_programs import FAST, LEVELS, check

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
