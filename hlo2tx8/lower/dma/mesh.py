"""Which tiles of the mesh make a transfer alike, and who of them makes it for the others.

Tile `row * columns + column`. What does not depend on the column is the same for all tiles of a mesh row: one of them, that at
column `row mod columns`, loads it and sends it to the others. What does not depend on the row is loaded by the tile at row
`(column + rows div 2) mod rows` of each mesh column. On a square mesh all of these are different tiles, and no two of their
multicasts share a link. Where that is sooner, the tiles at both ends of a line load and send a half each (`device.mesh_sends`).
"""

from dataclasses import dataclass, field
from enum import Enum

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import SSAValue

from hlo2tx8.device.isa import Engine
from hlo2tx8.device.isa.kc_control import KcBarrier, KcWait
from hlo2tx8.dialects import vec, xla
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Interval, Variable, simplify_expr, split_terms
from hlo2tx8.indexing.simplify import range_of
from hlo2tx8.lower.dma.slices import constant_of
from hlo2tx8.lower.select.step_builder import StepBuilder

ROW, COLUMN = Dim(0), Dim(1)
MAX_TURNS = 2**40


class Along(Enum):
    """The line of tiles that share what one of them loads."""

    ROW = "row"
    COLUMN = "column"


@dataclass(frozen=True)
class Mesh:
    """So many rows and columns of tiles."""

    rows: int
    columns: int

    @staticmethod
    def of(function: func.FuncOp) -> "Mesh | None":
        """The one that a kernel's products are computed on; None if they are not."""
        shape = function.attributes.get(xla.MESH)
        return Mesh(*map(int, shape.get_values())) if isinstance(shape, DenseArrayBase) else None


