"""Convolutions as contractions: how rows of the product and elements of a window lie along lines of the image.

    image[n, oy * 2 + ky * 1 - 1, ...]     the line of rows oy has stride 2, that of elements ky dilation 1

Then an image is loaded once for all elements of its windows, and the matrix engine convolves it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from xdsl.ir import Operation

from hlo2tx8.dialects.layout import minor_to_major
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.indexing import Dim, Expr, Interval, Sym, simplify_expr, split_terms
from hlo2tx8.partitioner.contraction import EXACT_DEPTH, EXACT_PARTS, Role
from hlo2tx8.partitioner.iteration_space import IterationSpace, TensorAccess
from hlo2tx8.partitioner.reduction_paths import loop_counters

MOST_TAPS = 255
MOST_STEP = 1023
MOST_PLACES = 4096
MOST_EXACT_TAPS = 9 * EXACT_DEPTH
"""Products that one instruction adds up for a gradient of weights that is as precise as f32."""


@dataclass(frozen=True)
class Line:
    """Dimension `row` of the loop's space and the window's counter `counter`, of `taps` turns, move along the same line of the
    image.
    """

    row: int
    counter: int
    taps: int
    stride: int
    dilation: int

    def extent(self, rows: int) -> int:
        """The number of image elements on the line that the windows of `rows` neighbouring rows cover."""
        return (rows - 1) * self.stride + (self.taps - 1) * self.dilation + 1


def lines_of(op: Operation, accesses: Sequence[TensorAccess], space: IterationSpace, roles: Sequence[Role]) -> tuple[Line, ...]:
    """The one or two lines of a convolution's dot, along the two innermost row dimensions; None if the matrix engine cannot take
    its rows or windows.

    The dot must be the only reduction in its function.
    """
    lines = _lines_along(op, accesses, space, roles)
    rows = [dim for dim, role in enumerate(roles) if role == "row"]
    return lines if all(line.row in rows[-2:] for line in lines) else ()


def backward_lines_of(
    op: Operation, accesses: Sequence[TensorAccess], space: IterationSpace, roles: Sequence[Role]
) -> tuple[Line, ...]:
    """The two lines of the gradient of weights, whose rows are the elements of a kernel and then channels of the image:

        gradient[n, oy, ox, o] * image[n, ky + oy - 1, kx + ox - 1, c]     rows ky, kx, c     columns o

    None where it is something else, or the channels of either operand are not next to each other in memory.
    """
    lines = _lines_along(op, accesses, space, roles)
    rows = [dim for dim, role in enumerate(roles) if role == "row"]
    if not roles or roles[-1] != "column" or len(lines) != 2 or [line.row for line in lines] != rows[:-1]:
        return ()
    taps, exact = prod(line.taps for line in lines), num_parts(op) == EXACT_PARTS
    if (exact and taps > MOST_EXACT_TAPS) or len(loop_counters(op)) == len(lines):
        return ()
    return lines if all(_ends_in_channels(access, space) for access in accesses if access.map.ranges) else ()


def keeps_weights(op: Operation, accesses: Sequence[TensorAccess], space: IterationSpace) -> bool:
    """Are the filters of a convolution's weights next to each other in memory, so that they need not be turned?"""
    return any(_ends_in_channels(access, space) for access in accesses if access.map.ranges)


def _ends_in_channels(access: TensorAccess, space: IterationSpace) -> bool:
    """Is the innermost dimension of what is read one of the loop's own?"""
    if tuple(minor_to_major(access.type)) != tuple(reversed(range(len(access.type.get_shape())))):
        return False
    last = access.map.results[-1].substitute(space.to_output, [Sym(i) for i in range(len(access.map.ranges))])
    return not any(isinstance(leaf, Sym) for leaf in last.leaves())


