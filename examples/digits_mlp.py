"""Trains a perceptron with one hidden layer on handwritten digits: `python -m examples.digits_mlp`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from examples.digits import CLASSES, train
from examples.report import start

HIDDEN = 128


def parameters() -> dict[str, Any]:
    """Normal weights of variance 2 / inputs, zero biases."""
    generator = np.random.default_rng(2)
    weights = {name: generator.normal(0, np.sqrt(2 / n), (n, m)) for name, n, m in (("w1", 64, HIDDEN), ("w2", HIDDEN, CLASSES))}
    biases = {"b1": np.zeros(HIDDEN), "b2": np.zeros(CLASSES)}
    return jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), weights | biases)


def logits(p: dict[str, Any], images: jax.Array) -> jax.Array:
    """f32[n,10] of f32[n,8,8,1]."""
    hidden = jax.nn.relu(images.reshape(len(images), 64) @ p["w1"] + p["b1"])
    return hidden @ p["w2"] + p["b2"]


def main() -> None:
    given = start(__doc__ or "", epochs=10)
    train(logits, parameters(), given, "digits_mlp")


if __name__ == "__main__":
    main()
