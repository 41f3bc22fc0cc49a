"""Edges inside of what a reader has in a step: of parts that are joined, or of what padding is put around, where the reader splits
that dimension into turns that the edge is no multiple of.

    pad [32, 50257] to [32, 50272]; reshape to [32, 3142, 16]; reduce along 16

The last turn has one element of the operand and 15 of padding, so no box of the reader's lanes is all that a load may read. Where
all of a fusion is in the order of memory its elements are one dimension, of which an edge is a part.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile
from math import prod

from xdsl.ir import Operation, SSAValue

from hlo2tx8.fusion.views import keeps_order
from hlo2tx8.indexing import Dim, Expr, IndexingMap, Sym
from hlo2tx8.indexing.expr import from_terms
from hlo2tx8.partitioner.instruction import is_elemental, is_splat_constant, operand_maps, shape_of
from hlo2tx8.partitioner.reduction_paths import is_reduction
from hlo2tx8.schedule.reduction_blocks import UNIT


def has_edge_inside(map: IndexingMap, tiles: int) -> bool:
    """Has a map to an operand's indices a constraint that begins or ends within a turn of its slowest variable, of which a step of
    one of so many tiles may have several?"""
    variables = [*(Dim(i) for i in range(len(map.dims))), *(Sym(i) for i in range(len(map.ranges)))]
    sizes: dict[Expr, int] = {own: its.hi - its.lo + 1 for own, its in zip(variables, (*map.dims, *map.ranges), strict=True)}
    for expr, interval in map.constraints:
        constant, terms = expr.affine_terms()
        if len(terms) < 2:
            continue
        slowest = max(terms, key=lambda term: abs(terms[term]))
        turn, bounds = terms[slowest], map.bounds(expr)
        inside = map.bounds(from_terms(0, {term: factor for term, factor in terms.items() if term != slowest}))
        if turn < 0 or inside.lo < 0 or inside.hi >= turn or _is_one_per_step(slowest, terms, sizes, tiles):
            continue
        begins = interval.lo > bounds.lo and (interval.lo - constant) % turn != 0
        if begins or (interval.hi < bounds.hi and (interval.hi + 1 - constant) % turn != 0):
            return True
    return False


def _is_one_per_step(slowest: Expr, terms: Collection[Expr], sizes: Mapping[Expr, int], tiles: int) -> bool:
    """Has a step no two values of a variable, as it is the outermost and each tile has one? Where others come before those of the
    turns, such as columns that are added up, they are units of the vector engine, or most tiles have a turn and
    all are more than a unit: else a tile would have several turns."""
    order = [variable for variable in sizes if sizes[variable] > 1]
    if slowest not in order or order.index(slowest) > 0 or sizes[slowest] > tiles:
        return False
    between = prod(sizes[own] for own in takewhile(lambda own: own not in terms, order[1:]))
    is_spread = 2 * sizes[slowest] > tiles and sizes[slowest] * between > UNIT
    return between == 1 or between >= UNIT or is_spread


def are_in_order(members: Iterable[Operation], op: Operation) -> bool:
    """Do all members of a fusion, and what may join them, have their elements in the order in which `op` has them?"""
    return all(_is_in_order(member, op) for member in members)


def _is_in_order(value: Operation | SSAValue, op: Operation) -> bool:
    owner = value.owner if isinstance(value, SSAValue) else value
    if not isinstance(owner, Operation) or owner is op or is_splat_constant(owner):
        return True
    if keeps_order(owner):
        return _is_in_order(owner.operands[0], op)
    if not is_elemental(owner):
        return not is_reduction(owner)  # which may join; all others are read in memory
    read = zip(owner.operands, operand_maps(owner), strict=True)
    return all(shape_of(operand) == () or (map is None and _is_in_order(operand, op)) for operand, map in read)
