"""Deep rows that stay, sums that go around mesh rows at once: exact for small integers, no race in strict mode."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2tx8
from hlo2tx8.options import Options

DIMENSIONS = ("NHWC", "HWIO", "NHWC")
SIZES = {
    "f32": (jnp.float32, (4, 8, 8), 1024, 256),
    "bf16": (jnp.bfloat16, (4, 8, 8), 1024, 256),
    "small, f16": (jnp.float16, (4, 6, 7), 1024, 256),
    "two panels of a tile's own depth": (jnp.float32, (4, 4, 4), 4096, 256),
    "two blocks of columns": (jnp.bfloat16, (8, 7, 7), 2048, 512),
}


def clipped(x: Any) -> Any:
    return jnp.clip(x, -4, 4)


def blocks(x: Any, *weights: Any) -> Any:
    """Blocks of a residual network: 1x1 to few channels, 3x3, 1x1 to as many as before."""
    for first in range(0, len(weights), 3):
        y = x
        for w in weights[first : first + 3]:
            y = clipped(lax.conv_general_dilated(y, w, (1, 1), "SAME", dimension_numbers=DIMENSIONS))
        x = clipped(x + y)
    return x


@pytest.mark.parametrize("name", SIZES)
def test_sums_are_those_of_all_tiles(name: str) -> None:
    dtype, points, channels, inner = SIZES[name]
    rng = np.random.default_rng(1)
    sizes = [(1, 1, channels, inner), (3, 3, inner, inner), (1, 1, inner, channels)]
    values = [rng.integers(-1, 2, size) for size in ((*points, channels), *sizes, *sizes)]
    text = jax.jit(blocks).lower(*(jnp.asarray(value, dtype) for value in values)).as_text()
    executable = hlo2tx8.compile(text, Options(mode="strict" if "small" in name else "fast", explain=True))
    assert any("sums around mesh rows in 1 of them" in line and "is taken" in line for line in executable.explanation)
    got = np.asarray(executable(*(value.astype(dtype) for value in values)), np.float32)
    wanted = np.asarray(blocks(*(jnp.asarray(value, jnp.float32) for value in values)))
    assert len(np.unique(wanted)) > 2
    np.testing.assert_array_equal(got, wanted)
