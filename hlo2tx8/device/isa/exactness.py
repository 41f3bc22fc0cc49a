"""When the result of an instruction is the exact one: it decides which records report INEXACT.

Each test is stated twice side by side, on numpy arrays for the definition and as a C expression for the native core.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Test = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Exactness:
    """`test(r, x, y)` says, element by element, where the FP64 result r is the exact one of x and y; of one operand y is x.

    `expression` is the same in C, of three doubles.
    """

    test: Test
    expression: str


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
SUM = Exactness(_sum, "is_exact_sum(r, x, y)")
DIFFERENCE = Exactness(lambda r, x, y: _sum(r, x, -y), "is_exact_sum(r, x, -y)")
PRODUCT = Exactness(lambda r, x, y: x * y == r, "x * y == r")
"""Products of two FP32 numbers are exact in FP64."""
QUOTIENT = Exactness(lambda r, x, y: r * y == x, "r * y == x")
ROOT = Exactness(lambda r, x, y: r * r == x, "r * r == x")
RECIPROCAL = Exactness(lambda r, x, y: r * x == 1, "r * x == 1")
RECIPROCAL_ROOT = Exactness(lambda r, x, y: (np.frexp(r)[0] == 0.5) & (r * r * x == 1), "is_power_of_two(r) && r * r * x == 1")
"""Only roots of powers of two are exact, and there the product is."""
LEAKY = Exactness(lambda r, x, y: (x > 0) | (x * y == r), "x > 0 || x * y == r")
OF_ZERO = Exactness(lambda r, x, y: x == 0, "x == 0")
"""Of transcendental functions, which are exact at zero only."""
