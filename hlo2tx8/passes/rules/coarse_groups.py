"""Norms of groups of channels whose weights are those of channels, as flax's GroupNorm and InstanceNorm are.

    x                   f32[n,h,w,c]
    reshape             f32[n,h,w,g,c/g]        mean and variance over h, w and the channels of a group
    statistics          f32[n,g]                repeated to f32[n,c], multiplied by weights there, broadcast to x

No value is a row of x: a weight meets the deviation before either meets x. So values are computed for a whole x of random numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.partitioner.reduction_order import joins_apart
from hlo2tx8.passes.rules.coarse_attention import RecognizedOp
from hlo2tx8.passes.rules.row_values import COMPARE, ELEMENTWISE, REDUCTIONS, SCALES, Row, uses_of, weighted

LARGEST = 1 << 21
"""Elements of x: all values that are made of it are in memory at once, in f32."""
LONGEST_CHAIN = 60
RESHAPE = "stablehlo.reshape"
_MOVES = ("stablehlo.broadcast_in_dim", "stablehlo.reduce", RESHAPE)
_Near = Callable[[Row | None, Row, SSAValue], bool]


@dataclass
class TensorValues:
    """Values for an x of these numbers; `weights` are what stands for a random number per channel."""

    x: SSAValue
    numbers: Row
    channels: int
    known: dict[SSAValue, Row | None] = field(default_factory=dict[SSAValue, "Row | None"])
    weights: dict[SSAValue, Row] = field(default_factory=dict[SSAValue, Row])
    constants: dict[float, None] = field(default_factory=dict[float, None])

    def of(self, value: SSAValue, depth: int = LONGEST_CHAIN) -> Row | None:
        """What a value is, of its shape, or of fewer and shorter dimensions that broadcast to it; None if it is not known."""
        if value is self.x:
            return self.numbers
        if value not in self.known:
            self.known[value] = None
            self.known[value] = self._made(value, depth)
        return self.known[value]

    def _made(self, value: SSAValue, depth: int) -> Row | None:
        scalar = scalar_of(value)
        if scalar is not None and scalar.dtype.kind != "c":
            self.constants |= {float(scalar): None} if scalar.dtype.kind == "f" else {}
            return scalar.astype(np.float32).reshape(())
        op = value.owner
        if not isinstance(value.type, TensorType) or depth == 0:
            return None
        if isinstance(op, Operation) and (op.name in ELEMENTWISE or op.name in (*_MOVES, "stablehlo.compare")):
            operands = [self.of(operand, depth - 1) for operand in (op.operands[:1] if op.name in _MOVES else op.operands)]
            found = [operand for operand in operands if operand is not None]
            with np.errstate(all="ignore"):
                return _computed(op, found) if len(found) == len(operands) else None
        if prod(shape_of(value)) != self.channels:
            return None
        random = np.random.default_rng(len(self.weights) + 1)
        self.weights[value] = random.uniform(0.5, 1.5, shape_of(value)).astype(np.float32)
        return self.weights[value]


def _computed(op: Operation, operands: Sequence[Row]) -> Row | None:
    """What an instruction makes of arrays."""
    if op.name in ELEMENTWISE:
        return np.asarray(ELEMENTWISE[op.name](*operands))
    if op.name == "stablehlo.compare":
        return COMPARE[str(attributes_of(op)["comparison_direction"])](*operands)
    (array,), shape = operands, shape_of(op.results[0])
    if array.ndim == 0:
        return None if op.name == "stablehlo.reduce" else array
    array = np.broadcast_to(array, shape_of(op.operands[0]))
    if op.name == RESHAPE:
        return array.reshape(shape)
    if op.name == "stablehlo.reduce":
        joined = joins_apart(op, 0) if len(op.results) == 1 else ""
        dims = tuple(int(dim) for dim in attributes_of(op)["dimensions"])
        return REDUCTIONS[joined](array, axis=dims) if joined in REDUCTIONS else None
    dims = [int(dim) for dim in attributes_of(op)["broadcast_dimensions"]]
    order = sorted(range(len(dims)), key=dims.__getitem__)
    return array.transpose(order).reshape([array.shape[dims.index(d)] if d in dims else 1 for d in range(len(shape))])


def group_norm_of(reduce: Operation, before: Sequence[SSAValue], later: Sequence[SSAValue], is_near: _Near) -> RecognizedOp | None:
    """The norm of groups that a reduce is the mean or the variance of; `before` are values that may be x as it was split."""
    dims = tuple(sorted(int(dim) for dim in attributes_of(reduce)["dimensions"]))
    for parts in reversed(before):
        split = parts.owner
        is_split = isinstance(split, Operation) and split.name == RESHAPE
        x = split.operands[0] if isinstance(split, Operation) and is_split else parts
        roots = [value for value in later if shape_of(value) == shape_of(x)]
        for axis, groups in _groupings(shape_of(x), shape_of(parts), dims) if roots else ():
            made = _weighed(x, (shape_of(parts), dims), (axis, groups), roots, is_near)
            if made is not None and (is_split or len(made.inputs) > 1):
                return made
    return None


def _groupings(shape: Sequence[int], parts: Sequence[int], dims: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The dimension of channels, and groups, such that what is not reduced of a split tensor are images and groups."""
    kept = [dim for dim in range(len(parts)) if dim not in dims]
    if len(kept) != 2 or kept[0] != 0 or parts[0] != shape[0] or prod(shape) > LARGEST:
        return
    groups = parts[kept[1]]
    wanted = np.arange(groups).reshape([groups if dim == kept[1] else 1 for dim in range(len(parts))])
    for axis in range(1, len(shape)):
        if shape[axis] % groups == 0 and groups > 1:
            numbers = np.repeat(np.arange(groups), shape[axis] // groups)
            if (np.broadcast_to(_along(numbers, axis, shape), shape).reshape(parts) == wanted).all():
                yield axis, groups


def _along(numbers: Row, axis: int, shape: Sequence[int]) -> Row:
    return numbers.reshape([-1 if dim == axis else 1 for dim in range(len(shape))])


def _weighed(
    x: SSAValue,
    split: tuple[Sequence[int], tuple[int, ...]],
    grouping: tuple[int, int],
    roots: Sequence[SSAValue],
    is_near: _Near,
) -> RecognizedOp | None:
    """The last of some values that is a norm of x, with the weights that it has."""
    (parts, dims), (axis, groups), shape = split, grouping, shape_of(x)
    numbers = (np.random.default_rng(0).standard_normal(shape) + 0.25).astype(np.float32)
    scaled = [TensorValues(x, numbers * np.float32(scale), shape[axis]) for scale in SCALES]

    def is_norm(values: TensorValues, root: SSAValue, epsilon: float, used: Sequence[SSAValue]) -> bool:
        found, rows = values.of(root), values.numbers.reshape(parts)
        if found is None or not set(used) <= set(values.weights):
            return False
        off = rows - rows.mean(dims, keepdims=True)
        y = (off / np.sqrt((off * off).mean(dims, keepdims=True) + epsilon)).reshape(shape)
        return is_near(found, weighted(y, [_along(values.weights[w].reshape(-1), axis, shape) for w in used]), root)

    for root in reversed(roots):
        if scaled[0].of(root) is None:
            continue
        for epsilon in (*(c for c in scaled[0].constants if 0 < c <= 1e-2), 0.0):
            for used in uses_of(list(scaled[0].weights)):
                if all(is_norm(values, root, epsilon, used) for values in scaled):
                    said = {"axis": axis, "groups": groups, "epsilon": float(f"{epsilon:.7g}")}
                    return RecognizedOp("group_norm", root, (x, *used), said)
    return None
