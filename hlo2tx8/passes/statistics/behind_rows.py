"""Which reduction of rows a value is made of that has the same result everywhere in a row.

%t = reduce add %x over 1               [512]
%m = divide %t, 64                      [512]
%w = broadcast_in_dim %m, dims = [0]    [512, 64]        its rows are %m, its statistic is %t
"""

from collections.abc import Callable, Sequence
from math import prod

from xdsl.ir import Operation, SSAValue

from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.partitioner.reduction_order import reduced_dimensions

SHAPING = ("stablehlo.broadcast_in_dim", "stablehlo.reshape")
"""What carries a statistic of a row from a reduction to its reader, but for arithmetic."""


def is_converted(op: Operation) -> bool:
    """Is a value rounded to another type, and nothing else?"""
    return op.name == "stablehlo.convert"


def rows_behind(value: SSAValue, joined: Sequence[int]) -> SSAValue | None:
    """The value with one element per row, in the order of the rows, that this one is a broadcast of; None if it is none."""
    shape = shape_of(value)
    if not isinstance(value.owner, Operation) or value.owner.name != "stablehlo.broadcast_in_dim":
        return None
    places, value = list(attributes_of(value.owner)["broadcast_dimensions"]), value.owner.operands[0]
    kept = [dim for dim in range(len(shape)) if dim not in joined and shape[dim] > 1]
    return value if [dim for dim, size in zip(places, shape_of(value), strict=True) if size > 1] == kept else None


def statistic(value: SSAValue, joined: Sequence[int], carries: Callable[[Operation], bool] = is_converted) -> Operation | None:
    """The reduction over those dimensions of which a value has the result everywhere in its row, None if there is none.

    `carries` says what may be between, besides what only adds dimensions: it reads the statistic as its first operand.
    """
    shape, found = shape_of(value), rows_behind(value, joined)
    if found is None:
        return None
    while isinstance(owner := found.owner, Operation) and (owner.name in SHAPING or carries(owner)):
        if prod(shape_of(owner.operands[0])) != prod(shape_of(found)) or not _is_in_order(owner):
            return None
        found = owner.operands[0]
    if not isinstance(owner, Operation) or owner.name != "stablehlo.reduce" or len(owner.results) != 1:
        return None
    is_of_rows = shape_of(owner.operands[0]) == shape and sorted(reduced_dimensions(owner)) == sorted(joined)
    return owner if is_of_rows else None


def _is_in_order(op: Operation) -> bool:
    """Does an op that only adds dimensions of one element leave the order of elements as it is?"""
    if op.name != "stablehlo.broadcast_in_dim":
        return True
    places = list(attributes_of(op)["broadcast_dimensions"])
    return places == sorted(places)
