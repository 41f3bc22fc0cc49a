"""Pass recognize-coarse: spellings of coarse ops are found, and what is kept computes what it did."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy
import numpy as np
import pytest
from xdsl.context import Context

from hlo2tx8 import Options
from hlo2tx8.errors import InputError
from hlo2tx8.frontend import load
from hlo2tx8.passes.inline_calls import InlineCallsPass
from hlo2tx8.passes.recognize_coarse import recognized_in
from hlo2tx8.runtime.compile import compile_source

lax: Any = jax.lax
nn: Any = jax.nn
jnp: Any = jax.numpy
X = np.random.default_rng(0).standard_normal((2, 16, 4, 8), np.float32)
W = np.linspace(0.5, 1.5, 8, dtype=np.float32)
MASK = np.tril(np.ones((16, 16), bool))


def plain_softmax(x: Any) -> Any:
    """Without the largest number."""
    return jnp.exp(x) / jnp.exp(x).sum(1, keepdims=True)


def flax_layer_norm(x: Any, w: Any, b: Any) -> Any:
    """The variance as a difference, the weight times the inverse deviation."""
    mean = x.mean(-1)
    variance = jnp.maximum(0, (x * x).mean(-1) - mean * mean)
    return (x - mean[..., None]) * (lax.rsqrt(variance[..., None] + 1e-6) * w) + b


def llama_norm(x: Any, w: Any) -> Any:
    """In f32, whatever it is given."""
    wide = x.astype(jnp.float32)
    return w * (wide * lax.rsqrt((wide**2).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype)


def group_norm(x: Any) -> Any:
    """Of two groups of the last dimension."""
    parts = x.reshape(2, 64, 2, 4)
    off = parts - parts.mean((1, 3), keepdims=True)
    return (off / jnp.sqrt((off**2).mean((1, 3), keepdims=True) + 1e-5)).reshape(x.shape)


def normalized_as_flax(x: Any, statistics: Any, w: Any, b: Any) -> Any:
    """The weight times the inverse deviation, both of channels, before either meets x."""
    mean, variance = (each.reshape(x.shape[0], 1, 1, -1) for each in statistics)
    factor = lax.rsqrt(variance + 1e-6) * w.reshape(1, 1, 1, -1)
    return ((x - mean) * factor + b.reshape(1, 1, 1, -1)).astype(x.dtype)


def flax_group_norm(x: Any, w: Any, b: Any) -> Any:
    """Statistics of groups, repeated for their channels; in f32."""
    parts = x.reshape(2, 16, 4, 2, 4).astype(jnp.float32)
    mean, square = (each.mean((1, 2, 4)) for each in (parts, parts * parts))
    repeated = [jnp.repeat(each, 4, axis=1) for each in (mean, jnp.maximum(0, square - mean * mean))]
    return normalized_as_flax(x, repeated, w, b)


def flax_instance_norm(x: Any, w: Any, b: Any) -> Any:
    """Each channel is a group."""
    mean, square = x.mean((1, 2)), (x * x).mean((1, 2))
    return normalized_as_flax(x, (mean, jnp.maximum(0, square - mean * mean)), w, b)


def gpt2_gelu(x: Any) -> Any:
    """With a power."""
    return 0.5 * x * (1 + jnp.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * jnp.power(x, 3.0))))


def heads_first(q: Any, k: Any, v: Any) -> Any:
    """Transposed before; the scores are divided."""
    q, k, v = (each.swapaxes(1, 2) for each in (q, k, v))
    return nn.softmax(q @ k.swapaxes(-1, -2) / np.sqrt(8)) @ v


def masked_by_select(q: Any, k: Any, v: Any) -> Any:
    """A scale that is multiplied, -1e9 where the mask says so."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * 0.25
    return jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(jnp.where(MASK, scores, -1e9)), v)


