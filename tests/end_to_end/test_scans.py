"""Scans and decoding loops as jax lowers them: rows read and written by the turn, in place."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_programs import check

import hlo2tx8
from hlo2tx8.options import Level

RNG = np.random.default_rng(2)
ROUNDING = 4e-6


def normal(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / 2).astype(np.float32)


def lstm(w: Any, h: Any, rows: Any) -> Any:
    def cell(state: Any, row: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(jnp.concatenate([h, row], 1) @ w, 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(cell, (h, h), rows)


def nested(rows: Any) -> Any:
    return lax.scan(lambda c, row: lax.scan(lambda a, v: (a * 0.5 + v, a), c, row), jnp.float32(0), rows)


def gradient(w: Any, rows: Any) -> Any:
    def loss(w: Any) -> Any:
        return jnp.sum(lax.scan(lambda c, row: (jnp.tanh(c * w + row), c), jnp.zeros_like(rows[0]), rows)[0] ** 2)

    return jax.value_and_grad(loss)(w)


def decode(x: Any, wq: Any, wk: Any, wv: Any, n: Any) -> Any:
    """Attention over a cache of keys and values that grows by a row per turn, as long as there are turns."""

    def turn(state: Any) -> Any:
        i, x, keys, values = state
        keys = lax.dynamic_update_slice(keys, (x @ wk)[None], (i, 0))
        values = lax.dynamic_update_slice(values, (x @ wv)[None], (i, 0))
        scores = jnp.where(jnp.arange(6) <= i, keys @ (x @ wq) / 4, -1e30)
        return i + 1, jnp.tanh(jax.nn.softmax(scores) @ values + x), keys, values

    empty = jnp.zeros((6, 16), np.float32)
    return lax.while_loop(lambda s: (s[0] < n) & (s[1][0] < 5), turn, (0, x, empty, empty))


def chosen(which: Any, x: Any) -> Any:
    return lax.map(lambda k: lax.switch(k, [jnp.abs, jnp.negative], x), which)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "lstm": (lstm, (normal(14, 24), normal(3, 6), normal(5, 3, 8))),
    "nested": (nested, (normal(4, 5),)),
    "gradient": (gradient, (normal(7), normal(5, 7))),
    "decode": (decode, (normal(16), *normal(3, 16, 16), np.int32(4))),
    "backwards": (lambda rows: lax.scan(lambda c, row: (c * 0.5 + row, c), rows[0], rows, reverse=True), (normal(5, 4),)),
    "unrolled": (lambda rows: lax.scan(lambda c, row: (c + row, c), rows[0], rows, unroll=3), (normal(8, 4),)),
    "map": (lambda rows: lax.map(lambda row: jnp.cumsum(row) * 2, rows), (normal(4, 9),)),
    "chosen": (chosen, (np.array([0, 1, 5], np.int32), normal(4))),
}


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("name", PROGRAMS)
def test_scans_equal_xla(name: str) -> None:
    function, inputs = PROGRAMS[name]
    with jax.default_matmul_precision("highest"):
        check(function, *inputs, levels=(Level.LOOPS,), modes=("fast", "strict"), compare=close)


def test_a_scan_of_many_turns_is_no_longer_program() -> None:
    """Bodies are compiled once, whatever the number of turns; there are so many that all tiles share what is around the loop."""
    few, many = (hlo2tx8.compile(jax.jit(lstm).lower(normal(14, 24), normal(3, 6), normal(n, 3, 8))) for n in (3000, 10000))
    assert len(few.program.code) == len(many.program.code)
