"""The precision that options ask for where the module says DEFAULT or nothing: results, bound and report follow it."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2tx8
from hlo2tx8 import Options
from hlo2tx8.errors import InputError
from hlo2tx8.options import Precision
from hlo2tx8.tools.report import describe

RNG = np.random.default_rng(5)
X, W = RNG.normal(size=(33, 65)).astype(np.float32), RNG.normal(size=(65, 40)).astype(np.float32)
EXACT = X.astype(np.float64) @ W.astype(np.float64)
ERRORS: dict[Precision, float] = {"default": 2e-3, "high": 6e-5, "highest": 2e-6}
"""Largest relative to the largest element."""


def error(function: object, precision: Precision) -> float:
    executable = hlo2tx8.compile(function, Options(matmul_precision=precision), args=[X, W])
    return float(np.abs(executable(X, W) - EXACT).max() / np.abs(EXACT).max())


def test_a_higher_precision_has_smaller_errors() -> None:
    found = {precision: error(jnp.matmul, precision) for precision in ERRORS}
    assert all(found[precision] < limit for precision, limit in ERRORS.items())
    assert found["default"] > 5 * found["high"] > 25 * found["highest"]


def test_what_the_module_says_counts() -> None:
    def highest(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.matmul(x, w, precision="highest")

    assert error(highest, "high") < ERRORS["highest"]


def test_convolutions_too() -> None:
    def convolution(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(
            x[None, :, None], w[None, None], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )[0, :, 0]

    assert error(convolution, "highest") < ERRORS["highest"] < error(convolution, "default")


@pytest.mark.parametrize(
    ("precision", "passes", "operations"),
    [
        ("default", "1 in one pass of tf32 (DEFAULT)", 1),
        ("high", "1 in three passes of bf16 parts (HIGH)", 3),
        ("highest", "1 in six passes of bf16 parts (HIGHEST)", 6),
    ],
)
def test_bound_and_report(precision: Precision, passes: str, operations: int) -> None:
    executable = hlo2tx8.compile(jnp.matmul, Options(matmul_precision=precision), args=[X, W])
    assert executable.lower_bound is not None
    assert executable.lower_bound.work.products == {"tf32": 2.0 * 33 * 65 * 40 * operations}
    assert f"dots and convolutions: {passes}\n" in describe(executable, program=False, report=True)


def test_a_module_without_products_says_nothing() -> None:
    assert "dots and" not in describe(hlo2tx8.compile(jnp.sin, args=[X]), program=False, report=True)


def test_a_precision_that_is_none() -> None:
    with pytest.raises(InputError, match="no matmul_precision 'tf32'"):
        Options(matmul_precision="tf32")  # type: ignore[arg-type]


REGRESSIONS = Path(__file__).parents[2] / "hlo_samples" / "regressions"


def test_sums_beyond_f32_are_the_largest_number_in_f32_and_infinite_in_bf16() -> None:
    """The matrix engine rounds sums toward zero, which never gives an infinity; the result is rounded to the nearest bf16."""
    wide, narrow = hlo2tx8.compile(REGRESSIONS / "sums_beyond_f32.hlo")(np.ones((3, 17), np.float32))
    assert (np.asarray(wide) == np.finfo(np.float32).max).all()
    assert np.isposinf(np.asarray(narrow).astype(np.float32)).all()


def test_an_infinite_term_makes_a_sum_infinite() -> None:
    left, right = np.ones((3, 17), np.float32), np.ones((17, 5), np.float32)
    left[0, 3], left[1, 4], right[4, 2] = np.inf, -np.inf, 0.0
    found = hlo2tx8.compile(jnp.matmul, Options(matmul_precision="highest"), args=[left, right])(left, right)
    with np.errstate(invalid="ignore"):
        assert np.array_equal(np.asarray(found), left @ right, equal_nan=True)


def test_infinities_meet_the_zeros_of_padding() -> None:
    """As the definition of a convolution says; XLA:CPU leaves out products with padding where it convolves with loops."""
    y = np.asarray(hlo2tx8.compile(REGRESSIONS / "pads_meet_infinity_c128.hlo")(np.ones((2, 4, 1), np.complex128)))
    assert np.isnan(y[:, :2, 0].real).all()
    assert np.isposinf(y[:, 2:, 0].real).all()
    assert np.isnan(y[..., 1]).all()
