"""Pass expand-complex on what jax lowers: structure, control flow, sums, products against XLA:CPU; special values of functions."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_programs import FAST, LEVELS, check

import hlo2tx8

RNG = np.random.default_rng(0)


def draw(*shape: int, dtype: Any = np.complex64) -> np.ndarray:
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(dtype)


Z, W, K = draw(3, 6), draw(3, 6), draw(2, 3)
INDICES = np.array([2, 0, 2], np.int32)


def near(actual: np.ndarray, expected: np.ndarray, bound: float = 8) -> None:
    """Off by a few units of the last place of the largest value."""
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    if expected.dtype.kind in "bi":
        np.testing.assert_array_equal(actual, expected)
        return
    assert np.max(np.abs(actual - expected), initial=0) <= bound * np.finfo(actual.dtype).eps * np.max(np.abs(expected), initial=1)


def conv(x: jax.Array, k: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(x[None, None], k[None, None], (1, 1), "SAME", precision="highest")


def scan(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return lax.scan(lambda state, row: (state * row + 1j, state.real), x[0], x)


def branches(x: jax.Array) -> jax.Array:
    return lax.cond(x.real.sum() > 0, lambda v: v * 2j, jnp.conj, x)


def until(x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda s: jnp.abs(s).sum() < 1000, lambda s: s * (1.5 + 0.5j), x)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "identity": (lambda x: (x, x), (Z,)),
    "moves": (lambda x: (x.T[::-1], jnp.pad(x, 1, constant_values=2 + 1j), jnp.concatenate([x, x[:, :2]], 1)), (Z,)),
    "constant": (lambda x: x + np.arange(6) * 1j, (Z,)),
    "iota": (lambda x: x + lax.iota(np.complex64, 6), (Z,)),
    "select": (lambda x, y: jnp.where(x.real > 0, x, y), (Z, W)),
    "compare": (lambda x, y: (x == y, x != y.round()), (Z, W)),
    "convert": (lambda x: (x.astype(jnp.complex128), x.real.astype(jnp.complex64)), (Z,)),
    "dot": (partial(jnp.matmul, precision="highest"), (Z, W.T)),
    "batched_dot": (partial(jnp.einsum, "bij,bkj->bik", precision="highest"), (draw(2, 3, 4), draw(2, 5, 4))),
    "convolution": (conv, (Z, K)),
    "sum": (lambda x: (x.sum(), x.sum(0), x.mean(1)), (Z,)),
    "product": (lambda x: x.prod(1), (Z,)),
    "cumulative": (lambda x: (jnp.cumsum(x, 1), jnp.cumprod(x, 0)), (Z,)),
    "gather": (lambda x, i: x[i], (Z, INDICES)),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (1, 4)), (Z, INDICES)),
    "update": (lambda x, y, i: lax.dynamic_update_slice(x, y, (i[1], i[0])), (Z, K, INDICES)),
    "scatter": (lambda x, y, i: (x.at[i].add(y), x.at[:, i].set(y[:, :3])), (Z, W, INDICES)),
    "scatter_multiply": (lambda x, y, i: x.at[i].multiply(y), (Z, W, INDICES)),
    "sort": (lambda x: jnp.sort(jnp.round(x), axis=1), (Z,)),
    "argsort": (lambda x: jnp.argsort(jnp.round(x), axis=1), (Z,)),
    "scan": (scan, (Z,)),
    "cond": (branches, (Z,)),
    "while": (until, (Z,)),
    "gradient": (jax.grad(lambda x: jnp.abs(jnp.sin(x)).sum(), holomorphic=False), (Z,)),
}
AT_EVERY_LEVEL = ("moves", "sum", "scan", "scatter_multiply", "dot")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    function, arrays = PROGRAMS[name]
    levels = LEVELS if name in AT_EVERY_LEVEL else ()
    check(function, *arrays, levels=levels, modes=FAST, compare=near)


@pytest.mark.parametrize("name", ["dot", "product", "gather"])
def test_complex128(name: str) -> None:
    function, arrays = PROGRAMS[name]
    wide = [a.astype(np.complex128) if a.dtype.kind == "c" else a for a in arrays]
    check(function, *wide, levels=(), modes=FAST, compare=near)


def test_fusions_with_layouts() -> None:
    text = """HloModule m
f {
  x = c64[3,5]{0,1} parameter(0)
  y = c64[3,5]{0,1} multiply(x, x)
  r = f32[3,5]{0,1} real(y)
  ROOT t = (c64[3,5]{0,1}, f32[3,5]{0,1}) tuple(y, r)
}
ENTRY main {
  x = c64[3,5]{0,1} parameter(0)
  ROOT f = (c64[3,5]{0,1}, f32[3,5]{0,1}) fusion(x), kind=kLoop, calls=f
}
"""
    x = draw(3, 5)
    executable = hlo2tx8.compile(text)
    y, r = executable.execute(x)
    near(y, x * x)
    near(r, (x * x).real)


def test_bitcasts_between_widths() -> None:
    """Halves of the real part come first."""
    narrow, wide = "tensor<3x2xcomplex<f32>>", "tensor<3xcomplex<f64>>"
    text = f"""func.func @main(%a: {wide}, %b: {narrow}) -> ({narrow}, {wide}) {{
      %c = stablehlo.bitcast_convert %a : ({wide}) -> {narrow}
      %d = stablehlo.bitcast_convert %b : ({narrow}) -> {wide}
      return %c, %d : {narrow}, {wide}
    }}"""
    x = draw(3, dtype=np.complex128)
    pairs = x.view(np.complex64).reshape(3, 2)
    found = hlo2tx8.compile(text).execute(x, pairs)
    assert [a.tobytes() for a in found] == [pairs.tobytes(), x.tobytes()]


PAIRS = product((0.0, -0.0, 1.5, -np.inf, np.inf, np.nan), (0.0, -0.0, 2.5, np.inf))
SPECIAL = np.array([complex(a, b) for a, b in PAIRS], np.complex64)


def test_exponential_has_nan_where_xla_has() -> None:
    def compare(actual: np.ndarray, expected: np.ndarray) -> None:
        np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))

    check(jnp.exp, SPECIAL, levels=(), modes=FAST, compare=compare)


def test_pred_is_of_the_real_part() -> None:
    text = """func.func @main(%z: tensor<4xcomplex<f32>>) -> tensor<4xi1> {
      %p = stablehlo.convert %z : (tensor<4xcomplex<f32>>) -> tensor<4xi1>
      return %p : tensor<4xi1>
    }"""
    found = hlo2tx8.compile(text).execute(np.array([0, 1, 1j, np.nan], np.complex64))
    np.testing.assert_array_equal(found[0], [False, True, False, True])


@pytest.mark.parametrize("name", ["abs", "exp", "log", "sqrt", "reciprocal", "tanh", "sign"])
def test_infinite_where_xla_is(name: str) -> None:
    """Parts that XLA:CPU has as 0 or infinite are that."""
    function = getattr(jnp, name)

    def compare(actual: np.ndarray, expected: np.ndarray) -> None:
        for a, e in ((actual.real, expected.real), (actual.imag, expected.imag)):
            known = np.isinf(e) | (e == 0)
            np.testing.assert_array_equal(a[known], e[known])

    check(function, SPECIAL, levels=(), modes=FAST, compare=compare)
