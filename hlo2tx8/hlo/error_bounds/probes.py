"""Bounds of ops without a rule of their own, from what becomes of operands that are moved by their bounds.

An op's own error is what operands that are off by its ULP make of its result: so errors of solvers, transforms and normalisations
are bounded, whose results are those of slightly other operands. It is an estimate: the largest change in a few directions, several
times over.
"""

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.ir import Operation

from hlo2tx8.hlo.error_bounds.bounded import Bounded
from hlo2tx8.hlo.error_bounds.elementwise import magnitude, own_error
from hlo2tx8.hlo.lookup import spec_of
from hlo2tx8.hlo.spec import Array
from hlo2tx8.hlo.types import DType, epsilon, is_complex, is_float

DIRECTIONS = 6
MARGIN = 6.0
"""How many times the largest change seen is allowed."""


def probed(
    op: Operation, operands: Sequence[Bounded], values: Sequence[Array], run: Callable[[Sequence[Array]], Sequence[Array]]
) -> list[Array]:
    """A bound per result. `run` is the op on arrays in float64 (complex128) where the op's are floats."""
    spec = spec_of(op)
    if any(np.isinf(operand.errors).any() for operand in operands):
        return [np.full(value.shape, np.inf) for value in values]
    ulp = spec.ulp * max((epsilon(value.dtype) for value in values), default=0.0)
    sizes = [_size(operand, ulp) for operand in operands]
    rng = np.random.default_rng(0)
    wide = [o.array.astype(double(o.array.dtype)) for o in operands]
    base = [np.asarray(found) for found in run(wide)]
    worst = [np.zeros(value.shape) for value in values]
    for _ in range(DIRECTIONS if any(size.any() for size in sizes) else 0):
        moved = [x + _moved(size, x.dtype, rng) if size.any() else x for x, size in zip(wide, sizes, strict=True)]
        for k, (one, other) in enumerate(zip(run(moved), base, strict=True)):
            worst[k] = np.maximum(worst[k], _change(np.asarray(one), other))
    return [MARGIN * w + own_error(spec, value, MARGIN * w) for w, value in zip(worst, values, strict=True)]


def double(dtype: DType) -> DType:
    """The widest dtype of the same kind of number for floats, else the dtype."""
    if is_complex(dtype):
        return np.dtype(np.complex128)
    return np.dtype(np.float64) if is_float(dtype) else dtype


def _size(operand: Bounded, ulp: float) -> Array:
    if not (is_float(operand.array.dtype) or is_complex(operand.array.dtype)):
        return np.asarray(operand.errors)
    size = magnitude(operand.array)
    return operand.errors + ulp * np.where(np.isfinite(size), size, 0.0)


def _moved(size: Array, dtype: DType, rng: np.random.Generator) -> Array:
    signs = rng.choice([-1.0, 1.0], size.shape)
    turned = signs * np.exp(1j * rng.choice([0.0, np.pi / 2], size.shape)) if is_complex(dtype) else signs
    return (turned * size).astype(dtype)


def _change(one: Array, other: Array) -> Array:
    if not (is_float(one.dtype) or is_complex(one.dtype)):
        return np.where(one != other, np.inf, 0.0)
    with np.errstate(all="ignore"):
        change = np.abs(one - other)
    both_nan = np.isnan(one) & np.isnan(other)
    return np.where((one == other) | both_nan, 0.0, np.where(np.isnan(change), np.inf, change))
