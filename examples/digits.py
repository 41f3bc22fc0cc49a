"""Training on the handwritten digits of scikit-learn: 1437 images of 8 x 8 to learn from, 360 to test."""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from examples.report import cost

CLASSES, BATCH, TEST = 10, 128, 360
RATE, MOMENTUM = 0.1, 0.9
Parameters = Any


def load() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(images f32[n,8,8,1], labels s32[n]) to learn from and to test with, shuffled, always in the same way."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise SystemExit("the digits come with scikit-learn: pip install -e .[examples]") from None

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images[order, :, :, None] / 16).astype(np.float32)
    labels = digits.target[order].astype(np.int32)
    return (images[TEST:], labels[TEST:]), (images[:TEST], labels[:TEST])


def train(
    logits: Callable[[Parameters, jax.Array], jax.Array], parameters: Parameters, given: argparse.Namespace, name: str
) -> None:
    """Stochastic gradient descent with momentum; prints the accuracy after each epoch, and the cost of a step."""
    (images, labels), test = load()

    def loss(parameters: Parameters, images: jax.Array, labels: jax.Array) -> jax.Array:
        picked = jax.nn.log_softmax(logits(parameters, images)) * jax.nn.one_hot(labels, CLASSES)
        return -picked.sum() / len(labels)

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(parameters: Parameters, speed: Parameters, images: jax.Array, labels: jax.Array) -> tuple[Parameters, Parameters]:
        slope = jax.grad(loss)(parameters, images, labels)
        speed = jax.tree.map(lambda v, s: MOMENTUM * v - RATE * s, speed, slope)
        return jax.tree.map(jnp.add, parameters, speed), speed

    @jax.jit
    def num_right(parameters: Parameters, images: jax.Array, labels: jax.Array) -> jax.Array:
        return jnp.sum(jnp.argmax(logits(parameters, images), axis=1) == labels)

    speed = jax.tree.map(jnp.zeros_like, parameters)
    generator = np.random.default_rng(1)
    lowered = step.lower(parameters, speed, images[:BATCH], labels[:BATCH])
    for epoch in range(1, given.epochs + 1):
        order = generator.permutation(len(labels))
        for first in range(0, len(order) - BATCH + 1, BATCH):
            batch = order[first : first + BATCH]
            parameters, speed = step(parameters, speed, images[batch], labels[batch])
        print(f"epoch {epoch}: {100 * int(num_right(parameters, *test)) / TEST:.1f} % of {TEST} test images right", flush=True)
    cost("a training step", lowered, given, name)
