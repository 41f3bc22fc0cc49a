"""Op types that compute element by element, each a row: its formula on arrays of one float type."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hlo2tx8.netlist.formats import Array

Attributes = Mapping[str, Any]
LARGEST = float(np.finfo(np.float32).max)
SMALL = 2.0**-23


def _multiply(x: Array, y: Array) -> Array:
    """0 wherever a factor is 0, also if the other is infinite."""
    made = x * y
    return made if np.isfinite(made).all() else np.where((x == 0) | (y == 0), made.dtype.type(0), made)


def _reciprocal(x: Array) -> Array:
    return np.where(x == 0, x.dtype.type(1 / SMALL), 1 / np.where(x == 0, x.dtype.type(1), x))


def _sqrt(x: Array) -> Array:
    if not (x >= 0).all():
        raise ValueError("sqrt of a negative number or NaN")
    return np.sqrt(x)


def _bend(x: Array) -> Array:
    return np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))


def gelu(x: Array) -> Array:
    """x times a bent step, in the form with tanh."""
    return 0.5 * x * (1 + _bend(x))


def _power(x: Array, exponent: int) -> Array:
    made = np.ones_like(x)
    for _ in range(exponent) if exponent <= 64 else ():
        made = made * x
    return made if exponent <= 64 else np.power(x, exponent)


def _dropout(x: Array, attributes: Attributes) -> Array:
    share = attributes.get("p", 0.0)
    kept = np.random.default_rng(attributes.get("seed", 0)).random(x.shape) >= share
    return np.where(kept, x * (1.0 if share == 1 else 1 / (1 - share)), 0).astype(x.dtype)


UNARY: Mapping[str, Callable[[Array, Attributes], Array]] = {
    "nop": lambda x, _: x,
    "datacopy": lambda x, _: x,
    "ethernet_datacopy": lambda x, _: x,
    "exp": lambda x, _: np.fmin(np.exp(x), x.dtype.type(LARGEST)) if not np.isnan(x).any() else np.minimum(np.exp(x), LARGEST),
    "log": lambda x, _: np.log(np.where(x == 0, x.dtype.type(SMALL), x)),
    "sqrt": lambda x, _: _sqrt(x),
    "reciprocal": lambda x, _: _reciprocal(x),
    "sigmoid": lambda x, _: 1 / (1 + np.exp(-x)),
    "tanh": lambda x, _: np.tanh(x),
    "square": lambda x, _: x * x,
    "sine": lambda x, _: np.sin(x),
    "cosine": lambda x, _: np.cos(x),
    "abs": lambda x, _: np.abs(x),
    "gelu": lambda x, _: gelu(x),
    "gelu_derivative": lambda x, _: 0.5 * (1 + _bend(x)) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi),
    "lrelu": lambda x, a: np.where(x > 0, x, x * a.get("slope", 0.01)),
    "power": lambda x, a: _power(x, a.get("exp", 0)),
    "dropout": _dropout,
}
BINARY: Mapping[str, Callable[[Array, Array, float], Array]] = {
    "add": lambda x, y, _: x + y,
    "subtract": lambda x, y, _: x - y,
    "multiply": lambda x, y, _: _multiply(x, y),
    "maximum": lambda x, y, _: np.maximum(x, y),
    "quantization": lambda x, s, zero: x * s + zero,
    "requantization": lambda x, s, zero: x * s + zero,
    "dequantization": lambda x, s, zero: (x - zero) * s,
}
"""The third argument is the attribute zero_point."""


def relu(x: Array, attributes: Attributes) -> Array:
    """As the attributes relu_en, relu_mode and relu_threshold say."""
    if not attributes.get("relu_en"):
        return x
    least = x.dtype.type(attributes.get("relu_threshold", 0.0))
    if attributes.get("relu_mode", "min") == "max":
        return np.where(x >= least, least, np.where(x >= 0, x, x.dtype.type(0)))
    return np.where(x >= least, x, x.dtype.type(0))
