"""Values of instructions on one row, whatever way they are spelled: what a coarse op is recognised by.

A row is what the reduced dimensions of one tensor `x` have, as float64. Of each value that depends on x alone it is known what it
is for such a row: an array of the row's length, or one number where dimensions were reduced. Other values that have one number
per place of the row, weights, stand for random rows.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import mul
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.partitioner.reduction_order import joins_apart

Row = npt.NDArray[Any]
_erf: Callable[[Row], Row] = np.vectorize(math.erf, otypes=[np.float64])
COMPARE: Mapping[str, Callable[..., Row]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _same(x: Row) -> Row:
    return x


def _logistic(x: Row) -> Row:
    return 1 / (1 + np.exp(-x))


def _rsqrt(x: Row) -> Row:
    return 1 / np.sqrt(x)


def _erfc(x: Row) -> Row:
    return 1 - _erf(x)


ELEMENTWISE: Mapping[str, Callable[..., Any]] = {
    "stablehlo.abs": np.abs,
    "stablehlo.add": np.add,
    "stablehlo.and": np.logical_and,
    "stablehlo.cbrt": np.cbrt,
    "stablehlo.convert": _same,
    "stablehlo.divide": np.divide,
    "stablehlo.exponential": np.exp,
    "stablehlo.is_finite": np.isfinite,
    "stablehlo.log": np.log,
    "stablehlo.logistic": _logistic,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
    "stablehlo.multiply": np.multiply,
    "stablehlo.negate": np.negative,
    "stablehlo.not": np.logical_not,
    "stablehlo.optimization_barrier": _same,
    "stablehlo.or": np.logical_or,
    "stablehlo.power": np.power,
    "stablehlo.rsqrt": _rsqrt,
    "stablehlo.select": np.where,
    "stablehlo.sqrt": np.sqrt,
    "stablehlo.subtract": np.subtract,
    "stablehlo.tanh": np.tanh,
    "chlo.erf": _erf,
    "chlo.erfc": _erfc,
    "chlo.square": np.square,
}
REDUCTIONS: Mapping[str, Callable[..., Row]] = {"add": np.sum, "maximum": np.max, "minimum": np.min}
MOVES = ("stablehlo.broadcast_in_dim", "stablehlo.reshape")
SCALES = (1.0, 1e-3)
"""Of the numbers that a norm is looked for with: an epsilon shows where numbers are small."""


@dataclass
class RowValues:
    """What values are for one row of `x`, whose dimensions `dims` it is; `weights` are the values that stand for random rows."""

    x: SSAValue
    dims: tuple[int, ...]
    row: Row
    known: dict[SSAValue, Row | None] = field(default_factory=dict[SSAValue, "Row | None"])
    weights: dict[SSAValue, Row] = field(default_factory=dict[SSAValue, Row])
    depends: dict[SSAValue, bool] = field(default_factory=dict[SSAValue, bool])

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.x)

    def of(self, value: SSAValue, depth: int = 40) -> Row | None:
        """What a value is for the row; None if it is not known."""
        if value is self.x:
            self.depends[value] = True
            return self.row
        if value not in self.known:
            self.known[value] = None
            self.known[value] = self._made(value, depth)
        return self.known[value]

    def _made(self, value: SSAValue, depth: int) -> Row | None:
        scalar = scalar_of(value)
        if scalar is not None and scalar.dtype.kind != "c":
            return scalar.astype(np.float64).reshape(1)
        op = value.owner
        if not isinstance(op, Operation) or not isinstance(value.type, TensorType) or depth == 0:
            return None
        if op.name in MOVES:
            return self._moved(op, depth)
        if op.name == "stablehlo.reduce":
            return self._reduced(op, depth)
        if op.name not in ELEMENTWISE and op.name != "stablehlo.compare":
            return None
        operands: list[Row] = []
        for operand in op.operands:
            found = self.of(operand, depth - 1)
            if found is None:
                return None
            operands.append(found)
        self.depends[value] = any(self.depends.get(operand, False) for operand in op.operands)
        with np.errstate(all="ignore"):
            if op.name == "stablehlo.compare":
                return COMPARE[str(attributes_of(op)["comparison_direction"])](*operands)
            return np.asarray(ELEMENTWISE[op.name](*operands))

    def _moved(self, op: Operation, depth: int) -> Row | None:
        """Of a broadcast or reshape: rows stay whole, statistics are those of the same row, weights lie along the row."""
        inner, shape = shape_of(op.operands[0]), shape_of(op.results[0])
        found = self.of(op.operands[0], depth - 1)
        self.depends[op.results[0]] = self.depends.get(op.operands[0], False)
        if found is not None and not self.depends[op.results[0]]:
            return found if found.size == 1 or shape == inner else None
        if found is not None and found.size > 1 and self.row.size > 1:
            return found if shape == inner else None
        if found is not None:
            return found if self._is_of_rows(op, inner, shape) else None
        return self._weight(op, inner, shape)

    def _is_of_rows(self, op: Operation, inner: Sequence[int], shape: Sequence[int]) -> bool:
        """Does a statistic stay with its row? It has the other dimensions of x in their order."""
        others = [n for dim, n in enumerate(self.shape) if dim not in self.dims]
        if op.name == "stablehlo.reshape":
            return [n for n in shape if n != 1] == [n for n in others if n != 1]
        dims = [int(dim) for dim in attributes_of(op)["broadcast_dimensions"]]
        outer = [dim for dim in range(len(self.shape)) if dim not in self.dims]
        if len(shape) != len(self.shape):
            return False
        return dims == outer or (dims == list(range(len(shape))) and all(inner[dim] == 1 for dim in self.dims))

    def _weight(self, op: Operation, inner: Sequence[int], shape: Sequence[int]) -> Row | None:
        """A random row for a value with a number for each place of a row, which is broadcast to all rows."""
        if op.name != "stablehlo.broadcast_in_dim" or len(self.dims) != 1 or tuple(shape) != self.shape:
            return None
        (dim,), dims = self.dims, [int(d) for d in attributes_of(op)["broadcast_dimensions"]]
        if reduce(mul, inner, 1) != self.row.size or dim not in dims or inner[dims.index(dim)] != self.row.size:
            return None
        leaf = op.operands[0]
        owner = leaf.owner
        while isinstance(owner, Operation) and owner.name in (*MOVES, "stablehlo.convert") and len(shape_of(leaf)) > 1:
            leaf, owner = owner.operands[0], owner.operands[0].owner
        if leaf not in self.weights:
            self.weights[leaf] = np.random.default_rng(len(self.weights) + 1).uniform(0.5, 1.5, self.row.size)
        return self.weights[leaf]

    def _reduced(self, op: Operation, depth: int) -> Row | None:
        if len(op.results) != 1 or shape_of(op.operands[0]) != self.shape:
            return None
        dims = tuple(sorted(int(dim) for dim in attributes_of(op)["dimensions"]))
        found, joined = self.of(op.operands[0], depth - 1), joins_apart(op, 0)
        if found is None or dims != self.dims or joined not in REDUCTIONS:
            return None
        self.depends[op.results[0]] = self.depends.get(op.operands[0], False)
        whole = np.broadcast_to(found, self.row.shape)
        return np.asarray(REDUCTIONS[joined](whole)).reshape(1)


def uses_of(weights: Sequence[SSAValue]) -> Iterator[tuple[SSAValue, ...]]:
    """None, each as a factor, and each pair of a factor and what is added."""
    yield ()
    yield from ((w,) for w in weights)
    yield from ((w, b) for w in weights for b in weights if w is not b)


def weighted(row: Row, weights: Sequence[Row]) -> Row:
    """A row times the first of its weights, and the second added."""
    for number, weight in enumerate(weights):
        row = row + weight if number else row * weight
    return row
