"""Work splits of a loop that computes a concatenation: one per operand, so that no vector has elements of two.

concatenate(x : [64, 32], y : [64, 16]) along 1        (i, j) with j in [0, 31], and (i, j + 32) with j in [0, 15]
concatenate(x : [64, 32], y : [64, 32]) along 1        (i, j) and (i, j + 32) with j in [0, 31], in the same step: what both parts
                                                       are made of, as in a rotation of pairs, is loaded once
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod

from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from hlo2tx8.indexing import Dim, Expr, IndexingMap, Interval, Variable, linearize
from hlo2tx8.partitioner.computation import SubgraphFunction
from hlo2tx8.partitioner.instruction import shape_of, tensor_type
from hlo2tx8.partitioner.iteration_space import TensorAccess, iteration_space
from hlo2tx8.partitioner.moves import index_after_moves
from hlo2tx8.schedule.accesses import AccessAnalysis
from hlo2tx8.schedule.transpose_tiles import choose_tile, split_tiles
from hlo2tx8.schedule.work_split import MIN_CHUNK_ELEMENTS, WorkSplit, split_work

MAX_CONCATENATE_OPERANDS = 4
"""A concatenation of more is emitted element by element."""


def split_concatenation(function: SubgraphFunction, accesses: AccessAnalysis) -> list[WorkSplit]:
    """The splits of the loop over a function's roots: one of each operand's part if there is a concatenation, one of parts that are
    computed together, else of the whole."""
    places = _places_of_parts(function, accesses)
    if not places:
        return [split_tiles(function, accesses)]
    others = _from_first(places)
    if others and (_are_by_turns(function, places) or _read_the_same(function, accesses, places)):
        return [replace(_split_parts(function, accesses, places), others=others)]
    return [_split_parts(function, accesses, (place,)) for place in places]


def has_parts(function: SubgraphFunction, accesses: AccessAnalysis) -> bool:
    """Does the loop over the function's roots compute a concatenation part by part?"""
    return bool(_places_of_parts(function, accesses))


def _places_of_parts(function: SubgraphFunction, accesses: AccessAnalysis) -> tuple[IndexingMap, ...]:
    """Of the first concatenation each of whose elements is one of the function's roots, and each of whose operands has work for all
    tiles: the map from the index of each operand to the function's; none if there is no such concatenation. Where a transpose moves
    the elements, it reads operands together that have nothing in common."""
    if not function.is_entry_root or function.maps[0] != function.identity:
        return ()
    for op in function.instructions:
        is_here = accesses.partitioned.places[op].scope is function.top
        if op.name != "stablehlo.concatenate" or not is_here or not 1 < len(op.operands) <= MAX_CONCATENATE_OPERANDS:
            continue
        least = accesses.target.rates.tiles * MIN_CHUNK_ELEMENTS
        dimension = op.properties["dimension"]
        assert isinstance(dimension, IntegerAttr)
        if any(prod(shape_of(operand)) < least for operand in op.operands):
            continue
        if (behind := _index_in_root(op, function, accesses)) is None:
            continue
        starts = accumulate((shape_of(operand)[dimension.value.data] for operand in op.operands), initial=0)
        pairs = zip(op.operands, starts, strict=False)
        places = tuple(_place(shape_of(operand), dimension.value.data, start, behind) for operand, start in pairs)
        if _keeps_order(op, behind, shape_of(function.roots[0])) or _read_the_same(function, accesses, places):
            return places
    return ()


def _index_in_root(op: Operation, function: SubgraphFunction, accesses: AccessAnalysis) -> tuple[Expr, ...] | None:
    """The function's index at an element of an instruction, in terms of the element's own; None if others than moves change it."""
    is_whole = shape_of(op.results[0]) == shape_of(function.roots[0])  # the first elements of more are at the same index
    if is_whole and accesses.partitioned.places[op].map.results == function.identity.results:
        return function.identity.results
    return index_after_moves(op.results[0], function.roots[0])


