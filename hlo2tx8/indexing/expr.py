"""Integer index expressions: variables, constants, +, *, floordiv, mod; hash-consed and immutable."""

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple


class Interval(NamedTuple):
    """The integers lo..hi, both included; empty if hi < lo."""

    lo: int
    hi: int

    @property
    def is_empty(self) -> bool:
        return self.hi < self.lo

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and self.lo <= value <= self.hi

    def intersect(self, other: "Interval") -> "Interval":
        return Interval(max(self.lo, other.lo), min(self.hi, other.hi))

    def encloses(self, other: "Interval") -> bool:
        return self.lo <= other.lo and other.hi <= self.hi


class Expr:
    """An index expression. `+ - * // %` build expressions with light folding; `simplify_expr` uses ranges."""

    __slots__ = ("_hash",)
    PRECEDENCE: ClassVar[int] = 3

    def __add__(self, other: "Expr | int") -> "Expr":
        return make_add(self, as_expr(other))

    def __radd__(self, other: int) -> "Expr":
        return make_add(self, as_expr(other))

    def __sub__(self, other: "Expr | int") -> "Expr":
        return make_add(self, make_mul(as_expr(other), Const(-1)))

    def __rsub__(self, other: int) -> "Expr":
        return make_add(make_mul(self, Const(-1)), as_expr(other))

    def __neg__(self) -> "Expr":
        return make_mul(self, Const(-1))

    def __mul__(self, other: "Expr | int") -> "Expr":
        return make_mul(self, as_expr(other))

    def __rmul__(self, other: int) -> "Expr":
        return make_mul(self, as_expr(other))

    def __floordiv__(self, other: "Expr | int") -> "Expr":
        return make_floordiv(self, as_expr(other))

    def __mod__(self, other: "Expr | int") -> "Expr":
        return make_mod(self, as_expr(other))

    def substitute(self, dims: Sequence["Expr"], syms: Sequence["Expr"]) -> "Expr":
        """The expression with dimension i replaced by dims[i] and symbol j by syms[j]."""
        raise NotImplementedError("Expr is abstract")

    def affine_terms(self) -> tuple[int, dict["Expr", int]]:
        """(constant, {term: coefficient}), whose sum is this expression; a term is a variable, or a floordiv or mod taken as a
        whole.
        """
        return 0, {self: 1}

    def leaves(self) -> frozenset["Expr"]:
        """The set of variables (`Dim` and `Sym`) that occur in the expression."""
        return frozenset((self,))

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return str(self)


class Const(Expr):
    """An integer."""

    __slots__ = ("value",)

    def __init__(self, value: int):
        self.value = value
        self._hash = hash(("c", value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and other.value == self.value

    __hash__ = Expr.__hash__

    def substitute(self, dims: Sequence[Expr], syms: Sequence[Expr]) -> Expr:
        return self

    def affine_terms(self) -> tuple[int, dict[Expr, int]]:
        return self.value, {}

    def leaves(self) -> frozenset[Expr]:
        return frozenset()

    def __str__(self) -> str:
        return str(self.value)


class _Variable(Expr):
    __slots__ = ("index",)
    LETTER: ClassVar[str]

    def __init__(self, index: int):
        self.index = index
        self._hash = hash((self.LETTER, index))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Variable) and other.LETTER == self.LETTER and other.index == self.index

    __hash__ = Expr.__hash__

    def __str__(self) -> str:
        return f"{self.LETTER}{self.index}"


class Dim(_Variable):
    """Dimension variable i."""

    LETTER = "d"

    def substitute(self, dims: Sequence[Expr], syms: Sequence[Expr]) -> Expr:
        return dims[self.index]


class Sym(_Variable):
    """Symbol i: range variables first, then runtime variables."""

    LETTER = "s"

    def substitute(self, dims: Sequence[Expr], syms: Sequence[Expr]) -> Expr:
        return syms[self.index]


class _Binary(Expr):
    __slots__ = ("_leaves", "_terms", "lhs", "rhs")
    SYMBOL: ClassVar[str]

    def __init__(self, lhs: Expr, rhs: Expr):
        self.lhs, self.rhs = lhs, rhs
        self._hash = hash((self.SYMBOL, lhs, rhs))
        self._leaves: frozenset[Expr] | None = None
        self._terms: tuple[int, dict[Expr, int]] | None = None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, _Binary)
            and other.SYMBOL == self.SYMBOL
            and other._hash == self._hash
            and other.lhs == self.lhs
            and other.rhs == self.rhs
        )

    __hash__ = Expr.__hash__

    def leaves(self) -> frozenset[Expr]:
        if self._leaves is None:
            self._leaves = self.lhs.leaves() | self.rhs.leaves()
        return self._leaves

    def __str__(self) -> str:
        lhs = f"({self.lhs})" if self.lhs.PRECEDENCE < self.PRECEDENCE else str(self.lhs)
        tight = self.rhs.PRECEDENCE <= self.PRECEDENCE and not isinstance(self, Add)
        return f"{lhs} {self.SYMBOL} {f'({self.rhs})' if tight else self.rhs}"


