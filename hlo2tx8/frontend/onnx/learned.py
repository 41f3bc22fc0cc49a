"""Ops of classical models and of training: n-grams, ensembles of trees, optimizers."""

# pyright: basic

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import nn

from hlo2tx8.frontend.onnx.table import NodeCall, OpRow, Refused

MEMBER = 6
COMPARISONS: tuple[Callable[[Any, Any], Any], ...] = (
    jnp.less_equal,
    jnp.less,
    jnp.greater_equal,
    jnp.greater,
    jnp.equal,
    jnp.not_equal,
)
"""Tests of a tree's nodes by their number; the one behind them is whether the feature is a member of a set."""


def _n_grams(call: NodeCall, x: Any) -> Any:
    """How often each n-gram of a pool is in each row, where up to `max_skip_count` elements may be between two of it."""
    if call["pool_strings"]:
        raise Refused("strings are not computed with")
    pool, starts, places = call["pool_int64s"], [*call["ngram_counts"], len(call["pool_int64s"])], call["ngram_indexes"]
    rows = x.reshape(-1, x.shape[-1]).astype(jnp.int64)
    weights = call["weights"] or [1.0] * len(places)
    counts: dict[int, Any] = {}
    number = 0
    for length, (start, end) in enumerate(pairwise(starts), 1):
        for first in range(start, end, length):
            gram, own, weight = pool[first : first + length], places[number], weights[number]
            number += 1
            if not call["min_gram_length"] <= length <= call["max_gram_length"]:
                continue
            count = jnp.zeros(rows.shape[0], jnp.int32)
            for skip in range(call["max_skip_count"] + 1 if length > 1 else 1):
                wide = rows.shape[1] - (length - 1) * (skip + 1)
                if wide > 0:
                    found = jnp.ones((rows.shape[0], wide), bool)
                    for k, item in enumerate(gram):
                        found = found & (rows[:, k * (skip + 1) : k * (skip + 1) + wide] == item)
                    count = count + jnp.sum(found, 1, dtype=jnp.int32)
            value = count.astype(jnp.float32)
            counts[own] = {
                "TF": lambda v: v,
                "IDF": lambda v, w=weight: jnp.where(v > 0, jnp.float32(w), jnp.float32(0)),
                "TFIDF": lambda v, w=weight: v * jnp.float32(w),
            }[call["mode"]](value)
    nothing = jnp.zeros(rows.shape[0], jnp.float32)
    found = jnp.stack([counts.get(k, nothing) for k in range(max(places) + 1)], -1)
    return found.reshape(*x.shape[:-1], -1)


def _members(call: NodeCall, modes: Any) -> list[Any]:
    """The set of each node that tests membership, in order; a NaN ends each."""
    given = np.asarray([] if call["membership_values"] is None else call["membership_values"])
    sets = np.split(given, np.flatnonzero(np.isnan(given)) + 1)
    found = iter(part[~np.isnan(part)] for part in sets)
    return [next(found) if mode == MEMBER else np.zeros(0) for mode in modes]


def _trees(call: NodeCall, x: Any) -> Any:
    """Leaves that each row reaches in each tree, put together by target. Nodes are numbered before leaves."""
    modes, splits = np.asarray(call["nodes_modes"]), np.asarray(call["nodes_splits"])
    num = len(modes)
    ways = []
    for side in ("true", "false"):
        ids, leaves = (np.asarray(call[f"nodes_{side}{word}"], int) for word in ("nodeids", "leafs"))
        ways.append(
            np.concatenate([np.where(leaves, ids + num, ids), num + np.arange(len(call["leaf_targetids"]))]).astype(np.int32)
        )
    features = np.concatenate([call["nodes_featureids"], np.zeros(len(ways[0]) - num, int)]).astype(np.int32)
    depth, current = 0, np.asarray(call["tree_roots"])
    while (current < num).any():
        current, depth = np.unique(np.concatenate([way[current] for way in ways])), depth + 1
        if depth > num:
            raise ValueError("a tree has a node inside of itself")
    tests = [*COMPARISONS]
    sets = _members(call, modes)
    widest = max((len(s) for s in sets), default=0)
    table = np.full((len(features), widest), np.nan, splits.dtype)
    for row, each in enumerate(sets):
        table[row, : len(each)] = each
    modes = np.concatenate([modes, np.zeros(len(features) - num, modes.dtype)]).astype(np.int32)
    splits = np.concatenate([splits, np.zeros(len(features) - num, splits.dtype)])
    tracks = np.zeros(len(features), bool)
    if call["nodes_missing_value_tracks_true"]:
        tracks[:num] = call["nodes_missing_value_tracks_true"]
    at = jnp.broadcast_to(jnp.asarray(call["tree_roots"], jnp.int32), (x.shape[0], len(call["tree_roots"])))
    for _ in range(depth):
        value, mode, split = jnp.take_along_axis(x, jnp.take(features, at), 1), jnp.take(modes, at), jnp.take(splits, at)
        holds = jnp.any(value[..., None] == jnp.take(table, at, 0), -1) if widest else jnp.zeros(at.shape, bool)
        for number, test in enumerate(tests):
            if number in modes:
                holds = jnp.where(mode == number, test(value, split.astype(x.dtype)), holds)
        holds = holds | (jnp.isnan(value) & jnp.take(tracks, at))
        at = jnp.where(holds, jnp.take(ways[0], at), jnp.take(ways[1], at))
    weights = jnp.take(np.asarray(call["leaf_weights"]), at - num).astype(x.dtype)
    chosen = jnp.take(np.asarray(call["leaf_targetids"], np.int32), at - num)[..., None] == np.arange(
        call["n_targets"], dtype=np.int32
    )
    return _post_transform(call, _aggregated(call, weights[..., None], chosen))