def masked_by_addition(q: Any, k: Any, v: Any) -> Any:
    """Queries that were scaled before."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q * 0.25, k) + jnp.where(MASK, 0.0, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v)


def grouped_queries(q: Any, k: Any, v: Any) -> Any:
    """Two heads of keys for four of queries."""
    return nn.dot_product_attention(q, k[:, :, :2], v[:, :, :2], is_causal=True)


def half_precision(q: Any, k: Any, v: Any) -> Any:
    """The softmax in f32 of products in bf16."""
    q, k, v = (each.astype(jnp.bfloat16) for each in (q, k, v))
    weights = nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) * 0.25).astype(jnp.bfloat16)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


SPELLINGS: tuple[tuple[Callable[..., Any], Sequence[Any], str, dict[str, Any]], ...] = (
    (nn.softmax, [X], "softmax", {"axis": 3}),
    (plain_softmax, [X], "softmax", {"axis": 1}),
    (nn.log_softmax, [X], "log_softmax", {"axis": 3}),
    (flax_layer_norm, [X, W, W], "layer_norm", {"axis": [3], "epsilon": 1e-6}),
    (llama_norm, [X.astype(jnp.bfloat16), W.astype(jnp.bfloat16)], "rms_norm", {"axis": [3], "epsilon": 1e-6}),
    (group_norm, [X], "group_norm", {"axis": [1, 3], "epsilon": 1e-5}),
    (flax_group_norm, [X, W, W], "group_norm", {"axis": 3, "groups": 2, "epsilon": 1e-6}),
    (flax_group_norm, [X.astype(jnp.bfloat16), W, W], "group_norm", {"axis": 3, "groups": 2, "epsilon": 1e-6}),
    (flax_instance_norm, [X, W, W], "group_norm", {"axis": 3, "groups": 8, "epsilon": 1e-6}),
    (nn.gelu, [X.astype(jnp.bfloat16)], "gelu", {"approximate": "tanh"}),
    (gpt2_gelu, [X], "gelu", {"approximate": "tanh"}),
    (partial(nn.gelu, approximate=False), [X], "gelu", {"approximate": "erf"}),
    (nn.silu, [X], "silu", {}),
    (heads_first, [X, X, X], "sdpa", {"scale": 0.3535534, "masked": False}),
    (masked_by_select, [X, X, X], "sdpa", {"scale": 0.25, "masked": True}),
    (masked_by_addition, [X, X, X], "sdpa", {"scale": 1.0, "masked": True}),
    (grouped_queries, [X, X, X], "sdpa", {"scale": 0.3535534, "masked": True}),
    (half_precision, [X, X, X], "sdpa", {"scale": 0.25, "masked": False}),
)


@pytest.mark.parametrize(("function", "arrays", "name", "attributes"), SPELLINGS)
def test_spellings_are_found(function: Callable[..., Any], arrays: Sequence[Any], name: str, attributes: dict[str, Any]):
    module = load(function, args=arrays)
    InlineCallsPass().apply(Context(), module)
    found = [each for each_name, _, each in recognized_in(module) if each_name == name]
    assert [each.attributes if each is not None else None for each in found] == [attributes]


NEARLY: tuple[tuple[str, list[str]], ...] = (
    ("x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * x", ["rms_norm"]),  # x is no weight of it
    ("jnp.exp(x) / jnp.exp(x).sum()", []),
    ("x * nn.sigmoid(1.702 * x)", []),
    ("0.5 * x * (1 + jnp.tanh(0.8 * (x + 0.0447 * x**2)))", []),
    ("(x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-2)", []),
    ("jnp.exp(x) / jnp.exp(x).sum(1, keepdims=True)[:, :, ::-1]", []),
)


@pytest.mark.parametrize(("formula", "names"), NEARLY)
def test_what_is_nearly_one_is_none(formula: str, names: list[str]):
    module = load(eval(f"lambda x: {formula}", {"jnp": jnp, "nn": nn}), args=[X])
    InlineCallsPass().apply(Context(), module)
    assert [name for name, _, _ in recognized_in(module)] == names


def test_groups_that_lie_otherwise_are_none():
    def interleaved(x: Any, w: Any, b: Any) -> Any:
        """Statistics of neighbours for channels that are apart."""
        parts = x.reshape(2, 16, 4, 2, 4)
        mean, variance = (jnp.tile(each, (1, 4)) for each in (parts.mean((1, 2, 4)), parts.var((1, 2, 4))))
        return normalized_as_flax(x, (mean, variance), w, b)

    module = load(interleaved, args=[X, W, W])
    InlineCallsPass().apply(Context(), module)
    assert [name for name, _, _ in recognized_in(module)] == []


@pytest.mark.parametrize("function", [flax_group_norm, flax_instance_norm])
def test_a_wanted_norm_of_groups_computes_what_it_did(function: Callable[..., Any]):
    kept = compile_source(function, Options(keep="group_norm", explain=True), args=[X, W, W])
    assert any(line.startswith("group_norm recognised at ") for line in kept.explanation)
    plain = compile_source(function, Options(), args=[X, W, W])
    np.testing.assert_allclose(kept.execute(X, W, W)[0], plain.execute(X, W, W)[0], rtol=1e-6, atol=1e-6)


def test_what_is_kept_computes_what_it_did():
    def block(x: Any, w: Any, b: Any) -> Any:
        return x + gpt2_gelu(flax_layer_norm(nn.softmax(x), w, b))

    kept = compile_source(block, Options(keep="softmax,gelu, layer_norm", explain=True), args=[X, W, W])
    lines = [line for line in kept.explanation if " is kept as one fusion" in line]
    assert [line.partition(" ")[0] for line in lines] == ["softmax", "layer_norm", "gelu"]
    plain = compile_source(block, Options(), args=[X, W, W])
    np.testing.assert_allclose(kept.execute(X, W, W)[0], plain.execute(X, W, W)[0], rtol=1e-6, atol=1e-6)


def test_a_name_that_nothing_has_is_refused():
    with pytest.raises(InputError, match="no coarse op sofmax is in the module") as refused:
        compile_source(nn.softmax, Options(keep="gelu,sofmax"), args=[X])
    assert "did you mean softmax?" in str(refused.value)
