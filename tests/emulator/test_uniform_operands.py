"""Products of matrices and convolutions with an operand that is the same in all rows, columns or everywhere."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_programs import FAST, LEVELS, check

RNG = np.random.default_rng(0)
X, Y = (RNG.integers(-4, 5, shape).astype(np.float32) for shape in ((4, 6), (6, 5)))
WIDE = RNG.integers(-4, 5, (64, 300)).astype(np.float32)
IMAGE = RNG.integers(-4, 5, (2, 6, 6, 8)).astype(np.float32)


def conv(x: jax.Array, kernel: jax.Array, groups: int = 1) -> jax.Array:
    return lax.conv_general_dilated(
        x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
    )


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "left": (lambda y: jnp.ones((4, 6), np.float32) @ y, (Y,)),
    "right": (lambda x: x @ jnp.full((6, 5), 2, np.float32), (X,)),
    "equal_rows": (lambda x, y: jnp.broadcast_to(x[1], x.shape) @ y, (X, Y)),
    "equal_columns": (lambda x, y: x @ jnp.broadcast_to(y[:, :1], y.shape), (X, Y)),
    "wide_left": (lambda y: jnp.ones((130, 64), np.float32) @ y, (WIDE,)),
    "wide_right": (lambda y: y.T @ jnp.ones((64, 130), np.float32), (WIDE,)),
    "batch": (lambda x: jnp.einsum("bij,bjk->bik", x, jnp.ones((3, 6, 5), np.float32)), (RNG.normal(size=(3, 4, 6)).round(),)),
    "image": (lambda k: conv(jnp.ones((2, 6, 6, 8), np.float32), k), (RNG.integers(-4, 5, (3, 3, 8, 16)).astype(np.float32),)),
    "kernel": (lambda x: conv(x, jnp.ones((3, 3, 8, 16), np.float32)), (IMAGE,)),
    "kernel_per_channel": (lambda x: conv(x, jnp.ones((3, 3, 1, 8), np.float32), 8), (IMAGE,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    function, arrays = PROGRAMS[name]
    narrow = [a.astype(np.float32) for a in arrays]  # whole numbers: every order of additions is exact
    check(function, *narrow, levels=LEVELS if name in ("left", "right") else (), modes=FAST)
