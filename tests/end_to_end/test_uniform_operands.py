"""Products of matrices and convolutions with an operand that is the same in all rows, columns or everywhere."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_programs import FAST, LEVELS, check

import hlo2tx8

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
    "equal_in_one_dimension": (lambda x, y: jnp.broadcast_to(x[:, None], (4, 3, 6)) @ y, (X, Y)),
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


def test_fused_broadcast() -> None:
    """A row dimension along which the left operand is the same, inside of the fusion of the product."""
    text = """HloModule m
f {
  x = f32[4,6] parameter(0)
  y = f32[6,5] parameter(1)
  b = f32[4,3,6] broadcast(x), dimensions={0,2}
  ROOT d = f32[4,3,5] dot(b, y), lhs_contracting_dims={2}, rhs_contracting_dims={0}
}
ENTRY main {
  x = f32[4,6] parameter(0)
  y = f32[6,5] parameter(1)
  ROOT r = f32[4,3,5] fusion(x, y), kind=kLoop, calls=f
}
"""
    expected = np.broadcast_to((X @ Y)[:, None], (4, 3, 5))
    np.testing.assert_array_equal(hlo2tx8.compile(text).execute(X, Y)[0], expected)
