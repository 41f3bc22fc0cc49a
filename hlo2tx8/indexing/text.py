"""The text form of indexing maps: `(d0, d1)[s0]{rt0} -> (d0 floordiv 4, s0), domain: d0 in [0, 9], ...`."""

import re

from hlo2tx8.indexing.expr import Add, Const, Dim, Expr, FloorDiv, Interval, Mod, Mul, Sym
from hlo2tx8.indexing.indexing_map import IndexingMap, Variable

_TOKEN = re.compile(r"\s*(->|[A-Za-z_][A-Za-z_0-9]*|\d+|[()\[\]{},:+*-])")


def print_map(m: IndexingMap) -> str:
    """The map in text form; named variables keep their names, with a number where two have one name."""
    taken: dict[str, None] = {}
    dims, ranges, runtime = (
        [_unique(v.name or f"{letter}{i}", taken) for i, v in enumerate(variables)]
        for letter, variables in (("d", m.dims), ("s", m.ranges), ("rt", m.runtime))
    )
    names = (dims, ranges + runtime)
    text = f"({', '.join(dims)})"
    text += f"[{', '.join(ranges)}]" if ranges else ""
    text += f"{{{', '.join(runtime)}}}" if runtime else ""
    text += f" -> ({', '.join(print_expr(r, *names) for r in m.results)})"
    domain = [f"{n} in [{v.lo}, {v.hi}]" for n, v in zip((*dims, *ranges, *runtime), (*m.dims, *m.syms), strict=True)]
    domain += [f"{print_expr(e, *names)} in [{i.lo}, {i.hi}]" for e, i in m.constraints]
    return text + (f", domain: {', '.join(domain)}" if domain else "")


def _unique(name: str, taken: dict[str, None]) -> str:
    found, number = name, 0
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken[found] = None
    return found


def print_expr(expr: Expr, dims: list[str], syms: list[str]) -> str:
    """The expression with named variables."""
    return str(expr.substitute([_Named(n) for n in dims], [_Named(n) for n in syms]))


class _Named(Expr):
    """A variable under its name, for printing."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name
        self._hash = hash(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and other.name == self.name

    __hash__ = Expr.__hash__

    def __str__(self) -> str:
        return self.name


def parse_map(text: str) -> IndexingMap:
    """The map of a text; ValueError names the position of what is wrong."""
    return _Parser(text).map()


class _Parser:
    def __init__(self, text: str):
        self.text, self.at = text, 0
        self.names: dict[str, Expr] = {}

    def peek(self) -> str | None:
        match = _TOKEN.match(self.text, self.at)
        return match.group(1) if match else None

    def next(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            raise self.error("a token")
        self.at = match.end()
        return match.group(1)

    def error(self, wanted: str) -> ValueError:
        return ValueError(f"indexing map: expected {wanted} at column {self.at + 1} of {self.text!r}")

    def expect(self, token: str) -> None:
        if self.peek() != token:
            raise self.error(repr(token))
        self.next()

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.next()
        return True

    def variables(self, opening: str, closing: str) -> list[str]:
        names: list[str] = []
        if not self.accept(opening):
            return names
        while not self.accept(closing):
            names.append(self.next())
            if self.peek() != closing:
                self.expect(",")
        return names

    def map(self) -> IndexingMap:
        if self.peek() != "(":
            raise self.error("'('")
        dims = self.variables("(", ")")
        ranges = self.variables("[", "]")
        runtime = self.variables("{", "}")
        self.names |= {n: Dim(i) for i, n in enumerate(dims)}
        self.names |= {n: Sym(i) for i, n in enumerate(ranges + runtime)}
        self.expect("->")
        self.expect("(")
        results: list[Expr] = []
        while not self.accept(")"):
            results.append(self.sum())
            if self.peek() != ")":
                self.expect(",")
        bounds: dict[Expr, Interval] = {}
        constraints: list[tuple[Expr, Interval]] = []
        if self.accept(","):
            self.expect("domain")
            self.expect(":")
            self.domain(bounds, constraints)
        if self.text[self.at :].strip():
            raise self.error("the end")
        variables = [self.variable(n, default, bounds) for n, default in self.with_defaults(dims, ranges, runtime)]
        d, s = len(dims), len(dims) + len(ranges)
        return IndexingMap(
            tuple(variables[:d]),
            tuple(variables[d:s]),
            tuple(variables[s:]),
            tuple(results),
            tuple(constraints),
        )

    @staticmethod
    def with_defaults(dims: list[str], ranges: list[str], runtime: list[str]) -> list[tuple[str, str]]:
        return [
            (name, f"{letter}{i}")
            for names, letter in ((dims, "d"), (ranges, "s"), (runtime, "rt"))
            for i, name in enumerate(names)
        ]

    def variable(self, name: str, default: str, bounds: dict[Expr, Interval]) -> Variable:
        interval = bounds.get(self.names[name])
        if interval is None:
            raise self.error(f"the range of {name} in the domain")
        return Variable(interval.lo, interval.hi, None if name == default else name)

    def domain(self, bounds: dict[Expr, Interval], constraints: list[tuple[Expr, Interval]]) -> None:
        while True:
            expr = self.sum()
            self.expect("in")
            self.expect("[")
            lo = self.integer()
            self.expect(",")
            hi = self.integer()
            self.expect("]")
            if isinstance(expr, (Dim, Sym)) and expr not in bounds:
                bounds[expr] = Interval(lo, hi)
            else:
                constraints.append((expr, Interval(lo, hi)))
            if not self.accept(","):
                return

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        token = self.next()
        if not token.isdigit():
            raise self.error("an integer")
        return sign * int(token)

    def sum(self) -> Expr:
        expr = self.product()
        while (token := self.peek()) in ("+", "-"):
            self.next()
            term = self.product()
            expr = Add(expr, term if token == "+" else term * -1)
        return expr

    def product(self) -> Expr:
        expr = self.factor()
        while (token := self.peek()) in ("*", "floordiv", "mod"):
            self.next()
            kind = {"*": Mul, "floordiv": FloorDiv, "mod": Mod}[token or ""]
            rhs = self.factor()
            expr = expr * rhs if kind is Mul else kind(expr, rhs)
        return expr

    def factor(self) -> Expr:
        token = self.peek()
        if token == "-":
            self.next()
            return self.factor() * -1
        if token == "(":
            self.next()
            expr = self.sum()
            self.expect(")")
            return expr
        if token is not None and token.isdigit():
            return Const(int(self.next()))
        if token in self.names:
            return self.names[self.next()]
        raise self.error("an expression")
