"""When the result of an instruction is the exact one: it decides which records report INEXACT. And the exact result rounded to odd.

Each is stated twice side by side, on numpy arrays for the definition and as a C expression for the native core.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
Odd = Callable[[Array, Array], Array]
Test = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Exactness:
    """`test(r, x, y)` says, element by element, where the FP64 result r is the exact one of x and y; of one operand y is x.

    `expression` is the same in C, of three doubles.
    `odd(x, y)` is the exact result of FP32 numbers as FP64, with the last bit set where it is not one of these: rounded to fewer
    bits, in any way, it is rounded once. `odd_expression` is the same in C. None where results are exact, or a program's.
    """

    test: Test
    expression: str
    odd: Odd | None = None
    odd_expression: str = ""


def _odd(nearest: Array, error: Array) -> Array:
    """The nearest FP64 number of an exact one from which it is off by a number of the sign of `error`."""
    bits = nearest.view(np.int64)
    is_off = np.isfinite(nearest) & (error != 0) & ~np.isnan(error)
    return np.where(is_off, (bits - ((error < 0) == (nearest > 0))) | 1, bits).view(np.float64)


def _odd_sum(x: Array, y: Array) -> Array:
    s = x + y
    back = s - x
    return _odd(s, (x - (s - back)) + (y - back))


def _split(x: Array, low_bits: int) -> tuple[Array, Array]:
    """x as a number without its last bits, and the rest."""
    high = (x.view(np.int64) >> low_bits << low_bits).view(np.float64)
    return high, x - high


def _odd_quotient(x: Array, y: Array) -> Array:
    """What is left of x, x - q * y, is exact in parts of q."""
    q = x / y
    high, low = _split(q, 26)
    return _odd(q, ((x - high * y) - low * y) * np.sign(y))


def _odd_root(x: Array, _: Array) -> Array:
    s = np.sqrt(x)
    high, low = _split(s, 27)
    return _odd(s, ((x - high * high) - 2 * high * low) - low * low)


def _sum(r: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The error of an FP64 sum is itself a number."""
    s = x + y
    back = s - x
    return ((x - (s - back)) + (y - back) == 0) & (s == r)


SILENT = Exactness(lambda r, x, y: np.ones(r.shape, np.bool_), "")
"""Of an instruction that sets no status bits at all: it moves bits, or the kernel core runs it."""
UNSTATED = Exactness(lambda r, x, y: np.zeros(r.shape, np.bool_), "")
"""Of an operand form: each instruction of the form has to say it."""
ALWAYS = Exactness(lambda r, x, y: np.ones(r.shape, np.bool_), "1")
NEVER = Exactness(lambda r, x, y: np.zeros(r.shape, np.bool_), "0")
SUM = Exactness(_sum, "is_exact_sum(r, x, y)", _odd_sum, "odd_sum(x, y)")
DIFFERENCE = Exactness(lambda r, x, y: _sum(r, x, -y), "is_exact_sum(r, x, -y)", lambda x, y: _odd_sum(x, -y), "odd_sum(x, -y)")
PRODUCT = Exactness(lambda r, x, y: x * y == r, "x * y == r", np.multiply, "x * y")
"""Products of two FP32 numbers are exact in FP64."""
QUOTIENT = Exactness(lambda r, x, y: r * y == x, "r * y == x", _odd_quotient, "odd_quotient(x, y)")
ROOT = Exactness(lambda r, x, y: r * r == x, "r * r == x", _odd_root, "odd_root(x)")
RECIPROCAL = Exactness(
    lambda r, x, y: r * x == 1, "r * x == 1", lambda x, _: _odd_quotient(np.ones_like(x), x), "odd_quotient(1.0, x)"
)
RECIPROCAL_ROOT = Exactness(
    lambda r, x, y: (np.frexp(r)[0] == 0.5) & (r * r * x == 1),
    "is_power_of_two(r) && r * r * x == 1",
    lambda x, _: 1.0 / np.sqrt(x),
    "1.0 / sqrt(x)",
)
"""Only roots of powers of two are exact, and there the product is. What is rounded is the number in FP64."""
LEAKY = Exactness(lambda r, x, y: (x > 0) | (x * y == r), "x > 0 || x * y == r")
OF_ZERO = Exactness(lambda r, x, y: x == 0, "x == 0")
"""Of transcendental functions, which are exact at zero only."""
