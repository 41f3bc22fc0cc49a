"""Rows that tiles of a mesh row normalize for each other, and multiply: exact for small integers, no race in strict mode."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.options import Options

SIZES = {
    "f32, strict": (jnp.float32, (400,), 256, 1024),
    "f32, sequences of an odd number of rows": (jnp.float32, (8, 99), 256, 1024),
    "f32, two sequences a tile, strict": (jnp.float32, (32, 24), 256, 1024),
    "f32, one sequence": (jnp.float32, (1, 768), 256, 1024),
    "bf16, products in turns": (jnp.bfloat16, (1024,), 512, 1024),
    "f16": (jnp.float16, (16, 64), 512, 1024),
}


def below_the_largest(x: Any) -> Any:
    """A normalization without rounding: how far each element is below the largest of its row."""
    return jnp.clip(x - x.max(-1, keepdims=True), -2, 0)


def mlp(x: Any, scale: Any, offset: Any, up: Any, down: Any) -> Any:
    normalized = below_the_largest(x) * scale + offset
    return jnp.clip(jnp.clip(normalized @ up, -3, 3) @ down, -9, 9) + x


@pytest.mark.parametrize("name", SIZES)
def test_tiles_multiply_what_others_have_normalized(name: str) -> None:
    dtype, rows, width, hidden = SIZES[name]
    rng = np.random.default_rng(2)
    values = [rng.integers(-1, 2, size) for size in ((*rows, width), (width,), (width,), (width, hidden), (hidden, width))]
    text = jax.jit(mlp).lower(*(jnp.asarray(value, dtype) for value in values)).as_text()
    executable = hlo2tx8.compile(text, Options(mode="strict" if "strict" in name else "fast", explain=True))
    assert any("a normalization whose rows are sent" in line for line in executable.explanation)
    got = np.asarray(executable(*(value.astype(dtype) for value in values)), np.float32)
    wanted = np.asarray(mlp(*(jnp.asarray(value, jnp.float32) for value in values)))
    assert len(np.unique(wanted)) > 2
    np.testing.assert_array_equal(got, wanted)
