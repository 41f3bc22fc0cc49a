"""Scatters whose updates meet in the scratchpad, at every level: lines, parts, columns, places that are none, donated operands."""

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax_programs import FAST, Compare, check

import hlo2tx8
from hlo2tx8.compiler.driver import load_source, lower_module
from hlo2tx8.options import Level, Options

RNG = np.random.default_rng(0)
DTYPES = (np.float32, ml_dtypes.bfloat16, np.float16, np.float64, np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
LEVELS = tuple(level for level in Level if level < Level.PROGRAM)


def values(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    return np.abs(RNG.normal(size=shape) * 4).astype(dtype)


def places(shape: tuple[int, ...], size: int, dtype: Any = np.int32) -> np.ndarray:
    """Of which some are none, on either side where the dtype allows it."""
    lowest = 0 if np.dtype(dtype).kind == "u" else -3
    return RNG.integers(lowest, size + 3, shape).astype(dtype)


def near(terms: int) -> Compare:
    """Within terms * eps of the largest; integers, infinities and NaN the same."""

    def compare(actual: np.ndarray, expected: np.ndarray) -> None:
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        a, b = actual.astype(np.float64), expected.astype(np.float64)
        is_number = np.isfinite(b)
        assert np.array_equal(a[~is_number], b[~is_number], equal_nan=True)
        eps = 0.0 if actual.dtype.kind in "iub" else float(ml_dtypes.finfo(actual.dtype).eps)
        assert np.max(np.abs(a[is_number] - b[is_number]), initial=0) <= terms * eps * max(
            1.0, np.max(np.abs(b[is_number]), initial=0)
        )

    return compare


def joined(function: Any, *arrays: Any) -> list[str]:
    """The types of the results of all joins of a program."""
    with jax.enable_x64(True):
        text = jax.jit(function).lower(*arrays).as_text()
    module = lower_module(load_source(text), Options(until=Level.FUSED)).module
    return [str(op.results[0].type) for op in module.walk() if op.name == "hlo.join_at"]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_dtypes(dtype: Any) -> None:
    x, u, i = values((40, 3), dtype), values((90, 3), dtype), places((90,), 40)
    check(lambda x, u, i: x.at[i].set(u, mode="drop"), x, u, i, levels=LEVELS)
    check(lambda x, u, i: (x.at[i].max(u, mode="drop"), x.at[i].min(u, mode="drop")), x, u, i, levels=(), modes=FAST)
    check(lambda x, u, i: x.at[i].add(u, mode="drop"), x, u, i, levels=LEVELS, compare=near(90))
    check(lambda x, u, i: x.at[i].multiply(jnp.minimum(u, 2), mode="drop"), x, u, i, levels=(), compare=near(180))


def test_truth_values() -> None:
    x, u, i = values((50,)) > 3, values((80,)) > 3, places((80,), 50)
    check(lambda x, u, i: x.at[i].set(u, mode="drop"), x, u, i, levels=LEVELS)
    check(lambda x, u, i: (x.at[i].max(u, mode="drop"), x.at[i].min(u, mode="drop")), x, u, i)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64])
def test_places_of_any_dtype(dtype: Any) -> None:
    x, u, i = values((70,)), values((130,)), places((130,), 70, dtype)
    i[5], i[77] = np.iinfo(dtype).max, np.iinfo(dtype).min
    check(lambda x, u, i: x.at[i].set(u, mode="drop"), x, u, i)
    x, u, j = values((9, 7)), values((130,)), places((130,), 7, dtype)
    check(lambda x, u, i, j: x.at[i, j].set(u, mode="drop"), x, u, i, j)


def test_numbers_that_are_none() -> None:
    x, u, i = values((20,)), values((200,)), places((200,), 20)
    x[3], x[4], x[5], u[:] = -0.0, np.nan, np.inf, np.where(RNG.random(200) < 0.1, [np.nan], u)
    u[i == 6], i[i == 3] = -np.inf, 7
    for name in ("add", "max", "min", "set"):
        check(lambda x, u, i, name=name: getattr(x.at[i], name)(u, mode="drop"), x, u, i, levels=LEVELS, compare=near(200))
    u[:] = 0
    results = hlo2tx8.compile(lambda x, u, i: x.at[i].add(u, mode="drop"), args=(x, u, i))(x, u, i)
    assert np.signbit(results[3])  # no update came there


@pytest.mark.parametrize(("size", "count", "columns"), [(2, 300, 1), (33, 1000, 5), (257, 999, 16), (100, 77, 130), (1000, 64, 64)])
def test_sizes(size: int, count: int, columns: int) -> None:
    x, u, i = values((size, columns)).round(), values((count, columns)).round(), places((count,), size)
    check(lambda x, u, i: x.at[i].add(u, mode="drop"), x, u, i, levels=LEVELS)
    check(lambda u, i: jnp.ones((size, columns)).at[i].add(u, mode="drop"), u, i, levels=())
    check(lambda x, i: x.at[i].add(2, mode="drop"), x, i, levels=())
    check(lambda x, u, i: x.at[i].set(u, mode="drop"), x, u, i, levels=())


