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


# ------------------------------------------------------------------------------------------------------ parts of a tensor

ALL = np.stack([np.roll(np.eye(24, dtype=np.float32), n, axis=0) for n in range(5)])
"""Weights of layers: products by them are exact."""


def layer(w: Any, i: Any) -> Any:
    return lax.dynamic_index_in_dim(w, i, 0, keepdims=False)


def launches(function: Any, *arrays: Any) -> list[str]:
    text = jax.jit(function).lower(*arrays).as_text()
    return [launch.name for launch in hlo2tx8.compile(text).program.launches]


def test_a_scan_copies_no_weights() -> None:
    def scanned(x: Any, w: Any) -> Any:
        return lax.scan(lambda x, w: (x @ w - 1, None), x, w)[0]

    def unrolled(x: Any, w: Any) -> Any:
        for n in range(5):
            x = x @ w[n] - 1
        return x

    assert launches(scanned, X, ALL) == ["copy", "subtract_fusion", "copy"]
    assert launches(unrolled, X, ALL) == ["group"]
    check(scanned, X, ALL)
    check(unrolled, X, ALL)


def test_numbers_out_of_range() -> None:
    for dtype in (np.int8, np.int32, np.uint8, np.int64):
        for i in (-3, -1, 0, 4, 9) if dtype is not np.uint8 else (0, 4, 200):
            check(lambda x, w, i: x @ lax.dynamic_slice(w, (i, 0 * i, 0 * i), (1, 24, 24))[0], X, ALL, np.array(i, dtype))


def test_more_numbers_than_registers() -> None:
    def f(x: Any, w: Any, i: Any) -> Any:
        return sum(layer(w, j)[:4] * (n + 1) for n, j in enumerate(i)) + x

    check(f, X, ALL, np.array([4, 1, 0, 3, 2], np.int32))


def test_two_numbers_say_where() -> None:
    def f(x: Any, w: Any, i: Any) -> Any:
        return x @ lax.dynamic_slice(w.reshape(5, 2, 12, 24), (i, i - 2, 0 * i, 0 * i), (1, 1, 12, 24)).reshape(24, 12)

    check(f, X, ALL, np.int32(2))
    check(f, X, ALL, np.int32(3))


def test_parts_of_parts() -> None:
    def f(x: Any, w: Any, i: Any) -> Any:
        part = layer(w, i)
        return part[2] + x[0], part.reshape(2, 12, 24)[1], x @ part, layer(part, i + 1)

    check(f, X, ALL, np.int32(3))


def test_parts_in_inner_loops_and_branches() -> None:
    def f(x: Any, w: Any, n: Any) -> Any:
        def outer(i: Any, x: Any) -> Any:
            own = layer(w, i)
            x = lax.fori_loop(0, n, lambda j, x: x @ own + layer(w, j)[:4], x)
            return lax.cond(i > 1, lambda: x @ own, lambda: x + layer(w, i + n)[4:8])

        return lax.fori_loop(0, 4, outer, x)

    check(f, X, ALL, np.int32(2))
    check(f, X, ALL, np.int32(0))


def test_what_is_also_written() -> None:
    def f(x: Any, w: Any) -> Any:
        def turn(state: Any, i: Any) -> Any:
            x, w = state
            old = layer(w, i)
            w = lax.dynamic_update_index_in_dim(w, old.T, i, 0)
            return (x @ old + layer(w, i)[:4], w), old[0]

        return lax.scan(turn, (x, w), np.arange(5))

    check(f, X, ALL)


def test_parts_that_are_given_on() -> None:
    def f(x: Any, w: Any, i: Any) -> Any:
        part = layer(w, i)
        return (
            part,
            x @ part,
            lax.fori_loop(0, 2, lambda _, a: a @ a, part),
            lax.dynamic_update_slice(w, part[None] * 2, (0 * i, i, i)),
        )

    check(f, X, ALL, np.int32(1))


def test_a_part_alone_is_a_result() -> None:
    check(lambda w, i: layer(w, i), ALL, np.int32(1))
    check(lambda w: w[3], ALL)