def _keeps_order(op: Operation, behind: Sequence[Expr], shape: Sequence[int]) -> bool:
    """Are the elements of an instruction in their row-major order in a root of that shape?"""
    own = IndexingMap.identity(shape_of(op.results[0]))
    positions = own.with_results([linearize(behind, shape), linearize(own.results, shape_of(op.results[0]))]).simplify().results
    return positions[0] == positions[1]


def _place(part: Sequence[int], dimension: int, start: int, behind: Sequence[Expr]) -> IndexingMap:
    """From the index of a part, which begins there along a dimension of the concatenation, to the function's."""
    identity = IndexingMap.identity(part)
    index = [expr + start if d == dimension else expr for d, expr in enumerate(identity.results)]
    return identity.with_results([expr.substitute(index, ()) for expr in behind]).simplify()


def _from_first(places: Sequence[IndexingMap]) -> tuple[IndexingMap, ...]:
    """From the index of the first part's elements to those of each other part, if all have the same shape and lie at a constant
    distance from it."""
    first, *others = places
    found: list[IndexingMap] = []
    dims = tuple(Variable(bounds.lo, bounds.hi, f"d{d}") for d, bounds in enumerate(map(first.range_of, range(len(first.results)))))
    for place in others:
        moved = [there - here for here, there in zip(first.results, place.results, strict=True)]
        distance = [expr.affine_terms() for expr in first.with_results(moved).simplify().results]
        if place.dims != first.dims or any(terms for _, terms in distance):
            return ()
        found.append(IndexingMap(dims, (), (), tuple(Dim(d) + constant for d, (constant, _) in enumerate(distance))))
    return tuple(found)


def _are_by_turns(function: SubgraphFunction, places: Sequence[IndexingMap]) -> bool:
    """Do elements of each part lie between those of another?"""
    terms = linearize(places[0].results, shape_of(function.roots[0])).affine_terms()[1].items()
    return min((step for term, step in terms if places[0].bounds(term) != Interval(0, 0)), default=1) > 1


def _read_the_same(function: SubgraphFunction, accesses: AccessAnalysis, places: Sequence[IndexingMap]) -> bool:
    """Do two parts read the same elements of a tensor?"""
    seen: set[tuple[SSAValue, IndexingMap]] = set()
    for place in places:
        moved = [(value, _moved(access, place)) for value, access in accesses.reads(function)]
        own = {(value, access.map) for value, access in moved if value is not None and access is not None}
        if own & seen:
            return True
        seen |= own
    return False


def _split_parts(function: SubgraphFunction, accesses: AccessAnalysis, places: Sequence[IndexingMap]) -> WorkSplit:
    """The split of the roots' elements at the place of the first part, of which a step computes those of the other parts too: its
    dimensions are such that all of them walk over tensors without a division."""
    whole, place = tensor_type(function.roots[0]), places[0]
    part: TensorType[Attribute] = TensorType(whole.element_type, [v.hi + 1 for v in place.dims], whole.encoding)
    written = TensorAccess(function.identity, whole)
    pairs = ((access, own) for own in places for access in (written, *accesses.of(function)))
    space = iteration_space(part, [moved for access, own in pairs if (moved := _moved(access, own)) is not None])
    to_output = [expr.substitute(space.to_output, ()) for expr in place.results]
    if (split := accesses.split_by_turns(function, space, to_output, len(places))) is not None:
        return split
    limit, tiles = max(1, accesses.step_elements(function) // len(places)), accesses.target.rates.tiles
    return split_work(space.shape, to_output, limit, tiles, box=choose_tile(space, limit, tiles))


def _moved(access: TensorAccess, place: IndexingMap) -> TensorAccess | None:
    """The access from the part's index; None if it is not for the part."""
    map = access.map.compose(place).simplify()
    return None if map.is_empty else TensorAccess(map, access.type)