@dataclass
class TileIndex:
    """Index values as expressions over the tile's row and column in the mesh and over the counters of loops.

    `known`: the expressions of values that were told, `Dim(2)` and up for counters; `bounds` of all dimensions.
    """

    mesh: Mesh
    known: dict[SSAValue, Expr]
    bounds: list[Interval] = field(default_factory=list[Interval])

    @staticmethod
    def of(mesh: Mesh, tile: SSAValue) -> "TileIndex":
        """Of a function whose tile's number is `tile`."""
        bounds = [Interval(0, mesh.rows - 1), Interval(0, mesh.columns - 1)]
        return TileIndex(mesh, {tile: ROW * mesh.columns + COLUMN}, bounds)

    def add_counter(self, counter: SSAValue, turns: int) -> Expr:
        """Makes a counter of so many turns known; returns its dimension, which stays the same if it has been known as that."""
        known = self.known.get(counter)
        if known is not None and self.turns(known) == turns:
            return known
        self.known[counter] = Dim(len(self.bounds))
        self.bounds.append(Interval(0, turns - 1))
        return self.known[counter]

    def turns(self, counter: Expr) -> int:
        """How many turns a counter has."""
        assert isinstance(counter, Dim)
        return self.bounds[counter.index].hi + 1

    @property
    def dims(self) -> list[Expr]:
        """All dimensions."""
        return [Dim(i) for i in range(len(self.bounds))]

    def simplified(self, expr: Expr) -> Expr:
        """An equal expression within the bounds."""
        return simplify_expr(expr, self.bounds, ())

    def expr(self, value: SSAValue) -> Expr | None:
        """The value as an expression; None if it is not affine arithmetic on what is known."""
        if value in self.known:
            return self.known[value]
        owner = value.owner
        constant = constant_of(value)
        found: Expr | None = None
        match owner:
            case arith.ConstantOp() if constant is not None:
                found = Dim(0) * 0 + constant
            case arith.AddiOp() | arith.SubiOp() | arith.MuliOp():
                lhs, rhs = (self.expr(operand) for operand in owner.operands)
                if lhs is None or rhs is None:
                    return None
                match owner:
                    case arith.AddiOp():
                        found = lhs + rhs
                    case arith.SubiOp():
                        found = lhs - rhs
                    case _:
                        found = lhs * rhs
            case xla.ApplyIndexingOp():
                operands = [self.expr(operand) for operand in owner.operands]
                if any(operand is None for operand in operands):
                    return None
                given = [operand for operand in operands if operand is not None]
                dims = len(owner.map.data.dims)
                number = next(i for i, result in enumerate(owner.results) if result is value)
                found = owner.map.data.results[number].substitute(given[:dims], given[dims:])
            case _:
                return None
        self.known[value] = simplify_expr(found, self.bounds, ())
        return self.known[value]

    def terms(self, value: SSAValue | int) -> dict[Expr | None, int] | None:
        """The dimensions that a value moves with, and by how much, None standing for what it is at 0; None if that is not all there
        is to it."""
        expr = Const(value) if isinstance(value, int) else self.expr(value)
        return None if expr is None else self.terms_of(expr)

    def terms_of(self, expr: Expr) -> dict[Expr | None, int] | None:
        """The same of an expression."""
        split = split_terms(expr, self.dims)
        if split is None or not isinstance(split[0], Const):
            return None
        found: dict[Expr | None, int] = {leaf: factor for leaf, factor in split[1].items() if factor}
        return found | ({None: split[0].value} if split[0].value else {})

    def range_of(self, value: SSAValue) -> Interval:
        """Bounds of a value; of a difference of two as if they had nothing to do with each other."""
        found, owner = self.expr(value), value.owner
        if found is not None:
            return range_of(found, self.bounds, ())
        match owner:
            case vec.ExtentOp():
                parts = self._parts(owner)
                if parts is None:
                    return Interval(owner.lower.value.data, owner.upper.value.data)
                return owner.within([range_of(expr, self.bounds, ()) for expr in parts])
            case arith.AddiOp() | arith.SubiOp() | arith.MinSIOp() | arith.MaxSIOp():
                a, b = (self.range_of(operand) for operand in owner.operands)
                match owner:
                    case arith.AddiOp():
                        return Interval(a.lo + b.lo, a.hi + b.hi)
                    case arith.SubiOp():
                        return Interval(a.lo - b.hi, a.hi - b.lo)
                    case arith.MinSIOp():
                        return Interval(min(a.lo, b.lo), min(a.hi, b.hi))
                    case _:
                        return Interval(max(a.lo, b.lo), max(a.hi, b.hi))
            case _:
                return Interval(-MAX_TURNS, MAX_TURNS)

    def _parts(self, op: vec.ExtentOp) -> list[Expr] | None:
        """The bounds that an extent is made of."""
        operands = [self.expr(operand) for operand in op.operands]
        given = [operand for operand in operands if operand is not None]
        if len(given) < len(operands):
            return None
        dims = len(op.map.data.dims)
        return [self.simplified(e.substitute(given[:dims], given[dims:])) for e in op.map.data.results]

    def made_of(self, value: SSAValue | int) -> list[Expr] | None:
        """Expressions that a value is computed from; None if they are not known."""
        if isinstance(value, int):
            return []
        if (found := self.expr(value)) is not None:
            return [found]
        owner = value.owner
        match owner:
            case vec.ExtentOp():
                return self._parts(owner)
            case arith.AddiOp() | arith.SubiOp() | arith.MuliOp() | arith.MinSIOp() | arith.MaxSIOp():
                sides = [self.made_of(operand) for operand in owner.operands]
                known = [side for side in sides if side is not None]
                return [expr for side in known for expr in side] if len(known) == len(sides) else None
            case _:
                return None

    def dependence(self, value: SSAValue | int) -> frozenset[Expr] | None:
        """The dimensions a value depends on; None if that is not known."""
        found = self.made_of(value)
        return None if found is None else frozenset(leaf for expr in found for leaf in expr.leaves())


