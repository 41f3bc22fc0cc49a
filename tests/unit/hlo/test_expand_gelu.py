"""Pass expand-gelu: no farther from exact arithmetic than what was written, for every bf16, and f32 from edge to edge."""

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import scipy.special

import hlo2tx8
from hlo2tx8.options import Options

Array = npt.NDArray[Any]
ROOT = 0.70710678
FORMS: dict[str, Any] = {
    "jax": lambda x: jax.nn.gelu(x, approximate=False),
    "one_and_erf": lambda x: x * 0.5 * (1 + jax.lax.erf(x * jnp.asarray(ROOT, x.dtype))),
    "divided": lambda x: x * (jax.lax.erfc(x / jnp.asarray(-(2**0.5), x.dtype)) * 0.5),
}
TANH_FORMS: dict[str, Any] = {
    "jax": lambda x: jax.nn.gelu(x, approximate=True),
    "torch": lambda x: 0.5 * x * (1 + jnp.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * jnp.power(x, 3.0)))),
    "multiplied_out": lambda x: (1 + jnp.tanh(x * (0.79788456 + 0.035677408 * x * x))) * x * 0.5,
}
EDGES = [0, -0.0, np.inf, -np.inf, np.nan, 1e-39, -1e-39, 1e-30, -1e-30, 1e4, -1e4]


def _inputs(dtype: Any) -> Array:
    if dtype == ml_dtypes.bfloat16:
        return np.arange(1 << 16, dtype=np.uint16).view(dtype)
    return np.concatenate([np.random.default_rng(0).uniform(-13, 6, 60_000), EDGES]).astype(dtype)


def _units_off(found: Array, exact: Array, dtype: Any) -> Array:
    """The distance in units of the last place of the exact value; NaN and infinities have to be the same."""
    info: Any = ml_dtypes.finfo(dtype)
    found = found.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        unit = 2.0 ** (np.floor(np.log2(np.clip(np.abs(exact), float(info.smallest_normal), float(info.max)))) - info.nmant)
        is_same = (found == exact) | (np.isnan(found) & np.isnan(exact)) | ((np.abs(exact) > float(info.max)) & np.isinf(found))
        return np.where(is_same, 0.0, np.abs(found - exact) / unit)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("name", FORMS)
def test_gelu_is_no_less_precise(name: str, dtype: Any) -> None:
    x = _inputs(dtype)
    wide, factor = x.astype(np.float64), -float(np.array(ROOT, dtype)) if name != "divided" else -1 / float(np.array(2**0.5, dtype))
    with np.errstate(invalid="ignore", over="ignore"):
        exact = 0.5 * wide * scipy.special.erfc(factor * wide)
    errors = []
    for reassociate in (True, False):
        lowered = jax.jit(FORMS[name]).lower(jax.ShapeDtypeStruct(x.shape, dtype))
        found = np.asarray(hlo2tx8.compile(lowered, options=Options(reassociate=reassociate)).run(x))
        errors.append(_units_off(found, exact, dtype))
        assert not reassociate or (np.signbit(found) == np.signbit(exact))[~np.isnan(exact)].all()
    assert np.isfinite(errors[0]).all() and errors[0].mean() <= errors[1].mean()
    assert name == "one_and_erf" or errors[0].mean() < errors[1].mean()
    usual = np.abs(wide) < 3
    assert errors[0][usual].max() <= errors[1][usual].max()


@pytest.mark.parametrize("name", TANH_FORMS)
def test_gelu_by_tanh_is_no_less_precise(name: str) -> None:
    x = _inputs(np.float32)
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        exact = wide * scipy.special.expit(2 * (2 / np.pi) ** 0.5 * (wide + 0.044715 * wide**3))
    errors = []
    lowered = jax.jit(TANH_FORMS[name]).lower(jax.ShapeDtypeStruct(x.shape, x.dtype))
    for reassociate in (True, False):
        executable = hlo2tx8.compile(lowered, options=Options(reassociate=reassociate))
        found = np.asarray(executable.run(x))
        errors.append(_units_off(found, exact, np.float32))
        assert not reassociate or (np.signbit(found) == np.signbit(exact))[~np.isnan(exact)].all()
        assert ("sigmoid" in executable.as_text()) == reassociate
    assert errors[0].mean() < errors[1].mean()
    usual = np.abs(wide) < 3
    assert errors[0][usual].mean() < errors[1][usual].mean()
    assert errors[0][usual].max() < errors[1][usual].max()


@pytest.mark.parametrize(
    "form",
    [
        lambda x: x * 0.5 * (1 + jnp.tanh(0.5 * x)),  # no cubic term
        lambda x: x * 0.5 * (1 + jnp.tanh(0.5 * x * x * x + 0.25 * x * x + x)),
        lambda x: x * 0.5 * (2 + jnp.tanh(0.8 * (x + 0.04 * x * x * x))),
        lambda x: x * (1 + jnp.tanh(0.8 * (x + 0.04 * x * x * x))),
    ],
)
def test_what_is_like_a_gelu_by_tanh_stays(form: Any) -> None:
    text = hlo2tx8.compile(jax.jit(form).lower(jax.ShapeDtypeStruct((64, 64), np.float32))).as_text()
    assert "tanh" in text and "sigmoid" not in text


@pytest.mark.parametrize("deviation", [0.01, 0.3, 1.5, 6.0])
@pytest.mark.parametrize("name", ["jax", "one_and_erf"])
def test_gelu_of_a_product_in_tf32_is_as_precise(name: str, deviation: float) -> None:
    rng = np.random.default_rng(11)
    a, b = rng.standard_normal((96, 256)), rng.standard_normal((256, 128)) * deviation / 16
    bias = rng.standard_normal(128) * deviation
    a, b, bias = (own.astype(np.float32) for own in (a, b, bias))
    wide = a.astype(np.float64) @ b.astype(np.float64) + bias
    exact = 0.5 * wide * scipy.special.erfc(-wide / 2**0.5)
    form = FORMS[name]

    def error(reassociate: bool) -> float:
        lowered = jax.jit(lambda a, b, bias: form(a @ b + bias)).lower(a, b, bias)
        found = np.asarray(hlo2tx8.compile(lowered, options=Options(reassociate=reassociate)).run(a, b, bias))
        return float(np.sqrt(np.mean((found - exact) ** 2)))

    assert error(True) <= 1.001 * error(False)


def test_gelu_of_a_product_in_tf32_at_the_edges() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0, 1e30, -1e30, 3e38, -20, 1e-39], np.float32)
    one = np.ones(9, np.float32)
    gelu = jax.jit(lambda a, b: jax.nn.gelu(jax.lax.dot_general(a, b, (((), ()), ((0,), (0,)))), approximate=False))
    found = np.asarray(hlo2tx8.compile(gelu.lower(x, one)).run(x, one))
    np.testing.assert_allclose(found, np.asarray(gelu(x, one)), rtol=1e-3, atol=1e-30)
