"""Pass expand-special-functions: bessel_i1e, erf_inv and polygamma of f32 are near the exact values, and right at the edges."""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.special

import hlo2tx8


def text_of(name: str, arity: int, n: int) -> str:
    type_ = f"tensor<{n}xf32>"
    given = ", ".join(f"%a{k}: {type_}" for k in range(arity))
    operands = ", ".join(f"%a{k}" for k in range(arity))
    types = ", ".join([type_] * arity)
    return f'func.func @main({given}) -> {type_} {{ %0 = "chlo.{name}"({operands}) : ({types}) -> {type_} return %0 : {type_} }}'


def farthest(found: Any, exact: npt.NDArray[np.float64]) -> float:
    """In units of the last place of f32; what is not finite has to be the same."""
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(np.asarray(found)[~finite], exact[~finite].astype(np.float32))
    unit = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(exact[finite]), 2.0**-126))) - 23)
    return float((np.abs(np.asarray(found, np.float64)[finite] - exact[finite]) / unit).max())


def test_bessel_i1e() -> None:
    rng = np.random.default_rng(0)
    near = rng.uniform(6, 9, 20_000)
    far = np.exp(rng.uniform(-80, 80, 20_000)) * rng.choice([-1.0, 1.0], 20_000)
    x = np.concatenate([near, far, [0, -0.0, np.inf, -np.inf, np.nan, 8, -8, 3e38, 2e19]]).astype(np.float32)
    found = hlo2tx8.compile(text_of("bessel_i1e", 1, len(x))).run(x)
    exact: Any = scipy.special.i1e(x.astype(np.float64))
    assert farthest(found, np.where(np.isinf(x), 0.0, exact)) <= 4.5
    assert np.signbit(np.asarray(found)[-8])


def test_erf_inv() -> None:
    rng = np.random.default_rng(0)
    near_one = 1 - np.exp(rng.uniform(-17, 0, 20_000))
    near_zero = np.exp(rng.uniform(-80, 0, 20_000)) * rng.choice([-1.0, 1.0], 20_000)
    x = np.concatenate([near_one, near_zero, [0, -0.0, 1, -1, 1 - 2**-24, 2**-24 - 1, 1.5, -np.inf, np.nan]]).astype(np.float32)
    found = hlo2tx8.compile(text_of("erf_inv", 1, len(x))).run(x)
    exact: Any = scipy.special.erfinv(x.astype(np.float64))
    assert farthest(found, exact) <= 4.5
    assert np.signbit(np.asarray(found)[-8])


def test_polygamma() -> None:
    rng = np.random.default_rng(0)
    n = np.concatenate([rng.integers(1, 29, 20_000), [34, 35, 100]]).astype(np.float32)
    x = np.concatenate([np.exp(rng.uniform(-1, 1, 20_000)), [1, 1, 1]]).astype(np.float32)
    found = hlo2tx8.compile(text_of("polygamma", 2, len(x))).run(n, x)
    wide = n.astype(np.float64)
    exact: Any = (-1) ** (wide + 1) * scipy.special.gamma(wide + 1) * scipy.special.zeta(wide + 1, x.astype(np.float64))
    is_there = np.abs(exact) < 3.4e38
    assert farthest(np.asarray(found)[is_there], exact[is_there]) <= 24
    np.testing.assert_array_equal(np.asarray(found)[-2:], np.array([np.inf, -np.inf], np.float32))


def test_polygamma_is_undefined_but_for_natural_numbers() -> None:
    n = np.array([-1, 0.5, np.nan, 0, 1], np.float32)
    found = np.asarray(hlo2tx8.compile(text_of("polygamma", 2, 5)).run(n, np.full(5, 2.0, np.float32)))
    np.testing.assert_allclose(found, [np.nan, np.nan, np.nan, 0.42278433, 0.64493407], rtol=1e-5)
