"""Modelled cycles over the lower bound of each workload's StableHLO, and where the difference goes.

    python -m benchmarks.roofline [REGEX ...] [--most RATIO] [--mean RATIO] [--jobs N] [--scheduler tcp://HOST:PORT]

Nothing runs: cycles are those of the timing model, the bound is that of docs/timing.md. Causes are in units of the bound, each as
if it were alone. Exit code 1 if a ratio is above --most, or the geometric mean above --mean.
"""

import argparse
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import jax
import jax.numpy as jnp
from jax import lax

import hlo2tx8
from hlo2tx8.sweep.child import serve
from hlo2tx8.sweep.farm import TaskFarm

F32, BF16, INT8, INT32 = jnp.float32, jnp.bfloat16, jnp.int8, jnp.int32
NAMES = {F32: "f32", BF16: "bf16", INT8: "int8"}
CAUSES = ("rereads", "intermediates", "short runs", "extra work", "imbalance", "waiting")
LAYERS_OF_RESNET50 = (
    (224, 3, 64, 7, 2), (56, 64, 64, 1, 1), (56, 64, 64, 3, 1), (56, 64, 256, 1, 1), (56, 256, 128, 1, 2), (28, 128, 128, 3, 1),
    (28, 256, 256, 3, 2), (14, 256, 256, 3, 1), (14, 1024, 256, 1, 1), (7, 512, 512, 3, 1), (7, 512, 2048, 1, 1),
)  # fmt: skip
"""Size of the image, channels in and out, size of the kernel, stride."""


@dataclass(frozen=True)
class Workload:
    """A jax function and its arguments' shapes; `donated` are positions of arguments."""

    name: str
    function: Callable[..., object]
    arguments: tuple[jax.ShapeDtypeStruct, ...]
    donated: tuple[int, ...] = ()

    def text(self) -> str:
        """Its StableHLO."""
        return jax.jit(self.function, donate_argnums=self.donated).lower(*self.arguments).as_text()


def array(*shape: int, dtype: object = F32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def normalized(x: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    centred = x - mean
    return centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + jnp.asarray(1e-5, x.dtype)) * scale + shift


def attention(q: jax.Array, k: jax.Array, v: jax.Array, *, is_causal: bool = False) -> jax.Array:
    """[heads, tokens, size]."""
    scores = jnp.einsum("hqd,hkd->hqk", q, k) * jnp.asarray(q.shape[-1] ** -0.5, q.dtype)
    if is_causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, jnp.asarray(-1e9, scores.dtype))
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, -1), v)


def convolution(x: jax.Array, w: jax.Array, stride: int, groups: int = 1) -> jax.Array:
    layouts = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=layouts, feature_group_count=groups)


def streaming() -> Iterator[Workload]:
    """Elementwise work, moves and statistics of rows."""
    for dtype in (BF16, F32):
        kind, matrix = NAMES[dtype], array(4096, 4096, dtype=dtype)
        rows, row = array(4096, 1024, dtype=dtype), array(1024, dtype=dtype)
        yield Workload(f"gelu {kind} [6,512,4096]", jax.nn.gelu, (array(6, 512, 4096, dtype=dtype),))
        yield Workload(f"softmax {kind} [4096,1024]", lambda x: jax.nn.softmax(x, -1), (rows,))
        yield Workload(f"layer norm {kind} [4096,1024]", normalized, (rows, row, row))
        yield Workload(f"transpose {kind} [4096,4096]", lambda x: x.T, (matrix,))
        yield Workload(f"row sum {kind} [4096,4096]", lambda x: x.sum(1), (matrix,))
    yield Workload("column sum f32 [4096,4096]", lambda x: x.sum(0), (array(4096, 4096),))


