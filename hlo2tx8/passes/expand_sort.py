"""Pass expand-sort: sort becomes a network of compare-and-exchange steps, which are the same for all rows.

A key of at most 32 bits and the element's number become words of f32, whose network stays in the scratchpad, see
`sorting.sort_words`; then the operands are read at the numbers. Other comparators, and lines too large for that:

    [before, N, after], N the power of two that holds the dimension
    for blocks of 2, 4, ... N:   fusion { the k-th element of a block with the k-th from its end }
                                 fusion { neighbours at distance block / 4, block / 8, ... 1 }

Each fusion reads what it sorts twice, by views, once as it lies and once with the partners in its place; steps that are alike are
one kernel: 2 * log2(N) kernels, log2(N)^2 / 2 launches. What is sorted:

    one key of at most 32 bits     the key and the element's number in one integer, and large operands; then the others are
                                   read at the numbers
    any other comparator           the operands and the elements' numbers

Elements of which none is in front of the other stay in the order of their numbers, so every sort is stable; those beyond the
dimension are behind everything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType, i1, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.formula import Term
from hlo2tx8.builders.lift_body import is_liftable, lift_body
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import origin
from hlo2tx8.dialects.hlo_indexed import ReadAtOp, place_properties
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.indexing import Const, Dim, IndexingMap
from hlo2tx8.ir import i64_attr
from hlo2tx8.notes import add_notes
from hlo2tx8.passes.sorting.sort_key import SortKey, sort_key
from hlo2tx8.passes.sorting.sort_words import WordSort

Shape = tuple[int, ...]

MOST_READ_BYTES = 1 << 20
"""Of a line of an operand that is read at the numbers, by the kernel core, from a copy in the scratchpad."""
LARGEST = (1 << 63) - 1


@dataclass(frozen=True)
class ExpandSortPass(ModulePass):
    """Rewrites sorts; see the module docstring."""

    name = "expand-sort"

    explain: bool = False
    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from hlo2tx8.device.chip import load_chip

        rates = Rates.of(load_chip(self.chip))
        notes: list[str] = []
        rewrite_named(op, {"stablehlo.sort": lambda sort: notes.extend(f"{origin(sort)}: {way}" for way in _sort(sort, rates))})
        if self.explain:
            add_notes(op, notes)


def _sort(op: Operation, rates: Rates) -> list[str]:
    """Replaces a sort, and says how it is done."""
    shape, dim = tensor_like(op.results[0].type).shape, int(attributes_of(op)["dimension"])
    body = op.regions[0].block
    if not is_liftable(body):
        return []
    e, n = Expansion(op), shape[dim] if shape else 1
    if n <= 1 or 0 in shape:
        e.replace(*op.operands)
        return []
    rows = (prod(shape[:dim]), n, prod(shape[dim + 1 :]))
    key = sort_key(body)
    if key is not None and rows[2] > 1 and any(_line_bytes(value, rows) > MOST_READ_BYTES for value in op.operands):
        return _turned(e, dim, rates)
    words = None if key is None else WordSort(e, key, rows, rates)
    plan = None if words is None else words.plan()
    if key is None:
        way = "each stage is a kernel, because the comparator compares no single key of at most 32 bits"
        found = _by_comparator(e, body, rows)
    elif words is None or plan is None:
        way = "each stage is a kernel, because a line is too large to stay in the scratchpad"
        large = [v for v in dict.fromkeys(op.operands) if _line_bytes(v, rows) > MOST_READ_BYTES and not _is_numbers(v, dim)]
        found = _by_key(e, key, dim, rows, large)
    else:
        way = f"sorted in the scratchpad, runs of {1 << plan.run_bits}"
        numbers = words.numbers(plan).value
        found = [_read(e, value, numbers, rows, dim) for value in op.operands]
    results = zip(found, op.results, strict=True)
    e.replace(*(e.emit("reshape", [value], result.type) for value, result in results))
    return [way]


def _turned(e: Expansion, dim: int, rates: Rates) -> list[str]:
    """Sorts lines that lie side by side, so that a step would need all of several to read one, after each lies by itself."""
    op, rank = e.op, len(tensor_like(e.op.results[0].type).shape)
    order = [*(d for d in range(rank) if d != dim), dim]
    back, shape = [order.index(d) for d in range(rank)], tensor_like(op.results[0].type).shape
    turned = [shape[d] for d in order]
    operands = [
        e.emit("iota", [], e.like(v, turned), iota_dimension=i64_attr(rank - 1)) if _is_numbers(v, dim) else e.transpose(v, order)
        for v in op.operands
    ]
    properties = op.properties | {"dimension": i64_attr(rank - 1)}
    types = [e.like(value, turned) for value in op.results]
    new = e.insert(type(op).create(operands=operands, result_types=types, properties=properties, regions=[op.detach_region(0)]))
    e.replace(*(e.transpose(value, back) for value in new.results))
    return ["turned, so that each line lies by itself", *_sort(new, rates)]


def _by_comparator(e: Expansion, body: Block, rows: Shape) -> list[SSAValue]:
    """The operands, [before, n, after], sorted."""
    whole = _whole(rows)
    values = [_padded(e, value, rows, 0) for value in e.op.operands]
    values.append(e.emit("iota", [], TensorType(i32, whole), iota_dimension=i64_attr(1)))
    found = _network(e, values, whole, lambda step, own, other: step.is_exchanged(body, rows[1], own, other))
    return [_cut(e, value, rows) for value in found[:-1]]


def _by_key(e: Expansion, key: SortKey, dim: int, rows: Shape, large: Sequence[SSAValue]) -> list[SSAValue]:
    """The operands, [before, n, after], sorted; the large ones are exchanged with their keys."""
    packed = _padded(e, key.packed(e, dim).value, rows, LARGEST)
    values = [packed, *(_padded(e, value, rows, 0) for value in large)]
    ordered, *moved = (_cut(e, v, rows) for v in _network(e, values, _whole(rows), _Step.is_packed_exchanged))
    known = dict(zip(large, moved, strict=True))
    numbers = Term(e, ordered).converted(i32).value if len(known) < len(set(e.op.operands)) else ordered
    return [known[value] if value in known else _read(e, value, numbers, rows, dim) for value in e.op.operands]


def _is_numbers(value: SSAValue, dim: int) -> bool:
    """Has each element its own number along the dimension?"""
    owner = value.owner
    return isinstance(owner, Operation) and owner.name == "stablehlo.iota" and attributes_of(owner)["iota_dimension"] == dim


def _read(e: Expansion, value: SSAValue, numbers: SSAValue, rows: Shape, dim: int) -> SSAValue:
    """A row's elements at these numbers."""
    if _is_numbers(value, dim):
        return e.converted(numbers, as_tensor(value.type).element_type)
    flat, identity = e.emit("reshape", [value], e.like(value, rows)), IndexingMap.identity(rows)
    map = identity.with_results((Dim(0), Const(0), Dim(2)))
    return e.insert(ReadAtOp([flat, numbers], [flat.type], place_properties(map, (identity,), (1,), (rows[1] - 1,)))).results[0]


