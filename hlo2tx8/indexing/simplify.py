"""Simplification of index expressions over known ranges of their variables."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import gcd
from typing import TypeAlias

from hlo2tx8.indexing.expr import (
    Add,
    Const,
    Dim,
    Expr,
    FloorDiv,
    Interval,
    Mod,
    Mul,
    Sym,
    from_terms,
    make_floordiv,
    make_mod,
    make_mul,
)

Ranges: TypeAlias = Sequence[Interval]


def range_of(expr: Expr, dims: Ranges, syms: Ranges) -> Interval:
    """An interval that encloses all values of the expression over non-empty ranges."""
    return Simplifier(dims, syms).bounds(expr)


def simplify_expr(expr: Expr, dims: Ranges, syms: Ranges) -> Expr:
    """An equal expression over the given ranges with fewer floordiv and mod, sums in canonical order."""
    return _known_simple(expr, tuple(dims), tuple(syms))


@lru_cache(maxsize=1 << 16)
def _known_simple(expr: Expr, dims: tuple[Interval, ...], syms: tuple[Interval, ...]) -> Expr:
    return Simplifier(dims, syms).simplify(expr)


class Simplifier:
    """Simplifies expressions over one set of variable ranges, where each of the expressions in `holds` is in its interval.

    It keeps the results so that equal expressions are simplified once.
    """

    def __init__(self, dims: Ranges, syms: Ranges, holds: Iterable[tuple[Expr, Interval]] = ()):
        self.dims, self.syms = tuple(dims), tuple(syms)
        self._simple: dict[Expr, Expr] = {}
        self._bounds: dict[Expr, Interval] = {}
        known = {expr: self._compute_bounds(expr).intersect(held) for expr, held in holds}
        self._bounds |= {expr: both for expr, both in known.items() if not both.is_empty}
        self._is_told = bool(known)
        for expr, held in known.items():  # what they become by what else holds is in the same interval
            self._narrow(self.simplify(expr), held)

    # ------------------------------------------------------------------------------------------------ bounds

    def bounds(self, expr: Expr) -> Interval:
        """An interval that encloses all values."""
        known = self._bounds.get(expr)
        if known is None:
            known = self._bounds[expr] = self._compute_bounds(expr)
        return known

    def _narrow(self, expr: Expr, known: Interval) -> None:
        """Takes note that an expression is in an interval, if it can be."""
        both = self.bounds(expr).intersect(known)
        if not both.is_empty:
            self._bounds[expr] = both

    def _compute_bounds(self, expr: Expr) -> Interval:
        match expr:
            case Const():
                return Interval(expr.value, expr.value)
            case Dim():
                return self.dims[expr.index]
            case Sym():
                return self.syms[expr.index]
            case Add():
                constant, terms = expr.affine_terms()
                lo = hi = constant
                for term, factor in terms.items():
                    b = self.bounds(term)
                    lo += min(b.lo * factor, b.hi * factor)
                    hi += max(b.lo * factor, b.hi * factor)
                return Interval(lo, hi)
            case Mul():
                a, b = self.bounds(expr.lhs), self.bounds(expr.rhs)
                corners = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
                return Interval(min(corners), max(corners))
            case FloorDiv() if isinstance(expr.rhs, Const) and expr.rhs.value:
                a, k = self.bounds(expr.lhs), expr.rhs.value
                corners = (a.lo // k, a.hi // k)
                return Interval(min(corners), max(corners))
            case Mod() if isinstance(expr.rhs, Const) and expr.rhs.value > 0:
                a, k = self.bounds(expr.lhs), expr.rhs.value
                if a.lo // k == a.hi // k:
                    return Interval(a.lo % k, a.hi % k)
                return Interval(0, k - 1)
            case _:
                raise ValueError(f"no bounds for {expr}: the divisor is not a positive constant")

    # ---------------------------------------------------------------------------------------------- simplify

    def simplify(self, expr: Expr) -> Expr:
        """An equal, simpler expression."""
        known = self._simple.get(expr)
        if known is None:
            known = self._simple[expr] = self._compute(expr)
            self._simple.setdefault(known, known)
        return known

    def _compute(self, expr: Expr) -> Expr:
        match expr:
            case Dim() | Sym():
                b = self.bounds(expr)
                return Const(b.lo) if b.lo == b.hi else expr
            case Add() | Mul():
                return self._sum(expr)
            case FloorDiv() if isinstance(expr.rhs, Const):
                lhs, k = self.simplify(expr.lhs), expr.rhs.value
                made = self._floordiv(lhs, k)
                if self._is_told and k > 0:  # what is known of a whole does not follow from its parts
                    b = self.bounds(lhs)
                    self._narrow(made, Interval(b.lo // k, b.hi // k))
                return made
            case Mod() if isinstance(expr.rhs, Const):
                return self._mod(self.simplify(expr.lhs), expr.rhs.value)
            case _:
                return expr

    def _sum(self, expr: Expr) -> Expr:
        constant, terms = expr.affine_terms()
        total: dict[Expr, int] = {}
        for term, factor in terms.items():
            if isinstance(term, Mul):
                simple = make_mul(self.simplify(term.lhs), self.simplify(term.rhs))
            else:
                simple = self.simplify(term)
            c, more = simple.affine_terms()
            constant += c * factor
            for t, f in more.items():
                total[t] = total.get(t, 0) + f * factor
        extra, total = self._recombine(total)
        return from_terms(constant + extra, total)

    def _recombine(self, terms: dict[Expr, int]) -> tuple[int, dict[Expr, int]]:
        """(x floordiv k) * (k * f) + (x mod k) * f  →  x * f, until nothing changes; returns (constant, terms)."""
        constant = 0
        terms = {t: f for t, f in terms.items() if f}
        changed = True
        while changed:
            changed = False
            for mod, factor in list(terms.items()):
                if not isinstance(mod, Mod) or not isinstance(mod.rhs, Const):
                    continue
                whole = self._take_whole(terms, mod, mod.rhs.value, factor)
                if whole is None:
                    continue
                first, more = whole.affine_terms()
                constant += first * factor
                for t, f in more.items():
                    terms[t] = terms.get(t, 0) + f * factor
                changed = True
                break
        return constant, {t: f for t, f in terms.items() if f}

    def _take_whole(self, terms: dict[Expr, int], mod: Mod, k: int, factor: int) -> Expr | None:
        """x, if the terms hold x mod k and x floordiv k, which are removed.

        A quotient y floordiv (m * k) is one of x = y floordiv m also where x mod k lost multiples of k that y has:
        (d0 * 7 + s0 floordiv 8) mod 2 belongs to (d0 mod 2 * 56 + s0) floordiv 16.
        """
        if self._absorb(terms, self._floordiv(mod.lhs, k), factor * k):
            del terms[mod]
            return mod.lhs
        for term, f in terms.items():
            if f != factor * k or not isinstance(term, FloorDiv) or not isinstance(term.rhs, Const) or term.rhs.value % k:
                continue
            whole = self._floordiv(term.lhs, term.rhs.value // k)
            if self._mod(whole, k) == mod:
                del terms[mod], terms[term]
                return whole
        return None

    @staticmethod
    def _absorb(terms: dict[Expr, int], quotient: Expr, factor: int) -> bool:
        """Removes factor * quotient from the terms if all of it is there."""
        constant, parts = quotient.affine_terms()
        if not parts or constant:
            return False
        if any(terms.get(t) != f * factor for t, f in parts.items()):
            return False
        for t in parts:
            del terms[t]
        return True

    def _split(self, expr: Expr, k: int) -> tuple[Expr, Expr]:
        """(q, r) with expr = k * q + r: the terms whose factor k divides go to q."""
        constant, terms = expr.affine_terms()
        quotient = {t: f // k for t, f in terms.items() if f % k == 0}
        rest = {t: f for t, f in terms.items() if f % k}
        return from_terms(constant // k, quotient), from_terms(constant % k, rest)

    def _floordiv(self, a: Expr, k: int) -> Expr:
        if k < 0:
            return self._floordiv(self._sum(-a), -k)
        b = self.bounds(a)
        if b.lo // k == b.hi // k:
            return Const(b.lo // k)
        if k == 1:
            return a
        q, r = self._split(a, k)
        rb = self.bounds(r)
        if rb.lo // k == rb.hi // k:
            return self._sum(q + rb.lo // k)
        if q != Const(0):
            return self._sum(q + self._floordiv(r, k))
        reduced, k = self._common_factor(a, k)
        if k != 1 and reduced is not a:
            return self._floordiv(reduced, k)
        if k == 1:
            return reduced
        if isinstance(a, FloorDiv) and isinstance(a.rhs, Const) and a.rhs.value > 0:
            return self._floordiv(a.lhs, a.rhs.value * k)
        merged = self._merge_inner_floordiv(a, k)
        return merged or self._tail_of_small_terms(a, k, is_mod=False) or make_floordiv(a, Const(k))

    def _merge_inner_floordiv(self, a: Expr, k: int) -> Expr | None:
        """(x + y floordiv m) floordiv k = (m*x + y) floordiv (m*k)."""
        constant, terms = a.affine_terms()
        for term, factor in terms.items():
            if factor != 1 or not isinstance(term, FloorDiv) or not isinstance(term.rhs, Const) or term.rhs.value <= 0:
                continue
            rest = from_terms(constant, {t: f for t, f in terms.items() if t is not term})
            return self._floordiv(self._sum(rest * term.rhs.value + term.lhs), term.rhs.value * k)
        return None

    def _common_factor(self, a: Expr, k: int) -> tuple[Expr, int]:
        """(g*x + r) floordiv (g*m) = x floordiv m for a remainder 0 <= r < g."""
        constant, terms = a.affine_terms()
        g = k
        for f in terms.values():
            g = gcd(g, f)
        if g == 1:
            return a, k
        return from_terms(constant // g, {t: f // g for t, f in terms.items()}), k // g

    def _tail_of_small_terms(self, a: Expr, k: int, is_mod: bool) -> Expr | None:
        """Terms that never reach the next multiple of a common factor g of the others and k drop out of the quotient.

        (g*x + r) floordiv (g*m) = x floordiv m;  (g*x + r) mod (g*m) = g*(x mod m) + r, for 0 <= r < g.
        """
        constant, terms = a.affine_terms()
        for g in sorted({gcd(f, k) for f in terms.values()} | {gcd(constant, k)}, reverse=True):
            if g == 1 or g >= k:
                continue
            big = {t: f for t, f in terms.items() if f % g == 0}
            rest = from_terms(constant % g, {t: f for t, f in terms.items() if f % g})
            rb = self.bounds(rest)
            if not big or rb.lo < 0 or rb.hi >= g or (len(big) == len(terms) and constant % g == 0):
                continue
            x = from_terms(constant // g, {t: f // g for t, f in big.items()})
            if is_mod:
                return self._sum(self._mod(x, k // g) * g + rest)
            return self._floordiv(x, k // g)
        return None

    def _mod(self, a: Expr, k: int) -> Expr:
        if k <= 0:
            raise ValueError(f"mod {k}: the divisor is not positive")
        b = self.bounds(a)
        if b.lo // k == b.hi // k:
            return self._sum(a - (b.lo // k) * k)
        _, r = self._split(a, k)
        rb = self.bounds(r)
        if rb.lo // k == rb.hi // k:
            return self._sum(r - (rb.lo // k) * k)
        if isinstance(r, Mod) and isinstance(r.rhs, Const) and r.rhs.value % k == 0:
            return self._mod(r.lhs, k)
        constant, terms = r.affine_terms()
        unwrapped = {t: f for t, f in terms.items() if isinstance(t, Mod) and isinstance(t.rhs, Const) and t.rhs.value * f % k == 0}
        if unwrapped:
            flat = from_terms(constant, {t: f for t, f in terms.items() if t not in unwrapped})
            for t, f in unwrapped.items():
                assert isinstance(t, Mod)
                flat = flat + t.lhs * f
            return self._mod(self._sum(flat), k)
        g = k
        for f in terms.values():
            g = gcd(g, f)
        if g > 1 and constant % g == 0:
            scaled = from_terms(constant // g, {t: f // g for t, f in terms.items()})
            return self._sum(self._mod(scaled, k // g) * g)
        return self._tail_of_small_terms(r, k, is_mod=True) or make_mod(r, Const(k))
