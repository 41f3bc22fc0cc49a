"""A small transformer over bytes, as one step for a batch of sequences that are at different places.

    step(tokens[S,C], starts[S], counts[S], cache[2,L,S,T,W], weights) -> (logits[S,256], cache)

Row s appends the first `counts[s]` of its `tokens` at the places from `starts[s]` on: none, one that was drawn, or up to C of a
prompt. Its logits are those behind the last of them. Keys and values of all places are in the cache, which is donated: a step
writes in place.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

LETTERS = 256
"""Tokens are bytes."""
LENGTH, WIDTH, HEADS, LAYERS = 128, 64, 4, 2
Weights = dict[str, Any]


def weights(seed: int = 0) -> Weights:
    """Normal weights of variance 1 / inputs; arrays of all layers are stacked."""
    generator = np.random.default_rng(seed)

    def drawn(*shape: int) -> np.ndarray[Any, Any]:
        return generator.normal(0, shape[-2] ** -0.5, shape).astype(np.float32)

    return {
        "letters": drawn(LETTERS, WIDTH) * 4,
        "places": drawn(LENGTH, WIDTH) * 4,
        "qkv": drawn(LAYERS, WIDTH, 3 * WIDTH),
        "out": drawn(LAYERS, WIDTH, WIDTH),
        "up": drawn(LAYERS, WIDTH, 4 * WIDTH),
        "down": drawn(LAYERS, 4 * WIDTH, WIDTH),
        "last": drawn(WIDTH, LETTERS) * 2,
    }


def normal(x: jax.Array) -> jax.Array:
    """Mean 0 and variance 1 along the last dimension."""
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def step(tokens: jax.Array, starts: jax.Array, counts: jax.Array, cache: jax.Array, w: Weights) -> tuple[jax.Array, jax.Array]:
    """The logits behind the last token of each row, and the cache with all of them: see the file."""
    rows, chunk = tokens.shape
    places = starts[:, None] + jnp.arange(chunk)  # [S,C]
    column = jnp.arange(LENGTH) - starts[:, None]  # [S,T]: which of the tokens a place takes
    takes = (column >= 0) & (column < counts[:, None])
    column = jnp.clip(column, 0, chunk - 1)
    x = w["letters"][tokens] + w["places"][jnp.minimum(places, LENGTH - 1)]
    hidden = jnp.arange(LENGTH) > places[:, :, None]  # [S,C,T]: a place sees itself and those before
    for layer in range(LAYERS):
        q, k, v = jnp.split(normal(x) @ w["qkv"][layer], 3, axis=-1)
        for half, new in enumerate((k, v)):
            spread = jnp.take_along_axis(new, column[:, :, None], axis=1)
            cache = cache.at[half, layer].set(jnp.where(takes[:, :, None], spread, cache[half, layer]))
        split = [part.reshape(rows, -1, HEADS, WIDTH // HEADS) for part in (q, cache[0, layer], cache[1, layer])]
        scores = jnp.einsum("schd,sthd->shct", split[0], split[1]) * (WIDTH // HEADS) ** -0.5
        shares = jax.nn.softmax(jnp.where(hidden[:, None], -1e30, scores), axis=-1)
        x += jnp.einsum("shct,sthd->schd", shares, split[2]).reshape(rows, chunk, WIDTH) @ w["out"][layer]
        x += jax.nn.gelu(normal(x) @ w["up"][layer]) @ w["down"][layer]
    last = jnp.take_along_axis(x, jnp.maximum(counts - 1, 0)[:, None, None], axis=1)[:, 0]
    return normal(last) @ w["last"], cache


def lowered(rows: int, chunk: int) -> Any:
    """The step for a batch, lowered for compilation; the cache is donated."""
    integers = jax.ShapeDtypeStruct((rows,), np.int32)
    cache = jax.ShapeDtypeStruct((2, LAYERS, rows, LENGTH, WIDTH), np.float32)
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), weights())
    return jax.jit(step, donate_argnums=3).lower(jax.ShapeDtypeStruct((rows, chunk), np.int32), integers, integers, cache, shapes)
