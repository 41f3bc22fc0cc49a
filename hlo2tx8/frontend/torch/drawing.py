"""Ops that draw random numbers, from a stream of their own: Threefry, a key per run and a number per op."""

# pyright: basic

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from hlo2tx8.frontend.torch.table import AtenCall, Rows, widened


def _shape(x: Any) -> tuple[int, ...]:
    return tuple(getattr(x, "shape", x))


def _uniform(call: AtenCall, shape: Any, low: Any = 0.0, high: Any = 1.0) -> Any:
    kind = widened(call.dtype)
    return random.uniform(call.key(), shape, kind) * jnp.asarray(high - low, kind) + jnp.asarray(low, kind)


def _normal(call: AtenCall, shape: Any, mean: Any = 0.0, deviation: Any = 1.0) -> Any:
    kind = widened(call.dtype)
    return random.normal(call.key(), shape, kind) * jnp.asarray(deviation, kind) + jnp.asarray(mean, kind)


def _integers(call: AtenCall, shape: Any, low: int, high: int) -> Any:
    return random.randint(call.key(), shape, low, high, np.int64)


def _randint(call: AtenCall, shape: Any, *given: Any) -> Any:
    """`low` is 0 where one bound is given."""
    numbers = [n for n in given if type(n) is int]
    low, high = (
        (0, numbers[0])
        if call.op.endswith(("randint", "default", "randint_like", "low_dtype")) and len(numbers) == 1
        else numbers[:2]
    )
    return _integers(call, shape, low, high)


def _randint_first(call: AtenCall, first: int, second: Any, third: Any = None, *_: Any) -> Any:
    """randint(high, size) and randint(low, high, size)."""
    low, high, shape = (0, first, second) if isinstance(second, (list, tuple)) else (first, second, third)
    return _integers(call, tuple(shape), low, high)


def _bernoulli(call: AtenCall, x: Any, p: Any = None, *_: Any) -> Any:
    chance = x if p is None else jnp.asarray(p)
    return random.uniform(call.key(), x.shape, jnp.float32) < jnp.broadcast_to(chance.astype(jnp.float32), x.shape)


def _dropout(call: AtenCall, x: Any, p: float, train: Any = True) -> Any:
    if train is False or not p:
        return x, jnp.ones(x.shape, bool)
    kept = random.uniform(call.key(), x.shape, jnp.float32) >= p
    wide = x.astype(widened(x.dtype))
    return jnp.where(kept, wide * (0.0 if p == 1 else 1 / (1 - p)), 0), kept


def _permutation(call: AtenCall, count: int, *_: Any) -> Any:
    """The order of random numbers."""
    return jnp.argsort(random.bits(call.key(), (count,), np.uint32))


def _exponential(call: AtenCall, x: Any, rate: float = 1.0) -> Any:
    return random.exponential(call.key(), x.shape, widened(call.dtype)) / rate


def _cauchy(call: AtenCall, x: Any, median: float = 0.0, scale: float = 1.0) -> Any:
    return random.cauchy(call.key(), x.shape, widened(call.dtype)) * scale + median


def _geometric(call: AtenCall, x: Any, p: float) -> Any:
    u = 1 - random.uniform(call.key(), x.shape, jnp.float32)
    return jnp.ceil(jnp.log(u) / np.log1p(-p))


def _multinomial(call: AtenCall, weights: Any, count: int, replaces: bool = False, *_: Any) -> Any:
    """With replacement independent draws; without, the greatest of logarithms with Gumbel noise."""
    logs = jnp.log(weights.astype(jnp.float32))
    if replaces:
        noise = random.gumbel(call.key(), (*logs.shape[:-1], count, logs.shape[-1]), jnp.float32)
        return jnp.argmax(logs[..., None, :] + noise, -1)
    return jax.lax.top_k(logs + random.gumbel(call.key(), logs.shape, jnp.float32), count)[1]


def _normal_of(call: AtenCall, mean: Any, deviation: Any = 1.0, shape: Any = None, *_: Any) -> Any:
    """Elements with a mean and deviation of their own."""
    if not isinstance(shape, (list, tuple)):
        shape = jnp.broadcast_shapes(jnp.shape(mean), jnp.shape(deviation))
    kind = widened(call.dtype)
    return random.normal(call.key(), tuple(shape), kind) * jnp.asarray(deviation, kind) + jnp.asarray(mean, kind)


def _rrelu(call: AtenCall, x: Any, noise: Any, low: float = 0.125, high: float = 1 / 3, train: bool = False) -> Any:
    if not train:
        return jnp.where(x < 0, x * ((low + high) / 2), x), noise
    slopes = _uniform(call, x.shape, low, high)
    return jnp.where(x <= 0, x * slopes, x), jnp.where(x <= 0, slopes, 1)


ROWS: Rows = {
    "rand": lambda call, shape, *_: _uniform(call, tuple(shape)),
    "rand_like": lambda call, x, *_: _uniform(call, x.shape),
    "randn": lambda call, shape, *_: _normal(call, tuple(shape)),
    "randn_like": lambda call, x, *_: _normal(call, x.shape),
    "randint": _randint_first,
    "randint_like": lambda call, x, *given: _randint(call, x.shape, *given),
    "randperm": _permutation,
    "bernoulli": _bernoulli,
    "native_dropout": _dropout,
    "uniform": lambda call, x, low=0.0, high=1.0: _uniform(call, x.shape, low, high),
    "normal_functional": lambda call, x, mean=0.0, deviation=1.0: _normal(call, x.shape, mean, deviation),
    "normal": _normal_of,
    "log_normal": lambda call, x, mean=1.0, deviation=2.0: jnp.exp(_normal(call, x.shape, mean, deviation)),
    "exponential": _exponential,
    "cauchy": _cauchy,
    "geometric": _geometric,
    "multinomial": _multinomial,
    "rrelu_with_noise_functional": _rrelu,
    "prims::uniform": lambda call, shape, low, high, *_: _uniform(call, tuple(shape), low, high),
    "prims::normal": lambda call, shape, mean, deviation, *_: _normal(call, tuple(shape), mean, deviation),
}
