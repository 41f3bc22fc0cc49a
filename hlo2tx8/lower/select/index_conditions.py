"""Comparisons of indices: conditions that say no more than where a lane is, whatever its data.

%i = vec.index (... lane1 + step * 128), %j = vec.index (... lane0 * 64 + lane2)
%c = compare GE %i, %j                                     lane1 - lane0 * 64 - lane2 + step * 128 >= 0
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, VectorType, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.indexing import Const, Expr, IndexingMap, Interval, Sym, simplify_expr, split_terms
from hlo2tx8.lower.element_format import constant_bits, storage_format, vector_type
from hlo2tx8.lower.select.instruction_tables import SWAPPED, hlo_name

Named = (xla.ElementwiseOp, arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.AndIOp, arith.OrIOp, arith.SelectOp, arith.ExtSIOp)


@dataclass(frozen=True)
class _Index:
    """An integer in each lane: `expr` of the map's dimensions, which are `ivs`, and its ranges, the lanes."""

    expr: Expr
    map: IndexingMap | None
    ivs: tuple[SSAValue, ...]

    def bounds(self) -> Interval:
        return self.map.bounds(self.expr) if self.map is not None else _constant_interval(self.expr)


@dataclass(frozen=True)
class HalfSpace:
    """The lanes in which `base` + sum(`strides[k]` * lane k) is not negative; `base` has the map's dimensions, which are `ivs`."""

    base: Expr
    strides: tuple[int, ...]
    map: IndexingMap
    ivs: tuple[SSAValue, ...]

    def complement(self) -> "HalfSpace":
        """All other lanes."""
        return replace(self, base=self.base * -1 - 1, strides=tuple(-stride for stride in self.strides))


@dataclass(frozen=True)
class LanesMeant:
    """The lanes that are in all of `halves`; or, if `is_outside`, those that are not."""

    halves: tuple[HalfSpace, ...]
    is_outside: bool = False

    def complement(self) -> "LanesMeant":
        if len(self.halves) == 1 and not self.is_outside:
            return LanesMeant((self.halves[0].complement(),))
        return LanesMeant(self.halves, not self.is_outside)

    def both(self, other: "LanesMeant") -> "LanesMeant | None":
        """The lanes in both, None if that is no such set."""
        return None if self.is_outside or other.is_outside else LanesMeant((*self.halves, *other.halves))


@dataclass(frozen=True)
class IndexConditions:
    """Of a block: the selects whose condition is one on indices, with the lanes where it holds; other comparisons of indices that
    something reads; and operations that nothing else needs."""

    selects: dict[Operation, LanesMeant]
    compares: dict[Operation, LanesMeant]
    unneeded: frozenset[Operation]

    @staticmethod
    def of(block: Block, fits: Callable[[Operation, LanesMeant], bool]) -> "IndexConditions":
        """Those of a block; of an operation and its lanes, `fits` says whether they are treated as such."""
        known: dict[SSAValue, LanesMeant | None] = {}
        ops = ops_of(block)

        def find(name: str, wanted: Iterable[Operation]) -> dict[Operation, LanesMeant]:
            named = (op for op in wanted if type(op) in Named and isinstance(op, Named))  # the first says no to most, and is fast
            vectors = (op for op in named if isinstance(op.results[0].type, VectorType))
            conditions = [(op, op.results[0] if name == "compare" else op.operands[0]) for op in vectors if hlo_name(op) == name]
            found = [(op, _lanes_of(condition, block, known)) for op, condition in conditions]
            return {op: lanes for op, lanes in found if lanes is not None and fits(op, lanes)}

        selects = find("select", ops)
        unneeded = _unneeded(ops, {(op, 0) for op in selects})
        compares = find("compare", (op for op in ops if op not in unneeded))
        read = {(op, 0) for op in selects} | {(op, number) for op in compares for number in range(2)}
        return IndexConditions(selects, compares, _unneeded(ops, read))


def _unneeded(ops: Sequence[Operation], unread: set[tuple[Operation, int]]) -> frozenset[Operation]:
    """The operations whose results nothing reads but such operands and operations that are not needed either."""
    found: set[Operation] = set()
    for op in reversed(ops):
        uses = [use for result in op.results for use in result.uses]
        if uses and not op.regions and all(use.operation in found or (use.operation, use.index) in unread for use in uses):
            found.add(op)
    return frozenset(found)


def _lanes_of(value: SSAValue, block: Block, known: dict[SSAValue, LanesMeant | None]) -> LanesMeant | None:
    """The lanes in which a truth value holds, None if data decide."""
    if value not in known:
        owner = value.owner
        known[value] = None
        if isinstance(owner, Operation) and isinstance(owner, Named) and owner.parent is block:
            known[value] = _lanes_of_op(owner, block, known)
    return known[value]


