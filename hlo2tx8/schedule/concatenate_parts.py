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

from hlo2tx8.indexing import Dim, Expr, IndexingMap, Sym, Variable
from hlo2tx8.partitioner.computation import SubgraphFunction
from hlo2tx8.partitioner.instruction import shape_of, tensor_type
from hlo2tx8.partitioner.iteration_space import TensorAccess, iteration_space
from hlo2tx8.schedule.accesses import AccessAnalysis
from hlo2tx8.schedule.transpose_tiles import choose_tile, split_tiles
from hlo2tx8.schedule.work_split import MIN_CHUNK_ELEMENTS, WorkSplit, split_work

MAX_CONCATENATE_OPERANDS = 4
"""A concatenation of more is emitted element by element."""


def split_concatenation(function: SubgraphFunction, accesses: AccessAnalysis) -> list[WorkSplit]:
    """The splits of the loop over a function's roots: one of each operand's part if there is a concatenation, else of the whole."""
    found = _concatenation(function, accesses)
    if found is None:
        return [split_tiles(function, accesses)]
    op, dimension, sizes = found
    starts = [0, *accumulate(sizes)]
    if len(set(sizes)) == 1 and _read_the_same(function, accesses, dimension, sizes):
        first = _split_part(function, accesses, dimension, 0, sizes[0], len(sizes))
        here = IndexingMap.identity(shape_of(op.operands[0]))
        moved = [here.with_results(_along(here.results, dimension, start)) for start in starts[1:-1]]
        return [replace(first, others=tuple(moved))]
    return [_split_part(function, accesses, dimension, start, size) for start, size in zip(starts, sizes, strict=False)]


def has_parts(function: SubgraphFunction, accesses: AccessAnalysis) -> bool:
    """Does the loop over the function's roots compute a concatenation part by part?"""
    return _concatenation(function, accesses) is not None


def _concatenation(function: SubgraphFunction, accesses: AccessAnalysis) -> tuple[Operation, int, Sequence[int]] | None:
    """The first concatenation, its dimension and the sizes of its operands, at the function's index, if each has work for all
    tiles."""
    if not function.is_entry_root or function.maps[0] != function.identity:
        return None
    for op in function.instructions:
        place = accesses.partitioned.places[op]
        is_here = place.scope is function.top and place.map.results == function.identity.results
        if op.name != "stablehlo.concatenate" or not is_here or not 1 < len(op.operands) <= MAX_CONCATENATE_OPERANDS:
            continue
        least = accesses.target.rates.tiles * MIN_CHUNK_ELEMENTS
        dimension = op.properties["dimension"]
        assert isinstance(dimension, IntegerAttr)
        if all(prod(shape_of(operand)) >= least for operand in op.operands):
            return op, dimension.value.data, [shape_of(operand)[dimension.value.data] for operand in op.operands]
    return None


def _read_the_same(function: SubgraphFunction, accesses: AccessAnalysis, dimension: int, sizes: Sequence[int]) -> bool:
    """Do two parts of equal sizes read the same elements of a tensor?"""
    seen: set[tuple[SSAValue, IndexingMap]] = set()
    for part, size in enumerate(sizes):
        moved = [(value, _moved(access, dimension, part * size, size)) for value, access in accesses.reads(function)]
        own = {(value, access.map.simplify()) for value, access in moved if value is not None and access is not None}
        if own & seen:
            return True
        seen |= own
    return False


def _along(index: Sequence[Expr], dimension: int, start: int) -> tuple[Expr, ...]:
    """The index so many elements further along a dimension."""
    return tuple(expr + start if d == dimension else expr for d, expr in enumerate(index))


def _split_part(
    function: SubgraphFunction, accesses: AccessAnalysis, dimension: int, start: int, size: int, together: int = 1
) -> WorkSplit:
    """The split of the roots' elements from `start` on along a dimension, of which a step computes that of so many parts."""
    whole = tensor_type(function.roots[0])
    shape = [size if d == dimension else n for d, n in enumerate(whole.get_shape())]
    part: TensorType[Attribute] = TensorType(whole.element_type, shape, whole.encoding)
    written = TensorAccess(function.identity, whole)
    own = [moved for access in (written, *accesses.of(function)) if (moved := _moved(access, dimension, start, size)) is not None]
    space = iteration_space(part, own)
    to_output = _along(space.to_output, dimension, start)
    limit, tiles = max(1, accesses.step_elements(function) // together), accesses.target.rates.tiles
    return split_work(space.shape, to_output, limit, tiles, box=choose_tile(space, limit, tiles))


def _moved(access: TensorAccess, dimension: int, start: int, size: int) -> TensorAccess | None:
    """The access from the part's index; None if it is not for the part."""
    map = access.map
    bounds = map.dims[dimension]
    low, high = max(bounds.lo - start, 0), min(bounds.hi - start, size - 1)
    if low > high:
        return None
    dims = tuple(Variable(low, high, v.name) if d == dimension else v for d, v in enumerate(map.dims))
    places: list[Expr] = [Dim(d) + start if d == dimension else Dim(d) for d in range(len(dims))]
    syms = [Sym(i) for i in range(len(map.syms))]
    results = tuple(expr.substitute(places, syms) for expr in map.results)
    constraints = tuple((expr.substitute(places, syms), interval) for expr, interval in map.constraints)
    return TensorAccess(IndexingMap(dims, map.ranges, map.runtime, results, constraints), access.type)
