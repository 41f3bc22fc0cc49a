"""Evaluation of stablehlo.reduce with any body and any number of inputs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.reduce import fold, rows, sum_rows
from hlo2tx8.hlo.region_function import RegionFunction
from hlo2tx8.hlo.spec import Array

if TYPE_CHECKING:
    from hlo2tx8.hlo.evaluator import Evaluator


def reduce_op(evaluator: "Evaluator", op: Operation, operands: Sequence[Array], values: Mapping[SSAValue, Any]) -> list[Array]:
    """The results of a reduce: a body that only adds is summed in float64, any other is evaluated in a balanced tree."""
    half = len(operands) // 2
    dimensions = tuple(attributes_of(op)["dimensions"])
    inputs = [rows(a, dimensions) for a in operands[:half]]
    initial = [np.asarray(a) for a in operands[half:]]
    body = RegionFunction(evaluator, op.regions[0], values)
    if half == 1 and body.only_adds:
        found = [sum_rows(inputs[0], initial[0])]
    else:
        found = fold(inputs, initial, lambda left, right: body(*left, *right))
    expected = [tensor_like(r.type) for r in op.results]
    return [f.astype(e.dtype, copy=False).reshape(e.shape) for f, e in zip(found, expected, strict=True)]
