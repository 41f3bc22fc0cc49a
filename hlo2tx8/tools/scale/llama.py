"""A model as Llama's in jax: its layers, the ends, the loss, Adam.

Tensor parallel as Megatron cuts it: heads, columns of the first and rows of the second product of a block, and rows of the
vocabulary are on chips of the axis "tp"; a block adds up over them once forwards, and once backwards.
"""
# pyright: basic

from dataclasses import dataclass
from typing import Any

TP, DP, PP = "tp", "dp", "pp"
EPSILON = 1e-5
RATE = 1e-3


@dataclass(frozen=True)
class Llama:
    """Sizes of a model; `dtype` of parameters and activations, moments of the update are f32."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int
    sequence: int
    dtype: str

    def shapes(self, layers: int, *, has_ends: bool = True) -> dict[str, Any]:
        """The parameters' shapes of so many layers; with the table, last norm and head if `has_ends`."""
        d, head = self.hidden, self.hidden // self.heads
        keys = self.kv_heads * head
        layer = {"norm": (d,), "q": (d, d), "k": (d, keys), "v": (d, keys), "o": (d, d)}
        layer |= {"norm2": (d,), "gate": (d, self.ffn), "up": (d, self.ffn), "down": (self.ffn, d)}
        ends = {"table": (self.vocabulary, d), "last": (d,), "head": (d, self.vocabulary)}
        return {"layers": [dict(layer) for _ in range(layers)]} | (ends if has_ends else {})

    @property
    def num_parameters(self) -> int:
        """Of the whole model."""
        from jax import tree
        from numpy import prod

        leaves = tree.leaves(self.shapes(self.layers), is_leaf=is_shape)
        return sum(int(prod(shape)) for shape in leaves)


SPLIT = dict.fromkeys(("q", "k", "v", "gate", "up", "head"), 1) | dict.fromkeys(("o", "down", "table"), 0)
"""The dimension of a parameter that chips of "tp" share; others are on all of them."""


def is_shape(leaf: Any) -> bool:
    """Is that the shape of one parameter?"""
    return isinstance(leaf, tuple)


def structs(model: Llama, shapes: Any, dtype: str = "") -> Any:
    """Arrays of shapes, as jax traces them."""
    import jax

    return jax.tree.map(lambda s: jax.ShapeDtypeStruct(s, dtype or model.dtype), shapes, is_leaf=is_shape)


def local_shapes(shapes: Any, tp: int) -> Any:
    """The part of each parameter that a chip has."""
    import jax

    def part(path: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
        split = SPLIT.get(path[-1].key)
        return tuple(n // tp if dim == split else n for dim, n in enumerate(shape))

    return jax.tree_util.tree_map_with_path(part, shapes, is_leaf=is_shape)


def specs(shapes: Any, tp: int) -> Any:
    """How parameters are sharded."""
    import jax
    from jax.sharding import PartitionSpec

    def spec(path: Any, shape: tuple[int, ...]) -> Any:
        split = SPLIT.get(path[-1].key) if tp > 1 else None
        return PartitionSpec(*(TP if dim == split else None for dim in range(len(shape))))

    return jax.tree_util.tree_map_with_path(spec, shapes, is_leaf=is_shape)


def _vary(x: Any, tp: int) -> Any:
    """An activation that each chip of "tp" reads in its own way: the gradients are added up."""
    from jax import lax

    return lax.pcast(x, TP, to="varying") if tp > 1 else x


def _sum(x: Any, tp: int) -> Any:
    from jax import lax

    return lax.psum(x, TP) if tp > 1 else x


def _norm(gain: Any, x: Any) -> Any:
    import jax.numpy as jnp
    from jax import lax

    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + EPSILON)).astype(x.dtype) * gain


def _turned(x: Any) -> Any:
    """Rotary positions of [n, tokens, heads, width]."""
    import jax.numpy as jnp
    import numpy as np

    half = x.shape[-1] // 2
    angles = np.arange(x.shape[1])[:, None] / 10000.0 ** (np.arange(half) / half)
    cos, sin = (jnp.asarray(f(angles)[:, None], x.dtype) for f in (np.cos, np.sin))
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def layer(model: Llama, tp: int, p: Any, x: Any) -> Any:
    """One block on [n, tokens, hidden]."""
    import jax
    import jax.numpy as jnp

    n, tokens, _ = x.shape
    width = model.hidden // model.heads
    h = _vary(_norm(p["norm"], x), tp)
    q, k, v = ((h @ p[name]).reshape(n, tokens, -1, width) for name in "qkv")
    q, k = _turned(q), _turned(k)
    k, v = (jnp.repeat(own, q.shape[2] // own.shape[2], axis=2) for own in (k, v))
    scores = jnp.einsum("nqhd,nkhd->nhqk", q, k) * (1.0 / width**0.5)
    mask = jnp.tril(jnp.ones((tokens, tokens), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9).astype(jnp.float32)).astype(x.dtype)
    mixed = jnp.einsum("nhqk,nkhd->nqhd", weights, v).reshape(n, tokens, -1)
    x = x + _sum(mixed @ p["o"], tp)
    h = _vary(_norm(p["norm2"], x), tp)
    return x + _sum((jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"], tp)


def stage(model: Llama, tp: int, layers: Any, x: Any) -> Any:
    """Blocks one after another."""
    for p in layers:
        x = layer(model, tp, p, x)
    return x


def embed(tp: int, table: Any, ids: Any) -> Any:
    """Rows of a table of which each chip has some."""
    import jax.numpy as jnp
    from jax import lax

    if tp == 1:
        return table[ids]
    own = ids - lax.axis_index(TP) * table.shape[0]
    is_here = (own >= 0) & (own < table.shape[0])
    return lax.psum(jnp.where(is_here[..., None], table[jnp.clip(own, 0, table.shape[0] - 1)], 0), TP)


def loss_of(tp: int, p: Any, x: Any, labels: Any) -> Any:
    """Mean cross entropy, of logits of which each chip has those of some words."""
    import jax.numpy as jnp
    from jax import lax

    logits = (_vary(_norm(p["last"], x), tp) @ p["head"]).astype(jnp.float32)
    most = lax.stop_gradient(logits).max(-1)
    most = lax.pmax(most, TP) if tp > 1 else most
    start = lax.axis_index(TP) * logits.shape[-1] if tp > 1 else 0
    words = lax.broadcasted_iota(labels.dtype, logits.shape, 2) + start
    total = _sum(jnp.exp(logits - most[..., None]).sum(-1), tp)
    picked = _sum(jnp.where(words == labels[..., None], logits, 0.0).sum(-1), tp)
    return (jnp.log(total) + most - picked).mean()


def loss(model: Llama, tp: int, p: Any, ids: Any, labels: Any) -> Any:
    """Of the whole model."""
    return loss_of(tp, p, stage(model, tp, p["layers"], embed(tp, p["table"], ids)), labels)


def adam(p: Any, m: Any, v: Any, g: Any) -> tuple[Any, Any, Any]:
    """A step of Adam: parameters and both moments."""
    import jax
    import jax.numpy as jnp

    wide = jax.tree.map(lambda x: x.astype(jnp.float32), g)
    m = jax.tree.map(lambda a, x: 0.9 * a + 0.1 * x, m, wide)
    v = jax.tree.map(lambda a, x: 0.99 * a + 0.01 * x * x, v, wide)
    moved = jax.tree.map(lambda x, a, b: (x.astype(jnp.float32) - RATE * a / (jnp.sqrt(b) + EPSILON)).astype(x.dtype), p, m, v)
    return moved, m, v
