"""What a fusion must be to compute some rows of its result at a time, as a member of a group by rows.

dot       batches, rows and columns of the engine are the dot's dimensions, in that order; each element may be stored elsewhere. Of
          several dimensions of rows, heads that share keys say, all but the last count as batches
row       reductions over whole rows, and what is element by element around them; results behind the first have an element a row
loop      arithmetic on elements, the rows that a dot reads say
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Block, Operation

from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Interval, simplify_expr
from hlo2tx8.partitioner.computation import PartitionedComputation, partition, partition_rows
from hlo2tx8.partitioner.contraction import (
    EXACT_DEPTH,
    EXACT_PARTS,
    Contraction,
    is_contraction,
    roles_of,
    why_not_on_engine,
)
from hlo2tx8.partitioner.instruction import is_elemental, is_identity, tensor_type
from hlo2tx8.partitioner.iteration_space import IterationSpace, is_affine
from hlo2tx8.partitioner.moves import index_after_moves
from hlo2tx8.partitioner.reduction_order import joins_apart
from hlo2tx8.partitioner.reduction_paths import is_reduction, loop_counters
from hlo2tx8.partitioner.row_space import row_space
from hlo2tx8.schedule.accesses import AccessAnalysis
from hlo2tx8.schedule.row_group import RowGroupSplit
from hlo2tx8.schedule.row_split import JoinedLanes
from hlo2tx8.schedule.work_split import Target, WorkSplit

BLOCK = 64
"""Columns of a block of the matrix engine's result."""
JOINED_BY_VECTORS = ("add", "maximum", "minimum")


@dataclass(frozen=True)
class RowGroupMember:
    """A fusion that computes `shape`, [*batches, rows, columns], by rows: its `reductions`, or its one dot and how that goes to the
    matrix engine. `stored`: the index of an element in the fusion's result, in terms of that of the shape."""

    partitioned: PartitionedComputation
    accesses: AccessAnalysis
    shape: tuple[int, ...]
    reductions: tuple[Operation, ...]
    contraction: Contraction | None = None
    stored: tuple[Expr, ...] = ()

    @property
    def dot(self) -> Operation | None:
        return self.reductions[0] if self.contraction is not None else None

    @property
    def columns(self) -> int:
        return self.shape[-1]

    @property
    def block(self) -> int:
        """Columns of a block of the matrix engine, if the member's rows are walked by blocks; else 0."""
        is_whole = self.columns % BLOCK == 0 and self.columns > BLOCK
        return BLOCK if is_whole and all(op is self.dot or _is_for_vectors(op) for op in self.reductions) else 0

    def nests(self, split: RowGroupSplit) -> Sequence[tuple[WorkSplit, Mapping[Operation, JoinedLanes | Contraction]]]:
        """The member's one loop, and how what it reduces goes: over lanes of the step, or on the matrix engine."""
        block = self.block
        blocks = {op: self.contraction or JoinedLanes((0, 2) if block else (1,)) for op in self.reductions}
        own = split.split(self.columns, block)
        if self.stored:
            results = tuple(expr.substitute(own.map.results, ()) for expr in self.stored)
            own = replace(own, map=own.map.with_results(results).simplify())
        return [(own, blocks)]

    def index_of(self, op: Operation, operand: int) -> tuple[Expr, ...] | None:
        """The index of an operand in terms of that of the shape, counters of a dot behind its dimensions; None if it is read under
        conditions or is none of the fusion's own."""
        if (op, operand) not in self.partitioned.operand_places:
            return None
        map = self.partitioned.operand_places[op, operand][0]
        if map.constraints:
            return None
        return without_ones(_in_terms_of(self.shape, self.stored, map) if self.stored else map.results, self.shape)


def row_group_member(body: Block, target: Target) -> RowGroupMember | str:
    """The member that a fusion with this body is, or why it is none."""
    terminator = body.last_op
    assert terminator is not None
    if any(not (is_elemental(op) or is_reduction(op)) for op in ops_of(body)[:-1]):
        return "it does more than arithmetic, reductions and dots"
    shape = tensor_type(terminator.operands[0]).get_shape()
    if len(shape) < 2 or 0 in shape:
        return "its result has no rows"
    dots = [op for op in ops_of(body)[:-1] if is_contraction(op)]
    if len(dots) > 1:
        return "it has two dots"
    if dots and len(terminator.operands) != 1:
        return "it has several results"
    if dots:
        return _dot_member(body, dots[0], target)
    return _row_member(body, target) if any(map(is_reduction, body.ops)) else _loop_member(body, target)