def test_parts_begin_with_nothing_and_lines_with_what_is_there() -> None:
    x, u, i = values((256,)), values((5000,)), places((5000,), 256)
    (parts,) = joined(lambda x, u, i: x.at[i].add(u, mode="drop"), x, u, i)
    assert parts.startswith("tensor<1x") and parts.endswith("x256x1xf32>")
    assert joined(lambda x, u, i: x.at[i].set(u, mode="drop"), x, u, i) == ["tensor<256xf32>"]
    rows, own, at = values((300, 40)), values((300, 6)), places((300, 6), 40)
    by_row = lambda x, u, i: x.at[jnp.arange(300)[:, None], i].add(u, mode="drop")
    assert joined(by_row, rows, own, at) == ["tensor<300x40xf32>"]
    check(by_row, rows, own, at, levels=LEVELS)  # in order, so bit for bit


def test_lines() -> None:
    x, u, i = values((17, 3, 33)), values((17, 3, 50)), places((17, 3, 50), 33)
    check(jax.vmap(jax.vmap(lambda x, u, i: x.at[i].set(u, mode="drop"))), x, u, i, levels=LEVELS)
    x, u, i = values((17, 20, 4)), values((17, 60, 4)), places((60,), 20)
    check(lambda x, u, i: x.at[:, i].add(u, mode="drop"), x, u, i)
    check(lambda x, i: x.at[:, i, :].multiply(2, mode="drop"), x, i, levels=())
    x, u, i = values((100, 1000)), values((100,)), places((100,), 1000)
    check(lambda x, u, i: x.at[jnp.arange(100), i].set(u, mode="drop"), x, u, i, levels=LEVELS, modes=FAST)


def test_gradients() -> None:
    x, i = values((70, 90)), RNG.integers(0, 90, (70, 8)).astype(np.int32)
    check(jax.grad(lambda x, i: (jnp.take_along_axis(x, i, 1) ** 2).sum()), x, i)
    x, i = values((90, 24)), RNG.integers(0, 90, (200,)).astype(np.int32)
    check(jax.grad(lambda x, i: (x[i] ** 2).sum()), x, i, compare=near(20))


def test_updates_with_columns_in_front() -> None:
    x, u, i = values((5, 60, 8)), values((5, 8, 70)), places((70, 1), 60)
    numbers = lax.ScatterDimensionNumbers(update_window_dims=(0, 1), inserted_window_dims=(1,), scatter_dims_to_operand_dims=(1,))
    drop = lax.GatherScatterMode.FILL_OR_DROP
    check(lambda x, u, i: lax.scatter_max(x, i, u, numbers, mode=drop), x, u, i)


def test_turns_of_a_loop_join_in_place() -> None:
    x, u, i = values((64, 4)), values((5, 90, 4)), places((5, 90), 64)
    check(lambda x, u, i: lax.scan(lambda x, own: (x.at[own[1]].set(own[0], mode="drop"), x[3]), x, (u, i)), x, u, i)


def test_donated_operands_are_updated_in_place() -> None:
    x, u, i = values((300, 40)), values((300, 6)), places((300, 6), 40)
    function = lambda x, u, i: x.at[jnp.arange(300)[:, None], i].set(u, mode="drop")
    text = jax.jit(function, donate_argnums=(0,)).lower(x, u, i).as_text()
    executable = hlo2tx8.compile(text)
    assert executable.memory_analysis()["alias_size_in_bytes"] == x.nbytes
    assert np.array_equal(executable(x, u, i), jax.jit(function)(x, u, i))


def test_updates_that_show_the_operand() -> None:
    x, i = values((100, 8)), places((100,), 100)
    check(lambda x, i: x.at[i].set(x, mode="drop"), x, i)
    check(lambda x, i: (-x).at[i.reshape(50, 2)].max((-x).reshape(50, 2, 8), mode="drop"), x, i)
    rows = lambda z, i: z.at[jnp.arange(100)[:, None], z].set(z + i[:, None])
    check(lambda x, i: rows(x.astype(jnp.int32) % 8, i), x, i)
    text = jax.jit(lambda x, i: x.at[i].set(x, mode="drop"), donate_argnums=(0,)).lower(x, i).as_text()
    assert np.array_equal(hlo2tx8.compile(text)(x, i), jax.jit(lambda x, i: x.at[i].set(x, mode="drop"))(x, i))


def test_programs_do_not_grow_with_updates() -> None:
    sizes = [
        hlo2tx8.compile(lambda i, n=n: jnp.zeros(n, jnp.int32).at[i].add(1), args=(np.zeros(100 * n, np.int32),)).memory_analysis()
        for n in (64, 256)
    ]
    small, large = (own["generated_code_size_in_bytes"] for own in sizes)
    assert large <= 1.2 * small
