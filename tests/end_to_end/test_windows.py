"""reduce_window, select_and_scatter and convolution at every level: attributes, dtypes, empties."""

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax_programs import FAST, LEVELS, Compare, check, same_bits

from hlo2tx8.options import Level

X = np.random.default_rng(0).normal(size=(2, 9, 8, 3)).astype(np.float32)
K = np.random.default_rng(1).normal(size=(3, 3, 3, 6)).astype(np.float32)
NHWC, NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")


def near(terms: int) -> Compare:
    """Within terms * eps of sums of that many numbers of size 1 to 4."""

    def compare(actual: np.ndarray, expected: np.ndarray) -> None:
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        eps = 2 * float(ml_dtypes.finfo(actual.dtype).eps) if actual.dtype.kind != "i" else 0
        assert np.max(np.abs(actual.astype(np.float64) - expected.astype(np.float64)), initial=0) <= 4 * terms * eps

    return compare


def near_products(terms: int) -> Compare:
    """The same of sums of products of f32, which are multiplied as TF32."""

    def compare(actual: np.ndarray, expected: np.ndarray) -> None:
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        assert np.max(np.abs(actual - expected), initial=0) <= 4 * terms * 2.0**-9

    return compare


def pooled(x: Any, init: Any, op: Any, *window: Any) -> Any:
    return lax.reduce_window(x, np.asarray(init, x.dtype), op, *window)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float64, np.int8, np.uint32, np.int64])
def test_max_of_any_dtype(dtype: Any) -> None:
    low = -np.inf if np.dtype(dtype).kind in "fV" else np.iinfo(dtype).min
    check(lambda x: pooled(x, low, lax.max, (1, 2, 3, 1), (1, 2, 1, 1), "SAME"), (X * 4).astype(dtype))


def test_every_attribute() -> None:
    padding = ((0, 0), (1, 2), (0, -1), (0, 0))
    check(lambda x: pooled(x, 0, lax.add, (1, 2, 3, 1), (1, 2, 1, 1), padding, (1, 2, 1, 1), (1, 1, 2, 1)), X, compare=near(6))
    check(lambda x: pooled(x, 0, lax.min, (1, 1, 1, 1), (1, 2, 1, 1), "VALID"), X)
    check(lambda x: pooled(x, 0, lax.max, (1, 20, 1, 1), (1, 1, 1, 1), "VALID"), X)


def test_of_an_image_larger_than_a_scratchpad() -> None:
    x = np.random.default_rng(3).normal(size=(90, 64, 64, 2)).astype(np.float32)
    check(lambda x: pooled(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), x, levels=(), modes=FAST)


@pytest.mark.parametrize("edges", [(0, 0), (2, 1), (-1, -2), (-3, 5)])
def test_pad_with_holes(edges: tuple[int, int]) -> None:
    amounts = ((0, 0, 0), (*edges, 2), (*edges, 1), (0, 0, 0))
    check(lambda x: lax.pad(x, np.float32(7), amounts), np.tile(X, 4), compare=same_bits)
    check(lambda x: lax.pad(x[:, :1, :0], np.float32(7), ((0, 0, 0), (1, 2, 2), (1, 2, 1), (0, 0, 0))), X, levels=(), modes=FAST)


def test_sums_of_small_windows_are_added_in_order() -> None:
    x = np.random.default_rng(4).normal(size=(8, 40)).astype(np.float32)
    check(lambda x: pooled(x, 0, lax.add, (8, 1), (1, 1), ((7, 0), (0, 0))), x, levels=(), compare=same_bits)


def test_cumulative() -> None:
    check(lambda x: (jnp.cumsum(x, axis=1), lax.cummax(x, axis=2, reverse=True)), X, compare=near(9))
    check(lambda x: jnp.cumprod(x), np.arange(1, 30, dtype=np.int32))


def test_several_operands() -> None:
    def first_largest(x: Any) -> Any:
        i = lax.broadcasted_iota(np.int32, x.shape, 1)

        def larger(a: Any, b: Any) -> Any:
            keep = a[0] >= b[0]
            return lax.select(keep, a[0], b[0]), lax.select(keep, a[1], b[1])

        return lax.reduce_window((x, i), (np.float32(-np.inf), np.int32(0)), larger, (1, 3, 1, 1), (1, 2, 1, 1), "VALID")

    check(first_largest, X)


