"""Residual blocks whose results stay with the tiles: exact for small integers, no race in strict mode."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2tx8
from hlo2tx8.options import Options

DIMENSIONS = ("NHWC", "HWIO", "NHWC")
RINGS = {
    "f32": (jnp.float32, (4, 8, 8), 1024, 256),
    "bf16": (jnp.bfloat16, (4, 8, 8), 1024, 256),
    "f16, strict": (jnp.float16, (4, 6, 7), 1024, 256),
    "two panels of a tile's own depth": (jnp.float32, (4, 4, 4), 4096, 256),
    "two blocks of columns": (jnp.float32, (4, 8, 8), 1024, 512),
}
BANDS = {
    "f32": (jnp.float32, (8, 28, 28), 512, 128, 3),
    "bf16, height and width differ": (jnp.bfloat16, (16, 28, 20), 512, 128, 2),
    "f32, strict": (jnp.float32, (8, 14, 8), 512, 128, 2),
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


def run(name: str, size: tuple[Any, tuple[int, ...], int, int], num_blocks: int) -> tuple[str, ...]:
    """Compiles and runs blocks, compares all numbers, and returns why the program is as it is."""
    dtype, points, channels, inner = size
    rng = np.random.default_rng(1)
    sizes = [(1, 1, channels, inner), (3, 3, inner, inner), (1, 1, inner, channels)]
    values = [rng.integers(-1, 2, size) for size in ((*points, channels), *sizes * num_blocks)]
    text = jax.jit(blocks).lower(*(jnp.asarray(value, dtype) for value in values)).as_text()
    executable = hlo2tx8.compile(text, Options(mode="strict" if "strict" in name else "fast", explain=True))
    got = np.asarray(executable(*(value.astype(dtype) for value in values)), np.float32)
    wanted = np.asarray(blocks(*(jnp.asarray(value, jnp.float32) for value in values)))
    assert len(np.unique(wanted)) > 2
    np.testing.assert_array_equal(got, wanted)
    return executable.explanation


@pytest.mark.parametrize("name", RINGS)
def test_sums_around_mesh_rows_are_those_of_all_tiles(name: str) -> None:
    explanation = run(name, RINGS[name], 2)
    assert any("sums around mesh rows in 1 of them" in line and "is taken" in line for line in explanation)


@pytest.mark.parametrize("name", BANDS)
def test_what_several_phases_read_stays(name: str) -> None:
    """The result of a block is read by the first phase of the next one, a convolution by itself, and by a later one."""
    *size, num_blocks = BANDS[name]
    (line,) = (line for line in run(name, (size[0], size[1], size[2], size[3]), num_blocks) if "groups by bands as phases" in line)
    assert int(line.split()[3]) > num_blocks
