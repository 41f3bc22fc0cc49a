"""Exception bits of a tile: what arithmetic met, kept until somebody looks. They change no result.

They are set by CT arithmetic, relations, logic, functions, activations, conversions and reductions, and by the matrix
engine; not by what acts on bits, and not on the kernel core. Accumulating instructions (reductions, the matrix engine) never
report INEXACT, and judge all their elements together.
"""

from collections.abc import Callable, Sequence
from enum import IntFlag
from typing import Any

import numpy as np

from hlo2tx8.device import float_rules
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction


class Status(IntFlag):
    """Bits of a tile's status word."""

    NONE = 0
    INFINITE = 1  # a result is infinite
    NAN = 2  # an operand is NaN
    OVERFLOW = 4  # a result is infinite although all operands are finite and it is no pole, as 1 / 0 is one
    INEXACT = 8  # finite operands and a result that is not the exact one; of functions any but that of 0, softplus(0) too
    OUT_OF_RANGE = 16  # a conversion to integers of NaN, or of a number beyond the format's largest or smallest


def _sum_is_exact(r: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The error of an FP64 sum is itself a number."""
    s = x + y
    back = s - x
    return ((x - (s - back)) + (y - back) == 0) & (s == r)


def _difference_is_exact(r: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _sum_is_exact(r, x, -y)


def _product_is_exact(r: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Products of two FP32 numbers are exact in FP64."""
    return x * y == r


def _quotient_is_exact(r: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return r * y == x


def _root_is_exact(r: np.ndarray, x: np.ndarray, _: np.ndarray) -> np.ndarray:
    return r * r == x


def _reciprocal_is_exact(r: np.ndarray, x: np.ndarray, _: np.ndarray) -> np.ndarray:
    return r * x == 1


def _rsqrt_is_exact(r: np.ndarray, x: np.ndarray, _: np.ndarray) -> np.ndarray:
    """Only roots of powers of two are, and there the product is exact."""
    return (np.frexp(r)[0] == 0.5) & (r * r * x == 1)


def _leaky_relu_is_exact(r: np.ndarray, x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    return (x > 0) | (x * slope == r)


_EXACT: tuple[tuple[Any, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]], ...] = (
    (np.add, _sum_is_exact),
    (np.subtract, _difference_is_exact),
    (np.multiply, _product_is_exact),
    (np.divide, _quotient_is_exact),
    (np.square, _product_is_exact),
    (np.sqrt, _root_is_exact),
    (float_rules.reciprocal, _reciprocal_is_exact),
    (float_rules.reciprocal_sqrt, _rsqrt_is_exact),
    (float_rules.leaky_relu, _leaky_relu_is_exact),
)
"""By COMPUTE: is r the exact result of x and y, which of one operand is x again? Others always give it."""


def of_elements(kind: type[Instruction], operands: Sequence[np.ndarray], result: np.ndarray, function: str = "") -> Status:
    """Of float operands and results in their formats; `function` is the name of the one the instruction computes, if any."""
    wide, r = [v.astype(np.float64) for v in operands], result.astype(np.float64)
    finite = np.logical_and.reduce([np.isfinite(v) for v in wide])
    compute = getattr(kind, "COMPUTE", None)
    pole = np.zeros_like(finite)
    if compute is np.divide or compute in (float_rules.reciprocal, float_rules.reciprocal_sqrt) or function in ("log", "log2"):
        pole = wide[-1] == 0
    if function:
        exact = (wide[0] == 0) & (function != "softplus")
    else:
        is_exact = next((test for of, test in _EXACT if of is compute), None)
        exact = is_exact(r, wide[0], wide[-1]) if is_exact else np.ones_like(finite)
    return _status(wide, r, finite & ~pole, exact)


def _status(wide: Sequence[np.ndarray], r: np.ndarray, is_regular: np.ndarray, exact: np.ndarray) -> Status:
    status = Status.NONE
    if any(np.isnan(v).any() for v in wide):
        status |= Status.NAN
    if np.isinf(r).any():
        status |= Status.INFINITE
    if (np.isinf(r) & is_regular).any():
        status |= Status.OVERFLOW
    if (is_regular & ~np.isnan(r) & ~exact).any():
        status |= Status.INEXACT
    return status


def of_conversion(x: np.ndarray, fmt: Format, result: np.ndarray) -> Status:
    """Of values x, exact in FP64, and results in `fmt`."""
    wide, r = x.astype(np.float64), result.astype(np.float64)
    if fmt.is_float:
        return _status([wide], r, np.isfinite(wide), wide == r)
    info = np.iinfo(fmt.numpy_dtype)
    inside = (wide >= info.min) & (wide <= info.max)
    status = _status([wide], r, inside, wide == r)
    return status if inside.all() else status | Status.OUT_OF_RANGE


def of_accumulation(operands: Sequence[np.ndarray], result: np.ndarray) -> Status:
    """Of all elements of tensors together."""
    wide, r = [v.astype(np.float64) for v in operands], result.astype(np.float64)
    finite = all(np.isfinite(v).all() for v in wide)
    return _status(wide, r, np.full(r.shape, finite), np.ones(r.shape, np.bool_))
