"""A model whose layers follow each other in the source is not much longer than a few of them, and computes the same."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.device.isa.encoding import decode_records
from hlo2tx8.device.isa.kc_control import KcLoop
from hlo2tx8.link import program as linking
from hlo2tx8.options import Options
from hlo2tx8.runtime.executable import Executable

ROWS, SIZE, HEADS = 24, 32, 2
SHAPES = {"scale": (SIZE,), "qkv": (SIZE, 3 * SIZE), "out": (SIZE, SIZE), "up": (SIZE, 2 * SIZE), "down": (2 * SIZE, SIZE)}
Weights = dict[str, dict[str, jax.Array]]


def layer(x: jax.Array, p: dict[str, jax.Array]) -> jax.Array:
    normal = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * p["scale"]
    q, k, v = (part.reshape(ROWS, HEADS, -1) for part in jnp.split(normal @ p["qkv"], 3, -1))
    scores = jax.nn.softmax(jnp.einsum("qhd,khd->hqk", q, k) / 4, -1)
    x = x + jnp.einsum("hqk,khd->qhd", scores, v).reshape(ROWS, SIZE) @ p["out"]
    return x + jnp.tanh(x @ p["up"]) @ p["down"]


def model(x: jax.Array, weights: Weights) -> jax.Array:
    """Layer 10 comes before layer 2 in the order of arguments."""
    for number in range(len(weights)):
        x = layer(x, weights[f"layer{number}"])
    return x


def with_states(x: jax.Array, weights: Weights) -> list[jax.Array]:
    found = [x]
    for number in range(len(weights)):
        found.append(layer(found[-1], weights[f"layer{number}"]))
    return found


def gradient(x: jax.Array, weights: Weights) -> Any:
    return jax.grad(lambda p: jnp.sum(model(x, p) ** 2))(weights)


def stepwise(x: jax.Array, weights: Weights) -> jax.Array:
    return jax.lax.fori_loop(0, jnp.int32(x[0, 0] > -1e9) + 1, lambda _, x: model(x, weights), x)


PROGRAMS = {f.__name__: f for f in (model, with_states, gradient, stepwise)}


@cache
def source(name: str, num_layers: int) -> str:
    weights = {f"layer{n}": {k: jax.ShapeDtypeStruct(s, jnp.float32) for k, s in SHAPES.items()} for n in range(num_layers)}
    function: Callable[..., Any] = PROGRAMS[name]
    return jax.jit(function).lower(jax.ShapeDtypeStruct((ROWS, SIZE), jnp.float32), weights).as_text()


def arguments(executable: Executable) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(0, 0.2, port.shape).astype(np.float32) for port in executable.signature.inputs]


@pytest.mark.parametrize("name", ["model", "with_states"])
def test_bytes_of_the_program(name: str):
    few, many = (hlo2tx8.compile(source(name, n)).program for n in (6, 18))
    assert many.code_bytes <= 1.3 * few.code_bytes


@pytest.mark.parametrize(
    ("name", "mode"), [("model", "strict"), ("with_states", "fast"), ("gradient", "fast"), ("stepwise", "strict")]
)
def test_bits_are_those_of_one_layer_after_the_other(name: str, mode: str, monkeypatch: pytest.MonkeyPatch):
    text = source(name, 6)
    rolled = hlo2tx8.compile(text, Options(mode=mode))
    monkeypatch.setattr(linking, "reroll", lambda made, slots: (made, slots))
    flat = hlo2tx8.compile(text, Options(mode=mode))
    loops = [[r.kind for r in decode_records(e.program.code, e.program.origins)].count(KcLoop) for e in (rolled, flat)]
    assert rolled.program.code_bytes < flat.program.code_bytes and loops[0] != loops[1]
    for a, b in zip(rolled.execute(*arguments(rolled)), flat.execute(*arguments(flat)), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_time_is_that_of_one_layer_after_the_other(monkeypatch: pytest.MonkeyPatch):
    text = source("model", 12)
    rolled = hlo2tx8.compile(text).report.cycles
    monkeypatch.setattr(linking, "reroll", lambda made, slots: (made, slots))
    assert rolled <= 1.01 * hlo2tx8.compile(text).report.cycles
