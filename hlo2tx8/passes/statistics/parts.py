"""Parts of what reductions go over: a step holds one whole.

[100352, 64] over 0      784 parts of 128 lines, 49 of each tile
[24025, 64] over 0       192 parts of 125 lines, and one of the 25 that are left over
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Region, SSAValue

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects import stablehlo
from hlo2tx8.partitioner.instruction import shape_of, tensor_type
from hlo2tx8.schedule.work_split import DEFAULT_STEP_ELEMENTS, OVERLAPPING_STEPS

LEAST_LINES = 16
"""Lines of a part: with fewer, its results are as much to move as a good deal of the part."""
LINES_OF_COLUMNS = 128
"""Lines of a part of which a step would hold fewer than `LEAST_LINES`: it has some columns of these."""
MOST_AT_ONCE = 4
"""Parts of a tile that are joined with those of others without being joined to one before."""


@dataclass(frozen=True)
class RowParts:
    """`count` parts of `size` neighbours each along the reduced dimensions `first` up to but not including `last`, and `rest`
    neighbours behind them; joined to `groups` first, if those are fewer. `others`: more dimensions that are reduced."""

    first: int
    last: int
    count: int
    size: int
    rest: int
    groups: int
    others: tuple[int, ...]

    @property
    def joined(self) -> list[int]:
        """The dimensions to reduce at last, once the parts are dimension `first`."""
        return sorted([self.first, *(dim - (self.last - self.first - 1) * (dim > self.first) for dim in self.others)])

    def of(self, e: Expansion, value: SSAValue) -> list[SSAValue]:
        """A value as [.., parts, elements of a part, ..]: the equal parts, and what is left over as one."""
        shape, whole = shape_of(value), self.count * self.size
        flat = (*shape[: self.first], whole + self.rest, *shape[self.last :])
        found: list[SSAValue] = []
        for start, end, size in ((0, whole, self.size), (whole, whole + self.rest, self.rest)):
            if size:
                part = e.sliced(e.reshaped(value, flat), self.first, start, end)
                found.append(e.reshaped(part, (*flat[: self.first], (end - start) // size, size, *flat[self.first + 1 :])))
        return found

    def in_groups(self, e: Expansion, value: SSAValue) -> SSAValue:
        """What has an element per part as [.., groups, parts of a group, ..]."""
        shape = shape_of(value)
        return e.reshaped(value, (*shape[: self.first], self.groups, self.count // self.groups, *shape[self.first + 1 :]))


def choose_parts(type_: TensorType[Attribute], dims: Sequence[int], rates: Rates) -> RowParts | None:
    """The parts for reductions over `dims`; None if there are too few lines for parts that are worth it."""
    shape = type_.get_shape()
    first, last = max(_runs(dims), key=lambda run: (prod(shape[run[0] : run[1]]), run))
    extent, inner, outer = prod(shape[first:last]), prod(shape[last:]), prod(shape[:first])
    alike = rates.tiles // gcd(rates.tiles, outer)  # as many parts keep all tiles equally busy
    lines = DEFAULT_STEP_ELEMENTS // max(1, inner)
    share = max(extent * outer // rates.tiles // OVERLAPPING_STEPS, LEAST_LINES)
    most = min(lines if lines >= LEAST_LINES else LINES_OF_COLUMNS, share, extent // alike)
    if most < LEAST_LINES:
        return None
    size = min(range(most, most // 2, -1), key=lambda n: extent % (n * alike))
    count = extent // (size * alike) * alike
    others = tuple(dim for dim in dims if not first <= dim < last)
    return RowParts(first, last, count, size, extent - count * size, alike if count > MOST_AT_ONCE * alike else count, others)


def _runs(dims: Sequence[int]) -> list[tuple[int, int]]:
    """The dimensions that are neighbours, as the first of them and what is behind the last."""
    starts = [dim for dim in dims if dim - 1 not in dims]
    return [(start, next(dim for dim in range(start + 1, max(dims) + 2) if dim not in dims)) for start in starts]


def reduced(e: Expansion, value: SSAValue, dims: Sequence[int], start: SSAValue, name: str = "add") -> SSAValue:
    """A value joined over some dimensions by an op of StableHLO of that name, from a scalar on."""
    scalar, shape = e.like(value, []), shape_of(value)
    block = Block(arg_types=[scalar, scalar])
    join = stablehlo.OPS[name](block.args, [scalar])
    block.add_ops([join, stablehlo.ReturnOp(join.results)])
    kept = e.like(value, [size for dim, size in enumerate(shape) if dim not in dims])
    over = {"dimensions": int_array(sorted(dims))}
    return e.insert(stablehlo.OPS["reduce"]([value, start], [kept], over, [Region(block)])).results[0]


def spread(e: Expansion, value: SSAValue, like: SSAValue, dims: Sequence[int]) -> SSAValue:
    """A value everywhere along some dimensions of another's shape, which it has not itself."""
    kept = [dim for dim in range(len(shape_of(like))) if dim not in dims]
    wide = TensorType(tensor_type(value).element_type, shape_of(like))
    return e.emit("broadcast_in_dim", [value], wide, broadcast_dimensions=int_array(kept))
