"""Trains a small convolutional network on handwritten digits: `python -m examples.digits_cnn`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from examples.digits import CLASSES, train
from examples.report import start

CHANNELS = (16, 32)
SHAPES = {"k1": (3, 3, 1, CHANNELS[0]), "k2": (3, 3, *CHANNELS), "w": (2 * 2 * CHANNELS[1], CLASSES)}


def parameters() -> dict[str, Any]:
    """Normal weights of variance 2 / inputs, zero biases."""
    generator = np.random.default_rng(2)
    weights = {name: generator.normal(0, np.sqrt(2 / np.prod(shape[:-1])), shape) for name, shape in SHAPES.items()}
    biases = {f"b{name}": np.zeros(shape[-1]) for name, shape in SHAPES.items()}
    return jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), weights | biases)


def layer(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """Convolution, relu, and the largest of each 2 x 2."""
    x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    n, height, width, channels = x.shape
    return jax.nn.relu(x + bias).reshape(n, height // 2, 2, width // 2, 2, channels).max((2, 4))


def logits(p: dict[str, Any], images: jax.Array) -> jax.Array:
    """f32[n,10] of f32[n,8,8,1]."""
    x = layer(layer(images, p["k1"], p["bk1"]), p["k2"], p["bk2"])
    return x.reshape(len(images), -1) @ p["w"] + p["bw"]


def main() -> None:
    given = start(__doc__ or "", epochs=5)
    train(logits, parameters(), given, "digits_cnn")


if __name__ == "__main__":
    main()
