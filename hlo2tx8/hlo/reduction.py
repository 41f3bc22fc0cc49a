"""Evaluation of stablehlo.reduce with any body and any number of inputs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from hlo2tx8.hlo.accumulation import only_adds
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.reduce import Combine, fold, rows, sum_rows
from hlo2tx8.hlo.spec import Array

if TYPE_CHECKING:
    from hlo2tx8.hlo.evaluator import Evaluator


def reduce_op(evaluator: "Evaluator", op: Operation, operands: Sequence[Array], values: Mapping[SSAValue, Any]) -> list[Array]:
    """The results of a reduce: a body that only adds is summed in float64, any other folds in a balanced tree."""
    half = len(operands) // 2
    dimensions = tuple(attributes_of(op)["dimensions"])
    inputs = [rows(a, dimensions) for a in operands[:half]]
    initial = [np.asarray(a) for a in operands[half:]]
    body = op.regions[0].block
    if half == 1 and only_adds(body):
        found = [sum_rows(inputs[0], initial[0])]
    else:
        found = fold(inputs, initial, _combine(evaluator, op, values))
    expected = [tensor_like(r.type) for r in op.results]
    return [f.astype(e.dtype, copy=False).reshape(e.shape) for f, e in zip(found, expected, strict=True)]


def _combine(evaluator: "Evaluator", op: Operation, values: Mapping[SSAValue, Any]) -> Combine:
    from hlo2tx8.hlo.evaluator import is_elementwise

    region = op.regions[0]
    lifted = evaluator.lifted()

    def at_once(left: Sequence[Array], right: Sequence[Array]) -> Sequence[Array]:
        found = lifted.run(region.block, [*left, *right], dict(values))
        return [np.broadcast_to(f, left[0].shape) for f in found]

    def one_by_one(left: Sequence[Array], right: Sequence[Array]) -> Sequence[Array]:
        out = [np.empty(a.shape, a.dtype) for a in left]
        for index in np.ndindex(left[0].shape):
            scalars = [np.asarray(a[index]) for a in (*left, *right)]
            for result, value in zip(out, evaluator.run(region.block, scalars, dict(values)), strict=True):
                result[index] = value
        return out

    return at_once if is_elementwise(region, evaluator.functions) else one_by_one
