"""top_k of few among many, without a sort: the same elements in the same order as a sort gives, in all dtypes."""

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax_programs import FAST, check_text

import hlo2tx8
from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate
from hlo2tx8.options import Level

RNG = np.random.default_rng(0)
DTYPES = (np.float32, ml_dtypes.bfloat16, np.float16, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32)


def text_of(shape: tuple[int, ...], dtype: Any, k: int) -> str:
    traced = jax.jit(lambda x: jax.lax.top_k(x, k)).trace(jax.ShapeDtypeStruct(shape, dtype))
    return traced.lower(lowering_platforms=("cpu",)).as_text()


def check(x: np.ndarray, k: int, levels: tuple[Level, ...] = (Level.FUSED,)) -> None:
    """What the evaluator says before any pass."""
    text = text_of(x.shape, x.dtype, k)
    check_text(text, [x], [np.asarray(value) for value in evaluate(load(text), x)], levels, FAST)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_dtypes(dtype: Any) -> None:
    check((RNG.normal(size=(3, 1001)) * 50).astype(np.float32).astype(dtype), 5)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32, ml_dtypes.float8_e4m3fn, np.int8, np.uint32])
def test_all_bits_of_a_row_too_long_for_one_search(dtype: Any) -> None:
    """Both signs of NaN, infinities, zeros and subnormals are in the total order; with 9 of them ranks of one or two words."""
    check(RNG.integers(0, 256, 4001 * np.dtype(dtype).itemsize, np.uint8).view(dtype).reshape(1, -1), 9)


@pytest.mark.parametrize(
    ("rows", "n", "k"),
    [
        *((2, n, k) for n, k in [(48, 1), (49, 1), (127, 1), (1025, 16), (4097, 64), (6145, 128)]),
        (1, 4973, 1),  # a prime: the last block is short
        (1, 4999, 3),
        (1, 50021, 12),  # steps of blocks of blocks
        (17, 1201, 17),  # rows that are sorted
    ],
)
def test_sizes(rows: int, n: int, k: int) -> None:
    check(RNG.integers(-40, 40, (rows, n)).astype(np.float32), k)


@pytest.mark.parametrize("k", [3, 12, 40])
def test_smallest_integers_come_in_order(k: int) -> None:
    """They are as small as what fills blocks that are short."""
    x = np.full((2, 4999), -(1 << 31), np.int32)
    x[1, 4998] += 1
    check(x, k)


def test_every_level_of_one_row() -> None:
    check(
        RNG.normal(size=777).astype(np.float32), 3, (Level.HLO, Level.FUSED, Level.LOOPS, Level.FLAT, Level.VECTOR, Level.SCHEDULED)
    )


def test_total_order_of_zeros_infinities_and_nan() -> None:
    x = np.zeros((6, 1024), np.float32)
    x[0, 5::7] = -0.0
    x[1], x[1, 900], x[1, 901] = -np.inf, np.nan, np.inf
    x[2] = np.nan
    x[3] = -np.float32(np.nan)
    x[3, 1000:1003] = -np.inf
    x[4, ::2], x[4, 1::2] = np.inf, np.nan
    x[5] = -np.inf
    check(x, 8)


def test_equal_elements_come_in_order() -> None:
    x = np.zeros((2, 2000), np.int32)
    x[1, 7::100] = 9
    check(x, 30)


def test_short_rows_large_k_and_wide_elements_are_sorted() -> None:
    for shape, dtype, k in (((2, 50), np.float32, 3), ((2, 700), np.float32, 65), ((2, 700), np.int64, 2)):
        with jax.enable_x64(True):
            text = text_of(shape, dtype, k)
            x = RNG.integers(-9, 9, shape).astype(dtype)
        check_text(text, [x], [np.asarray(value) for value in evaluate(load(text), x)], (), FAST)


@pytest.mark.parametrize(("rows", "k", "cycles"), [(32, 8, 110_000), (1, 50, 50_000), (100, 50, 650_000)])
def test_cost_of_a_vocabulary(rows: int, k: int, cycles: int) -> None:
    """Rows of 50,257 take 97, 43 and 554 thousand modelled cycles; a sort of 32 of them takes 157 million."""
    cost = hlo2tx8.compile(text_of((rows, 50257), jnp.float32, k)).cost_analysis()
    assert float(cost["cycles"]) < cycles
