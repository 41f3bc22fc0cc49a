"""What fusions are called, and how many different ones a model of equal layers has."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hlo2tx8.compiler.driver import load_source, lower_module
from hlo2tx8.emitters.emit_fusions import fingerprint, fusion_name, number_fusions
from hlo2tx8.options import Level, Options

Array = Any


def layer_norm(x: Array) -> Array:
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5)


def batch_norm(x: Array) -> Array:
    return (x - x.mean(0)) / jnp.sqrt(((x - x.mean(0)) ** 2).mean(0) + 1e-5)


def rms_norm(x: Array) -> Array:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def fusions(function: Callable[..., Any], *shapes: tuple[int, ...]) -> list[Any]:
    """The fusions of @main, in order."""
    arguments = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    module = load_source(jax.jit(function).lower(*arguments))
    lower_module(module, Options(until=Level.FUSED))
    main = next(op for op in module.body.block.ops if op.name == "func.func")
    return [fusion for _, fusion in number_fusions(main.regions[0].block)]


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (jax.nn.softmax, "softmax_fusion"),
        (jax.nn.log_softmax, "log_softmax_fusion"),
        (layer_norm, "layer_norm_fusion"),
        (batch_norm, "batch_norm_fusion"),
        (rms_norm, "rms_norm_fusion"),
        (jax.nn.gelu, "gelu_fusion"),
        (jax.nn.silu, "silu_fusion"),
        (lambda x: x * jnp.tanh(x), "multiply_fusion"),
        (lambda x: jnp.exp(x) / x.sum(), "divide_fusion"),
    ],
)
def test_name(function: Callable[..., Any], name: str) -> None:
    assert fusion_name(fusions(function, (64, 128))[-1]) == name


def test_equal_layers_have_equal_fusions() -> None:
    """A row of layers has as many different fusions as three of them, whatever its length."""

    def model(layers: int) -> Callable[..., Any]:
        def run(x: Array, w: Array) -> Array:
            for _ in range(layers):
                x = x + jax.nn.gelu(layer_norm(x) @ w)
                x = x + jax.nn.softmax(x)
            return layer_norm(x)

        return run

    distinct = [{fingerprint(f) for f in fusions(model(layers), (64, 128), (128, 128))} for layers in (3, 12)]
    assert len(distinct[0]) == len(distinct[1]) <= 8
