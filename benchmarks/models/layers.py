"""Layers in plain jax; parameters are dictionaries of arrays that `Parameters` draws."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


class Parameters:
    """Draws parameters: normal, scaled by the square root of the fan-in; gains are 1, offsets 0."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def normal(self, *shape, fan_in=None):
        scale = np.sqrt(fan_in or shape[-2] if len(shape) > 1 else 1)
        return (self.rng.standard_normal(shape) / scale).astype(np.float32)

    def dense(self, n, m):
        return {"w": self.normal(n, m), "b": np.zeros(m, np.float32)}

    def conv(self, height, width, n, m):
        return {"w": self.normal(height, width, n, m, fan_in=height * width * n)}

    def norm(self, n):
        return {"gain": np.ones(n, np.float32), "offset": np.zeros(n, np.float32)}


def dense(p, x):
    return x @ p["w"] + p["b"]


def conv(p, x, stride=1, padding="SAME"):
    """Convolution of images [n, height, width, channels]."""
    return lax.conv_general_dilated(x, p["w"], (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def layer_norm(p, x):
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p["gain"] + p["offset"]


def rms_norm(p, x):
    return x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * p["gain"]


def batch_norm(p, x):
    """With the statistics of the batch."""
    mean = x.mean((0, 1, 2))
    variance = jnp.square(x - mean).mean((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p["gain"] + p["offset"]


def group_norm(p, x, groups=4):
    n, height, width, channels = x.shape
    split = x.reshape(n, height, width, groups, channels // groups)
    mean = split.mean((1, 2, 4), keepdims=True)
    variance = jnp.square(split - mean).mean((1, 2, 4), keepdims=True)
    return ((split - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape) * p["gain"] + p["offset"]


def attention(p, x, heads, mask=None, context=None):
    """Multi-head attention over [n, tokens, width].

    Keys have no offset: softmax takes it away again, so its gradient is nothing but rounding, which adam would blow up.
    """
    context = x if context is None else context
    n, tokens, width = x.shape
    queries = dense(p["q"], x).reshape(n, tokens, heads, width // heads)
    keys, values = jnp.split(context @ p["kv"]["w"], 2, axis=-1)
    keys = keys.reshape(n, context.shape[1], heads, width // heads)
    values = (values + p["kv"]["b"]).reshape(keys.shape)
    scores = jnp.einsum("nqhd,nkhd->nhqk", queries, keys) / np.sqrt(width // heads).astype(np.float32)
    if mask is not None:
        scores = jnp.where(mask, scores, np.float32(-1e9))
    mixed = jnp.einsum("nhqk,nkhd->nqhd", jax.nn.softmax(scores), values)
    return dense(p["out"], mixed.reshape(n, tokens, width))


def attention_parameters(draw: Parameters, width):
    both = {"w": draw.normal(width, 2 * width), "b": np.zeros(width, np.float32)}
    return {"q": draw.dense(width, width), "kv": both, "out": draw.dense(width, width)}


def block_parameters(draw: Parameters, width):
    """A transformer block's."""
    return {
        "norm1": draw.norm(width),
        "attention": attention_parameters(draw, width),
        "norm2": draw.norm(width),
        "up": draw.dense(width, 4 * width),
        "down": draw.dense(4 * width, width),
    }


def block(p, x, heads, mask=None):
    """A pre-norm transformer block."""
    x = x + attention(p["attention"], layer_norm(p["norm1"], x), heads, mask)
    return x + dense(p["down"], jax.nn.gelu(dense(p["up"], layer_norm(p["norm2"], x))))


def cross_entropy(logits, labels):
    """Mean of -log softmax at the labels."""
    shifted = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(shifted, labels[..., None], axis=-1).mean()
