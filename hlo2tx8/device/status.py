"""Exception bits of a tile: what arithmetic met, kept until somebody looks. They change no result.

They are set by CT arithmetic, relations, logic, functions, activations, conversions and reductions, and by the matrix
engine; not by what acts on bits, and not on the kernel core. Accumulating instructions (reductions, the matrix engine) never
report INEXACT, and judge all their elements together.
"""

from collections.abc import Sequence
from enum import IntFlag

import numpy as np

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.exactness import SILENT


class Status(IntFlag):
    """Bits of a tile's status word."""

    NONE = 0
    INFINITE = 1  # a result is infinite
    NAN = 2  # an operand is NaN
    OVERFLOW = 4  # a result is infinite although all operands are finite and it is no pole, as 1 / 0 is one
    INEXACT = 8  # finite operands and a result that is not the exact one; of functions any but that of 0, softplus(0) too
    OUT_OF_RANGE = 16  # a conversion to integers of NaN, or of a number beyond the format's largest or smallest


def of_elements(kind: type[Instruction], operands: Sequence[np.ndarray], result: np.ndarray) -> Status:
    """The bits that an elementwise instruction sets for float operands and results in their formats."""
    if kind.EXACT is SILENT:
        return Status.NONE
    wide, r = [v.astype(np.float64) for v in operands], result.astype(np.float64)
    finite = np.logical_and.reduce([np.isfinite(v) for v in wide])
    is_pole = wide[-1] == 0 if kind.HAS_POLES else np.zeros_like(finite)
    return _status(wide, r, finite & ~is_pole, kind.EXACT.test(r, wide[0], wide[-1]))


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
    """The bits a conversion sets: of values x, exact in FP64, and results in `fmt`."""
    wide, r = x.astype(np.float64), result.astype(np.float64)
    if fmt.is_float:
        return _status([wide], r, np.isfinite(wide), wide == r)
    info = np.iinfo(fmt.numpy_dtype)
    inside = (wide >= info.min) & (wide <= info.max)
    status = _status([wide], r, inside, wide == r)
    return status if inside.all() else status | Status.OUT_OF_RANGE


def of_accumulation(operands: Sequence[np.ndarray], result: np.ndarray) -> Status:
    """The bits a reduction or product sets, judging all its elements together."""
    wide, r = [v.astype(np.float64) for v in operands], result.astype(np.float64)
    finite = all(np.isfinite(v).all() for v in wide)
    return _status(wide, r, np.full(r.shape, finite), np.ones(r.shape, np.bool_))