def _aggregated(call: NodeCall, weights: Any, chosen: Any) -> Any:
    total = jnp.sum(jnp.where(chosen, weights, 0), 1)
    match call["aggregate_function"]:
        case 0:
            return total / weights.shape[1]
        case 1:
            return total
        case other:
            start, function = (jnp.inf, jnp.min) if other == 2 else (-jnp.inf, jnp.max)
            found = function(jnp.where(chosen, weights, start), 1)
            return jnp.where(jnp.any(chosen, 1), found, 0)


def _post_transform(call: NodeCall, y: Any) -> Any:
    match call["post_transform"]:
        case 0:
            return y
        case 1:
            return nn.softmax(y, -1)
        case 2:
            return nn.sigmoid(y)
        case 3:
            some = jnp.where(y == 0, -jnp.inf, y)
            return jnp.where(jnp.all(y == 0, -1, keepdims=True), 0, nn.softmax(some, -1))
        case _:
            return jax.scipy.special.ndtri(y)


def _per_tensor(num: int, update: Callable[..., Sequence[Any]]) -> OpRow:
    """A row of a function of the node, rate, count and one each of `num` groups of tensors; results are by group too."""

    def apply(call: NodeCall, rate: Any, count: Any, *tensors: Any) -> Any:
        size = len(tensors) // num
        rows = [update(call, rate, count, *(tensors[k * size + i] for k in range(num))) for i in range(size)]
        return tuple(array.astype(tensors[0].dtype) for column in zip(*rows, strict=True) for array in column)

    return OpRow(apply)


def _adagrad(call: NodeCall, rate: Any, count: Any, x: Any, g: Any, h: Any) -> Sequence[Any]:
    g = call["norm_coefficient"] * x + g
    h = h + g * g
    return x - rate / (1 + count * call["decay_factor"]) * g / (jnp.sqrt(h) + call["epsilon"]), h


def _adam(call: NodeCall, rate: Any, count: Any, x: Any, g: Any, v: Any, h: Any) -> Sequence[Any]:
    g, alpha, beta = call["norm_coefficient"] * x + g, call["alpha"], call["beta"]
    v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
    steps = jnp.maximum(count, 1).astype(x.dtype)
    corrected = jnp.where(count > 0, rate * jnp.sqrt(1 - beta**steps) / (1 - alpha**steps), rate)
    return (1 - call["norm_coefficient_post"]) * (x - corrected * v / (jnp.sqrt(h) + call["epsilon"])), v, h


def _momentum(call: NodeCall, rate: Any, count: Any, x: Any, g: Any, v: Any) -> Sequence[Any]:
    g = call["norm_coefficient"] * x + g
    v = call["alpha"] * v + jnp.where(count > 0, call["beta"], 1.0).astype(x.dtype) * g
    return x - rate * (g + call["alpha"] * v if call["mode"] == "nesterov" else v), v


ROWS: dict[str, OpRow] = {
    "TfIdfVectorizer": OpRow(_n_grams),
    "ai.onnx.ml.TreeEnsemble": OpRow(_trees),
    "ai.onnx.preview.training.Adagrad": _per_tensor(3, _adagrad),
    "ai.onnx.preview.training.Adam": _per_tensor(4, _adam),
    "ai.onnx.preview.training.Momentum": _per_tensor(3, _momentum),
}
