"""Op types that compute element by element, each a row: its formula on arrays of one float type, of numpy or traced with jax."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hlo2tx8.netlist.formats import Array, is_known, xp

Attributes = Mapping[str, Any]
LARGEST = float(np.finfo(np.float32).max)
LARGEST_STORED = 2.0**128 - 2.0**120
"""What is larger is infinite where a tensor is kept in bfloat16 and rounded to the nearest."""
SMALL = 2.0**-23


def _multiply(x: Array, y: Array) -> Array:
    """0 wherever a factor is 0, also if the other is infinite."""
    return xp(x).where((x == 0) | (y == 0), x.dtype.type(0), x * y)


def _reciprocal(x: Array) -> Array:
    return xp(x).where(x == 0, x.dtype.type(1 / SMALL), 1 / x)


def _sqrt(x: Array) -> Array:
    """ValueError for a negative number or NaN; where the values are not known yet, NaN."""
    if is_known(x) and not (x >= 0).all():
        raise ValueError("sqrt of a negative number or NaN")
    return xp(x).sqrt(x)


def _bend(x: Array) -> Array:
    return xp(x).tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))


def gelu(x: Array) -> Array:
    """x times a bent step, in the form with tanh."""
    return 0.5 * x * (1 + _bend(x))


def _power(x: Array, exponent: int) -> Array:
    made = xp(x).ones_like(x)
    for _ in range(exponent) if exponent <= 64 else ():
        made = made * x
    return made if exponent <= 64 else xp(x).power(x, exponent)


def _dropout(x: Array, attributes: Attributes) -> Array:
    """What is kept is chosen by a hash of the seed and the element's number."""
    n, share = xp(x), attributes.get("p", 0.0)
    number = n.arange(x.size, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(attributes.get("seed", 0))
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        number = (number ^ (number >> np.uint32(shift))) * np.uint32(factor)
    kept = (number >> np.uint32(8)).astype(np.int32).astype(x.dtype) >= share * 2.0**24
    return n.where(kept.reshape(x.shape), x * (1.0 if share == 1 else 1 / (1 - share)), x.dtype.type(0))


UNARY: Mapping[str, Callable[[Array, Attributes], Array]] = {
    "nop": lambda x, _: x,
    "datacopy": lambda x, _: x,
    "ethernet_datacopy": lambda x, _: x,
    "exp": lambda x, _: xp(x).minimum(xp(x).exp(x), x.dtype.type(LARGEST if is_known(x) else LARGEST_STORED)),
    "log": lambda x, _: xp(x).log(xp(x).where(x == 0, x.dtype.type(SMALL), x)),
    "sqrt": lambda x, _: _sqrt(x),
    "reciprocal": lambda x, _: _reciprocal(x),
    "sigmoid": lambda x, _: 1 / (1 + xp(x).exp(-x)),
    "tanh": lambda x, _: xp(x).tanh(x),
    "square": lambda x, _: x * x,
    "sine": lambda x, _: xp(x).sin(x),
    "cosine": lambda x, _: xp(x).cos(x),
    "abs": lambda x, _: xp(x).abs(x),
    "gelu": lambda x, _: gelu(x),
    "gelu_derivative": lambda x, _: 0.5 * (1 + _bend(x)) + x * xp(x).exp(-0.5 * x * x) / math.sqrt(2 * math.pi),
    "lrelu": lambda x, a: xp(x).where(x > 0, x, x * a.get("slope", 0.01)),
    "power": lambda x, a: _power(x, a.get("exp", 0)),
    "dropout": _dropout,
}
BINARY: Mapping[str, Callable[[Array, Array, float], Array]] = {
    "add": lambda x, y, _: x + y,
    "subtract": lambda x, y, _: x - y,
    "multiply": lambda x, y, _: _multiply(x, y),
    "maximum": lambda x, y, _: xp(x).maximum(x, y),
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
        return xp(x).where(x >= least, least, xp(x).where(x >= 0, x, x.dtype.type(0)))
    return xp(x).where(x >= least, x, x.dtype.type(0))
