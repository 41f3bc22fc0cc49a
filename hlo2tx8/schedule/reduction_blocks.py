"""How the loop of a reduction is cut into blocks of lanes, and the work split that suits it.

    row reduction       [R outputs, W neighbours in memory] -> [R]        the innermost dimension of the input goes
    column reduction    [W rows, C outputs] -> [C]                        it stays: outputs are neighbours in memory

Reduced dimensions that are no neighbours of the innermost reduced one are plain loops around the blocks:

    reduce [N, C, H, W] over N, H, W: a loop over N, in it blocks of H * W
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation

from hlo2tx8.device.isa.ct_reduce import MOST_POINTS
from hlo2tx8.device.isa.forms import UNIT_ELEMENTS
from hlo2tx8.dialects.layout import minor_to_major, strides
from hlo2tx8.indexing import Const, Expr, Sym, Variable, simplify_expr, split_terms
from hlo2tx8.partitioner.computation import SubgraphFunction
from hlo2tx8.partitioner.instruction import tensor_type
from hlo2tx8.partitioner.iteration_space import TensorAccess
from hlo2tx8.partitioner.reduction_order import is_small_window, reduced_dimensions, why_in_order
from hlo2tx8.partitioner.reduction_paths import loop_counters
from hlo2tx8.schedule.accesses import AccessAnalysis
from hlo2tx8.schedule.transpose_tiles import split_tiles
from hlo2tx8.schedule.work_split import WorkSplit

UNIT = UNIT_ELEMENTS
"""Blocks longer than this are multiples of it: a vector unit of CT."""
LEAST_CUT = 4 * UNIT
"""Inner lanes from which on what is no whole unit is a block of its own."""
LEAST_COLUMNS = 512
"""Outputs of a step of a column reduction, where there are as many: long runs in memory."""
MOST_ROWS = MOST_POINTS
"""Outputs of a step of a row reduction at most: what an instruction that reduces takes."""


@dataclass(frozen=True)
class Blocks:
    """A reduction's loop: counters `loops`, outermost first, are plain loops; counters `block`, outermost first and neighbours
    in memory, of `extent` turns together, go `lanes` at a time."""

    loops: tuple[int, ...]
    block: tuple[int, ...]
    extent: int
    lanes: int
    is_outer: bool


@dataclass(frozen=True)
class ReductionAnalysis:
    """Splits and blocks of functions with reductions."""

    accesses: AccessAnalysis

    def split(self, function: SubgraphFunction) -> Sequence[tuple[WorkSplit, Mapping[Operation, Blocks]]]:
        """The work split of the one loop over the function's roots, and the blocks of the reductions in it."""
        read = self.accesses.of(function)
        found = [_shape_of(op, read) for op in self._reductions(function)]
        if not found:
            return [(split_tiles(function, self.accesses), {})]
        budget = self.accesses.step_elements(function)
        rows = [shape for shape in found if not shape.is_outer]
        if rows:
            work = min(max(shape.extent for shape in rows), budget)
            split = split_tiles(function, self.accesses, min(max(1, budget // work), MOST_ROWS), work)
        else:
            columns = max(min(LEAST_COLUMNS, budget), budget // max(s.extent for s in found))
            split = split_tiles(function, self.accesses, columns)
        per_output = max(1, budget // split.step_elements)
        return [(split, {shape.op: shape.blocks(per_output) for shape in found})]

    def _reductions(self, function: SubgraphFunction) -> list[Operation]:
        """The reductions in the function and in those that will be inlined into it, as far as their order is free."""
        found: list[Operation] = []
        for op in function.instructions:
            if why_in_order(op) == "" and not is_small_window(op):
                found.append(op)
        for callee in self.accesses.inlined_callees(function):
            found += self._reductions(callee)
        return found


@dataclass(frozen=True)
class _Shape:
    op: Operation
    loops: tuple[int, ...]
    block: tuple[int, ...]
    extent: int
    is_outer: bool

    def blocks(self, most_lanes: int) -> Blocks:
        lanes = _lanes(self.extent, most_lanes, is_inner=not self.is_outer)
        return Blocks(self.loops, self.block, self.extent, lanes, self.is_outer)


def _shape_of(op: Operation, read: Sequence[TensorAccess]) -> _Shape:
    """Which counters lie next to each other in the input's memory, and in that of what is read for it."""
    type_ = tensor_type(op.operands[0])
    shape, reduced = type_.get_shape(), reduced_dimensions(op)
    order = [dim for dim in reversed(minor_to_major(type_)) if shape[dim] != 1]
    last = max((position for position, dim in enumerate(order) if dim in reduced), default=-1)
    first = last
    forms = [form for access in read if (form := _steps_of(access, loop_counters(op))) is not None]
    while first > 0 and order[first - 1] in reduced and _are_neighbours(forms, reduced, order[first - 1], order[first], shape):
        first -= 1
    run = order[first : last + 1] if last >= 0 else []
    block = tuple(reduced.index(dim) for dim in run)
    outside = [dim for dim in order[: max(first, 0)] if dim in reduced]
    single = [dim for dim in reduced if shape[dim] == 1]
    loops = tuple(reduced.index(dim) for dim in (*single, *outside))
    return _Shape(op, loops, block, prod(shape[dim] for dim in run), is_outer=last + 1 < len(order))


def _steps_of(access: TensorAccess, counters: Sequence[Variable]) -> Sequence[int | None] | None:
    """How far the offset moves with each counter, None where that is not one distance; None if the access has other counters."""
    if tuple(v.hi for v in access.map.ranges) != tuple(v.hi for v in counters):
        return None
    offset: Expr = Const(0)
    for result, step in zip(access.map.results, strides(access.type), strict=True):
        offset = offset + result * step
    simple = simplify_expr(offset, [d.interval for d in access.map.dims], [v.interval for v in access.map.syms])
    split = split_terms(simple, tuple(Sym(i) for i in range(len(counters))))
    return [None] * len(counters) if split is None else [split[1].get(Sym(i), 0) for i in range(len(counters))]


def _are_neighbours(
    forms: Sequence[Sequence[int | None]], reduced: Sequence[int], outer: int, inner: int, shape: Sequence[int]
) -> bool:
    """Does every access go on from the end of dimension `inner` to its start one further along `outer`?"""
    for form in forms:
        far, near = form[reduced.index(outer)], form[reduced.index(inner)]
        if far is None or near is None or far != near * shape[inner]:
            return False
    return True


def _lanes(extent: int, most: int, *, is_inner: bool) -> int:
    """Lanes of a block: all, or the whole units of inner lanes, if they may be as many, else a divisor that is not much smaller,
    else as many as may be."""
    if extent <= most:
        return extent // UNIT * UNIT if is_inner and extent >= LEAST_CUT else extent
    unit = UNIT if most >= UNIT else 1
    largest = most // unit * unit
    candidates = range(largest, largest // 2, -unit)
    return next((n for n in candidates if extent % n == 0), largest)
