"""State of loops that a kernel makes of its old value element by element lies in one place; what is read elsewhere does not."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_programs import check

import hlo2tx8

N = 96
X = np.random.default_rng(7).integers(-2, 3, (N, N)).astype(np.float32)
W = np.roll(np.eye(N, dtype=np.float32), 5, axis=0)
"""Products with it are exact."""

IN_PLACE = {
    "sum of products": lambda s, x: s + x @ W,
    "elementwise": lambda s, x: jnp.where(x > 0, s * 0.5, x - s),
    "with its own rows in another operand": lambda s, x: s - jnp.sum(x, 1)[:, None],
}
APART = {
    "transposed": lambda s, x: s + s.T,
    "turned": lambda s, x: s[::-1] - x,
    "rows summed": lambda s, x: x - jnp.sum(s, 1)[:, None],
    "its own product": lambda s, x: x + s @ W,
    "kept": lambda s, x: s + x @ W,
}


def loop(turn: Any, *, keeps: bool = False) -> Any:
    """Three turns, which nobody knows before; with `keeps` the value before the last one is a result too."""

    def function(x: Any) -> Any:
        turns = (x[0, 0] * 0 + 3).astype(jnp.int32)
        if keeps:
            return lax.fori_loop(0, turns, lambda n, s: (turn(s[0], x), s[0]), (x, x))
        return lax.fori_loop(0, turns, lambda n, s: turn(s, x), x * 2)

    return function


def copies(function: Any) -> int:
    """Launches that copy state to its place: the counter's start, and what a turn does not make there."""
    text = jax.jit(function).lower(X).as_text()
    program = hlo2tx8.compile(text).program
    return [launch.name for launch in program.launches].count("copy")


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str) -> None:
    function = loop(IN_PLACE[name])
    assert copies(function) == 1
    check(function, X)


@pytest.mark.parametrize("name", APART)
def test_apart(name: str) -> None:
    function = loop(APART[name], keeps=name == "kept")
    assert copies(function) == 2
    check(function, X)
