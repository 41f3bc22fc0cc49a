"""The evaluator on whole modules: control flow, calls, reductions, dots, tuples, fusions; against jax on the CPU."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from hlo2tx8.errors import InputError, UnsupportedError
from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate

RNG = np.random.default_rng(1)
X = RNG.normal(size=(4, 6)).astype(np.float32)
TIES = RNG.integers(0, 3, (5, 7)).astype(np.int32)
WORDS = RNG.integers(-(2**31), 2**31 - 1, (9, 5), np.int32)


def collatz(n: Any) -> Any:
    return lax.while_loop(
        lambda s: s[0] != 1, lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, jnp.int32(0))
    )[1]


def two_results(x: Any) -> tuple[Any, Any]:
    return lax.reduce(
        (x, lax.broadcasted_iota(jnp.int32, x.shape, 1)),
        (jnp.float32(-jnp.inf), jnp.int32(0)),
        lambda a, b: (jnp.maximum(a[0], b[0]), jnp.where(a[0] >= b[0], a[1], b[1])),
        (1,),
    )


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "while": (collatz, (np.int32(27),)),
    "scan": (lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c), jnp.zeros(6), x), (X,)),
    "cond": (lambda p, x: lax.cond(p, lambda v: v + 1, lambda v: v * 2, x), (np.bool_(True), X)),
    "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.abs, lambda v: -v], x), (np.int32(7), X)),
    "sum": (lambda x: (x.sum(), x.sum(0), x.sum(1)), (X,)),
    "sum_bf16": (lambda x: lax.reduce(x, jnp.bfloat16(1), lax.add, (0,)), (X.astype(jnp.bfloat16),)),
    "sum_int": (lambda x: (x.sum(0), x.prod(1), x.max(0), x.min()), (WORDS,)),
    "sum_unsigned": (lambda x: x.sum(dtype=jnp.uint32), (WORDS.view(np.uint32),)),
    "bits": (lambda x: [lax.reduce(x, jnp.int32(0), f, (0,)) for f in (lax.bitwise_or, lax.bitwise_xor)], (WORDS,)),
    "any_all": (lambda x: ((x > 0).any(1), (x > 0).all(0)), (X,)),
    "max_nan": (lambda x: (x.max(1), x.min(0)), (np.where(X > 1, np.float32("nan"), X),)),
    "argmax": (lambda x: (x.argmax(1), x.argmin(0), x.argmax()), (TIES,)),
    "variadic": (two_results, (X,)),
    "empty": (lambda x: (x.sum(0), x.prod(1)), (np.zeros((0, 3), np.float32),)),
    "dot": (lambda a, b: a @ b, (X, X.T.copy())),
    "dot_batch": (
        lambda a, b: jnp.einsum("bij,bkj->bik", a, b),
        (RNG.normal(size=(3, 2, 5)).astype(np.float32), RNG.normal(size=(3, 4, 5)).astype(np.float32)),
    ),
    "dot_int8": (
        lambda a: lax.dot(a, a.T, preferred_element_type=jnp.int32),
        (RNG.integers(-128, 127, (4, 9), np.int8),),
    ),
    "dot_int32": (lambda a: a @ a.T, (WORDS,)),
    "dot_complex": (lambda a: a @ a.T, ((X + 1j * X[::-1]).astype(np.complex64),)),
    "dynamic": (
        lambda x, i: (lax.dynamic_slice(x, (i, 1), (2, 3)), lax.dynamic_update_slice(x, x[:1, :2], (9, i))),
        (X, np.int32(3)),
    ),
    "jit_call": (lambda x: jax.jit(jnp.tanh, inline=False)(x) + jax.jit(jnp.tanh)(x * 2), (X,)),
    "softmax": (lambda x: jax.nn.softmax(x, axis=1), (X,)),
    "special": (lambda x: (lax.erf(x), lax.lgamma(jnp.abs(x) + 3), lax.erf_inv(x / 5)), (X,)),
    "top_k": (lambda x: lax.top_k(x, 3), (X,)),
    "window_padding": (
        lambda x: [lax.reduce_window(x, np.int32(3), op, (2, 3), (1, 2), ((1, 1), (2, 4))) for op in (lax.add, lax.mul)],
        (TIES,),
    ),
    "window_padding_log": (lambda x: lax.cumlogsumexp(x + 1j, axis=1), (X,)),
    "barrier": (lambda x: lax.optimization_barrier((x, x + 1)), (X,)),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_jax(name: str):
    function, args = CASES[name]
    expected = jax.tree.leaves(jax.jit(function)(*args))
    found = evaluate(load(function, args=args), *args)
    assert len(found) == len(expected)
    for a, e in zip(found, map(np.asarray, expected), strict=True):
        assert a.dtype == e.dtype
        assert a.shape == e.shape
        if a.dtype.kind in "iub":
            assert np.array_equal(a, e)
        else:
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(a.astype(wide), e.astype(wide), rtol=1e-5 if a.itemsize > 2 else 2**-7, atol=2e-6)


FUSED = """
HloModule m

