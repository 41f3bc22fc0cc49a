"""Control flow as jax lowers it, at every level and in both tiers, against XLA:CPU."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2tx8
from hlo2tx8.compiler.driver import load_source
from hlo2tx8.options import Options
from hlo2tx8.runtime.levels import RUNS, each_run

RNG = np.random.default_rng(0)
X = RNG.integers(-8, 8, (5, 9)).astype(np.float32)
K, L = RNG.integers(-60, 60, (2, 11)).astype(np.int32)
TRUE, FALSE = np.bool_(True), np.bool_(False)


def swap(a: Any, b: Any) -> Any:
    return lax.fori_loop(0, 7, lambda i, c: (c[1], c[0] + i), (a, b))


def rotate(a: Any, b: Any) -> Any:
    return lax.fori_loop(0, 5, lambda i, c: (c[1], c[2], c[0] * 2, c[3] + c[0]), (a, b, a + b, b))


def several_dtypes(x: Any, i: Any, p: Any) -> Any:
    return lax.while_loop(lambda c: c[3] < 6, lambda c: (c[0] * 2, c[1] ^ c[3], ~c[2], c[3] + 1), (x, i, p, 0))


def through(x: Any, y: Any) -> Any:
    return lax.while_loop(lambda c: jnp.max(c[0]) < 50, lambda c: (c[0] + jnp.abs(c[1]) + 1, c[1], c[2]), (x, y, x))


def nested(n: Any, x: Any) -> Any:
    def inner(i: Any, x: Any) -> Any:
        return lax.while_loop(lambda d: d[0] < i, lambda d: (d[0] + 1, d[1] * 2 + d[0]), (0, x))[1]

    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, inner(c[0], c[1])), (0, x))


def branch_in_loop(n: Any, x: Any) -> Any:
    def turn(i: Any, v: Any) -> Any:
        return lax.cond(i % 2 == 0, lambda v: v + x, lambda v: v * 2, v)

    return lax.fori_loop(0, n, turn, x)


def loop_in_branch(p: Any, n: Any, x: Any) -> Any:
    return lax.cond(p, lambda v: lax.fori_loop(0, n, lambda i, c: c * 2 - i, v), lambda v: v, x)


def read_twice(x: Any) -> Any:
    end = lax.fori_loop(0, 3, lambda i, c: c + i, x)
    return end, end + x, end * 2, lax.fori_loop(0, 2, lambda i, c: c - end, end)


def choose(k: Any, x: Any, y: Any) -> Any:
    return lax.switch(k, [lambda: (x, y), lambda: (y, x), lambda: (x + y, x + y)])


def switch_in_switch(k: Any, x: Any) -> Any:
    return lax.switch(k, [lambda v: lax.switch(k + 1, [jnp.negative, jnp.abs], v), lambda v: v * 3], x)


def while_predicate(p: Any, x: Any) -> Any:
    return lax.while_loop(lambda c: c[0], lambda c: (jnp.max(c[1]) < 90, c[1] + 10), (p, x))


def lstm(w: Any, h: Any, x: Any) -> Any:
    def cell(state: Any, _: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(jnp.concatenate([h, x], 1) @ w, 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    return lax.scan(cell, (h, h), None, length=4)[0]


N = np.int32
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "fori": (lambda x: lax.fori_loop(0, 5, lambda i, c: c + i, x), (X,)),
    "fori_down": (lambda x: lax.fori_loop(-3, 4, lambda i, c: c * 2 - i, x), (X,)),
    "fori_unknown": (lambda n, x: lax.fori_loop(2, n, lambda i, c: c * 2 + i, x), (N(6), X)),
    "no_turn": (lambda n, x: lax.fori_loop(0, n, lambda i, c: c * 2 + i, x), (N(0), X)),
    "one_turn": (lambda x: lax.fori_loop(3, 4, lambda i, c: c * 2 + i, x), (X,)),
    "fibonacci": (lambda a, b: lax.fori_loop(0, 10, lambda i, c: (c[1], c[0] + c[1]), (a, b)), (K, L)),
    "swap": (swap, (X, X * 2)),
    "rotate": (rotate, (K, L)),
    "several_dtypes": (several_dtypes, (X, K, K > 0)),
    "through": (through, (X, X.T.reshape(5, 9))),
    "nested": (nested, (N(5), X)),
    "branch_in_loop": (branch_in_loop, (N(5), X)),
    "loop_in_branch": (loop_in_branch, (TRUE, N(3), X)),
    "loop_in_branch_not_taken": (loop_in_branch, (FALSE, N(3), X)),
    "read_twice": (read_twice, (X,)),
    "scalar_state": (lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] * 3, c[1] - c[0]), (1, 7)), (N(900),)),
    "large_state": (lambda x: lax.fori_loop(0, 3, lambda i, c: (c[1], c[0] - i), (x, x + 1)), (np.arange(90000, dtype=np.int32),)),
    "large_zeros": (lambda x: lax.fori_loop(0, 3, lambda i, c: c + x, jnp.zeros_like(x)), (np.arange(9000, dtype=np.int32),)),
    "empty_state": (lambda x: lax.fori_loop(0, 3, lambda i, c: (c[0] + 1, c[1] - i), (x, K)), (X[:0],)),
    "predicate_true": (while_predicate, (TRUE, X)),
    "predicate_false": (while_predicate, (FALSE, X)),
    "cond": (lambda p, x: lax.cond(p, lambda v: v + 1, lambda v: v * 2, x), (TRUE, X)),
    "cond_identity": (lambda p, x: lax.cond(p, lambda v: v + 1, lambda v: v, x), (FALSE, X)),
    **{f"switch_{k}": (choose, (N(k), X, X + 1)) for k in (-5, 0, 1, 2, 9)},
    "switch_in_switch": (switch_in_switch, (N(0), X)),
    "gcd": (jnp.gcd, (K, L)),
    "lcm": (jnp.lcm, (K, L)),
    "vmap_while": (jax.vmap(lambda n: lax.while_loop(lambda c: c < 50, lambda c: c * 2 + 1, n)), (K,)),
    "scan_matmul": (lambda x, w: lax.scan(lambda c, _: (c @ w, None), x, None, length=3)[0], (X, np.eye(9, k=1, dtype=np.float32))),
}
LSTM = (RNG.standard_normal((14, 24)) / 4, RNG.standard_normal((3, 6)), RNG.standard_normal((3, 8)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_level_equals_xla(name: str) -> None:
    function, inputs = PROGRAMS[name]
    jitted = jax.jit(function)
    lowered = jitted.lower(*inputs)
    expected = [np.asarray(value) for value in jax.tree.leaves(jitted(*inputs))]
    for run, found in zip(RUNS, each_run(lambda: load_source(lowered), Options(), inputs), strict=True):
        for actual, wanted in zip(found, expected, strict=True):
            assert actual.dtype == wanted.dtype
            assert actual.shape == wanted.shape
            assert np.ascontiguousarray(actual).tobytes() == wanted.tobytes(), f"{run.name}: {actual} != {wanted}"


def test_lstm_cells_in_a_loop() -> None:
    inputs = [value.astype(np.float32) for value in LSTM]
    jitted = jax.jit(lstm)
    with jax.default_matmul_precision("highest"):
        expected = jitted(*inputs)
        found = hlo2tx8.compile(jitted.lower(*inputs)).run(*inputs)
    for actual, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=2e-6, atol=2e-6)
