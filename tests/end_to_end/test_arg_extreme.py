"""argmax and argmin on the emulator: ties, NaNs, zeros, dimensions, dtypes, fused with what else is done with a row."""

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax_programs import FAST, LEVELS, check, same_bits

X = np.round(np.random.default_rng(0).normal(size=(6, 70)) * 2).astype(np.float32)


def with_special_values() -> np.ndarray:
    x = X.copy()
    x[0, [5, 9, 40]] = np.nan
    x[1], x[2], x[3] = -np.inf, np.inf, 0
    x[3, [0, 33]] = -0.0
    x[4, 1:] = np.nan
    return x


def test_at_every_level() -> None:
    check(lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0)), X[:, :9], levels=LEVELS, compare=same_bits)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16, np.float64, np.int8, np.uint32, np.int64])
def test_dtypes(dtype: Any) -> None:
    check(lambda x: (jnp.argmax(x, 0), jnp.argmin(x, 1)), (abs(X) * 3).astype(dtype), levels=(), modes=FAST, compare=same_bits)


def test_special_values() -> None:
    def both(x: Any) -> Any:
        return lax.argmax(x, 1, np.int32), lax.argmin(x, 1, np.int32), jnp.argmax(x), jnp.nanargmin(x)

    check(both, with_special_values(), levels=(), compare=same_bits)


def test_value_and_index() -> None:
    """The value of the last of equal zeros is kept, as by turns in order."""

    def pairs(x: Any) -> Any:
        def larger(a: Any, b: Any) -> Any:
            leads = (a[0] > b[0]) | (a[0] != a[0])
            keeps = leads | ((a[0] == b[0]) & (a[1] < b[1]))
            return jnp.where(leads, a[0], b[0]), jnp.where(keeps, a[1], b[1])

        numbers = lax.broadcasted_iota(np.int32, x.shape, 1)
        return lax.reduce((x, numbers), (np.float32(-np.inf), np.int32(0)), larger, (1,))

    x = with_special_values()
    x[4], x[5] = -abs(X[4]), -abs(X[5])
    check(pairs, x[1:], levels=(), compare=same_bits)


def test_large_and_to_one() -> None:
    x = np.random.default_rng(1).integers(0, 5000, (300, 1000)).astype(np.float32)
    check(lambda x: (jnp.argmax(x), jnp.argmin(x, 0), jnp.argmax(x, 1)), x, levels=(), modes=FAST, compare=same_bits)


def test_beside_other_reductions_of_a_row() -> None:
    def function(x: Any) -> Any:
        return x.max(1), jnp.argmax(jax.nn.relu(x), 1), x - x.max(1, keepdims=True)

    check(function, X, levels=(), compare=same_bits)