def of_channels(
    x: jax.Array, scale: jax.Array, shift: jax.Array, *, dims: tuple[int, ...], is_fast: bool
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """A batch norm in training over `dims`, an instance norm if the first is not among them, with its mean and variance.

    `is_fast`: as flax has it, with a variance that is the mean of squares less the square of the mean, and one factor per channel.
    """
    channels = [1 if dim in dims or dim == 0 else size for dim, size in enumerate(x.shape)]
    scale, shift, wide = scale.reshape(channels), shift.reshape(channels), x.astype(F32)
    mean = wide.mean(dims, keepdims=True)
    if is_fast:
        variance = jnp.maximum(0, jnp.square(wide).mean(dims, keepdims=True) - jnp.square(mean))
        return ((wide - mean) * (lax.rsqrt(variance + 1e-5) * scale) + shift).astype(x.dtype), mean, variance
    variance = jnp.square(wide - mean).mean(dims, keepdims=True)
    return ((wide - mean) * lax.rsqrt(variance + 1e-5) * scale + shift).astype(x.dtype), mean, variance


def of_groups(x: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
    """A group norm of 32 groups, channels last."""
    split = x.reshape(x.shape[0], -1, 32, x.shape[-1] // 32)
    mean, variance = split.mean((1, 3), keepdims=True), split.var((1, 3), keepdims=True)
    return ((split - mean) * lax.rsqrt(variance + jnp.asarray(1e-5, x.dtype))).reshape(x.shape) * scale + shift


def statistics() -> Iterator[Workload]:
    """Norms over batches, images and groups, and reductions of one tensor."""
    for shape, channels, dtype in (
        ((32, 56, 56, 64), 3, F32),
        ((32, 28, 28, 256), 3, F32),
        ((32, 14, 14, 512), 3, F32),
        ((32, 112, 112, 64), 3, F32),
        ((32, 64, 56, 56), 1, F32),
        ((25, 31, 31, 64), 3, F32),
        ((4096, 512), 1, F32),
        ((32, 28, 28, 256), 3, BF16),
    ):
        row, dims = array(shape[channels]), tuple(dim for dim in range(len(shape)) if dim != channels)
        for name, is_fast in (("batch norm", False), ("batch norm by squares", True)):
            full = f"{name} {NAMES[dtype]} {list(shape)}"
            yield Workload(full, partial(of_channels, dims=dims, is_fast=is_fast), (array(*shape, dtype=dtype), row, row))
    image, row = array(8, 128, 128, 32), array(32)
    yield Workload("instance norm f32 [8,128,128,32]", partial(of_channels, dims=(1, 2), is_fast=False), (image, row, row))
    for shape, dtype in (((8, 56, 56, 128), F32), ((8, 32, 32, 320), BF16)):
        row = array(shape[-1], dtype=dtype)
        yield Workload(f"group norm {NAMES[dtype]} {list(shape)}", of_groups, (array(*shape, dtype=dtype), row, row))
    for width in (1000, 1023):
        rows, row = array(4096, width, dtype=BF16), array(width, dtype=BF16)
        yield Workload(f"layer norm bf16 [4096,{width}]", normalized, (rows, row, row))
    yield Workload("variance f32 2^22", jnp.var, (array(1 << 22),))
    yield Workload("sum and maximum f32 [4096,1024]", lambda x: (x.sum(1), x.max(1)), (array(4096, 1024),))
    yield Workload("negate and abs f32 [4096,1024]", lambda x: (-x, jnp.abs(x)), (array(4096, 1024),))


def products() -> Iterator[Workload]:
    """Gemms, alone and with what surrounds them."""
    for size in (1024, 2048, 4096):
        square = array(size, size, dtype=BF16)
        yield Workload(f"gemm bf16 {size}^3", lambda a, b: a @ b, (square, square))
    for size in (1024, 4096):
        yield Workload(f"gemm f32 {size}^3", lambda a, b: a @ b, (array(size, size), array(size, size)))
    square, bytes_ = array(2048, 2048), array(4096, 4096, dtype=INT8)
    yield Workload("gemm f32 HIGHEST 2048^3", lambda a, b: jnp.matmul(a, b, precision="highest"), (square, square))
    yield Workload("gemm int8 4096^3", lambda a, b: lax.dot(a, b, preferred_element_type=INT32), (bytes_, bytes_))
    for dtype in (BF16, F32):
        kind = NAMES[dtype]
        x, up, down = (array(*shape, dtype=dtype) for shape in ((4096, 1024), (1024, 4096), (4096, 1024)))
        bias = array(4096, dtype=dtype)
        yield Workload(f"gemm bias gelu {kind}", lambda x, w, b: jax.nn.gelu(x @ w + b), (x, up, bias))
        yield Workload(f"mlp {kind}", lambda x, a, b: jax.nn.gelu(x @ a) @ b, (array(2048, 1024, dtype=dtype), up, down))
        for heads, tokens, size in ((28, 2048, 128), (12, 512, 64)):
            own = (array(heads, tokens, size, dtype=dtype),) * 3
            yield Workload(f"attention {kind} {heads}x{tokens}x{size}", attention, own)
            causal = f"attention causal {kind} {heads}x{tokens}x{size}"
            yield Workload(causal, lambda q, k, v: attention(q, k, v, is_causal=True), own)
    vector, matrix = array(1, 4096, dtype=BF16), array(4096, 11008, dtype=BF16)
    yield Workload("gemv bf16 4096x11008", lambda a, b: a @ b, (vector, matrix))


def converted() -> Iterator[Workload]:
    """Products of weights of another type, with a factor per column."""
    for kind, weights, multiplied in (("int8", INT8, BF16), ("f32", F32, BF16), ("bf16", BF16, F32)):
        for rows in (8, 1024):
            operands = array(rows, 2048, dtype=multiplied), array(2048, 8192, dtype=weights), array(8192, dtype=multiplied)
            name = f"{NAMES[multiplied]} [{rows},2048] x {kind} [2048,8192]"
            yield Workload(name, lambda x, w, scale: (x @ w.astype(x.dtype)) * scale, operands)
    operands = array(8, 2048, dtype=BF16), array(2048, 8192, dtype=INT8), array(8192, dtype=BF16)
    yield Workload("bf16 [8,2048] x scaled int8 [2048,8192]", lambda x, w, scale: x @ (w.astype(x.dtype) * scale), operands)


def scaled(sums: jax.Array, scale: jax.Array) -> jax.Array:
    """Sums of bytes as floats."""
    return sums.astype(F32) * scale


def as_bytes(x: jax.Array) -> jax.Array:
    """Floats as the nearest bytes."""
    return jnp.clip(jnp.round(x), -128, 127).astype(INT8)


def of_bytes() -> Iterator[Workload]:
    """Products of bytes with what quantized models put behind them."""

    def dot(a: jax.Array, b: jax.Array) -> jax.Array:
        return lax.dot(a, b, preferred_element_type=INT32)

    def convolution(x: jax.Array, w: jax.Array) -> jax.Array:
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers, preferred_element_type=INT32)

    def by_rows(x: jax.Array, w: jax.Array, scale: jax.Array) -> jax.Array:
        own = jnp.max(jnp.abs(x), 1, keepdims=True) / 127
        return (dot(as_bytes(x / own), w).astype(F32) * own * scale).astype(x.dtype)

    for size in (2048, 4096):
        square, row, sums = array(size, size, dtype=INT8), array(size), array(size, dtype=INT32)
        saturated = f"int8 {size}^3, saturated"
        yield Workload(saturated, lambda a, b: jnp.clip(dot(a, b), -128, 127).astype(INT8), (square, square))
        yield Workload(f"int8 {size}^3 to int8", lambda a, b: lax.dot(a, b, preferred_element_type=INT8), (square, square))
        yield Workload(f"int8 {size}^3, scaled", lambda a, b, s: scaled(dot(a, b), s), (square, square, row))
        yield Workload(f"int8 {size}^3, requantized", lambda a, b, s: as_bytes(scaled(dot(a, b), s)), (square, square, row))
        biased = f"int8 {size}^3, int32 bias, requantized"
        yield Workload(biased, lambda a, b, c, s: as_bytes(scaled(dot(a, b) + c, s)), (square, square, sums, row))
    for dtype in (BF16, F32):
        operands = array(512, 1024, dtype=dtype), array(1024, 4096, dtype=INT8), array(4096)
        yield Workload(f"{NAMES[dtype]} [512,1024] in int8 by rows x [1024,4096]", by_rows, operands)
    up, down = array(1024, 4096, dtype=INT8), array(4096, 1024, dtype=INT8)
    layers = array(2048, 1024, dtype=INT8), up, array(4096), down, array(1024)
    yield Workload(
        "mlp int8, relu",
        lambda x, a, s, b, t: as_bytes(scaled(dot(as_bytes(jax.nn.relu(scaled(dot(x, a), s))), b), t)),
        layers,
    )
    few = array(1024, 256, dtype=INT8), array(256, 128, dtype=INT8)
    yield Workload("int8 [1024,256] x [256,128] to int8", lambda a, b: lax.dot(a, b, preferred_element_type=INT8), few)
    for batch, size, channels in ((8, 56, 64), (8, 28, 128), (8, 14, 192), (8, 14, 256), (1, 28, 128)):
        images = array(batch, size, size, channels, dtype=INT8), array(3, 3, channels, channels, dtype=INT8), array(channels)
        name = f"conv int8 b{batch} {size}x{size}x{channels}, requantized"
        yield Workload(name, lambda x, w, s: as_bytes(jax.nn.relu(scaled(convolution(x, w), s))), images)
    matrix = array(4096, 4096)
    yield Workload("f32 [4096,4096] to int8", lambda x: as_bytes(x / 0.1), (matrix,))
    whole = "f32 [4096,4096] to uint8, zero point"
    yield Workload(whole, lambda x: jnp.clip(jnp.round(x / 0.1) + 128, 0, 255).astype(jnp.uint8), (matrix,))


def layer(x: jax.Array, weights: tuple[jax.Array, ...], size: int) -> jax.Array:
    """A layer of a transformer, of sequences [batch, tokens, channels] with heads of that size."""
    scale, shift, projections, out, scale2, shift2, up, bias, down = weights
    batch, tokens = x.shape[:2]
    made = normalized(x, scale, shift) @ projections
    q, k, v = (t.reshape(batch, tokens, -1, size).swapaxes(1, 2).reshape(-1, tokens, size) for t in jnp.split(made, 3, -1))
    mixed = attention(q, k, v, is_causal=True).reshape(batch, -1, tokens, size).swapaxes(1, 2)
    x = x + mixed.reshape(x.shape) @ out
    return x + jax.nn.gelu(normalized(x, scale2, shift2) @ up + bias) @ down


def layers() -> Iterator[Workload]:
    """Twelve layers whose weights lie together: one after the other, and as a scan, which should take as long."""
    d = 768
    shapes = [(d,), (d,), (d, 3 * d), (d, d), (d,), (d,), (d, 4 * d), (4 * d,), (4 * d, d)]

    def scan(one: Callable[..., jax.Array], x: jax.Array, *weights: jax.Array) -> jax.Array:
        return lax.scan(lambda x, own: (one(x, own), None), x, weights)[0]

    def apart(one: Callable[..., jax.Array], x: jax.Array, *weights: jax.Array) -> jax.Array:
        for number in range(12):
            x = one(x, tuple(own[number] for own in weights))
        return x

    def mlp(x: jax.Array, own: tuple[jax.Array, ...]) -> jax.Array:
        return x + jax.nn.gelu(x @ own[0]) @ own[1]

    for dtype in (BF16, F32):
        for form in (scan, apart):
            few = array(8, d, dtype=dtype), array(12, d, 4 * d, dtype=dtype), array(12, 4 * d, d, dtype=dtype)
            yield Workload(f"layers {form.__name__} {NAMES[dtype]} mlp of 8 tokens", partial(form, mlp), few)
            for batch, tokens in ((8, 1), (1, 512)):
                whole = array(batch, tokens, d, dtype=dtype), *(array(12, *shape, dtype=dtype) for shape in shapes)
                name = f"layers {form.__name__} {NAMES[dtype]} {batch}x{tokens}"
                yield Workload(name, partial(form, partial(layer, size=64)), whole)


def convolutions() -> Iterator[Workload]:
    """Those of ResNet-50, and depthwise ones."""
    for batch in (8, 1):
        for size, channels, filters, taps, stride in LAYERS_OF_RESNET50:
            name = f"conv bf16 b{batch} {size}x{size} {channels}->{filters} {taps}x{taps}/{stride}"
            image, weights = array(batch, size, size, channels, dtype=BF16), array(taps, taps, channels, filters, dtype=BF16)
            yield Workload(name, lambda x, w, stride=stride: convolution(x, w, stride), (image, weights))
        for size, channels, stride in ((112, 32, 1), (56, 144, 2), (14, 384, 1)):
            image, weights = array(batch, size, size, channels, dtype=BF16), array(3, 3, 1, channels, dtype=BF16)
            name = f"depthwise bf16 b{batch} {size}x{size}x{channels}/{stride}"
            yield Workload(name, lambda x, w, stride=stride, c=channels: convolution(x, w, stride, c), (image, weights))
    for dtype in (BF16, F32):
        for size, channels, filters, width in ((224, 3, 768, 16), (224, 3, 96, 4), (56, 96, 192, 2), (28, 192, 384, 2)):
            operands = array(8, size, size, channels, dtype=dtype), array(width, width, channels, filters, dtype=dtype)
            name = f"patches {NAMES[dtype]} b8 {size}x{size} {channels}->{filters} {width}x{width}"
            yield Workload(name, lambda x, w, width=width: convolution(x, w, width), operands)


def first(x: jax.Array, w: jax.Array, stride: int = 1) -> jax.Array:
    """A convolution of an image whose channels come first."""
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))


