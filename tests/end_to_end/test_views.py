"""Values in another shape lie where the value lies that they show: nothing is overwritten that is still read under either name."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax_programs import check

import hlo2tx8

X = np.random.default_rng(5).integers(-9, 10, (4, 24)).astype(np.float32)
W = np.roll(np.eye(24, dtype=np.float32), 5, axis=0)
"""Products are exact."""


def test_no_kernel_is_launched_for_a_view() -> None:
    text = jax.jit(lambda x: (x @ W).reshape(6, 16) @ W[:16, :16]).lower(X).as_text()
    names = [launch.name for launch in hlo2tx8.compile(text).program.launches]
    assert names == ["dot_general_fusion", "dot_general_fusion_1"]


def test_both_are_results() -> None:
    check(lambda x: (x @ W, (x @ W).reshape(96), (x @ W).reshape(2, 48)), X)
    check(lambda x: ((x @ W).reshape(96), (x @ W).reshape(96) @ jnp.ones((96, 2)), x.reshape(96)), X)


def test_updates_leave_what_is_shown() -> None:
    def f(x: Any, i: Any) -> Any:
        y = x @ W
        flat = y.reshape(96)
        return lax.dynamic_update_slice(flat, x[0], (i,)) + flat, lax.dynamic_update_slice(y, x[:2] @ W, (i, i))

    check(f, X, np.int32(3))


def test_state_of_loops() -> None:
    def turn(_: Any, state: Any) -> Any:
        a, b = state
        return b.reshape(4, 24), lax.dynamic_update_slice((a @ W).reshape(96), b[:24] * 2, (24,))

    check(lambda x: lax.fori_loop(0, 3, turn, (x, x.reshape(96))), X)
    check(lambda x: lax.fori_loop(0, 3, lambda _, s: (s[1].reshape(4, 24), (s[0] @ W).reshape(96)), (x, 2 * x.reshape(96))), X)
    check(lambda x: lax.while_loop(lambda s: s[1][0] < 3, lambda s: (s[0] @ W, (s[0] @ W).reshape(96)), (x, x.reshape(96) * 0)), X)


def test_branches() -> None:
    check(lambda x: lax.cond(x[0, 0] > 0, lambda x: (x @ W).reshape(96), lambda x: x.reshape(96), x), X)
