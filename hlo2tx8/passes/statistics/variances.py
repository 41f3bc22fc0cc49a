"""The sum of squared differences from a mean, made of parts that are read once for the mean, too.

%sum = reduce add %x over 0                         %mean is made of %sum
%squares = reduce add (%x - %mean)^2 over 0
"""

from dataclasses import dataclass

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.partitioner.instruction import shape_of, tensor_type
from hlo2tx8.partitioner.reduction_order import joins_apart, reduced_dimensions
from hlo2tx8.passes.statistics.behind_rows import rows_behind, statistic
from hlo2tx8.passes.statistics.parts import RowParts, reduced, spread


@dataclass(frozen=True)
class Variance:
    """`squares` is the sum of (x - mean)^2 over `dims`; `mean` is made of the sum of x over these, `total`, alone."""

    x: SSAValue
    mean: SSAValue
    total: Operation
    squares: Operation
    dims: tuple[int, ...]

    @staticmethod
    def of(squares: Operation) -> "Variance | None":
        """The one that a reduction is of, if any."""
        square, dims = squares.operands[0].owner, sorted(reduced_dimensions(squares)) if _is_sum(squares) else []
        if not dims or not isinstance(square, Operation) or square.name != "stablehlo.multiply":
            return None
        difference = square.operands[0].owner
        if square.operands[0] is not square.operands[1] or not isinstance(difference, Operation):
            return None
        if difference.name != "stablehlo.subtract":
            return None
        for x, wide in (difference.operands, reversed(difference.operands)):
            rows, total = rows_behind(wide, dims), statistic(wide, dims, _is_scaled)
            is_of_same = total is not None and total.operands[0] is x and total.parent is squares.parent and _is_sum(total)
            if rows is not None and total is not None and is_of_same:
                return Variance(x, rows, total, squares, tuple(dims))
        return None

    def split(self, parts: RowParts) -> None:
        """Replace both sums by those of parts."""
        e = Expansion(self.total)
        found = [_moments(e, part, parts.first) for part in parts.of(e, self.x)]
        if parts.groups < parts.count:
            found[0] = _joined(e, found[0], parts)
        e.replace(_total(e, [_totals(e, moments) for moments in found], parts, self.total.operands[1]))
        e = Expansion(self.squares)
        kept = [size for dim, size in enumerate(shape_of(found[0].mean)) if dim not in parts.joined]
        mean = e.reshaped(self.mean, kept)
        squares = [_from_other_mean(e, moments, spread(e, mean, moments.mean, parts.joined))[1] for moments in found]
        e.replace(_total(e, squares, parts, self.squares.operands[1]))


@dataclass(frozen=True)
class _Moments:
    """Of parts of `count` elements: the `mean` of each, rounded, the sums of the `differences` from it, which it is off by, and of
    their `squares`."""

    mean: SSAValue
    differences: SSAValue
    squares: SSAValue
    count: int


def _is_sum(op: Operation) -> bool:
    """Is it a sum of FP32 alone?"""
    are_floats = all(isinstance(tensor_type(value).element_type, Float32Type) for value in op.operands)
    return op.name == "stablehlo.reduce" and len(op.results) == 1 and are_floats and joins_apart(op, 0) == "add"


def _is_scaled(op: Operation) -> bool:
    """Is a value multiplied or divided by a constant?"""
    return op.name in ("stablehlo.multiply", "stablehlo.divide") and scalar_of(op.operands[1]) is not None


def _moments(e: Expansion, x: SSAValue, dim: int) -> _Moments:
    """Those of parts: `dim` numbers these, the next one their elements."""
    size = shape_of(x)[dim + 1]
    mean = _scaled(e, _sum(e, x, dim + 1), 1 / size)
    difference = e.emit("subtract", [x, spread(e, mean, x, (dim + 1,))], x.type)
    square = e.emit("multiply", [difference, difference], x.type)
    return _Moments(mean, _sum(e, difference, dim + 1), _sum(e, square, dim + 1), size)


def _joined(e: Expansion, moments: _Moments, parts: RowParts) -> _Moments:
    """Those of fewer, larger parts."""
    mean, differences, squares = (parts.in_groups(e, value) for value in (moments.mean, moments.differences, moments.squares))
    apart = _Moments(mean, differences, squares, moments.count)
    dim, count = parts.first + 1, moments.count * (parts.count // parts.groups)
    mean = _scaled(e, _sum(e, _totals(e, apart), dim), 1 / count)
    differences, squares = _from_other_mean(e, apart, spread(e, mean, apart.mean, (dim,)))
    return _Moments(mean, _sum(e, differences, dim), _sum(e, squares, dim), count)


def _from_other_mean(e: Expansion, moments: _Moments, mean: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The differences and squares of each part from another mean: sum(d + m) and sum((d + m)^2), m the difference of the means."""
    type_ = moments.mean.type
    moved = e.emit("subtract", [moments.mean, mean], type_)
    differences = e.emit("add", [moments.differences, _scaled(e, moved, moments.count)], type_)
    both = e.emit("multiply", [moved, e.emit("add", [moments.differences, differences], type_)], type_)
    return differences, e.emit("add", [moments.squares, both], type_)


def _totals(e: Expansion, moments: _Moments) -> SSAValue:
    """The sum of each part."""
    return e.emit("add", [_scaled(e, moments.mean, moments.count), moments.differences], moments.mean.type)


def _scaled(e: Expansion, value: SSAValue, factor: float) -> SSAValue:
    """A value times a constant."""
    return e.emit("multiply", [value, e.splat(factor, tensor_type(value))], value.type)


def _sum(e: Expansion, value: SSAValue, dim: int) -> SSAValue:
    """The sum over a dimension, from what changes nothing."""
    return reduced(e, value, [dim], e.splat(-0.0, e.like(value, [])))


def _total(e: Expansion, values: list[SSAValue], parts: RowParts, start: SSAValue) -> SSAValue:
    """The sum of all parts, from `start` on."""
    total = reduced(e, values[0], parts.joined, start)
    for value in values[1:]:
        more = reduced(e, value, parts.joined, e.splat(-0.0, e.like(value, [])))
        total = e.emit("add", [total, more], total.type)
    return total