@pytest.mark.parametrize("x", [X, np.round(X)], ids=["distinct", "equal"])
def test_gradient_of_max(x: np.ndarray) -> None:
    def gradient(x: Any, y: Any) -> Any:
        return jax.vjp(lambda x: pooled(x, -np.inf, lax.max, (1, 2, 3, 1), (1, 2, 2, 1), "SAME"), x)[1](y)[0]

    check(gradient, x, np.random.default_rng(2).normal(size=(2, 5, 4, 3)).astype(np.float32), compare=near(4))


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], Any, dict[str, Any]]] = {
    "same": (X.shape, K.shape, NHWC, {}),
    "strides": (X.shape, K.shape, NHWC, {"window_strides": (2, 3), "padding": ((1, 2), (0, -1))}),
    "dilated": ((2, 3, 9, 8), (5, 3, 3, 2), NCHW, {"padding": ((1, 2), (0, 1)), "lhs_dilation": (1, 2), "rhs_dilation": (2, 1)}),
    "depthwise": (X.shape, (3, 3, 1, 6), NHWC, {"feature_group_count": 3}),
    "groups": ((2, 6, 5, 4), (4, 3, 2, 2), NCHW, {"feature_group_count": 2}),
    "batch groups": ((4, 6, 5, 4), (4, 6, 2, 2), NCHW, {"batch_group_count": 2}),
    "one by one": (X.shape, (1, 1, 3, 6), NHWC, {}),
    "line": ((2, 9, 3), (4, 3, 5), ("NWC", "WIO", "NWC"), {"window_strides": (1,)}),
    "no rows": ((2, 2, 8, 3), K.shape, NHWC, {"padding": "VALID"}),
    "no batch": ((0, 9, 8, 3), K.shape, NHWC, {}),
    "no features": ((2, 9, 8, 0), (3, 3, 0, 6), NHWC, {}),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution(case: str) -> None:
    x, k, numbers, options = CONVOLUTIONS[case]
    given = {"window_strides": (1, 1), "padding": "SAME"} | options
    rng = np.random.default_rng(3)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in (x, k)]
    levels = LEVELS if case in ("dilated", "groups", "batch groups") else ()

    def convolved(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, dimension_numbers=numbers, **given)

    check(convolved, *arrays, levels=levels, compare=near_products(27))


def test_gradients_of_convolution() -> None:
    def loss(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, (2, 2), "SAME", dimension_numbers=NHWC)

    cotangent = np.random.default_rng(4).normal(size=(2, 5, 4, 6)).astype(np.float32)
    check(lambda x, k, g: jax.vjp(loss, x, k)[1](g), X, K, cotangent, levels=(), modes=FAST, compare=near_products(80))
    with jax.default_matmul_precision("highest"):
        check(lambda x, k, g: jax.vjp(loss, x, k)[1](g), X, K, cotangent, levels=(), modes=FAST, compare=near(80))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float64, np.int32])
def test_convolution_of_any_dtype(dtype: Any) -> None:
    arrays = [(a * 3).astype(dtype) for a in (X[:1], K)]
    exact = np.dtype(dtype).kind == "i"
    check(
        lambda x, k: lax.conv_general_dilated(x, k, (2, 2), "VALID", dimension_numbers=NHWC),
        *arrays,
        levels=(),
        compare=same_bits if exact else near(9 * 27),
    )


@pytest.mark.parametrize(("initial", "op"), [(1, lax.add), (2, lax.mul), (0.5, lax.max), (0.25, lambda a, b: a + b - a * b)])
def test_padding_takes_no_part(initial: float, op: Any) -> None:
    padding = ((0, 0), (1, 3), (4, 0), (0, 0))
    check(lambda x: pooled(x, initial, op, (1, 2, 3, 1), (1, 1, 2, 1), padding, (1, 2, 1, 1)), X, compare=near(6))


def test_a_window_of_log_add_exp_may_start_with_minus_infinity() -> None:
    def added(a: Any, b: Any) -> Any:
        larger = lax.max(a, b)
        return larger + lax.log(lax.exp(a - larger) + lax.exp(b - larger))

    window = (1, 3, 1, 1), (1, 1, 1, 1), ((0, 0), (2, 1), (0, 0), (0, 0))
    check(lambda x: pooled(x[:1, :, :2], -np.inf, added, *window), X, compare=near(9))


def test_padding_of_pairs_and_of_complex_numbers() -> None:
    def farther(a: Any, b: Any) -> Any:
        return jax.tree.map(lambda x, y: jnp.where(abs(a[0]) >= abs(b[0]), x, y), a, b)

    def function(x: Any) -> Any:
        initial = (np.float32(0), np.int32(-1))
        window = (1, 3, 3, 1), (1, 1, 1, 1), "SAME"
        return lax.reduce_window((x, lax.broadcasted_iota(jnp.int32, x.shape, 1)), initial, farther, *window)

    check(function, X)
    check(lambda x: lax.cumlogsumexp(x.astype(jnp.complex64) + 1j, axis=1), X, levels=(Level.FUSED,), compare=near_complex)


def near_complex(actual: np.ndarray, expected: np.ndarray) -> None:
    """Within 64 units in the last place of numbers up to 8."""
    assert np.max(np.abs(actual - expected)) <= 8 * 64 * 2.0**-23
