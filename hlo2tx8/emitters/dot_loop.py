"""How a function with dots is computed: its space, and what the dimensions of that are to its dots."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Operation

from hlo2tx8.emitters.loop import is_empty
from hlo2tx8.indexing import IndexingMap
from hlo2tx8.partitioner.computation import SubgraphFunction
from hlo2tx8.partitioner.contraction import Role, roles_of
from hlo2tx8.partitioner.instruction import tensor_type
from hlo2tx8.partitioner.iteration_space import IterationSpace, TensorAccess, iteration_space
from hlo2tx8.partitioner.reduction_paths import loop_counters
from hlo2tx8.partitioner.windows import Line, backward_lines_of, bounded_with, keeps_weights, lines_of
from hlo2tx8.schedule.accesses import AccessAnalysis


@dataclass(frozen=True)
class DotLoop:
    """A function with dots: its space, what its dimensions are, the operand of each dot that has the rows; the lines of its
    one dot if that is a convolution. `keeps_weights`: those need not be turned for the engine."""

    space: IterationSpace
    roles: tuple[Role, ...]
    rows: dict[Operation, int]
    lines: tuple[Line, ...] = ()
    is_per_channel: bool = False
    is_backward: bool = False
    keeps_weights: bool = False


def dot_loop(function: SubgraphFunction, dots: Sequence[Operation], accesses: AccessAnalysis) -> DotLoop | str:
    """How a function with dots is computed, or why it cannot be."""
    if is_empty(function):
        return ""
    if not function.is_entry_root and accesses.is_inlined(function):
        return "a dot is computed inside of another loop"
    space = iteration_space(tensor_type(function.roots[0]), accesses.of(function))
    if not space.is_affine:
        return "a dot is read through maps that are not affine"
    roles: tuple[Role, ...] | None = None
    rows: dict[Operation, int] = {}
    for op in dots:
        place = accesses.partitioned.places[op]
        if place.scope is not function.top or place.map.constraints:
            return "a dot serves only a part of the result"
        own, rows[op] = roles_of(op, place.map.results, space)
        if roles is not None and own != roles:
            return "two dots have different rows and columns"
        roles = own
    plain = DotLoop(space, roles or (), rows)
    if len(dots) > 1:
        return plain
    found = _convolution(plain, dots[0], accesses.of(function), accesses.partitioned.places[dots[0]].map)
    return found if found.lines else _apart(plain, accesses.of(function))


def _convolution(plain: DotLoop, op: Operation, accesses: Sequence[TensorAccess], map: IndexingMap) -> DotLoop:
    """The loop with windows, if it is that of a convolution: the operand they slide over has the rows."""
    turns = [counter.hi + 1 for counter in loop_counters(op)]
    for columns in (1 - plain.rows[op], plain.rows[op]):
        roles, rows = roles_of(op, map.results, plain.space, columns)
        lines = lines_of(op, accesses, plain.space, roles)
        features = [count for counter, count in enumerate(turns) if counter not in {line.counter for line in lines}]
        if not lines or not features:
            continue
        if "column" in roles:
            return DotLoop(plain.space, roles, {op: rows}, lines, keeps_weights=keeps_weights(op, accesses, plain.space))
        if roles[-1] == "batch" and all(count == 1 for count in features):
            return DotLoop(plain.space, (*roles[:-1], "column"), {op: rows}, lines, is_per_channel=True)
    lines = backward_lines_of(op, accesses, plain.space, plain.roles)
    return replace(plain, lines=lines, is_backward=bool(lines))


def _apart(loop: DotLoop, accesses: Sequence[TensorAccess]) -> DotLoop:
    """The loop with a step for each place where a block of products has bounds of its own: there what is read is a box."""
    (op,) = loop.rows
    bounded = bounded_with(op, block_counter(op, loop), accesses, loop.space)
    return replace(loop, roles=tuple("batch" if dim in bounded else role for dim, role in enumerate(loop.roles)))


def plain_loop(function: SubgraphFunction, op: Operation, accesses: AccessAnalysis) -> DotLoop:
    """The loop without windows."""
    space = iteration_space(tensor_type(function.roots[0]), accesses.of(function))
    roles, rows = roles_of(op, accesses.partitioned.places[op].map.results, space)
    return _apart(DotLoop(space, roles, {op: rows}), accesses.of(function))


def block_counter(op: Operation, loop: DotLoop) -> int:
    """The loop counter over whose blocks products are added up: that with most turns, but those of windows."""
    counters = loop_counters(op)
    taps = {line.counter for line in loop.lines}
    return max((i for i in range(len(counters)) if i not in taps), key=lambda i: counters[i].hi)