def transposed(x: jax.Array, w: jax.Array) -> jax.Array:
    """A transposed convolution by steps of two."""
    return lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def bottleneck_first(x: jax.Array, a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
    """A residual block of ResNet-50 on an image whose channels come first."""
    y = jax.nn.relu(first(jax.nn.relu(first(x, a)), b))
    return jax.nn.relu(x + first(y, c))


def of_image(w: jax.Array, g: jax.Array, size: int, stride: int) -> jax.Array:
    """The gradient of an image by a convolution."""
    image = jnp.zeros((g.shape[0], size, size, w.shape[2]), g.dtype)
    return jax.vjp(lambda x: convolution(x, w, stride), image)[1](g)[0]


def rotated_halves(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """A rotary position embedding."""
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def rotated_neighbours(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """The same of numbers that lie beside each other."""
    a, b = x[..., 0::2], x[..., 1::2]
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)


def in_f32(function: Callable[..., jax.Array], *operands: jax.Array) -> jax.Array:
    return function(*(operand.astype(F32) for operand in operands)).astype(operands[0].dtype)


def rotations() -> Iterator[Workload]:
    """Rotary position embeddings of 16 heads, computed in bf16 and in f32."""
    operands = (array(1024, 16, 128, dtype=BF16), *(array(1024, 1, 64, dtype=BF16),) * 2)
    for name, function in (("halves", rotated_halves), ("neighbours", rotated_neighbours)):
        yield Workload(f"rotation of {name} bf16", function, operands)
        yield Workload(f"rotation of {name} bf16 in f32", partial(in_f32, function), operands)


def orders() -> Iterator[Workload]:
    """Dimensions in another order: channels first, transposed convolutions and gradients of images, elements by turns."""
    for size, channels in ((56, 64), (28, 128), (14, 256), (7, 512)):
        image, outer = array(8, 4 * channels, size, size, dtype=BF16), (4 * channels, channels)
        weights = [array(*own, dtype=BF16) for own in ((*outer[::-1], 1, 1), (channels, channels, 3, 3), (*outer, 1, 1))]
        yield Workload(f"block of channels first bf16 {size}x{size} {4 * channels}", bottleneck_first, (image, *weights))
    image = array(8, 28, 28, 128, dtype=BF16)
    for taps in (2, 3, 4):
        yield Workload(f"transposed conv bf16 {taps}x{taps}/2", transposed, (image, array(taps, taps, 128, 64, dtype=BF16)))
    for size, stride, shape in ((14, 1, (256, 256)), (28, 2, (128, 256))):
        gradient = array(8, 14, 14, shape[1], dtype=BF16)
        own = partial(of_image, size=size, stride=stride)
        yield Workload(f"image gradient bf16 3x3/{stride}", own, (array(3, 3, *shape, dtype=BF16), gradient))
    for dtype in (BF16, F32):
        kind = NAMES[dtype]
        for shape, dims in (((8, 56, 56, 64), (0, 3, 1, 2)), ((8, 64, 56, 56), (0, 2, 3, 1)), ((128, 128, 3, 3), (2, 3, 1, 0))):
            yield Workload(f"transpose {kind} {shape} to {dims}", lambda x, d=dims: x.transpose(d), (array(*shape, dtype=dtype),))
        matrix = array(2048, 1024, dtype=dtype)
        yield Workload(f"every second column {kind}", lambda x: x[:, ::2], (array(4096, 1024, dtype=dtype),))
        yield Workload(f"stack of two by turns {kind}", lambda x, y: jnp.stack([x, y], -1), (matrix, matrix))
    matrix, matrix16 = array(1024, 1024, dtype=jnp.complex64), array(1024, 1024, dtype=BF16)
    yield Workload("complex product [1024,1024]", lambda x, y: x * y, (matrix, matrix))
    yield Workload("complex slice [1024,1024]", lambda x: x[3:500, 7:], (matrix,))
    yield Workload("stack of three of the same f32", lambda x: jnp.stack([x, -x, x + 1], -1), (array(1024, 1024),))
    yield from rotations()
    for outer in (2, 8):
        yield Workload(f"sum with what is repeated {outer} times bf16", jnp.add, (array(outer, 1024, 1024, dtype=BF16), matrix16))
    scores = array(4, 16, 512, 512, dtype=BF16)
    yield Workload("mask of 64 heads bf16", lambda x, m: jnp.where(m, x, -1e30), (scores, array(512, 512, dtype=jnp.bool_)))
    yield Workload("power of columns f32 [4096,1024]", lambda x, c: x + c**3.3, (array(4096, 1024), array(1024)))


def gradient(function: Callable[..., jax.Array]) -> Callable[..., object]:
    """Of all operands, given that of the result behind them."""
    return lambda *given: jax.vjp(function, *given[:-1])[1](given[-1])


def gradients() -> Iterator[Workload]:
    """Backward passes, with what they need of the forward ones, and the attention that JAX has itself."""
    official = jax.nn.dot_product_attention
    for dtype in (BF16, F32):
        kind = NAMES[dtype]
        heads, tokens = array(48, 512, 64, dtype=dtype), array(4, 512, 12, 64, dtype=dtype)
        yield Workload(f"attention gradient {kind} 48x512x64", gradient(attention), (heads,) * 4)
        yield Workload(f"official attention {kind} causal", partial(official, is_causal=True), (tokens,) * 3)
        own = gradient(partial(official, is_causal=True))
        yield Workload(f"official attention gradient {kind} causal", own, (tokens,) * 4)
        up, down, rows = (array(*shape, dtype=dtype) for shape in ((1024, 4096), (4096, 1024), (4, 512, 1024)))
        yield Workload(f"mlp gradient {kind}", gradient(lambda x, a, b: jax.nn.gelu(x @ a) @ b), (rows, up, down, rows))
        yield Workload(f"linear of torch and relu {kind}", lambda x, w: jax.nn.relu(x @ w.T), (rows, down))
    long = array(8, 2048, 128, dtype=BF16)
    yield Workload("attention gradient bf16 8x2048x128", gradient(attention), (long,) * 4)


def lstm(inputs: jax.Array, w: jax.Array, u: jax.Array, bias: jax.Array, state: jax.Array) -> jax.Array:
    """[turns, batch, n] to the last [batch, n]; the state of the cell begins as that of the outputs."""

    def turn(carried: tuple[jax.Array, jax.Array], x: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        h, c = carried
        i, f, o, new = jnp.split(x @ w + h @ u + bias, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(new)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    return lax.scan(turn, (state, state), inputs)[0][0]


def gru(inputs: jax.Array, w: jax.Array, u: jax.Array, bias: jax.Array, state: jax.Array) -> jax.Array:
    """The last state of a gated recurrent unit, which resets what its state is multiplied to."""

    def turn(h: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        added, carried = jnp.split(x @ w + bias, 3, -1), jnp.split(h @ u, 3, -1)
        update, reset = (jax.nn.sigmoid(a + b) for a, b in zip(added[:2], carried[:2], strict=True))
        return (1 - update) * jnp.tanh(added[2] + reset * carried[2]) + update * h, None

    return lax.scan(turn, state, inputs)[0]


def recurrent() -> Iterator[Workload]:
    """Loops that carry a state and read the same weights in each turn."""
    for dtype in (BF16, F32):
        kind = NAMES[dtype]
        weights = (array(512, 2048, dtype=dtype),) * 2
        yield Workload(
            f"lstm {kind} 64 turns of [32,512]",
            lstm,
            (array(64, 32, 512, dtype=dtype), *weights, array(2048, dtype=dtype), array(32, 512, dtype=dtype)),
        )
        small = (array(256, 1024, dtype=dtype),) * 2
        yield Workload(
            f"lstm {kind} 128 turns of [8,256]",
            lstm,
            (array(128, 8, 256, dtype=dtype), *small, array(1024, dtype=dtype), array(8, 256, dtype=dtype)),
        )
        weights = (array(512, 1536, dtype=dtype),) * 2
        yield Workload(
            f"gru {kind} 64 turns of [32,512]",
            gru,
            (array(64, 32, 512, dtype=dtype), *weights, array(1536, dtype=dtype), array(32, 512, dtype=dtype)),
        )


def indexed() -> Iterator[Workload]:
    """Lookups, updates in place, orders and running sums."""
    words, ids = array(50257, 768), array(2048, dtype=INT32)
    yield Workload("embedding f32 2048 ids", lambda w, i: w[i], (words, ids))
    update = (words, ids, array(2048, 768))
    yield Workload("scatter add f32 donated", lambda w, i, u: w.at[i].add(u), update, (0,))
    yield Workload("sort f32 [64,1024]", lambda x: jnp.sort(x, -1), (array(64, 1024),))
    yield Workload("cumsum f32 [1024,1024]", lambda x: jnp.cumsum(x, -1), (array(1024, 1024),))
    key = array(2, dtype=jnp.uint32)
    yield Workload(
        "dropout f32 [2048,1024]", lambda x, k: jnp.where(jax.random.bernoulli(k, 0.9, x.shape), x, 0), (array(2048, 1024), key)
    )
    yield Workload("argmax f32 [64,50257]", lambda x: jnp.argmax(x, -1), (array(64, 50257),))


def updates() -> Iterator[Workload]:
    """Scatters of many updates into lines that fit the scratchpad, and one that does not."""
    bins, numbers, rows = array(1 << 16, dtype=INT32), array(1 << 16), array(8192, dtype=INT32)
    yield Workload("bincount 2^16 into 256", lambda i: jnp.zeros(256, INT32).at[i].add(1), (bins,))
    yield Workload("histogram of weights 2^16 into 256", lambda i, w: jnp.zeros(256).at[i].add(w), (bins, numbers))
    yield Workload("segment sum [8192,64] into 512", lambda x, i: jax.ops.segment_sum(x, i, 512), (array(8192, 64), rows))
    yield Workload("segment max [8192,64] into 512", lambda x, i: jax.ops.segment_max(x, i, 512), (array(8192, 64), rows))
    one_of_each = (array(4096, 1000), array(4096, dtype=INT32), array(4096))
    for donated in ((), (0,)):
        name = f"set one of each row [4096,1000]{' donated' if donated else ''}"
        yield Workload(name, lambda x, i, v: x.at[jnp.arange(4096), i].set(v), one_of_each, donated)
    gradient = jax.grad(lambda x, i: jnp.take_along_axis(x, i, axis=1).sum())
    yield Workload("gradient of take_along_axis [2048,1024]", gradient, (array(2048, 1024), array(2048, 16, dtype=INT32)))
    words = (array(4096, 768), array(4096, dtype=INT32))
    yield Workload("gradient of an embedding f32", lambda g, i: jnp.zeros((30522, 768)).at[i].add(g), words)


def losses() -> Iterator[Workload]:
    """Cross entropies of 2048 tokens and 8192 words, by the words' numbers: a value, and with it the gradient of the logits."""

    def taken(x: jax.Array, words: jax.Array) -> jax.Array:
        return -jnp.take_along_axis(jax.nn.log_softmax(x.astype(F32)), words[:, None], 1).mean()

    def indexed_by_rows(x: jax.Array, words: jax.Array) -> jax.Array:
        return -jax.nn.log_softmax(x.astype(F32))[jnp.arange(len(words)), words].mean()

    def apart(x: jax.Array, words: jax.Array) -> jax.Array:
        x = x.astype(F32)
        return (jax.nn.logsumexp(x, -1) - jnp.take_along_axis(x, words[:, None], 1)[:, 0]).mean()

    for dtype in (BF16, F32):
        logits = array(2048, 8192, dtype=dtype), array(2048, dtype=INT32)
        for loss in (taken, indexed_by_rows, apart):
            yield Workload(f"cross entropy {loss.__name__} {NAMES[dtype]}", loss, logits)
            yield Workload(f"cross entropy {loss.__name__} {NAMES[dtype]} and gradient", jax.value_and_grad(loss), logits)
    experts = array(4096, 64), array(4096, 2, dtype=INT32)
    gates = jax.grad(lambda x, i: (jnp.take_along_axis(jax.nn.softmax(x), i, 1) ** 2).sum())
    yield Workload("gradient of the gates of 2 of 64 experts", gates, experts)


GROUPS = (
    streaming,
    statistics,
    products,
    converted,
    of_bytes,
    layers,
    convolutions,
    orders,
    gradients,
    recurrent,
    indexed,
    updates,
    losses,
)


def measured(workload: Workload) -> tuple[float, str]:
    """The ratio, and a row of the table."""
    started = time.process_time()
    executable = hlo2tx8.compile(workload.text())
    seconds = time.process_time() - started
    bound = executable.lower_bound
    assert bound is not None
    lost = executable.lost_cycles()
    causes = "".join(f"{lost[cause] / bound.cycles:9.2f}" for cause in CAUSES)
    ratio = executable.report.cycles / bound.cycles
    numbers = f"{executable.report.cycles:15,.0f} {bound.cycles:12,.0f} {bound.resource:4} {ratio:9.2f}"
    return ratio, f"{workload.name:42}{numbers}{causes}{seconds:8.2f} s"


def answers(names: list[str], jobs: int, scheduler: str) -> Iterator[tuple[float, str]]:
    """Ratio and row of workloads, in that order, by processes here or a scheduler's workers, which have this folder too."""
    known: dict[int, tuple[float, str]] = {}
    following = 0
    with TaskFarm(["-m", "benchmarks.roofline", "--serve"], jobs=jobs, scheduler=scheduler) as farm:
        for number, answered in farm.run(names):
            answer = answered.answers[-1] if answered.answers else {"lost": answered.lost}
            if "row" not in answer:
                sys.exit(f"{names[number]}: {answer.get('lost') or answered.lost}")
            known[number] = answer["ratio"], answer["row"]
            while following in known:
                yield known.pop(following)
                following += 1


def answer(name: str) -> dict[str, object]:
    """What a child says of a workload."""
    ratio, row = measured(next(workload for group in GROUPS for workload in group() if workload.name == name))
    return {"ratio": ratio, "row": row}


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="regular expressions")
    parser.add_argument("--most", type=float, default=math.inf, metavar="RATIO")
    parser.add_argument("--mean", type=float, default=math.inf, metavar="RATIO")
    parser.add_argument("--jobs", type=int, default=1, help="processes; 0: one per processor (1)")
    parser.add_argument("--scheduler", default="", help="tcp://HOST:PORT of a Dask scheduler")
    arguments = parser.parse_args()
    groups = {
        group.__name__: [w.name for w in group() if not arguments.names or any(re.search(n, w.name) for n in arguments.names)]
        for group in GROUPS
    }
    found = answers([name for names in groups.values() for name in names], arguments.jobs, arguments.scheduler)
    print(
        f"{'workload':42}{'cycles':>15} {'bound':>12} {'of':4} {'ratio':>9}" + "".join(f"{c[:8]:>9}" for c in CAUSES) + "   compile"
    )
    everything: list[float] = []
    for group, names in groups.items():
        ratios: list[float] = []
        for ratio, row in islice(found, len(names)):
            print(row, flush=True)
            ratios.append(ratio)
        if ratios:
            print(f"{group}: geometric mean {geometric_mean(ratios):.3f} of {len(ratios)}\n")
        everything += ratios
    print(f"geometric mean {geometric_mean(everything):.3f} of {len(everything)}")
    return int(max(everything, default=0) > arguments.most or geometric_mean(everything) > arguments.mean)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve(answer)
    else:
        sys.exit(main())
