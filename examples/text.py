"""Learns to write like this project's documentation, letter by letter, with a small transformer: `python -m examples.text`."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from examples.report import cost, start

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("levels.md", "control.md", "strict.md", "timing.md", "executable.md")
LENGTH, WIDTH, HEADS, LAYERS, BATCH = 32, 64, 4, 2, 32
RATE, DECAY_1, DECAY_2 = 3e-3, 0.9, 0.99
START = "the program "
Parameters = Any


def parameters(letters: int) -> Parameters:
    """Normal weights of variance 1 / inputs; one dictionary per layer."""
    generator = np.random.default_rng(0)

    def weights(n: int, m: int) -> jax.Array:
        return jnp.asarray(generator.normal(0, n**-0.5, (n, m)), jnp.float32)

    sizes = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    layers = [{name: weights(*size) for name, size in sizes.items()} for _ in range(LAYERS)]
    return {"letters": weights(letters, WIDTH), "places": weights(LENGTH, WIDTH), "last": weights(WIDTH, letters), "layers": layers}


def normal(x: jax.Array) -> jax.Array:
    """Mean 0 and variance 1 along the last dimension."""
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def attention(x: jax.Array, p: Parameters) -> jax.Array:
    """Each place sees itself and those before; f32[batch,LENGTH,WIDTH]."""
    q, k, v = (part.reshape(*x.shape[:2], HEADS, -1) for part in jnp.split(x @ p["qkv"], 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (WIDTH // HEADS) ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape) @ p["out"]


def logits(p: Parameters, text: jax.Array) -> jax.Array:
    """f32[batch,LENGTH,letters] of s32[batch,LENGTH]."""
    x = jax.nn.one_hot(text, len(p["letters"])) @ p["letters"] + p["places"]
    for layer in p["layers"]:
        x = x + attention(normal(x), layer)
        x = x + jax.nn.gelu(normal(x) @ layer["up"]) @ layer["down"]
    return normal(x) @ p["last"]


def loss(p: Parameters, text: jax.Array) -> jax.Array:
    """Mean of -log p(next letter) over s32[batch,LENGTH + 1]."""
    found = jax.nn.log_softmax(logits(p, text[:, :-1]))
    return -(found * jax.nn.one_hot(text[:, 1:], found.shape[-1])).sum(-1).mean()


@partial(jax.jit, donate_argnums=(0, 1, 2))
def step(p: Parameters, mean: Parameters, square: Parameters, text: jax.Array) -> tuple[jax.Array, Any, Any, Any]:
    """A step of Adam without bias correction: the loss, and what comes after p, mean and square."""
    value, slope = jax.value_and_grad(loss)(p, text)
    mean = jax.tree.map(lambda m, s: DECAY_1 * m + (1 - DECAY_1) * s, mean, slope)
    square = jax.tree.map(lambda m, s: DECAY_2 * m + (1 - DECAY_2) * s * s, square, slope)
    p = jax.tree.map(lambda w, m, s: w - RATE * m / (jnp.sqrt(s) + 1e-8), p, mean, square)
    return value, p, mean, square


@jax.jit
def next_letter(p: Parameters, text: jax.Array, last: jax.Array, dice: jax.Array) -> jax.Array:
    """A letter after text[last], s32[1,LENGTH], drawn with `dice`, uniform in [0, 1)."""
    sums = jnp.cumsum(jax.nn.softmax(1.5 * logits(p, text)[0, last]))
    return jnp.sum(sums < dice * sums[-1])


def main() -> None:
    given = start(__doc__ or "", steps=200, letters=200)
    corpus = "\n".join((DOCS / page).read_text() for page in PAGES).lower()
    alphabet = sorted(set(corpus))
    data = np.array([alphabet.index(letter) for letter in corpus], np.int32)
    p = parameters(len(alphabet))
    mean, square = (jax.tree.map(jnp.zeros_like, p) for _ in range(2))
    generator = np.random.default_rng(1)
    example = data[: BATCH * (LENGTH + 1)].reshape(BATCH, LENGTH + 1)
    lowered = step.lower(p, mean, square, example)
    for number in range(1, given.steps + 1):
        first = generator.integers(0, len(data) - LENGTH - 1, (BATCH, 1))
        value, p, mean, square = step(p, mean, square, data[first + np.arange(LENGTH + 1)])
        if number % 50 == 0:
            print(f"step {number}: {float(value):.3f} nats per letter", flush=True)
    text = [alphabet.index(letter) for letter in START]
    for _ in range(given.letters):
        seen = text[-LENGTH:]
        padded = np.array([[*seen, *[0] * (LENGTH - len(seen))]], np.int32)
        text.append(int(next_letter(p, padded, np.int32(len(seen) - 1), np.float32(generator.random()))))
    print("".join(alphabet[letter] for letter in text))
    cost("a training step", lowered, given, "text")


if __name__ == "__main__":
    main()