def _row_member(body: Block, target: Target) -> RowGroupMember | str:
    space = row_space(body)
    if isinstance(space, str):
        return space
    if space.joined != (len(space.shape) - 1,):
        return "its reductions go over other dimensions than the columns"
    partitioned = partition_rows(body, space)
    if len(partitioned.functions) != 1:
        return "it computes tensors of its own first"
    whole = next(iter(partitioned.functions))
    first, *others = (tensor_type(root).get_shape() for root in whole.roots)
    if first != space.shape or any(shape != space.shape[:-1] for shape in others):
        return "its result is not as large as what it reduces"
    accesses = AccessAnalysis(partitioned, target)
    if not is_affine(space.order, accesses.of(whole)):
        return "its reads are not affine"
    return RowGroupMember(partitioned, accesses, space.shape, tuple(space.reductions))


def _loop_member(body: Block, target: Target) -> RowGroupMember | str:
    terminator = body.last_op
    assert terminator is not None
    if len(terminator.operands) != 1:
        return "it has several results"
    partitioned = partition(body)
    if len(partitioned.functions) != 1:
        return "it computes tensors of its own first"
    function, accesses = next(iter(partitioned.functions)), AccessAnalysis(partitioned, target)
    type_ = tensor_type(function.roots[0])
    if not is_affine(type_, accesses.of(function)):
        return "its reads are not affine"
    return RowGroupMember(partitioned, accesses, type_.get_shape(), ())


def _dot_member(body: Block, op: Operation, target: Target) -> RowGroupMember | str:
    if why := why_not_on_engine(op):
        return why
    partitioned = partition(body)
    if len(partitioned.functions) != 1:
        return "it computes tensors of its own first"
    function = next(iter(partitioned.functions))
    accesses = AccessAnalysis(partitioned, target)
    place = partitioned.places[op]
    if place.scope is not function.top or place.map.constraints:
        return "the dot serves only a part of the result"
    type_ = tensor_type(function.roots[0])
    if not is_affine(type_, accesses.of(function)):
        return "its reads are not affine"
    shape, stored = type_.get_shape(), tuple[Expr, ...]()
    if not is_identity(place.map, shape):
        shape = tensor_type(op.results[0]).get_shape()
        stored = index_after_moves(op.results[0], function.roots[0]) or ()
        own = tuple(Dim(i) for i in range(len(shape)))
        if not stored or without_ones(_in_terms_of(shape, stored, place.map), shape) != without_ones(own, shape):
            return "its elements are stored elsewhere"
    space = IterationSpace(shape, stored or tuple(Dim(i) for i in range(len(shape))))
    roles, rows = roles_of(op, place.map.results, space)
    if roles[-2:] != ("row", "column") or "column" in roles[:-2]:
        return f"its dimensions are {', '.join(roles)}"
    counters = loop_counters(op)
    if len(counters) != 1:
        return "it sums over several dimensions"
    extent, parts = counters[0].hi + 1, num_parts(op)
    depth = min(extent, EXACT_DEPTH) if parts == EXACT_PARTS else extent
    return RowGroupMember(partitioned, accesses, shape, (op,), Contraction(rows, (), 0, extent, depth, parts=parts), stored)


def without_ones(index: Sequence[Expr], shape: Sequence[int]) -> tuple[Expr, ...]:
    """An index in terms of that of a shape, 0 where it is a dimension of size 1: equal ones are equal then."""
    ones = {Dim(dim) for dim, size in enumerate(shape) if size == 1}
    return tuple(Const(0) if expr in ones else expr for expr in index)


def _in_terms_of(shape: Sequence[int], stored: Sequence[Expr], map: IndexingMap) -> tuple[Expr, ...]:
    """The results of a map from a result's index, and counters behind it, in terms of the index of a shape that is stored as that
    result."""
    counters = map.dims[len(stored) :]
    dims = [*stored, *(Dim(len(shape) + i) for i in range(len(counters)))]
    bounds = [*(Interval(0, size - 1) for size in shape), *(counter.interval for counter in counters)]
    return tuple(simplify_expr(result.substitute(dims, ()), bounds, ()) for result in map.results)


def _is_for_vectors(op: Operation) -> bool:
    """Does one instruction of the vector engine reduce rows as this does, whatever the order of their blocks in SPM?"""
    is_float = isinstance(tensor_type(op.operands[0]).element_type, BFloat16Type | Float16Type | Float32Type)
    return is_float and len(op.results) == 1 and joins_apart(op, 0) in JOINED_BY_VECTORS