def _network(e: Expansion, values: list[SSAValue], whole: Shape, exchange: "Exchange") -> list[SSAValue]:
    """Arrays of the same whole shape, sorted together."""
    half = 1
    while half < whole[1]:
        values = _Step(e, whole, half, is_mirrored=True).emit(values, exchange)
        distance = half // 2
        while distance:
            values = _Step(e, whole, distance, is_mirrored=False).emit(values, exchange)
            distance //= 2
        half *= 2
    return values


def _whole(rows: Shape) -> Shape:
    return (rows[0], 1 << (rows[1] - 1).bit_length(), rows[2])


def _padded(e: Expansion, value: SSAValue, rows: Shape, behind: int) -> SSAValue:
    flat = e.emit("reshape", [value], e.like(value, rows))
    return e.pad(flat, e.splat(behind, e.like(value, ())), (0, 0, 0), (0, _whole(rows)[1] - rows[1], 0), (0, 0, 0))


def _cut(e: Expansion, value: SSAValue, rows: Shape) -> SSAValue:
    bounds = {"start_indices": int_array((0, 0, 0)), "limit_indices": int_array(rows)}
    return e.emit("slice", [value], e.like(value, rows), strides=int_array((1, 1, 1)), **bounds)


def _line_bytes(value: SSAValue, rows: Shape) -> int:
    """Of a line, with what lies between its elements."""
    return rows[1] * rows[2] * tensor_like(value.type).dtype.itemsize


