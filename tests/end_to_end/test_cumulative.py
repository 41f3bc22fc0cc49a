"""Cumulative ops at every level: sums, products, extremes, logsumexp, any associative combiner, on odd sizes and in all dtypes."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax_programs import FAST, LEVELS, Compare, check

import hlo2tx8
from hlo2tx8.compiler.driver import load_source, lower_module
from hlo2tx8.options import Level, Options

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 67)).astype(np.float32)
DTYPES = (np.float32, ml_dtypes.bfloat16, np.float16, np.float64, np.int8, np.uint16, np.int32, np.int64)


def near(terms: int) -> Compare:
    """Within terms * eps of sums of that many numbers; integers, infinities and NaN the same."""

    def compare(actual: np.ndarray, expected: np.ndarray) -> None:
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        a, b = (array.astype(np.complex128 if array.dtype.kind == "c" else np.float64) for array in (actual, expected))
        is_number = np.isfinite(b)
        assert np.array_equal(a[~is_number], b[~is_number], equal_nan=True)
        eps = 0.0 if actual.dtype.kind in "iub" else float(ml_dtypes.finfo(actual.real.dtype).eps)
        scale = np.maximum(1, np.max(np.abs(b[is_number]), initial=0))
        assert np.max(np.abs(a - b)[is_number], initial=0) <= terms * eps * scale

    return compare


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("function", [lax.cumsum, lax.cummax, lax.cummin], ids=lambda f: f.__name__)
def test_dtypes(function: Callable[..., Any], dtype: Any) -> None:
    compare = near(67) if function is lax.cumsum else near(0)
    check(lambda x: function(x, axis=1), (X * 9).astype(dtype), levels=(Level.HLO, Level.FUSED), compare=compare)


@pytest.mark.parametrize("n", [15, 16, 17, 31, 32, 33, 64, 1000, 1025])
@pytest.mark.parametrize("reverse", [False, True], ids=["up", "down"])
def test_sizes(n: int, reverse: bool) -> None:
    x = RNG.integers(-9, 9, n).astype(np.float32)
    check(lambda x: lax.cumsum(x, reverse=reverse), x, levels=(Level.FUSED,), modes=FAST, compare=near(0))


def test_every_level_and_mode() -> None:
    check(
        lambda x: (lax.cumsum(x, axis=1), lax.cumsum(x, axis=0), lax.cummax(x, axis=1, reverse=True)),
        X,
        levels=LEVELS,
        compare=near(67),
    )


def test_outer_dimension_and_a_second_level_of_rows() -> None:
    check(
        lambda x: lax.cumsum(x, axis=1), RNG.normal(size=(2, 1100, 3)).astype(np.float32), levels=(Level.FUSED,), compare=near(1100)
    )


def test_products_and_logsumexp() -> None:
    x = np.abs(X) + np.float32(0.5)
    check(lambda x: lax.cumprod(x, axis=1), x, levels=(Level.FUSED,), compare=near(200))
    check(lambda x: lax.cumlogsumexp(x, axis=1), X, levels=(Level.FUSED,), compare=near(100))


def test_infinities_and_nan_stay_where_they_are() -> None:
    x = X.copy()
    x[0, 5], x[1, 40], x[2, 7], x[2, 50] = np.inf, np.nan, np.inf, -np.inf
    check(
        lambda x: (lax.cumsum(x, axis=1), lax.cummax(x, axis=1), lax.cumprod(x, axis=1)),
        x,
        levels=(Level.FUSED,),
        compare=near(200),
    )


def test_complex_and_pred() -> None:
    check(lambda x: lax.cumsum(lax.complex(x, 2 * x), axis=1), X, levels=(Level.FUSED,), compare=near(200))
    either = lambda x: lax.reduce_window(x > 1, False, lax.bitwise_or, (1, 67), (1, 1), ((0, 0), (66, 0)))
    check(either, X, levels=(Level.FUSED,))


def test_a_combiner_of_two_values_that_do_not_commute() -> None:
    """Affine maps one after the other: (a, b) then (c, d) is (a c, b c + d)."""

    def compose(first: Any, second: Any) -> Any:
        return first[0] * second[0], first[1] * second[0] + second[1]

    def scan(a: Any, b: Any) -> Any:
        window = ((1, 67), (1, 1), ((0, 0), (66, 0)))
        return lax.reduce_window((a, b), (jnp.int32(1), jnp.int32(0)), compose, *window)

    a, b = (RNG.integers(-3, 4, X.shape).astype(np.int32) for _ in range(2))
    module = load_source(scan, args=(a, b))
    lower_module(module, Options(until=Level.FUSED))
    assert "hlo.scan" in str(module)
    states = [(np.ones(3, np.int32), np.zeros(3, np.int32))]
    for k in range(67):
        states.append((states[-1][0] * a[:, k], states[-1][1] * a[:, k] + b[:, k]))
    found = hlo2tx8.compile(scan, args=(a, b)).run(a, b)
    for number, actual in enumerate(found):
        assert np.array_equal(np.asarray(actual), np.stack([state[number] for state in states[1:]], 1))


def test_the_initial_value_joins_once() -> None:
    """Not for each place of the padding; XLA:CPU joins it once for each of its own blocks."""
    x = np.arange(67, dtype=np.int32)
    scan = hlo2tx8.compile(lambda x: lax.reduce_window(x, np.int32(5), lax.add, (67,), (1,), ((66, 0),)), args=(x,))
    assert np.array_equal(np.asarray(scan.run(x)), np.cumsum(x) + 5)


def test_what_is_written_grows_with_n_log_n() -> None:
    """Modelled bytes of four times the elements are less than five times as many: no window is read for each of its places."""

    def moved(n: int) -> float:
        return float(hlo2tx8.compile(lax.cumsum, args=(np.zeros(n, np.float32),)).cost_analysis()["bytes accessed"])

    assert moved(1 << 18) < 5 * moved(1 << 16)
