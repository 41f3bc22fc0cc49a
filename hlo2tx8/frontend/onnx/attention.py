"""Attention: softmax(scale Q Kᵀ + bias) V, of heads that may share keys and values, with a cache, masks and windows; rotary
positions.

Q [batch, heads, queries, size], K [batch, shared, keys, size], V [batch, shared, keys, size']
"""

# pyright: basic

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import nn

from hlo2tx8.frontend.onnx.conversion import dtype_of
from hlo2tx8.frontend.onnx.table import NodeCall, OpRow


def _heads(x: Any, num: int | None) -> Any:
    """[batch, rows, heads * size] as [batch, heads, rows, size]."""
    return x if x.ndim == 4 else jnp.swapaxes(x.reshape(*x.shape[:2], num, -1), 1, 2)


def _allowed(call: NodeCall, queries: int, keys: int, before: Any) -> Any:
    """Which keys a query may see, by position alone; None where it may see all. `before` says how many keys come before the first
    query, [batch, 1, 1, 1] or a number.
    """
    left, right = (-1 if call[key] is None else call[key] for key in ("left_window_size", "right_window_size"))
    right = min(right, 0) if call["is_causal"] and right >= 0 else 0 if call["is_causal"] else right
    if left < 0 and right < 0:
        return None
    ahead = np.arange(keys) - np.arange(queries)[:, None] - before
    found = True
    found = found & (ahead <= right) if right >= 0 else found
    return found & (ahead >= -left) if left >= 0 else found


def _bias(call: NodeCall, mask: Any, lengths: Any, queries: int, keys: int, past: int, dtype: Any) -> Any:
    """What is added to scores, of a rank that spreads to [batch, heads, queries, keys]; None if nothing is."""
    forbidden = jnp.asarray(-jnp.inf, dtype)
    before: Any = past
    if lengths is not None:
        lengths = lengths.reshape(-1, 1, 1, 1)
        before = lengths - queries
    allowed = _allowed(call, queries, keys, before)
    if lengths is not None:
        inside = np.arange(keys) < lengths
        allowed = inside if allowed is None else allowed & inside
    if mask is not None and mask.shape[-1] < keys:
        rest = [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]
        mask = jnp.pad(mask, rest, constant_values=False if mask.dtype == bool else -jnp.inf)
    if mask is not None and mask.dtype == bool:
        allowed, mask = mask if allowed is None else allowed & mask, None
    if allowed is None:
        return mask
    return jnp.where(allowed, jnp.zeros((), dtype) if mask is None else mask, forbidden)


def attention(
    call: NodeCall,
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    lengths: Any = None,
) -> Any:
    """The result [batch, heads, queries, size], all keys and values, and scores at the stage that is asked for."""
    rank, dtype = q.ndim, q.dtype
    q, k, v = _heads(q, call["q_num_heads"]), _heads(k, call["kv_num_heads"]), _heads(v, call["kv_num_heads"])
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        k, v = jnp.concatenate([past_key, k], 2), jnp.concatenate([past_value, v], 2)
    (batch, heads, queries, size), (shared, keys) = q.shape, k.shape[1:3]
    root = np.sqrt(1 / math.sqrt(size) if call["scale"] is None else call["scale"]).astype(dtype)
    rows = (q * root).reshape(batch, shared, heads // shared * queries, size)
    scores = jnp.einsum("bhqd,bhkd->bhqk", rows, k * root).reshape(batch, heads, queries, keys)
    stages = [scores]
    if call["softcap"]:
        scores = call["softcap"] * jnp.tanh(scores / call["softcap"])
    stages.append(scores)
    bias = _bias(call, mask, lengths, queries, keys, past, dtype)
    scores = scores if bias is None else scores + bias
    stages.append(scores)
    precise = scores.astype(dtype_of(call["softmax_precision"])) if call["softmax_precision"] else scores
    weights = nn.softmax(precise, -1).astype(v.dtype)
    y = jnp.einsum("bhqk,bhkd->bhqd", weights.reshape(batch, shared, -1, keys), v).reshape(batch, heads, queries, -1)
    if bias is not None and (mask is not None or lengths is not None or call["left_window_size"] not in (None, -1)):
        blind = jnp.max(bias, -1, keepdims=True) == -jnp.inf  # a query that sees no key has a row of zeros
        y, weights = jnp.where(blind, jnp.zeros_like(y), y), jnp.where(blind, jnp.zeros_like(weights), weights)
    stages.append(weights.astype(dtype))
    y = jnp.swapaxes(y, 1, 2).reshape(batch, queries, -1) if rank == 3 else y
    return y, k, v, stages[call["qk_matmul_output_mode"] or 0]


def _rotary(call: NodeCall, x: Any, cosines: Any, sines: Any, positions: Any = None) -> Any:
    """Pairs of elements turned by angles that grow with the position; the elements behind the first `rotary_embedding_dim` stay."""
    rank, shape = x.ndim, x.shape
    x = jnp.swapaxes(_heads(x, call["num_heads"]), 1, 2)
    turned = call["rotary_embedding_dim"] or x.shape[-1]
    if positions is not None:
        cosines, sines = (jnp.take(table, positions.astype(jnp.int32), 0, mode="clip") for table in (cosines, sines))
    cosines, sines = (table[:, :, None, : turned // 2] for table in (cosines, sines))
    part, rest = x[..., :turned], x[..., turned:]
    if call["interleaved"]:
        first, second = part[..., ::2], part[..., 1::2]
    else:
        first, second = jnp.split(part, 2, -1)
    pair = cosines * first - sines * second, sines * first + cosines * second
    part = jnp.stack(pair, -1).reshape(part.shape) if call["interleaved"] else jnp.concatenate(pair, -1)
    found = jnp.concatenate([part, rest], -1)
    return found.reshape(shape) if rank == 3 else jnp.swapaxes(found, 1, 2)


ROWS: dict[str, OpRow] = {"Attention": OpRow(attention), "RotaryEmbedding": OpRow(_rotary)}
