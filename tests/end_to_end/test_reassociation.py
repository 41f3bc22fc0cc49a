"""Arithmetic in another order is no farther from f64 than as written: products with a softmax, normalised products."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

import hlo2tx8
from hlo2tx8.options import Options

ATTENTION = """HloModule attention
max {{ a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  ROOT m = {t}[] maximum(a, b) }}
add {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }}
ENTRY main {{
  s = {t}[2,64,{k}] parameter(0)
  v = {t}[2,{k},{n}] parameter(1)
  low = {t}[] constant(-inf)
  zero = f32[] constant(0)
  m = {t}[2,64] reduce(s, low), dimensions={{2}}, to_apply=max
  mb = {t}[2,64,{k}] broadcast(m), dimensions={{0,1}}
  d = {t}[2,64,{k}] subtract(s, mb)
  e = {t}[2,64,{k}] exponential(d)
  f = f32[2,64,{k}] convert(e)
  sum = f32[2,64] reduce(f, zero), dimensions={{2}}, to_apply=add
  t = {t}[2,64] convert(sum)
  tb = {t}[2,64,{k}] broadcast(t), dimensions={{0,1}}
  w = {t}[2,64,{k}] divide(e, tb)
  ROOT o = {t}[2,64,{n}] dot(w, v),
    lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
}}
"""
DTYPES = {"bf16": np.dtype(bfloat16), "f16": np.dtype(np.float16), "f32": np.dtype(np.float32)}


def _error(name: str, k: int, n: int, reassociate: bool) -> float:
    """The root mean square error against f64 of what is compiled so."""
    rng = np.random.default_rng(7)
    s, v = ((rng.standard_normal(shape) * 2).astype(DTYPES[name]) for shape in ((2, 64, k), (2, k, n)))
    executable = hlo2tx8.compile(ATTENTION.format(t=name, k=k, n=n), options=Options(reassociate=reassociate))
    (found,) = executable.execute(s, v)
    e = np.exp(s.astype(np.float64) - s.astype(np.float64).max(-1, keepdims=True))
    exact = (e / e.sum(-1, keepdims=True)) @ v.astype(np.float64)
    return float(np.sqrt(np.mean((np.asarray(found, np.float64) - exact) ** 2)))


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize(("k", "n"), [(256, 16), (330, 24)])
def test_division_behind_products_is_no_less_precise(name: str, k: int, n: int) -> None:
    assert _error(name, k, n, True) <= _error(name, k, n, False)


@pytest.mark.parametrize("name", DTYPES)
def test_rows_without_an_element_are_undefined_as_before(name: str) -> None:
    s = np.full((2, 64, 256), -np.inf, DTYPES[name])
    s[:, ::2] = 1.0
    v = np.ones((2, 256, 16), DTYPES[name])
    (found,) = hlo2tx8.compile(ATTENTION.format(t=name, k=256, n=16)).execute(s, v)
    assert np.isnan(found[:, 1::2].astype(np.float32)).all() and (found[:, ::2].astype(np.float32) == 1.0).all()


def test_infinite_and_undefined_scores_are_as_before() -> None:
    s = np.random.default_rng(3).standard_normal((2, 64, 256)).astype(np.float32)
    s[0, 0, 7], s[0, 1, 8], s[1, 2, 3:] = np.inf, np.nan, -np.inf
    (found,) = hlo2tx8.compile(ATTENTION.format(t="f32", k=256, n=16)).execute(s, np.ones((2, 256, 16), np.float32))
    is_undefined = np.zeros((2, 64), bool)
    is_undefined[0, :2] = True
    assert (np.isnan(found).all(-1) == is_undefined).all() and (np.abs(found[~is_undefined] - 1) < 1e-6).all()


@pytest.mark.parametrize("scale", [1e4, 1e8, 1e38])
def test_large_scores_keep_their_differences(scale: float) -> None:
    """What is subtracted has all bits of its row's maximum."""
    rng = np.random.default_rng(5)
    s = (rng.standard_normal((2, 64, 256)) + 2).astype(np.float32)
    s = (np.float32(scale) * np.sign(s) + s * np.spacing(np.float32(scale)) * 8).astype(np.float32)
    v = rng.standard_normal((2, 256, 16)).astype(np.float32)
    (found,) = hlo2tx8.compile(ATTENTION.format(t="f32", k=256, n=16)).execute(s, v)
    e = np.exp(s.astype(np.float64) - s.astype(np.float64).max(-1, keepdims=True))
    np.testing.assert_allclose(found, (e / e.sum(-1, keepdims=True)) @ v.astype(np.float64), atol=4e-3)


NORM = """HloModule norm
ENTRY main {{
  x = {t}[4,9,9,64] parameter(0)
  w = {t}[{k},{k},64,64] parameter(1)
  m = {t}[64] parameter(2)
  s = {t}[64] parameter(3)
  b = {t}[64] parameter(4)
  y = {t}[4,9,9,64] convolution(x, w), window={{size={k}x{k} pad={p}_{p}x{p}_{p}}}, dim_labels=b01f_01io->b01f
  mb = {t}[4,9,9,64] broadcast(m), dimensions={{3}}
  sb = {t}[4,9,9,64] broadcast(s), dimensions={{3}}
  bb = {t}[4,9,9,64] broadcast(b), dimensions={{3}}
  d = {t}[4,9,9,64] subtract(y, mb)
  p = {t}[4,9,9,64] multiply(d, sb)
  ROOT r = {t}[4,9,9,64] add(p, bb)
}}
"""


def _norm_error(name: str, k: int, reassociate: bool) -> float:
    """The root mean square error against f64 of a product that is normalised with its own statistics."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((4, 9, 9, 64)).astype(DTYPES[name])
    w = (rng.standard_normal((k, k, 64, 64)) / 8 / k).astype(DTYPES[name])
    padded = np.pad(x.astype(np.float64), ((0, 0), (k // 2, k // 2), (k // 2, k // 2), (0, 0)))
    parts = ((i, j, padded[:, i : i + 9, j : j + 9]) for i in range(k) for j in range(k))
    y = np.sum([part @ w[i, j].astype(np.float64) for i, j, part in parts], axis=0)
    mean = (y.mean((0, 1, 2)) + rng.standard_normal(64) * 0.5).astype(DTYPES[name])
    scale, offset = ((1 / y.std((0, 1, 2))).astype(DTYPES[name]), rng.standard_normal(64).astype(DTYPES[name]))
    executable = hlo2tx8.compile(NORM.format(t=name, k=k, p=k // 2), options=Options(reassociate=reassociate))
    (found,) = executable.execute(x, w, mean, scale, offset)
    exact = (y - mean.astype(np.float64)) * scale.astype(np.float64) + offset.astype(np.float64)
    return float(np.sqrt(np.mean((np.asarray(found, np.float64) - exact) ** 2)))


@pytest.mark.parametrize("name", ["bf16", "f32"])
@pytest.mark.parametrize("k", [1, 3])
def test_offsets_behind_scales_are_no_less_precise(name: str, k: int) -> None:
    assert _norm_error(name, k, True) <= 1.01 * _norm_error(name, k, False)
