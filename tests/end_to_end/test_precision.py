"""The precision that options ask for where the module says DEFAULT or nothing: results, bound and report follow it."""

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