class Add(_Binary):
    """lhs + rhs."""

    SYMBOL, PRECEDENCE = "+", 1

    def substitute(self, dims: Sequence[Expr], syms: Sequence[Expr]) -> Expr:
        return make_add(self.lhs.substitute(dims, syms), self.rhs.substitute(dims, syms))

    def affine_terms(self) -> tuple[int, dict[Expr, int]]:
        if self._terms is None:
            constant, terms = self.lhs.affine_terms()
            other, more = self.rhs.affine_terms()
            merged = dict(terms)
            for term, factor in more.items():
                merged[term] = merged.get(term, 0) + factor
            self._terms = constant + other, {t: f for t, f in merged.items() if f}
        return self._terms

    def __str__(self) -> str:
        match self.rhs:
            case Const(value=value) if value < 0:
                return f"{self.lhs} - {-value}"
            case Mul(lhs=lhs, rhs=Const(value=factor)) if factor < 0 and lhs.PRECEDENCE > 1:
                return f"{self.lhs} - {make_mul(lhs, Const(-factor))}"
            case Add():  # sums are read from the left
                return f"{self.lhs} + ({self.rhs})"
            case _:
                return f"{self.lhs} + {self.rhs}"


class Mul(_Binary):
    """lhs * rhs, rhs constant wherever one factor is."""

    SYMBOL, PRECEDENCE = "*", 2

    def substitute(self, dims: Sequence[Expr], syms: Sequence[Expr]) -> Expr:
        return make_mul(self.lhs.substitute(dims, syms), self.rhs.substitute(dims, syms))

    def affine_terms(self) -> tuple[int, dict[Expr, int]]:
        if not isinstance(self.rhs, Const):
            return 0, {self: 1}
        if self._terms is None:
            constant, terms = self.lhs.affine_terms()
            factor = self.rhs.value
            self._terms = constant * factor, {t: f * factor for t, f in terms.items()}
        return self._terms


class FloorDiv(_Binary):
    """The quotient rounded down."""

    SYMBOL, PRECEDENCE = "floordiv", 2

    def substitute(self, dims: Sequence[Expr], syms: Sequence[Expr]) -> Expr:
        return make_floordiv(self.lhs.substitute(dims, syms), self.rhs.substitute(dims, syms))


class Mod(_Binary):
    """The remainder in 0..rhs-1."""

    SYMBOL, PRECEDENCE = "mod", 2

    def substitute(self, dims: Sequence[Expr], syms: Sequence[Expr]) -> Expr:
        return make_mod(self.lhs.substitute(dims, syms), self.rhs.substitute(dims, syms))


def as_expr(value: Expr | int) -> Expr:
    """The value as an expression."""
    return value if isinstance(value, Expr) else Const(int(value))


def make_add(a: Expr, b: Expr) -> Expr:
    """a + b, constants folded."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(a.value + b.value)
    if isinstance(a, Const) and a.value == 0:
        return b
    if isinstance(b, Const) and b.value == 0:
        return a
    return Add(a, b)


def make_mul(a: Expr, b: Expr) -> Expr:
    """a * b, constants folded and moved right."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(a.value * b.value)
    if isinstance(a, Const):
        a, b = b, a
    if isinstance(b, Const):
        if b.value == 0:
            return b
        if b.value == 1:
            return a
        if isinstance(a, Mul) and isinstance(a.rhs, Const):
            return make_mul(a.lhs, Const(a.rhs.value * b.value))
    return Mul(a, b)


def make_floordiv(a: Expr, b: Expr) -> Expr:
    """a floordiv b; ZeroDivisionError for a constant divisor 0."""
    if isinstance(b, Const):
        if isinstance(a, Const):
            return Const(a.value // b.value)
        if b.value == 1:
            return a
    return FloorDiv(a, b)


def make_mod(a: Expr, b: Expr) -> Expr:
    """a mod b; ZeroDivisionError for a constant divisor 0."""
    if isinstance(b, Const):
        if isinstance(a, Const):
            return Const(a.value % b.value)
        if b.value == 1:
            return Const(0)
    return Mod(a, b)


@lru_cache(maxsize=65536)
def sort_key(expr: Expr) -> tuple[int, str]:
    """A key that sorts the terms of a sum: dimensions, then symbols, then compound terms by their text."""
    match expr:
        case Dim():
            return 0, f"{expr.index:04d}"
        case Sym():
            return 1, f"{expr.index:04d}"
        case _:
            return 2, str(expr)


def from_terms(constant: int, terms: dict[Expr, int]) -> Expr:
    """constant + sum(factor * term) in canonical order."""
    result: Expr | None = None
    for term in sorted(terms, key=sort_key):
        part = make_mul(term, Const(terms[term]))
        if terms[term]:
            result = part if result is None else Add(result, part)
    if result is None:
        return Const(constant)
    return make_add(result, Const(constant))


def split_terms(expr: Expr, leaves: Sequence[Expr]) -> tuple[Expr, dict[Expr, int]] | None:
    """(part without `leaves`, {leaf: coefficient}) if the expression is affine in `leaves`, else None."""
    wanted = frozenset(leaves)
    constant, terms = expr.affine_terms()
    coefficients: dict[Expr, int] = {}
    rest: dict[Expr, int] = {}
    for term, factor in terms.items():
        if term in wanted:
            coefficients[term] = factor
        elif term.leaves() & wanted:
            return None
        else:
            rest[term] = factor
    return from_terms(constant, rest), coefficients
