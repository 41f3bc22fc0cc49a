"""The models: each gives parameters, inputs, what it computes and what it is trained on, at sizes small and medium."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.models import layers as L

RATE, DECAY1, DECAY2, EPSILON = 1e-3, 0.9, 0.999, 1e-6


def adam(parameter, first, second, xp: Any = jnp):
    """The parameter after the first step, from the moments after it; `xp` has the square root."""
    return parameter - RATE * (first / (1 - DECAY1)) / (xp.sqrt(second / (1 - DECAY2)) + EPSILON)


@dataclass(frozen=True)
class Model:
    """`forward(parameters, *inputs)`; `loss(parameters, *inputs, *targets)`, None where there is nothing to train."""

    parameters: Any
    inputs: tuple[Any, ...]
    forward: Callable[..., Any]
    loss: Callable[..., Any] | None = None
    targets: tuple[Any, ...] = ()

    def training_step(self):
        """(parameters, first moments, second moments, *inputs, *targets) → loss and the three after a step of adam."""
        assert self.loss is not None

        def step(parameters, first, second, *data):
            loss, gradient = jax.value_and_grad(self.loss)(parameters, *data)
            first = jax.tree.map(lambda m, g: DECAY1 * m + (1 - DECAY1) * g, first, gradient)
            second = jax.tree.map(lambda v, g: DECAY2 * v + (1 - DECAY2) * g * g, second, gradient)
            return loss, jax.tree.map(adam, parameters, first, second), first, second

        return step

    def training_arguments(self):
        zeros = jax.tree.map(np.zeros_like, self.parameters)
        return (self.parameters, zeros, zeros, *self.inputs, *self.targets)


def _labels(rng, shape, classes):
    return rng.integers(0, classes, shape).astype(np.int32)


def _classifier(parameters, inputs, forward, classes, shape):
    targets = (_labels(np.random.default_rng(3), shape, classes),)
    return Model(parameters, inputs, forward, lambda p, x, y: L.cross_entropy(forward(p, x), y), targets)


def _images(n, size, channels=3):
    return np.random.default_rng(1).standard_normal((n, size, size, channels)).astype(np.float32)


def mlp(medium: bool) -> Model:
    n, widths = (256, (784, 1024, 1024, 10)) if medium else (32, (64, 128, 64, 10))
    draw = L.Parameters()
    parameters = [draw.dense(a, b) for a, b in pairwise(widths)]

    def forward(p, x):
        for layer in p[:-1]:
            x = jax.nn.relu(L.dense(layer, x))
        return L.dense(p[-1], x)

    # Drawn so that no sum in front of a relu is within rounding of 0, where gradients jump.
    x = np.random.default_rng(7).standard_normal((n, widths[0])).astype(np.float32)
    return _classifier(parameters, (x,), forward, widths[-1], (n,))


def cnn(medium: bool) -> Model:
    n, size, c = (32, 32, 32) if medium else (4, 16, 8)
    draw = L.Parameters()
    parameters = {
        "conv1": draw.conv(3, 3, 3, c),
        "conv2": draw.conv(3, 3, c, 2 * c),
        "dense": draw.dense(2 * c * (size // 4) ** 2, 10),
    }

    def forward(p, x):
        for name in ("conv1", "conv2"):
            x = jax.nn.relu(L.conv(p[name], x))
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return L.dense(p["dense"], x.reshape(x.shape[0], -1))

    return _classifier(parameters, (_images(n, size),), forward, 10, (n,))


def _resnet(medium: bool, depths, is_bottleneck) -> Model:
    n, size, c, classes = (2, 64, 32, 100) if medium else (1, 32, 8, 10)
    draw = L.Parameters()
    parameters: dict[str, Any] = {"stem": draw.conv(7, 7, 3, c), "stem_norm": draw.norm(c)}
    width, plan = c, []
    for stage, depth in enumerate(depths):
        inner = c << stage
        outer = 4 * inner if is_bottleneck else inner
        for i in range(depth):
            stride = 2 if stage and not i else 1
            if is_bottleneck:
                sizes, strides = [(1, width, inner), (3, inner, inner), (1, inner, outer)], (1, stride, 1)
            else:
                sizes, strides = [(3, width, outer), (3, outer, outer)], (stride, 1)
            unit = {f"conv{k}": draw.conv(s, s, a, b) for k, (s, a, b) in enumerate(sizes)}
            unit |= {f"norm{k}": draw.norm(b) for k, (_, _, b) in enumerate(sizes)}
            if stride != 1 or width != outer:
                unit |= {"skip": draw.conv(1, 1, width, outer), "skip_norm": draw.norm(outer)}
            name = f"unit{len(plan)}"
            parameters[name] = unit
            plan.append((name, strides))
            width = outer
    parameters["dense"] = draw.dense(width, classes)

    def unit_of(p, x, strides):
        y = x
        for k, stride in enumerate(strides):
            y = L.batch_norm(p[f"norm{k}"], L.conv(p[f"conv{k}"], y, stride))
            y = jax.nn.relu(y) if k + 1 < len(strides) else y
        skip = L.batch_norm(p["skip_norm"], L.conv(p["skip"], x, max(strides))) if "skip" in p else x
        return jax.nn.relu(y + skip)

    def forward(p, x):
        x = jax.nn.relu(L.batch_norm(p["stem_norm"], L.conv(p["stem"], x, 2)))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for name, strides in plan:
            x = unit_of(p[name], x, strides)
        return L.dense(p["dense"], x.mean((1, 2)))

    return _classifier(parameters, (_images(n, size),), forward, classes, (n,))


def resnet18(medium: bool) -> Model:
    return _resnet(medium, (2, 2, 2, 2), False)


def resnet50(medium: bool) -> Model:
    return _resnet(medium, (3, 4, 6, 3), True)


def vit(medium: bool) -> Model:
    n, size, patch, width, heads, depth = (4, 64, 8, 192, 3, 12) if medium else (2, 16, 4, 32, 2, 4)
    draw = L.Parameters()
    tokens = (size // patch) ** 2
    parameters = {
        "patches": draw.conv(patch, patch, 3, width),
        "class": draw.normal(1, 1, width),
        "places": draw.normal(1, tokens + 1, width),
        "blocks": [L.block_parameters(draw, width) for _ in range(depth)],
        "norm": draw.norm(width),
        "dense": draw.dense(width, 10),
    }

    def forward(p, x):
        x = lax.conv_general_dilated(x, p["patches"]["w"], (patch, patch), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = x.reshape(n, tokens, width)
        x = jnp.concatenate([jnp.broadcast_to(p["class"], (n, 1, width)), x], 1) + p["places"]
        for block in p["blocks"]:
            x = L.block(block, x, heads)
        return L.dense(p["dense"], L.layer_norm(p["norm"], x[:, 0]))

    return _classifier(parameters, (_images(n, size),), forward, 10, (n,))


def _language(medium: bool, depth: int, is_causal: bool) -> Model:
    n, tokens, width, heads, words = (2, 128, 256, 8, 4096) if medium else (2, 16, 32, 2, 64)
    draw = L.Parameters()
    parameters = {
        "words": draw.normal(words, width),
        "places": draw.normal(tokens, width),
        "blocks": [L.block_parameters(draw, width) for _ in range(depth)],
        "norm": draw.norm(width),
    }
    mask = np.tril(np.ones((tokens, tokens), bool)) if is_causal else None

    def forward(p, ids):
        x = p["words"][ids] + p["places"]
        for block in p["blocks"]:
            x = L.block(block, x, heads, mask)
        return L.layer_norm(p["norm"], x) @ p["words"].T

    ids = _labels(np.random.default_rng(1), (n, tokens), words)
    return _classifier(parameters, (ids,), forward, words, (n, tokens))


def bert(medium: bool) -> Model:
    return _language(medium, 12 if medium else 4, False)


def gpt2(medium: bool) -> Model:
    return _language(medium, 12, True)


def llama_decode(medium: bool) -> Model:
    """Greedy decoding of a few tokens through one block with a cache of keys and values, in a while loop."""
    width, heads, words, room, steps = (256, 8, 1024, 64, 16) if medium else (32, 2, 64, 16, 6)
    size, draw = width // heads, L.Parameters()
    parameters = {
        "words": draw.normal(words, width),
        "norm1": draw.norm(width),
        "q": draw.normal(width, width),
        "k": draw.normal(width, width),
        "v": draw.normal(width, width),
        "out": draw.normal(width, width),
        "norm2": draw.norm(width),
        "gate": draw.normal(width, 2 * width),
        "up": draw.normal(width, 2 * width),
        "down": draw.normal(2 * width, width),
    }
    frequencies = (1e4 ** -(np.arange(0, size, 2) / size)).astype(np.float32)

    def turned(x, place):
        angle = place.astype(jnp.float32) * frequencies
        even, odd = x[..., ::2], x[..., 1::2]
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)

    def step(p, state):
        place, token, keys, values, found = state
        x = p["words"][token]
        y = L.rms_norm(p["norm1"], x)
        q, k, v = ((y @ p[name]).reshape(heads, size) for name in "qkv")
        keys = lax.dynamic_update_slice(keys, turned(k, place)[None], (place, 0, 0))
        values = lax.dynamic_update_slice(values, v[None], (place, 0, 0))
        scores = jnp.einsum("hd,khd->hk", turned(q, place), keys) / np.sqrt(size).astype(np.float32)
        scores = jnp.where(jnp.arange(room) <= place, scores, np.float32(-1e9))
        x = x + jnp.einsum("hk,khd->hd", jax.nn.softmax(scores), values).reshape(width) @ p["out"]
        y = L.rms_norm(p["norm2"], x)
        x = x + (jax.nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]
        logits = x @ p["words"].T
        return place + 1, jnp.argmax(logits).astype(jnp.int32), keys, values, found.at[place].set(logits)

    def forward(p, token):
        cache = jnp.zeros((room, heads, size), jnp.float32)
        start = (jnp.int32(0), token, cache, cache, jnp.zeros((room, words), jnp.float32))
        return lax.while_loop(lambda state: state[0] < steps, lambda state: step(p, state), start)[1:]

    return Model(parameters, (np.int32(3),), forward)


def lstm(medium: bool) -> Model:
    n, tokens, width = (32, 64, 256) if medium else (4, 8, 16)
    draw = L.Parameters()
    parameters = {"gates": draw.dense(2 * width, 4 * width), "dense": draw.dense(width, 10)}

    def forward(p, x):
        def step(carry, now):
            hidden, cell = carry
            i, f, g, o = jnp.split(L.dense(p["gates"], jnp.concatenate([now, hidden], -1)), 4, -1)
            cell = jax.nn.sigmoid(f + 1) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(cell), cell), None

        zero = jnp.zeros((n, width), jnp.float32)
        (hidden, _), _ = lax.scan(step, (zero, zero), x)
        return L.dense(p["dense"], hidden)

    x = np.random.default_rng(1).standard_normal((tokens, n, width)).astype(np.float32)
    return _classifier(parameters, (x,), forward, 10, (n,))


def _unet_parameters(draw: L.Parameters, c: int, is_timed: bool):
    def pair(a, b):
        found = {"conv1": draw.conv(3, 3, a, b), "norm1": draw.norm(b), "conv2": draw.conv(3, 3, b, b), "norm2": draw.norm(b)}
        return found | ({"time": draw.dense(4 * c, b)} if is_timed else {})

    return {
        "down1": pair(3, c),
        "down2": pair(c, 2 * c),
        "middle": pair(2 * c, 4 * c),
        "up2": pair(6 * c, 2 * c),
        "up1": pair(3 * c, c),
        "last": draw.conv(1, 1, c, 3),
    }


def _unet(p, x, time=None):
    def pair(p, x):
        x = jax.nn.silu(L.group_norm(p["norm1"], L.conv(p["conv1"], x)))
        if time is not None:
            x = x + L.dense(p["time"], time)[:, None, None]
        return jax.nn.silu(L.group_norm(p["norm2"], L.conv(p["conv2"], x)))

    def pooled(x):
        return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4

    def doubled(x):
        n, height, width, c = x.shape
        return jnp.broadcast_to(x[:, :, None, :, None], (n, height, 2, width, 2, c)).reshape(n, 2 * height, 2 * width, c)

    first = pair(p["down1"], x)
    second = pair(p["down2"], pooled(first))
    x = pair(p["middle"], pooled(second))
    x = pair(p["up2"], jnp.concatenate([doubled(x), second], -1))
    x = pair(p["up1"], jnp.concatenate([doubled(x), first], -1))
    return L.conv(p["last"], x)


def unet(medium: bool) -> Model:
    n, size, c = (2, 64, 16) if medium else (1, 16, 4)
    target = _images(n, size)[..., ::-1].copy()
    parameters = _unet_parameters(L.Parameters(), c, False)
    return Model(parameters, (_images(n, size),), _unet, lambda p, x, y: jnp.square(_unet(p, x) - y).mean(), (target,))


def diffusion_step(medium: bool) -> Model:
    """One denoising step: a U-Net told the time predicts the noise, the sample moves; trained on the noise."""
    n, size, c = (2, 32, 16) if medium else (1, 16, 4)
    parameters = {"unet": _unet_parameters(L.Parameters(), c, True), "time": L.Parameters(5).dense(4 * c, 4 * c)}
    alphas = np.cumprod(1 - np.linspace(1e-4, 0.02, 100)).astype(np.float32)
    frequencies = np.exp(-np.arange(2 * c) / (2 * c) * 4).astype(np.float32)

    def noise(p, x, t):
        angle = t.astype(jnp.float32)[:, None] * frequencies
        time = jax.nn.silu(L.dense(p["time"], jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], -1)))
        return _unet(p["unet"], x, time)

    def forward(p, x, t):
        now, then = (jnp.asarray(alphas)[i][:, None, None, None] for i in (t, t - 1))
        found = noise(p, x, t)
        clean = (x - jnp.sqrt(1 - now) * found) / jnp.sqrt(now)
        return jnp.sqrt(then) * clean + jnp.sqrt(1 - then) * found

    def loss(p, x, t, target):
        return jnp.square(noise(p, x, t) - target).mean()

    t = _labels(np.random.default_rng(2), (n,), 90) + 5
    return Model(parameters, (_images(n, size), t), forward, loss, (_images(n, size)[:, ::-1].copy(),))


MODELS: tuple[Callable[[bool], Model], ...] = (
    *(mlp, cnn, resnet18, resnet50, vit, bert, gpt2, llama_decode, lstm, unet, diffusion_step),
)