@dataclass(frozen=True)
class Sender:
    """Index values that are the same in every step: `distance` is 0 on a tile that loads for its line, more on the others;
    `tiles` is the mask of those others, on that tile; `half` is which half it loads, if there are two such tiles."""

    distance: SSAValue
    tiles: SSAValue
    half: SSAValue | None = None

    @staticmethod
    def emit(
        step: StepBuilder,
        mesh: Mesh,
        tile: SSAValue,
        along: Along,
        *,
        in_halves: bool = False,
        is_split: bool = False,
        number: int = 0,
    ) -> "Sender":
        """Computes them once. Of halves that are split no tile has one of both sides. What is loaded whole for a mesh column is
        loaded by its tiles in turn, by `number`."""
        rows, columns = mesh.rows, mesh.columns
        row = quotient(step, tile, columns)
        column = remainder(step, tile, columns)
        if along is Along.ROW:
            line, source, place = row, remainder(step, row, columns), column
        else:
            line, source, place = column, remainder(step, step.value(step.add(column, rows // 2 + number)), rows), row
        others = others_in_line(step, mesh, tile, along, line)
        if is_split:
            half = (columns if along is Along.ROW else rows) // 2
            own = remainder(step, step.value(step.add(line, int(along is Along.COLUMN))), half)
            away = step.value(step.subtract(remainder(step, place, half), own))
            return Sender(step.emit(away, away), others, quotient(step, place, half))
        if in_halves:
            last = (columns if along is Along.ROW else rows) - 1
            return Sender(step.emit(place, step.value(step.subtract(last, place))), others, quotient(step, place, last))
        away = step.value(step.subtract(place, source))
        return Sender(step.emit(away, away), others)


def others_in_line(step: StepBuilder, mesh: Mesh, tile: SSAValue, along: Along, line: SSAValue) -> SSAValue:
    """The mask of the other tiles of a tile's mesh row, or mesh column, of which `line` is the number."""
    if along is Along.ROW:
        of_line = step.emit(power(step, line, mesh.columns, mesh.rows), (1 << mesh.columns) - 1)
    else:
        of_line = step.emit(power(step, line, 1, mesh.columns), sum(1 << mesh.columns * row for row in range(mesh.rows)))
    return step.value(step.subtract(of_line, power(step, tile, 1, mesh.rows * mesh.columns)))


def next_in_row(step: StepBuilder, mesh: Mesh, tile: SSAValue, column: SSAValue) -> SSAValue:
    """The number of the next tile of a tile's mesh row, the first one behind the last."""
    row = step.value(step.subtract(tile, column))
    return step.value(step.add(row, remainder(step, step.value(step.add(column, 1)), mesh.columns)))


def meet_behind(step: StepBuilder, engine: Engine) -> None:
    """Waits for an engine, then all tiles meet."""
    step.insert(KcWait.make(engines=1 << engine.value))
    step.insert(KcBarrier.make())


def quotient(step: StepBuilder, value: SSAValue, divisor: int) -> SSAValue:
    """value div divisor, of a value that is not negative."""
    return of_one(step, value, Dim(0) // divisor)


def remainder(step: StepBuilder, value: SSAValue, divisor: int) -> SSAValue:
    """value mod divisor, of a value that is not negative."""
    return of_one(step, value, Dim(0) % divisor)


def of_one(step: StepBuilder, value: SSAValue, expr: Expr) -> SSAValue:
    map = IndexingMap((Variable(0, MAX_TURNS, "i"),), (), (), (expr,))
    return step.insert(xla.ApplyIndexingOp(xla.IndexingMapAttr(map), [value])).results[0]


def power(step: StepBuilder, exponent: SSAValue, bits: int, limit: int) -> SSAValue:
    """2 ** (bits * exponent) for an exponent below `limit`."""
    power: SSAValue = step.value(1)
    bit = 0
    while 1 << bit < limit:
        digit = remainder(step, quotient(step, exponent, 1 << bit), 2)
        factor = step.value(step.add(step.emit(digit, (1 << (bits << bit)) - 1), 1))
        power = factor if bit == 0 else step.emit(power, factor)
        bit += 1
    return power