region { a = f32[] parameter(0)
  b = f32[] parameter(1)
  m = f32[] multiply(a, b)
  ROOT s = f32[] add(m, b) }

pair { p = f32[4,6] parameter(0)
  n = f32[4,6] negate(p)
  t = f32[6,4] transpose(p), dimensions={1,0}
  ROOT r = (f32[4,6], f32[6,4]) tuple(n, t) }

ENTRY e { x = f32[4,6] parameter(0)
  f = (f32[4,6], f32[6,4]) fusion(x), kind=kLoop, calls=pair
  a = f32[4,6] get-tuple-element(f), index=0
  b = f32[6,4] get-tuple-element(f), index=1
  c = f32[6,4]{0,1} copy(b)
  d = f32[4,6]{1,0} bitcast(c)
  m = f32[4,6] map(a, d), dimensions={0,1}, to_apply=region
  ROOT out = (f32[4,6], f32[4,6]) tuple(m, d) }
"""


def test_fusions_tuples_layouts_and_maps():
    found = evaluate(load(FUSED, format="hlo"), X)
    assert np.array_equal(found[0], -X * X + X)
    assert np.array_equal(found[1], X)


def test_a_sum_is_rounded_once():
    x = np.array([1] + [2.0**-8] * 200, jnp.bfloat16)
    (found,) = evaluate(load(lambda v: lax.reduce(v, jnp.bfloat16(0), lax.add, (0,)), args=(x,)), x)
    assert float(found) == np.float64(1 + 200 * 2.0**-8).astype(jnp.bfloat16)


def test_inputs_are_checked():
    module = load(lambda x: x + 1, args=(X,))
    with pytest.raises(InputError, match="takes 1 inputs, got 2"):
        evaluate(module, X, X)
    with pytest.raises(InputError, match=r"input 0 of @main is float32\[6, 4\]"):
        evaluate(module, X.T)


def test_everything_unsupported_is_listed():
    x = "tensor<6x4xf32>"
    refused = 'stablehlo.unary_einsum {}, config = "ab->ab"'
    body = "\n".join(f"%{i + 1} = {refused.format(f'%{i}')} : ({x}) -> {x}" for i in range(3))
    module = load(f"func.func @main(%0: {x}) -> {x} {{\n{body}\nreturn %3 : {x}\n}}", format="stablehlo")
    with pytest.raises(UnsupportedError) as error:
        evaluate(module, X)
    names = [op.name for op in error.value.ops]
    assert names == ["stablehlo.unary_einsum"]
    assert len(error.value.ops[0].origins) == 3


def test_results_do_not_alias_inputs():
    (found,) = evaluate(load(lambda x: x, args=(X,)), X)
    assert not np.shares_memory(found, X)
