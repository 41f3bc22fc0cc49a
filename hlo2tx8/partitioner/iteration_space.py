"""Iteration space of a loop: the output's dimensions in buffer order, split where accesses need it, merged where all agree.

output [12, 8], reading a parameter at (d0 floordiv 4, d0 mod 4, d1)
splits d0 = 4 * a + b, so that every access is affine: (3, 4, 8)
merges b, d1 because each access walks over them without a gap: (3, 32)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from hlo2tx8.dialects.layout import minor_to_major, strides
from hlo2tx8.indexing import (
    Const,
    Dim,
    Expr,
    FloorDiv,
    IndexingMap,
    Interval,
    Mod,
    Simplifier,
    Sym,
    delinearize,
    simplify_expr,
)

MAX_SPLITS = 16
LINE_ELEMENTS = 16
"""A contiguous run of as many elements is worth a transfer of its own."""


@dataclass(frozen=True)
class TensorAccess:
    """A read of a tensor of that type at `map` of the loop's index."""

    map: IndexingMap
    type: TensorType[Attribute]


@dataclass(frozen=True)
class IterationSpace:
    """The index space of a loop. `shape`: the sizes, slowest first; `to_output`: the output's index in terms of the space's
    dimensions.

    `is_affine`: every access has an offset that is affine in the space's dimensions. `walks`: for each tensor that is not
    contiguous along the last dimension, the others along which it is contiguous in memory, innermost first. `again`: how many of
    the first dimensions read all of some tensor again, whose offset depends on each of the others and on none of these.
    """

    shape: tuple[int, ...]
    to_output: tuple[Expr, ...]
    is_affine: bool = True
    walks: tuple[tuple[int, ...], ...] = ()
    again: int = 0


def iteration_space(output: TensorType[Attribute], accesses: Sequence[TensorAccess]) -> IterationSpace:
    """The space in which a loop over `output` runs, for these accesses."""
    return _known_space(output, tuple(accesses))


def is_affine(output: TensorType[Attribute], accesses: Sequence[TensorAccess]) -> bool:
    """Has each access an offset that is affine in the dimensions of that space?"""
    return all(not _linear_form(expr).pinned for expr in _split(output, tuple(accesses))[2])


@lru_cache(maxsize=1 << 12)
def _known_space(output: TensorType[Attribute], accesses: tuple[TensorAccess, ...]) -> IterationSpace:
    """Layers of a model are alike, and a fusion's space is asked for while fusions are planned, and when they are emitted."""
    sizes, to_output, exprs = _split(output, accesses)
    return IterationSpace(sizes, to_output, True, ()) if 0 in sizes else _merge(sizes, to_output, exprs)