def _lanes_of_op(op: Operation, block: Block, known: dict[SSAValue, LanesMeant | None]) -> LanesMeant | None:
    parts = [_lanes_of(operand, block, known) for operand in op.operands]
    truths = [_truth(operand) for operand in op.operands]
    match hlo_name(op), parts, truths:
        case "compare", _, _:
            return _compared(op)
        case "not", [LanesMeant() as a], _:
            return a.complement()
        case "and", [LanesMeant() as a, LanesMeant() as b], _:
            return a.both(b)
        case "or", [LanesMeant() as a, LanesMeant() as b], _:
            both = a.complement().both(b.complement())
            return both.complement() if both is not None else None
        case "and", [LanesMeant() as a, None], [_, True]:
            return a
        case "and", [None, LanesMeant() as a], [True, _]:
            return a
        case "select", [LanesMeant() as a, _, _], [_, True, False]:
            return a
        case "select", [LanesMeant() as a, _, _], [_, False, True]:
            return a.complement()
        case "select", [LanesMeant() as a, LanesMeant() as b, _], [_, _, False]:
            return a.both(b)
        case _:
            return None


def _compared(op: Operation) -> LanesMeant | None:
    attribute = op.attributes.get("comparison_direction")
    left, right = (_index_of(operand) for operand in op.operands)
    direction = str(attribute).strip('"')
    if left is None or right is None or direction not in SWAPPED:
        return None
    at_least, at_most = _not_negative(left, right, 0), _not_negative(right, left, 0)
    more, less = _not_negative(left, right, 1), _not_negative(right, left, 1)
    if at_least is None or at_most is None or more is None or less is None:
        return None
    halves = {"GE": (at_least,), "LE": (at_most,), "GT": (more,), "LT": (less,)}
    if direction in halves:
        return LanesMeant(halves[direction])
    return LanesMeant((at_least, at_most), is_outside=direction == "NE")


def _not_negative(a: _Index, b: _Index, by: int) -> HalfSpace | None:
    """a - b - by >= 0."""
    map, ivs = (a.map, a.ivs) if a.map is not None else (b.map, b.ivs)
    if map is None or _joined(a, b, a.expr) is None:
        return None
    ranges = [variable.interval for variable in map.dims], [variable.interval for variable in map.ranges]
    leaves = [Sym(k) for k in range(len(map.ranges))]
    split = split_terms(simplify_expr(a.expr - b.expr - by, *ranges), leaves)
    return None if split is None else HalfSpace(split[0], tuple(split[1].get(leaf, 0) for leaf in leaves), map, ivs)


def _index_of(value: SSAValue) -> _Index | None:
    """The expression that an integer vector has in each lane, if no operation wraps on the way."""
    op = value.owner
    found: _Index | None = None
    match op:
        case vec.IndexOp():
            found = _Index(op.map.data.results[0], op.map.data, tuple(op.ivs))
        case vec.SplatOp():
            found = _splat_index(op)
        case Operation() if isinstance(op, Named):
            found = _arithmetic(hlo_name(op), [_index_of(operand) for operand in op.operands])
        case _:
            pass
    limits = _limits(vector_type(value).element_type)
    return found if found is not None and limits is not None and limits.encloses(found.bounds()) else None


def _arithmetic(name: str, operands: list[_Index | None]) -> _Index | None:
    match name, operands:
        case "convert", [_Index() as a]:
            return a
        case "add", [_Index() as a, _Index() as b]:
            return _joined(a, b, a.expr + b.expr)
        case "subtract", [_Index() as a, _Index() as b]:
            return _joined(a, b, a.expr - b.expr)
        case "multiply", [_Index() as a, _Index() as b] if isinstance(a.expr, Const) or isinstance(b.expr, Const):
            return _joined(a, b, a.expr * b.expr)
        case _:
            return None


def _joined(a: _Index, b: _Index, expr: Expr) -> _Index | None:
    """What two indices make, None if they are not of the same loops and lanes."""
    variables = [(index.map.dims, index.map.ranges, index.ivs) for index in (a, b) if index.map is not None]
    return _Index(expr, a.map or b.map, a.ivs or b.ivs) if len(set(variables)) < 2 else None


def _splat_index(op: vec.SplatOp) -> _Index | None:
    limits = _limits(op.value.type)
    if limits is None or not isinstance(op.value.owner, (arith.ConstantOp, xla.ConstantOp)):
        return None
    bits = constant_bits(op.value)
    size = limits.hi - limits.lo + 1
    return _Index(Const(bits if bits <= limits.hi else bits - size), None, ())


def _truth(value: SSAValue) -> bool | None:
    """A truth value that is the same in all lanes, None if it is not known to be."""
    op = value.owner
    if not isinstance(op, vec.SplatOp) or not isinstance(op.value.owner, (arith.ConstantOp, xla.ConstantOp)) or op.value.type != i1:
        return None
    return bool(constant_bits(op.value))


def _limits(type_: Attribute) -> Interval | None:
    """The integers of a type."""
    fmt = storage_format(type_)
    if fmt.is_float or not isinstance(type_, IntegerType) or fmt is Format.RAW8:
        return None
    bits = 1 if fmt is Format.PRED else 8 * fmt.bytes
    is_unsigned = fmt is Format.PRED or fmt.name.startswith("U")
    return Interval(0, (1 << bits) - 1) if is_unsigned else Interval(-(1 << bits - 1), (1 << bits - 1) - 1)


def _constant_interval(expr: Expr) -> Interval:
    assert isinstance(expr, Const)
    return Interval(expr.value, expr.value)
