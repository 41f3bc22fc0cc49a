"""What the values of a function are while its tensors are flattened: index expressions over the loop variables in scope."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd

from xdsl.ir import Block, SSAValue

from hlo2tx8.dialects.xla import ApplyIndexingOp, IndexingMapAttr, InDomainOp
from hlo2tx8.errors import LevelError
from hlo2tx8.indexing import Constraint, Expr, IndexingMap, Interval, Simplifier, Sym, Variable
from hlo2tx8.indexing.simplify import range_of


@dataclass
class FlatScope:
    """What the old values are: index expressions over the variables in scope, or new values."""

    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    indices: dict[SSAValue, Expr] = field(default_factory=dict[SSAValue, Expr])
    tiles: list[tuple[Variable, SSAValue]] = field(default_factory=list[tuple[Variable, SSAValue]])
    loops: list[tuple[Variable, SSAValue]] = field(default_factory=list[tuple[Variable, SSAValue]])
    applied: dict[tuple[Block, Expr], SSAValue] = field(default_factory=dict[tuple[Block, Expr], SSAValue])
    simplifier: Simplifier = field(default_factory=lambda: Simplifier((), ()))
    checks: dict[SSAValue, tuple[Constraint, ...]] = field(default_factory=dict[SSAValue, tuple[Constraint, ...]])
    holds: tuple[Constraint, ...] = ()

    def variables_changed(self) -> None:
        tiles, loops = ([variable.interval for variable, _ in own] for own in (self.tiles, self.loops))
        self.simplifier = Simplifier(tiles, loops, self.holds)

    def assume(self, checks: tuple[Constraint, ...]) -> None:
        """What holds from now on."""
        self.holds = checks
        self.variables_changed()

    def enter(self, old: SSAValue, new: SSAValue, lo: int, hi: int) -> None:
        """A loop variable comes into scope."""
        self.indices[old] = Sym(len(self.loops))
        self.loops.append((Variable(lo, hi, old.name_hint), new))
        self.variables_changed()

    def leave(self) -> None:
        self.loops.pop()
        self.variables_changed()

    def beyond_known(self, expr: Expr, interval: Interval) -> Interval | None:
        """Of what says that an expression is in an interval the part that does not follow from the ranges of the variables, or from
        those with one check that holds: an end that does is where the ranges end. None if all follows."""
        if interval.encloses(self.simplifier.bounds(expr)):
            return None
        known = self._known(expr)
        is_low, is_high = known.lo >= interval.lo, known.hi <= interval.hi
        if is_low and is_high:
            return None
        whole = range_of(expr, *([variable.interval for variable, _ in own] for own in (self.tiles, self.loops)))
        return Interval(
            min(whole.lo, interval.lo) if is_low else interval.lo, max(whole.hi, interval.hi) if is_high else interval.hi
        )

    def _known(self, expr: Expr) -> Interval:
        """An interval that an expression is in by one check that holds at a time."""
        found, terms = self.simplifier.bounds(expr), expr.affine_terms()[1]
        for known, held in self.holds:
            leaf, factor = next(iter(known.affine_terms()[1].items()), (None, 0))
            if leaf is None or leaf not in terms:
                continue
            scale = abs(factor) // gcd(terms[leaf], factor)
            times = terms[leaf] * scale // factor
            rest = self.simplifier.bounds(self.simplifier.simplify(expr * scale - known * times))
            ends = (held.lo * times, held.hi * times)
            found = found.intersect(Interval(-(-(rest.lo + min(ends)) // scale), (rest.hi + max(ends)) // scale))
        return found

    def map(self, results: tuple[Expr, ...]) -> IndexingMap:
        """A map of the variables in scope."""
        return IndexingMap(
            tuple(variable for variable, _ in self.tiles),
            tuple(variable for variable, _ in self.loops),
            (),
            results,
        )

    @property
    def operands(self) -> tuple[list[SSAValue], list[SSAValue]]:
        return [value for _, value in self.tiles], [value for _, value in self.loops]

    def index_value(self, expr: Expr, block: Block) -> SSAValue:
        """The SSA value of an expression in a block."""
        simple = self.simplifier.simplify(expr)
        key = (block, simple)
        if key not in self.applied:
            op = ApplyIndexingOp(IndexingMapAttr(self.map((simple,))), *self.operands)
            block.add_op(op)
            self.applied[key] = op.res[0]
        return self.applied[key]

    def substituted(self, op: ApplyIndexingOp | InDomainOp, exprs: Sequence[Expr]) -> list[Expr]:
        """Expressions over the variables of op's map, over the variables in scope."""
        dims = [self.index_of(value) for value in op.dims]
        syms = [self.index_of(value) for value in op.syms]
        return [expr.substitute(dims, syms) for expr in exprs]

    def index_of(self, value: SSAValue) -> Expr:
        if value not in self.indices:
            raise LevelError("E1006", f"index {value.name_hint or value} does not follow from the loop variables")
        return self.indices[value]