@lru_cache(maxsize=1 << 12)
def _split(
    output: TensorType[Attribute], accesses: tuple[TensorAccess, ...]
) -> tuple[tuple[int, ...], tuple[Expr, ...], tuple[Expr, ...]]:
    """The output's dimensions, split where accesses need it: their sizes, the output's index in terms of them, and what must be
    affine."""
    shape = output.get_shape()
    order = [d for d in reversed(minor_to_major(output)) if shape[d] != 1]
    sizes = [shape[d] for d in order]
    to_output: list[Expr] = [Dim(order.index(d)) if shape[d] != 1 else Const(0) for d in range(len(shape))]
    if 0 in sizes:
        return tuple(sizes), tuple(to_output), ()
    exprs: dict[Expr, None] = {}
    for access in accesses:
        if not _is_in_step(access, output):
            exprs.update(dict.fromkeys(_offset_and_conditions(access, tuple(shape), tuple(to_output))))
    found = list(exprs)
    found = _simplified(found, sizes)
    for _ in range(MAX_SPLITS):
        cut = _find_split(found, sizes)
        if cut is None:
            break
        dim, inner = cut
        moved: list[Expr] = [Dim(i) if i < dim else Dim(i + 1) for i in range(len(sizes))]
        moved[dim] = Dim(dim) * inner + Dim(dim + 1)
        sizes[dim : dim + 1] = [sizes[dim] // inner, inner]
        found = _simplified([_substitute_dims(e, moved) for e in found], sizes)
        to_output = [_substitute_dims(e, moved) for e in to_output]
    return tuple(sizes), tuple(to_output), tuple(found)


def _is_in_step(access: TensorAccess, output: TensorType[Attribute]) -> bool:
    """Does the access walk its buffer exactly as the output is written?"""
    map, shape = access.map, output.get_shape()
    if any(d.lo > 0 or d.hi < size - 1 for d, size in zip(map.dims, shape, strict=True)):
        return False
    if map.constraints or access.type.get_shape() != shape or len(map.results) != len(shape):
        return False
    return all(r == Dim(i) for i, r in enumerate(map.results)) and strides(access.type) == strides(output)


@lru_cache(maxsize=1 << 12)
def _offset_and_conditions(access: TensorAccess, shape: tuple[int, ...], to_output: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Everything that must be affine: the offset in the buffer and the expressions of the constraints. The same is asked again as a
    fusion grows."""
    map = access.map
    symbols = [Sym(i) for i in range(len(map.ranges) + len(map.runtime))]
    offset: Expr = Const(0)
    for result, step in zip(map.results, strides(access.type), strict=True) if map.results else ():
        offset = offset + result * step
    found = [offset, *(expr for expr, _ in map.constraints)]
    found += [Dim(i) for i, (d, size) in enumerate(zip(map.dims, shape, strict=True)) if d.lo > 0 or d.hi < size - 1]
    if any(_compound_terms(expr) for expr in found):  # parts of a quotient join only while the map's own ranges are known
        bounds = [v.interval for v in map.dims], [v.interval for v in map.syms]
        found = [simplify_expr(expr, *bounds) for expr in found]
    return tuple(expr.substitute(to_output, symbols) for expr in found)


def divides_ranges(access: TensorAccess) -> bool:
    """True if the offset, or a condition, of an access is not affine in the map's range variables."""
    sizes, dims = (d.hi + 1 for d in access.map.dims), (Dim(i) for i in range(len(access.map.dims)))
    found = _offset_and_conditions(access, tuple(sizes), tuple(dims))
    return any(isinstance(leaf, Sym) for expr in found for term in _compound_terms(expr) for leaf in term.leaves())


def _substitute_dims(expr: Expr, dims: Sequence[Expr]) -> Expr:
    return expr.substitute(dims, _SYMBOLS)


_SYMBOLS = tuple(Sym(i) for i in range(64))
_ANY = (Interval(0, (1 << 31) - 1),) * len(_SYMBOLS)


def _simplified(exprs: Sequence[Expr], sizes: Sequence[int]) -> list[Expr]:
    simplifier = Simplifier([Interval(0, size - 1) for size in sizes], _ANY)
    return list(dict.fromkeys(map(simplifier.simplify, exprs)))


def _compound_terms(expr: Expr) -> list[FloorDiv | Mod]:
    """All floordiv and mod terms in an expression, nested ones too."""
    found: list[FloorDiv | Mod] = []
    stack = [expr]
    while stack:
        _, terms = stack.pop().affine_terms()
        for term in terms:
            if isinstance(term, FloorDiv | Mod):
                found.append(term)
                stack.append(term.lhs)
    return found


def _find_split(exprs: Sequence[Expr], sizes: Sequence[int]) -> tuple[int, int] | None:
    """A dimension and the size of its inner part that make a floordiv or mod exact."""
    for expr in exprs:
        for term in _compound_terms(expr):
            if not isinstance(term.rhs, Const):
                continue
            divisor = term.rhs.value
            for leaf, factor in term.lhs.affine_terms()[1].items():
                if not isinstance(leaf, Dim) or divisor % abs(factor):
                    continue
                inner = divisor // abs(factor)
                if 1 < inner < sizes[leaf.index] and sizes[leaf.index] % inner == 0:
                    return leaf.index, inner
    return None


def _merge(sizes: Sequence[int], to_output: Sequence[Expr], exprs: Sequence[Expr]) -> IterationSpace:
    """Merge neighbours that every expression walks over as over one dimension."""
    forms = [_linear_form(expr) for expr in exprs]
    groups: list[list[int]] = []
    for dim in range(len(sizes)):
        if groups and all(_continues(form, dim - 1, dim, sizes[dim]) for form in forms):
            groups[-1].append(dim)
        else:
            groups.append([dim])
    coordinates: list[Expr] = []
    for number, group in enumerate(groups):
        coordinates.extend(delinearize(Dim(number), [sizes[dim] for dim in group]))
    shape = tuple(prod(sizes[dim] for dim in group) for group in groups)
    bounds = [Interval(0, size - 1) for size in shape]
    simple = tuple(simplify_expr(_substitute_dims(e, coordinates), bounds, ()) for e in to_output)
    walks = tuple(dict.fromkeys(walk for form in forms if (walk := _walked(_merged(form, groups), shape))))
    again = max((_read_again(_merged(form, groups), len(shape)) for form in forms), default=0)
    return IterationSpace(shape, simple, all(not form.pinned for form in forms), walks, again)


def _read_again(form: "_LinearForm", rank: int) -> int:
    """How many of the first dimensions an offset does not depend on, if it does on all others."""
    first = next((dim for dim in range(rank) if form.factors.get(dim, 0)), 0)
    return first if all(form.factors.get(dim, 0) for dim in range(first, rank)) and not form.pinned else 0


@dataclass(frozen=True)
class _LinearForm:
    """The coefficients of the dimensions in an expression, and the dimensions that occur inside of floordiv and mod."""

    factors: dict[int, int]
    pinned: frozenset[int]


def _linear_form(expr: Expr) -> _LinearForm:
    factors: dict[int, int] = {}
    pinned: dict[int, None] = {}
    for term, factor in expr.affine_terms()[1].items():
        if isinstance(term, Dim):
            factors[term.index] = factor
            continue
        pinned.update({leaf.index: None for leaf in term.leaves() if isinstance(leaf, Dim)})
    return _LinearForm(factors, frozenset(pinned))


def _continues(form: _LinearForm, outer: int, inner: int, size: int) -> bool:
    if outer in form.pinned or inner in form.pinned:
        return False
    return form.factors.get(outer, 0) == form.factors.get(inner, 0) * size


def _merged(form: _LinearForm, groups: Sequence[Sequence[int]]) -> _LinearForm:
    """The form over groups of dimensions that it walks over as over one: by as much as their innermost one."""
    factors = {number: form.factors[group[-1]] for number, group in enumerate(groups) if group[-1] in form.factors}
    return _LinearForm(factors, frozenset(number for number, group in enumerate(groups) if form.pinned & set(group)))


def _walked(form: _LinearForm, shape: Sequence[int]) -> tuple[int, ...]:
    """The dimensions that an offset walks over without a gap, innermost first, until a line is full; none where those are
    the space's own innermost ones."""
    found: list[int] = []
    run = 1
    for dim in sorted((d for d in form.factors if form.factors[d]), key=lambda d: abs(form.factors[d])):
        if run >= LINE_ELEMENTS or abs(form.factors[dim]) != run:
            break
        found.append(dim)
        run *= shape[dim]
    last = len(shape) - 1
    is_in_order = found == [last - i for i in range(len(found))]
    reads_along = form.factors.get(last, 0) != 0
    return () if is_in_order or not reads_along else tuple(dim for dim in found if dim != last)
