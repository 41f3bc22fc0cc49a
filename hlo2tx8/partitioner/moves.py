"""Instructions that give every element of a tensor another index, and no more: reshapes and transposes.

dot [8, 12, 512, 64] -> transpose [8, 512, 12, 64] -> reshape [8, 512, 768]

The element (b, h, t, d) of the dot is the element (b, t, h * 64 + d) of what it becomes: where it is stored.
"""

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.indexing import Dim, Expr, Interval, delinearize, linearize, simplify_expr
from hlo2tx8.partitioner.instruction import shape_of


def is_move(op: Operation) -> bool:
    """True for a reshape or a transpose."""
    return op.name in ("stablehlo.reshape", "stablehlo.transpose")


def index_after_moves(value: SSAValue, root: SSAValue) -> tuple[Expr, ...] | None:
    """The index of an element of `root` in terms of that of `value`, if each instruction on the way has one reader on the way and
    is a move or leaves the index as it is; None if there is no such way.
    """
    shape = shape_of(value)
    index: tuple[Expr, ...] = tuple(Dim(i) for i in range(len(shape)))
    bounds = [Interval(0, size - 1) for size in shape]
    while value is not root:
        readers = list(dict.fromkeys(use.operation for use in value.uses))
        if len(readers) != 1 or len(readers[0].results) != 1:
            return None
        (reader,) = readers
        after = _index_after(reader, index, shape_of(value))
        if after is None:
            return None
        index = tuple(simplify_expr(expr, bounds, ()) for expr in after)
        value = reader.results[0]
    return index


def _index_after(op: Operation, index: Sequence[Expr], shape: Sequence[int]) -> tuple[Expr, ...] | None:
    """The index in an instruction's result of what is at `index` of its operand."""
    result = shape_of(op.results[0])
    if op.name == "stablehlo.transpose":
        return tuple(index[int(dim)] for dim in attributes_of(op)["permutation"])
    if op.name == "stablehlo.reshape":
        return delinearize(linearize(index, shape), result)
    return tuple(index) if tuple(result) == tuple(shape) else None