def _lines_along(op: Operation, accesses: Sequence[TensorAccess], space: IterationSpace, roles: Sequence[Role]) -> tuple[Line, ...]:
    """The lines of a dot along dimensions of rows, by row; none if they are not all that is read along these."""
    rows = [dim for dim, role in enumerate(roles) if role == "row"]
    turns = [counter.hi + 1 for counter in loop_counters(op)]
    found: dict[Line, None] = {}
    exprs: list[list[int]] = []
    for access in accesses:
        if not access.map.ranges:
            continue
        symbols = [Sym(i) for i in range(len(turns))]
        if len(access.map.ranges) != len(turns):
            return ()
        for expr in (*access.map.results, *(expr for expr, _ in access.map.constraints)):
            factors = _factors(expr.substitute(space.to_output, symbols), space, turns)
            if factors is None:
                return ()
            exprs.append(factors)
            found.update(dict.fromkeys(_lines(factors, turns, rows)))
    lines = tuple(sorted(found, key=lambda line: line.row))
    if len({line.row for line in lines}) != len(lines) or len({line.counter for line in lines}) != len(lines):
        return ()
    if not all(_is_taken(line, space.shape[line.row]) for line in lines):
        return ()
    return lines if all(_keeps_to(lines, factors, len(space.shape), rows) for factors in exprs) else ()


def _lines(factors: Sequence[int], turns: Sequence[int], rows: Sequence[int]) -> list[Line]:
    """The pair of a row and a counter in an index."""
    rank = len(factors) - len(turns)
    mine, counters = [dim for dim in rows if factors[dim]], [i for i in range(len(turns)) if factors[rank + i]]
    if len(mine) != 1 or len(counters) != 1:
        return []
    step, factor = factors[mine[0]], factors[rank + counters[0]]
    unit = gcd(step, factor)
    if step * factor < 0 or turns[counters[0]] == 1:
        return []
    return [Line(mine[0], counters[0], turns[counters[0]], abs(step) // unit, abs(factor) // unit)]


def bounded_with(op: Operation, counter: int, accesses: Sequence[TensorAccess], space: IterationSpace) -> frozenset[int]:
    """The dimensions of the loop's space that occur in one bound together with `counter`: along them, other turns of the counter
    read inside of the image.
    """
    turns = [c.hi + 1 for c in loop_counters(op)]
    found: set[int] = set()
    for access in accesses:
        if len(access.map.ranges) != len(turns):
            continue
        for expr, _ in access.map.constraints:
            factors = _factors(expr.substitute(space.to_output, [Sym(i) for i in range(len(turns))]), space, turns)
            if factors is not None and factors[len(space.shape) + counter]:
                found.update(dim for dim in range(len(space.shape)) if factors[dim])
    return frozenset(found)


def _is_taken(line: Line, rows: int) -> bool:
    return line.taps <= MOST_TAPS and max(line.stride, line.dilation) <= MOST_STEP and line.extent(rows) <= MOST_PLACES


def _keeps_to(lines: Sequence[Line], factors: Sequence[int], rank: int, rows: Sequence[int]) -> bool:
    """Does an index that has rows go along the lines only, where they have one?"""
    if not any(factors[dim] for dim in rows):
        return True
    return all(factors[line.row] * line.dilation == factors[rank + line.counter] * line.stride for line in lines)


def _factors(expr: Expr, space: IterationSpace, turns: Sequence[int]) -> list[int] | None:
    """The factors of the space's dimensions, then of the counters; None if an index with counters is not affine."""
    leaves = (*(Dim(i) for i in range(len(space.shape))), *(Sym(i) for i in range(len(turns))))
    bounds = [Interval(0, size - 1) for size in space.shape], [Interval(0, size - 1) for size in turns]
    simple = simplify_expr(expr, *bounds)
    split = split_terms(simple, leaves)
    if split is None:
        return None if any(isinstance(leaf, Sym) for leaf in simple.leaves()) else [0] * len(leaves)
    return [split[1].get(leaf, 0) for leaf in leaves]
