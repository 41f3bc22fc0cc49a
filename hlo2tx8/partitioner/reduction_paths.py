"""How one element of a reduce or a dot depends on the elements that it is made of.

A reduction's loop counters are further dimensions of every map inside its loop:

    sum = reduce(x) over dimension 1     (d0) reads x at (d0, d1), d1 the counter of the loop
"""

from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.hlo import Kind, has_spec, operand_indexing
from hlo2tx8.hlo.lookup import kept_with, names_of
from hlo2tx8.indexing import Dim, Expr, IndexingMap, Sym, Variable
from hlo2tx8.partitioner.instruction import CONSTANTS, compose, kind_of, shape_of

_DOTS, _REDUCTIONS = names_of(Kind.DOT), names_of(Kind.REDUCE)


def is_reduction(op: Operation) -> bool:
    """True if an element of the result is made of many operand elements by a loop that can be emitted."""
    return op.name in _DOTS or (op.name in _REDUCTIONS and has_scalar_body(op))


def has_scalar_body(op: Operation) -> bool:
    """Is the combiner made of elementwise instructions on its own arguments?"""
    return kept_with(op.regions[0].block, "is scalar", _is_scalar_body)


def _is_scalar_body(block: Block) -> bool:
    inside: set[SSAValue] = {*block.args}
    for inner in ops_of(block):
        if any(operand not in inside for operand in inner.operands):
            return False
        if inner is not block.last_op and inner.name not in CONSTANTS and not _is_scalar(inner):
            return False
        inside.update(inner.results)
    return True


def _is_scalar(op: Operation) -> bool:
    """Is it an elementwise instruction on rank 0?"""
    if len(op.results) != 1 or not has_spec(op.name) or kind_of(op) is not Kind.ELEMENTWISE:
        return False
    return not any(map(shape_of, (op.results[0], *op.operands)))


def num_loop_operands(op: Operation) -> int:
    """The number of leading operands that are read inside of the loop; the others are initial values."""
    return len(op.operands) // 2 if kind_of(op) is Kind.REDUCE else len(op.operands)


def loop_counters(op: Operation) -> tuple[Variable, ...]:
    """The counters of a reduction's loop, outermost first."""
    return operand_indexing(op)[0][0].ranges


def is_empty_loop(op: Operation) -> bool:
    """True if the loop has no turn, so that the result is the initial value."""
    return any(counter.hi < counter.lo for counter in loop_counters(op))


def loop_operand_map(op: Operation, number: int, map: IndexingMap) -> IndexingMap:
    """The map to operand `number` inside of the loop of a reduction computed at `map`; the loop's counters are the last
    dimensions.
    """
    (own,) = operand_indexing(op)[number]
    return compose(_counters_as_dims(own), _with_counters(map, own.ranges))


def ranges_after(map: IndexingMap, rank: int) -> IndexingMap:
    """The map with its dimensions from `rank` on as range variables."""
    if len(map.dims) == rank:
        return map
    num_counters = len(map.dims) - rank
    dims: list[Expr] = [Dim(i) for i in range(rank)]
    dims += [Sym(i) for i in range(num_counters)]
    syms = [Sym(num_counters + i) for i in range(len(map.syms))]
    return IndexingMap(
        map.dims[:rank],
        map.dims[rank:] + map.ranges,
        map.runtime,
        tuple(result.substitute(dims, syms) for result in map.results),
        tuple((expr.substitute(dims, syms), interval) for expr, interval in map.constraints),
    )


def _counters_as_dims(map: IndexingMap) -> IndexingMap:
    rank = len(map.dims)
    dims = [Dim(i) for i in range(rank)]
    syms = [Dim(rank + i) for i in range(len(map.ranges))]
    return IndexingMap(map.dims + map.ranges, (), (), tuple(result.substitute(dims, syms) for result in map.results))


def _with_counters(map: IndexingMap, counters: tuple[Variable, ...]) -> IndexingMap:
    rank = len(map.dims)
    own: tuple[Expr, ...] = tuple(Dim(rank + i) for i in range(len(counters)))
    return IndexingMap(map.dims + counters, (), (), (*map.results, *own), map.constraints)
