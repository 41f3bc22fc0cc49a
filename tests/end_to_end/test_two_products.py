"""Two products, of which the second one's sums go around mesh rows: compared with exact numbers, in strict mode."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.options import Options

SIZES = {
    "rows made in two steps, pieces in groups of two": (1024, 64, 2048, 512),
    "rows made in two steps of blocks that several panels read": (512, 64, 4096, 1024),
    "odd rows": (1021, 64, 2048, 512),
}


def perceptron(x: Any, a: Any, b: Any) -> Any:
    return jnp.maximum(x @ a, 0) @ b


@pytest.mark.parametrize("name", SIZES)
def test_sums_that_are_stored_go_around(name: str) -> None:
    rows, depth, hidden, columns = SIZES[name]
    rng = np.random.default_rng(5)
    values = [rng.integers(-2, 3, size).astype(np.float32) for size in ((rows, depth), (depth, hidden), (hidden, columns))]
    executable = hlo2tx8.compile(jax.jit(perceptron).lower(*values), options=Options(mode="strict", explain=True))
    assert any("sums around mesh rows" in line and "is taken" in line for line in executable.explanation)
    np.testing.assert_array_equal(np.asarray(executable.run(*values)), np.maximum(values[0] @ values[1], 0) @ values[2])