class _Step:
    """One compare-and-exchange step of the network, on blocks of two halves of `half` elements each."""

    def __init__(self, e: Expansion, whole: Shape, half: int, *, is_mirrored: bool) -> None:
        self.e, self.whole = e, whole
        self.shape = (whole[0], whole[1] // (2 * half), 2, half, whole[2])
        block, side, at = Dim(1) * (2 * half), Dim(2), Dim(3)
        own = block + side * half + at
        other = block + (1 - side) * half + (half - 1 - at if is_mirrored else at)
        self.places = [IndexingMap.from_shape([Dim(0), place, Dim(4)], self.shape) for place in (own, other)]

    def emit(self, values: Sequence[SSAValue], exchange: "Exchange") -> list[SSAValue]:
        """The values after the step, computed by one fusion."""
        e, before = self.e, self.e.op.prev_op
        own, other = ([e.view(value, place) for value in values] for place in self.places)
        is_exchanged = exchange(self, own, other)
        new = [self._select(is_exchanged, b, a) for a, b in zip(own, other, strict=True)]
        flat = [e.emit("reshape", [value], e.like(value, self.whole)) for value in new]
        return list(e.fuse_since(before, flat))

    def is_packed_exchanged(self, own: Sequence[SSAValue], other: Sequence[SSAValue]) -> SSAValue:
        """True where an element and its partner change places, for keys that are all different or whose order does not matter."""
        return self._emit("xor", self._compare("LT", other[0], own[0]), self._on_side(1))

    def is_exchanged(self, body: Block, n: int, own: Sequence[SSAValue], other: Sequence[SSAValue]) -> SSAValue:
        """True where an element and its partner change places by the comparator. The last values are the elements' indices; those
        of `n` and more are padding, which comes last.
        """
        is_first = self._on_side(0)
        first = [self._select(is_first, a, b) for a, b in zip(own, other, strict=True)]
        second = [self._select(is_first, b, a) for a, b in zip(own, other, strict=True)]
        return self._is_before(body, n, second, first)

    def _is_before(self, body: Block, n: int, a: Sequence[SSAValue], b: Sequence[SSAValue]) -> SSAValue:
        """Does the comparator put a in front of b? Of two of which it puts none in front of the other the first one stays in front;
        of two that it puts in front of each other, as LE does, the last one comes first, as with XLA:CPU."""
        less, greater = (self._lifted(body, x, y) for x, y in ((a, b), (b, a)))
        is_tie = self._emit("not", self._emit("xor", less, greater))
        first = self._emit("xor", less, self._both(is_tie, self._compare("LT", a[-1], b[-1])))
        inside, outside = self._compare("LT", a[-1], self._number(n)), self._compare("GE", b[-1], self._number(n))
        return self._both(inside, self._emit("or", outside, first))

    def _on_side(self, number: int) -> SSAValue:
        """Is an element in this half of its block?"""
        side = self.e.emit("iota", [], TensorType(i32, self.shape), iota_dimension=i64_attr(2))
        return self._compare("EQ", side, self._number(number))

    def _lifted(self, body: Block, a: Sequence[SSAValue], b: Sequence[SSAValue]) -> SSAValue:
        pairs = [value for pair in zip(a[:-1], b[:-1], strict=True) for value in pair]
        return lift_body(body, pairs, self.shape, self.e.op)[0]

    def _number(self, value: int) -> SSAValue:
        return self.e.splat(value, TensorType(i32, self.shape))

    def _compare(self, direction: str, a: SSAValue, b: SSAValue) -> SSAValue:
        type_: TensorType[Attribute] = TensorType(i1, self.shape)
        new = stablehlo.OPS["compare"]([a, b], [type_], {"comparison_direction": StringAttr(direction)})
        return self.e.insert(new).results[0]

    def _select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.e.emit("select", [condition, a, b], a.type)

    def _both(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._emit("and", a, b)

    def _emit(self, name: str, *operands: SSAValue) -> SSAValue:
        return self.e.emit(name, operands, operands[0].type)


Exchange: TypeAlias = Callable[[_Step, Sequence[SSAValue], Sequence[SSAValue]], SSAValue]
"""Of a step's own values and their partners: do they change places?"""
