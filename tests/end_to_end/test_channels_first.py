"""Networks on images whose channels come first, which get another order where that is less work: exact for small integers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2tx8
from hlo2tx8.options import Options


def conv(x: Any, w: Any, stride: int = 1, groups: int = 1) -> Any:
    strides = (stride,) * (x.ndim - 2)
    return lax.conv_general_dilated(x, w, strides, "SAME", feature_group_count=groups)


def clipped(x: Any) -> Any:
    return jnp.clip(x, -4, 4)


def pooled(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME")


def residual(x: Any, w: Any, v: Any, b: Any) -> Any:
    y = clipped(conv(x, w) + b[None, :, None, None])
    return pooled(clipped(y + conv(y, v)))


def joined(x: Any, w: Any, v: Any, b: Any) -> Any:
    y = clipped(conv(x, w))
    y = jnp.concatenate([y, -y[:, :, ::-1], jnp.broadcast_to(b[:, None, None], y.shape)], 1)
    z = jnp.pad(y[:, : w.shape[0], 1:, ::2], ((0, 0), (0, 0), (1, 0), (0, 2)))
    return clipped(conv(z, v)), z.sum((1, 3)), z.reshape(z.shape[0], -1)


def looped(x: Any, w: Any, v: Any, b: Any) -> Any:
    y = clipped(conv(x, w))
    return lax.fori_loop(0, 2, lambda _, z: clipped(conv(clipped(conv(z, v)), v)), y)


def numbered(x: Any, w: Any, v: Any, b: Any) -> Any:
    y = clipped(conv(x, w))
    y = jnp.where(lax.broadcasted_iota(jnp.int32, y.shape, 2) > lax.broadcasted_iota(jnp.int32, y.shape, 1), y, 1)
    return jnp.argmax(clipped(conv(y, v)), 1), y.max((2, 3))


def weights_gradient(x: Any, w: Any, v: Any, b: Any) -> Any:
    return jax.grad(lambda w, v: (conv(clipped(conv(x, w)), v) * b[:, None, None]).sum(), argnums=(0, 1))(w, v)


def image_gradient(x: Any, w: Any, v: Any, b: Any) -> Any:
    return jax.grad(lambda x: (conv(clipped(conv(x, w, 2)), v) * b[:, None, None]).sum())(x)


def pool_gradient(x: Any, w: Any, v: Any, b: Any) -> Any:
    return jax.grad(lambda x: (conv(pooled(conv(x, w)), v) * b[:, None, None]).sum())(x)


NETWORKS: dict[str, Callable[..., Any]] = {
    own.__name__: own for own in (residual, joined, looped, numbered, weights_gradient, image_gradient, pool_gradient)
}


def check(function: Callable[..., Any], values: list[Any], mode: str = "fast") -> None:
    """Compares all results with those of XLA:CPU."""
    text = jax.jit(function, keep_unused=True).lower(*values).as_text()
    got = jax.tree.leaves(hlo2tx8.compile(text, Options(mode=mode))(*values))
    wanted = jax.tree.leaves(jax.jit(function)(*values))
    for mine, its in zip(got, wanted, strict=True):
        assert len(np.unique(its)) > 1
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(its))


def values_for(shape: tuple[int, ...], channels: int, dtype: Any = jnp.float32, window: int = 3) -> list[Any]:
    rng = np.random.default_rng(2)
    spatial = (window,) * (len(shape) - 2)
    sizes = [shape, (channels, shape[1], *spatial), (channels, channels, *spatial), (channels,)]
    return [jnp.asarray(rng.integers(-1, 2, size), dtype) for size in sizes]


@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_those_of_xla(name: str) -> None:
    check(NETWORKS[name], values_for((2, 3, 10, 12), 16))


@pytest.mark.parametrize("name", ["residual", "image_gradient"])
def test_strict_mode_finds_nothing(name: str) -> None:
    check(NETWORKS[name], values_for((2, 20, 9, 7), 20, jnp.bfloat16), mode="strict")


@pytest.mark.parametrize("shape", [(2, 5, 40), (1, 4, 5, 6, 7)], ids=["lines", "volumes"])
def test_other_ranks(shape: tuple[int, ...]) -> None:
    check(lambda x, w, v, b: clipped(conv(clipped(conv(x, w)), v)), values_for(shape, 16))


def test_groups_and_channels_of_their_own() -> None:
    x, w, v, _ = values_for((2, 16, 12, 12), 16)
    check(lambda x, w, v: clipped(conv(clipped(conv(clipped(conv(x, w[:, :1], groups=16)), v)), w[:, :4], groups=4)), [x, w, v])
