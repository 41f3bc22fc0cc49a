"""Profiles a residual block, two 3 x 3 convolutions with batch norm: `python -m examples.resnet_block`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from examples.report import cost, start


def parameters(channels: int) -> dict[str, Any]:
    """Of two convolutions with their batch norms."""
    generator = np.random.default_rng(0)
    kernels = {f"k{i}": generator.normal(0, (2 / (9 * channels)) ** 0.5, (3, 3, channels, channels)) for i in (1, 2)}
    norms = {f"{name}{i}": generator.uniform(0.5, 1.5, channels) for i in (1, 2) for name in ("scale", "shift", "mean", "variance")}
    return jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), kernels | norms)


def layer(x: jax.Array, p: dict[str, Any], i: int) -> jax.Array:
    """Convolution and batch norm as at inference."""
    x = lax.conv_general_dilated(x, p[f"k{i}"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return (x - p[f"mean{i}"]) * lax.rsqrt(p[f"variance{i}"] + 1e-5) * p[f"scale{i}"] + p[f"shift{i}"]


@jax.jit
def block(x: jax.Array, p: dict[str, Any]) -> jax.Array:
    """relu(x + f(x)); f32[n,height,width,channels]."""
    return jax.nn.relu(x + layer(jax.nn.relu(layer(x, p, 1)), p, 2))


def main() -> None:
    given = start(__doc__ or "", size=28, channels=64)
    p = parameters(given.channels)
    x = np.random.default_rng(1).normal(size=(1, given.size, given.size, given.channels)).astype(np.float32)
    y = np.asarray(block(x, p))
    cpu = jax.devices("cpu")[0]
    expected = np.asarray(block(*jax.device_put((x, p), cpu)))
    print(f"largest difference to cpu: {np.abs(y - expected).max() / np.abs(expected).max():.1e} of the largest element")
    executable = cost("the block", block.lower(x, p), given, "resnet_block")
    if executable is not None:
        for row in sorted(executable.profile().fusions, key=lambda row: -row.cycles)[:8]:
            print(f"{100 * row.share:5.1f} %  {row.cycles:9.0f} cycles  bound by {row.bound or '-':4}  {row.name}")


if __name__ == "__main__":
    main()
