"""Error bounds of what adds many numbers: reduces, dots, convolutions, windows, scatters and scans that add.

A sum of n numbers in a format with spacing eps is off by at most n * eps of the sum S of their absolute values, in any order; by
4 * sqrt(n) * eps * S where that is less: rounding errors have both signs, and what is beyond this is met once in a billion.
"""

from collections.abc import Callable, Sequence
from math import sqrt

import numpy as np
from xdsl.ir import Operation

from hlo2tx8.hlo.accumulation import joined_types, num_accumulated, num_convolved
from hlo2tx8.hlo.error_bounds.bounded import Bounded, any_error
from hlo2tx8.hlo.error_bounds.elementwise import magnitude, own_error
from hlo2tx8.hlo.lookup import attributes_of, spec_of, tensor_like
from hlo2tx8.hlo.ops.reduce import rows
from hlo2tx8.hlo.precision import cut_off
from hlo2tx8.hlo.spec import Array, Kind, TensorLike
from hlo2tx8.hlo.types import DType, epsilon, float_info, is_complex, is_float, numpy_dtype

DOUBLE = np.dtype(np.float64)


def joined(count: Array | int, dtype: DType, size: Array) -> Array:
    """What adding `count` numbers of that dtype, whose absolute values add up to `size`, may be off; infinite where it may
    overflow.
    """
    n = np.asarray(count, np.float64) * (2 if is_complex(dtype) else 1)
    error = epsilon(dtype) * np.minimum(n, 4 * np.sqrt(n)) * size
    return np.where(np.isfinite(size) & (size >= float(float_info(dtype).max) * (1 - epsilon(dtype))), np.inf, error)


def product_bound(op: Operation, operands: Sequence[Bounded], value: Array) -> Array | None:
    """Of a dot or a convolution: also what multiplying in a narrower format leaves out of each product."""
    result = numpy_dtype_of(op)
    if not (is_float(result) or is_complex(result)):
        return np.full(value.shape, np.inf) if any_error(operands) else None
    spec, attributes, shape = spec_of(op), attributes_of(op), TensorLike(value.shape, DOUBLE)

    def sums(a: Array, b: Array) -> Array:
        return np.asarray(spec.evaluate(attributes, (shape,), a, b)[0])

    a, b = (magnitude(operand.array) for operand in operands)
    a, b = np.asarray(a), np.asarray(b)
    total = sums(a, b)
    count = num_accumulated(op) or num_convolved(op)
    kept = numpy_dtype(joined_types(op)[0]) if spec.kind is Kind.DOT else _at_least_single(result)
    error = joined(count, kept, total)
    if cut := cut_off(op):
        # Parts of a factor below the smallest numbers of BF16 are lost, however small the factor is.
        floor = float(float_info(np.dtype(np.float32)).smallest_normal) * 2.0**-7 / cut
        least_a, least_b = (np.where(x > 0, np.maximum(x, floor), 0.0) for x in (a, b))
        lost = 3 * np.sqrt(sums(least_a * least_a, least_b * least_b)) + magnitude(value)
        if (least_a > a).any() or (least_b > b).any():
            lost = lost + sums(least_a - a, b) + sums(a, least_b - b)
        error = error + cut * lost * (2 if is_complex(result) else 1)
    if any_error(operands):
        (of_a, of_b) = (operand.errors for operand in operands)
        error = error + sums(of_a, b + of_b) + sums(a, of_b)
    return rounded(op, value, error)


def rounded(op: Operation, value: Array, error: Array) -> Array:
    """With the rounding of the result; nothing where an operand makes the value infinite or undefined."""
    error = error + own_error(spec_of(op), value, error)
    return np.where(np.isfinite(magnitude(value)), error, np.where(np.isinf(error), error, 0.0))


def reduced_sum_bound(op: Operation, x: Bounded, initial: Bounded, value: Array) -> Array | None:
    """Of a reduce that adds."""
    if not (is_float(value.dtype) or is_complex(value.dtype)):
        return np.full(value.shape, np.inf) if any_error((x, initial)) else None
    dimensions = tuple(attributes_of(op)["dimensions"])
    lines = rows(np.asarray(magnitude(x.array)), dimensions)
    size = lines.sum(axis=0) + magnitude(initial.array)
    error = joined(len(lines), numpy_dtype(joined_types(op)[0]), size).reshape(value.shape)
    if any_error((x, initial)):
        error = error + rows(x.errors, dimensions).sum(axis=0).reshape(value.shape) + initial.errors
    return rounded(op, value, error)


def added_bound(op: Operation, operands: Sequence[Bounded], value: Array, run: Callable[[Sequence[Array]], Array]) -> Array:
    """Of another op with one result whose region adds; `run` is the op in float64. Operands that are not added must be exact."""
    added = [i for i, operand in enumerate(operands) if operand.array.dtype == value.dtype]
    if op.name == "stablehlo.select_and_scatter":
        added.remove(0)  # which only says where
    if any_error(operand for i, operand in enumerate(operands) if i not in added):
        return np.full(value.shape, np.inf)

    def of(function: Callable[[Bounded], Array]) -> Array:
        return run([function(operand) if i in added else operand.array for i, operand in enumerate(operands)])

    count = of(lambda operand: np.ones(operand.array.shape))
    error = joined(count, _at_least_single(value.dtype) if op.name in IN_SINGLE else value.dtype, of(lambda o: magnitude(o.array)))
    if any_error(operands):
        error = error + of(lambda operand: np.array(operand.errors))
    return rounded(op, value, error)


IN_SINGLE = ("stablehlo.reduce_window", "hlo.scan")
"""Add narrow floats in f32, as reduces do."""


def numpy_dtype_of(op: Operation) -> DType:
    """The dtype of the first result."""
    return tensor_like(op.results[0].type).dtype


def _at_least_single(dtype: DType) -> DType:
    return np.dtype(np.float32) if is_float(dtype) and dtype.itemsize < 4 else dtype


def unordered(count: int) -> float:
    """How many times as large the error may be if `count` numbers are joined in another order than in a balanced tree."""
    return max(1.0, 4 * sqrt(count) / max(1, (count - 1).bit_length()))
