"""IndexingMap: (dimensions)[ranges]{runtime} -> results over a bounded, constrained domain."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np

from hlo2tx8.indexing.expr import Add, Const, Dim, Expr, FloorDiv, Interval, Mod, Mul, Sym, as_expr
from hlo2tx8.indexing.simplify import Simplifier

Constraint: TypeAlias = tuple[Expr, Interval]


@dataclass(frozen=True)
class Variable:
    """A variable with a closed range; the name is for reading only and does not take part in equality."""

    lo: int
    hi: int
    name: str | None = None

    @property
    def interval(self) -> Interval:
        return Interval(self.lo, self.hi)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Variable) and (other.lo, other.hi) == (self.lo, self.hi)

    def __hash__(self) -> int:
        return hash((self.lo, self.hi))


@dataclass(frozen=True)
class IndexingMap:
    """A function from bounded integer variables to indices, defined where all constraints hold."""

    dims: tuple[Variable, ...]
    ranges: tuple[Variable, ...]
    runtime: tuple[Variable, ...]
    results: tuple[Expr, ...]
    constraints: tuple[Constraint, ...] = ()

    @staticmethod
    def from_shape(results: Sequence[Expr | int], dim_sizes: Sequence[int], range_sizes: Sequence[int] = ()) -> "IndexingMap":
        """A map whose variables run over 0..size-1."""
        return IndexingMap(
            tuple(Variable(0, n - 1) for n in dim_sizes),
            tuple(Variable(0, n - 1) for n in range_sizes),
            (),
            tuple(as_expr(r) for r in results),
        )

    @staticmethod
    def identity(shape: Sequence[int]) -> "IndexingMap":
        """The map of a tensor's indices to themselves."""
        return IndexingMap.from_shape([Dim(i) for i in range(len(shape))], shape)

    @staticmethod
    def parse(text: str) -> "IndexingMap":
        """The map of a text in the form `str` writes; raises ValueError with the position."""
        from hlo2tx8.indexing.text import parse_map

        return parse_map(text)

    def __str__(self) -> str:
        from hlo2tx8.indexing.text import print_map

        return print_map(self)

    @property
    def syms(self) -> tuple[Variable, ...]:
        """Range variables, then runtime variables: what Sym(i) counts."""
        return self.ranges + self.runtime

    @cached_property
    def _simplifier(self) -> Simplifier:
        return Simplifier([v.interval for v in self.dims], [v.interval for v in self.syms])

    @cached_property
    def has_division(self) -> bool:
        """True if a result or a constraint is not affine."""
        exprs = (*self.results, *(constraint for constraint, _ in self.constraints))
        return any(isinstance(term, (FloorDiv, Mod)) for expr in exprs for term in expr.affine_terms()[1])

    @property
    def is_empty(self) -> bool:
        """True if the bounds of the variables already show that the domain has no point."""
        if any(v.hi < v.lo for v in (*self.dims, *self.syms)):
            return True
        return any(interval.is_empty or self.bounds(e).intersect(interval).is_empty for e, interval in self.constraints)

    def bounds(self, expr: Expr) -> Interval:
        """An interval that encloses the expression over the variables' ranges."""
        return self._simplifier.bounds(expr)

    def range_of(self, i: int) -> Interval:
        """An interval that encloses result i."""
        return self.bounds(self.results[i])

    def at_runtime_zero(self) -> "IndexingMap":
        """The map where all runtime variables are 0."""
        if not self.runtime:
            return self
        dims = [Dim(i) for i in range(len(self.dims))]
        syms: list[Expr] = [Sym(i) for i in range(len(self.ranges))]
        syms += [Const(0)] * len(self.runtime)
        constraints = tuple((expr.substitute(dims, syms), interval) for expr, interval in self.constraints)
        results = tuple(result.substitute(dims, syms) for result in self.results)
        return IndexingMap(self.dims, self.ranges, (), results, constraints).simplify()

    def with_results(self, results: Sequence[Expr]) -> "IndexingMap":
        """The same map with other result expressions over the same variables and domain."""
        return replace(self, results=tuple(results))

    def with_constraint(self, expr: Expr, interval: Interval) -> "IndexingMap":
        """The same map, defined only where `expr` lies in `interval` too."""
        return replace(self, constraints=(*self.constraints, (expr, interval)))

    def compose(self, inner: "IndexingMap") -> "IndexingMap":
        """x -> self(inner(x)): inner's results feed self's dimensions, whose ranges become constraints."""
        if len(inner.results) != len(self.dims):
            raise ValueError(f"{len(inner.results)} results do not fit {len(self.dims)} dimensions")
        first, second = len(inner.ranges), len(self.ranges)
        third = len(inner.runtime)
        inner_syms = [Sym(i if i < first else i + second) for i in range(first + third)]
        outer_syms = [Sym(first + i if i < second else first + third + i) for i in range(second + len(self.runtime))]
        inner_dims = [Dim(i) for i in range(len(inner.dims))]
        feed = [r.substitute(inner_dims, inner_syms) for r in inner.results]
        constraints = [(e.substitute(inner_dims, inner_syms), i) for e, i in inner.constraints]
        constraints += [(f, v.interval) for f, v in zip(feed, self.dims, strict=True)]
        constraints += [(e.substitute(feed, outer_syms), i) for e, i in self.constraints]
        return IndexingMap(
            inner.dims,
            inner.ranges + self.ranges,
            inner.runtime + self.runtime,
            tuple(r.substitute(feed, outer_syms) for r in self.results),
            tuple(constraints),
        )

    def simplify(self) -> "IndexingMap":
        """An equal map with simpler result expressions. A constraint that always holds is dropped, one on a single variable becomes
        its range. Layers of a model ask for the same maps.
        """
        return _simplified(self, self._names)

    def composed(self, inner: "IndexingMap") -> "IndexingMap":
        """`compose`, simplified."""
        return _composed(self, inner, (*self._names, *inner._names))

    @property
    def _names(self) -> tuple[str | None, ...]:
        """What is not asked where maps are compared."""
        return tuple([v.name for own in (self.dims, self.ranges, self.runtime) for v in own])

    def _simplify(self) -> "IndexingMap":
        if any(v.hi < v.lo for v in (*self.dims, *self.syms)):
            return self
        dims, syms = list(self.dims), list(self.syms)
        pending = list(self.constraints)
        while True:
            simplifier = Simplifier([v.interval for v in dims], [v.interval for v in syms])
            kept: dict[Expr, Interval] = {}
            tightened = False
            for expr, interval in pending:
                simple, interval = _normalised(simplifier.simplify(expr), interval)
                if interval.encloses(simplifier.bounds(simple)):
                    continue
                if isinstance(simple, (Dim, Sym)):
                    variables = dims if isinstance(simple, Dim) else syms
                    old = variables[simple.index]
                    new = old.interval.intersect(interval)
                    variables[simple.index] = Variable(new.lo, new.hi, old.name)
                    tightened = True
                    continue
                kept[simple] = interval.intersect(kept[simple]) if simple in kept else interval
            pending = list(kept.items())
            if not tightened:
                break
            if any(v.hi < v.lo for v in (*dims, *syms)):
                return IndexingMap(
                    tuple(dims),
                    tuple(syms[: len(self.ranges)]),
                    tuple(syms[len(self.ranges) :]),
                    self.results,
                )
        return IndexingMap(
            tuple(dims),
            tuple(syms[: len(self.ranges)]),
            tuple(syms[len(self.ranges) :]),
            tuple(r if self._is_of_one(r) else simplifier.simplify(r) for r in self.results),
            tuple(pending),
        )

    def _is_of_one(self, result: Expr) -> bool:
        """Is a result a dimension of size 1? It stays that, as in an identity, so that equal maps are equal."""
        return isinstance(result, Dim) and self.dims[result.index].interval == Interval(0, 0)

    def evaluate(
        self, dims: Sequence[np.ndarray | int], syms: Sequence[np.ndarray | int] = ()
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """(results, mask) for arrays of variable values that broadcast together; the mask is True where the point lies in the
        domain.
        """
        d = [np.asarray(x, np.int64) for x in dims]
        s = [np.asarray(x, np.int64) for x in syms]
        mask: np.ndarray = np.ones((), bool)
        for value, variable in zip((*d, *s), (*self.dims, *self.syms), strict=True):
            mask = mask & (value >= variable.lo) & (value <= variable.hi)
        for expr, interval in self.constraints:
            value = evaluate_expr(expr, d, s)
            mask = mask & (value >= interval.lo) & (value <= interval.hi)
        return [evaluate_expr(r, d, s) for r in self.results], mask

    def is_bijection_onto(self, shape: Sequence[int]) -> bool:
        """True if it is proved that every index of `shape` is the result of exactly one point of the domain; False otherwise."""
        from hlo2tx8.indexing.bijection import is_bijection

        return is_bijection(self, shape)


def evaluate_expr(expr: Expr, dims: Sequence[np.ndarray], syms: Sequence[np.ndarray]) -> np.ndarray:
    """The value of an expression at arrays of variables."""
    match expr:
        case Const():
            return np.asarray(expr.value, np.int64)
        case Dim():
            return dims[expr.index]
        case Sym():
            return syms[expr.index]
        case Add():
            return evaluate_expr(expr.lhs, dims, syms) + evaluate_expr(expr.rhs, dims, syms)
        case Mul():
            return evaluate_expr(expr.lhs, dims, syms) * evaluate_expr(expr.rhs, dims, syms)
        case FloorDiv():
            return evaluate_expr(expr.lhs, dims, syms) // evaluate_expr(expr.rhs, dims, syms)
        case Mod():
            return evaluate_expr(expr.lhs, dims, syms) % evaluate_expr(expr.rhs, dims, syms)
        case _:
            raise ValueError(f"no value of {expr}")


def linearize(exprs: Sequence[Expr], shape: Sequence[int]) -> Expr:
    """The row-major position of an index in a shape; 0 for rank 0."""
    total: Expr = Const(0)
    for expr, n in zip(exprs, shape, strict=True):
        total = total * n + expr
    return total


def delinearize(expr: Expr, shape: Sequence[int]) -> tuple[Expr, ...]:
    """The index at a row-major position; the first coordinate without mod."""
    result: list[Expr] = []
    inner = 1
    for i in range(len(shape) - 1, -1, -1):
        coordinate = expr // inner if shape[i] != 1 else Const(0)
        result.append(coordinate if i == 0 or shape[i] == 1 else coordinate % shape[i])
        inner *= max(shape[i], 1)
    return tuple(reversed(result))


def _normalised(expr: Expr, interval: Interval) -> Constraint:
    """The constraint without the constant, and divided by the factor of a single term."""
    constant, terms = expr.affine_terms()
    if not terms:
        return expr, interval
    lo, hi = interval.lo - constant, interval.hi - constant
    if len(terms) != 1:
        return expr - constant if constant else expr, Interval(lo, hi)
    ((term, factor),) = terms.items()
    if factor < 0:
        lo, hi, factor = -hi, -lo, -factor
    return term, Interval(-(-lo // factor), hi // factor)


@lru_cache(maxsize=1 << 14)
def _simplified(map: IndexingMap, names: tuple[str | None, ...]) -> IndexingMap:
    return map._simplify()  # pyright: ignore[reportPrivateUsage] - of this file, once for equal maps


@lru_cache(maxsize=1 << 14)
def _composed(outer: IndexingMap, inner: IndexingMap, names: tuple[str | None, ...]) -> IndexingMap:
    return outer.compose(inner).simplify()
