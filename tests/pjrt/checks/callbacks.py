"""Python functions called by programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

FOUR = jax.ShapeDtypeStruct((4,), np.float32)
X = np.arange(4, dtype=np.float32)


def check_pure_callback():
    f = jax.jit(lambda x: 1 + jax.pure_callback(np.sin, FOUR, x * 2) * jax.pure_callback(np.cos, FOUR, x))
    for x in (X, X + 1):
        np.testing.assert_allclose(f(x), 1 + np.sin(x * 2) * np.cos(x), rtol=1e-6)


def check_order_of_effects():
    seen: list[float] = []

    def f(x):
        io_callback(lambda v: seen.append(float(v)), None, x.sum(), ordered=True)
        y = jnp.sin(x)
        io_callback(lambda v: seen.append(float(v)), None, x[0] - 1, ordered=True)
        jax.debug.callback(lambda v: seen.append(float(v)), x[1], ordered=True)
        return y

    compiled = jax.jit(f)
    for _ in range(3):
        compiled(X).block_until_ready()
    jax.effects_barrier()
    assert seen == [6, -1, 1] * 3


def check_values_that_are_constant():
    f = jax.jit(lambda x: (jax.pure_callback(lambda a, b: a + b, FOUR, jnp.ones(4), x), jnp.ones(2)))
    total, ones = f(X)
    np.testing.assert_array_equal(total, X + 1)
    np.testing.assert_array_equal(ones, np.ones(2))


def check_errors_of_callbacks():
    def fails(x):
        raise ValueError("no such luck")

    with pytest.raises(jax.errors.JaxRuntimeError, match="no such luck"):
        jax.jit(lambda x: jax.pure_callback(fails, FOUR, x))(X).block_until_ready()
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"result 0 is float32\[3\], not float32\[4\]"):
        jax.jit(lambda x: jax.pure_callback(lambda a: a[1:], FOUR, x))(X).block_until_ready()


def check_callbacks_that_use_the_device():
    inner = jax.jit(jnp.sin)
    device = jax.devices("tx8")[0]
    f = jax.jit(lambda x: jax.pure_callback(lambda a: np.asarray(inner(jax.device_put(np.asarray(a), device))), FOUR, x))
    np.testing.assert_allclose(f(X), np.sin(X), rtol=1e-6)


def check_tokens():
    x, token = jax.jit(lambda x: (x, jax.lax.create_token()))(X)
    jax.jit(lambda x, token: x)(x, token)
    jax.block_until_ready(token)


def check_callbacks_in_loops_and_branches():
    seen = []

    def turn(i, x):
        jax.debug.callback(lambda i, v: seen.append((int(i), float(v))), i, x, ordered=True)
        y = jax.pure_callback(lambda v: np.float32(v + 1), jax.ShapeDtypeStruct((), np.float32), x)
        return jax.lax.cond(i % 2 == 0, lambda y: jax.pure_callback(lambda v: v * 2, y, y), lambda y: y - 1, y)

    assert jax.jit(lambda x: jax.lax.fori_loop(0, 5, turn, x))(np.float32(1)) == 22
    jax.effects_barrier()
    assert seen == [(0, 1), (1, 4), (2, 4), (3, 10), (4, 10)]


def check_loops_that_the_host_ends():
    left = [3, 2, 1, 0]

    def more(state):
        return io_callback(lambda: np.bool_(left.pop(0) > 0), jax.ShapeDtypeStruct((), np.bool_))

    f = jax.jit(lambda x: jax.lax.while_loop(more, lambda x: x * 2 + jnp.sin(x) * 0, x))
    np.testing.assert_array_equal(f(X), X * 8)
    assert left == []


def check_scans_with_callbacks():
    def turn(total, row):
        return total + row, jax.pure_callback(np.sort, jax.ShapeDtypeStruct((3,), np.float32), -row)

    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    total, rows = jax.jit(lambda x: jax.lax.scan(turn, jnp.zeros(3), x))(x)
    np.testing.assert_array_equal(total, x.sum(0))
    np.testing.assert_array_equal(rows, -x[:, ::-1])


def check_branches_out_of_range():
    f = jax.jit(lambda i: jax.lax.switch(i, [lambda k=k: jax.pure_callback(lambda: np.int32(k), np.int32(0)) for k in range(3)]))
    assert [int(f(i)) for i in (0, 1, 2, 7, -1)] == [0, 1, 2, 2, 0]


def check_conditions_that_call():
    seen = []

    def more(i):
        jax.debug.callback(lambda i: seen.append(int(i)), i, ordered=True)
        return i < 3

    assert jax.jit(lambda: jax.lax.while_loop(more, lambda i: i + 1, 0))() == 3
    jax.effects_barrier()
    assert seen == [0, 1, 2, 3]
