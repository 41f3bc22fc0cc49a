"""sort as a network of compare and exchange, the same pairs for all rows at once.

    [before, N, after], N the power of two that holds the dimension, and each element's number as one more operand
    for blocks of 2, 4, ... N:   fusion { the k-th element of a block with the k-th from its end }
                                 fusion { neighbours at distance block / 4, block / 8, ... 1 }

Each fusion reads every operand twice, by views, once as it lies and once with the partners in its place; steps that are alike are
one kernel: 2 * log2(N) kernels, log2(N)^2 / 2 launches. Elements that compare equal stay in the order of their numbers, so
every sort is stable; numbers beyond the dimension are behind everything.
"""

from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, i1, i32, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.dialects import stablehlo
from hlo2tx8.hlo.expansion import Expansion, int_array
from hlo2tx8.hlo.lift_map import is_liftable, lift_body
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.indexing import Dim, IndexingMap


def _sort(op: Operation) -> None:
    shape, dim = tensor_like(op.results[0].type).shape, int(attributes_of(op)["dimension"])
    body = op.regions[0].block
    if not is_liftable(body):
        return
    e, n = Expansion(op), shape[dim] if shape else 1
    if n <= 1 or 0 in shape:
        e.replace(*op.operands)
        return
    count = 1 << (n - 1).bit_length()
    whole = (prod(shape[:dim]), count, prod(shape[dim + 1 :]))
    values = [_padded(e, value, (whole[0], n, whole[2]), count) for value in op.operands]
    values.append(e.emit("iota", [], TensorType(i32, whole), iota_dimension=IntegerAttr(1, i64)))
    half = 1
    while half < count:
        values = _Step(e, body, n, whole, half, is_mirrored=True).emit(values)
        distance = half // 2
        while distance:
            values = _Step(e, body, n, whole, distance, is_mirrored=False).emit(values)
            distance //= 2
        half *= 2
    found: list[SSAValue] = []
    for value, result in zip(values, op.results, strict=False):
        bounds = {"start_indices": int_array((0, 0, 0)), "limit_indices": int_array((whole[0], n, whole[2]))}
        cut = e.emit("slice", [value], e.like(value, (whole[0], n, whole[2])), strides=int_array((1, 1, 1)), **bounds)
        found.append(e.emit("reshape", [cut], result.type))
    e.replace(*found)


def _padded(e: Expansion, value: SSAValue, shape: Sequence[int], count: int) -> SSAValue:
    flat = e.emit("reshape", [value], e.like(value, shape))
    return e.pad(flat, e.splat(0, e.like(value, ())), (0, 0, 0), (0, count - shape[1], 0), (0, 0, 0))


class _Step:
    """Compare and exchange in blocks of two halves of `half` elements each."""

    def __init__(self, e: Expansion, body: Block, n: int, whole: Sequence[int], half: int, *, is_mirrored: bool) -> None:
        self.e, self.body, self.n, self.whole = e, body, n, tuple(whole)
        self.shape = (whole[0], whole[1] // (2 * half), 2, half, whole[2])
        block, side, at = Dim(1) * (2 * half), Dim(2), Dim(3)
        own = block + side * half + at
        other = block + (1 - side) * half + (half - 1 - at if is_mirrored else at)
        self.places = [IndexingMap.from_shape([Dim(0), place, Dim(4)], self.shape) for place in (own, other)]

    def emit(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """The values and numbers behind the step, as one fusion."""
        e, before = self.e, self.e.op.prev_op
        own, other = ([e.view(value, place) for value in values] for place in self.places)
        side = e.emit("iota", [], TensorType(i32, self.shape), iota_dimension=IntegerAttr(2, i64))
        is_first = self._compare("EQ", side, self._number(0))
        first = [self._select(is_first, a, b) for a, b in zip(own, other, strict=True)]
        second = [self._select(is_first, b, a) for a, b in zip(own, other, strict=True)]
        exchange = self._is_before(second, first)
        new = [self._select(exchange, b, a) for a, b in zip(own, other, strict=True)]
        flat = [e.emit("reshape", [value], e.like(value, self.whole)) for value in new]
        return list(e.fuse_since(before, flat))

    def _is_before(self, a: Sequence[SSAValue], b: Sequence[SSAValue]) -> SSAValue:
        """Does the comparator put a in front of b, or neither in front of the other and a comes first?"""
        less, greater = (self._lifted(x, y) for x, y in ((a, b), (b, a)))
        earlier = self._compare("LT", a[-1], b[-1])
        stays = self._both(self._emit("not", greater), earlier)
        inside, outside = self._compare("LT", a[-1], self._number(self.n)), self._compare("GE", b[-1], self._number(self.n))
        return self._both(inside, self._emit("or", outside, self._emit("or", less, stays)))

    def _lifted(self, a: Sequence[SSAValue], b: Sequence[SSAValue]) -> SSAValue:
        pairs = [value for pair in zip(a[:-1], b[:-1], strict=True) for value in pair]
        return lift_body(self.body, pairs, self.shape, self.e.op)[0]

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


EXPANSIONS: dict[str, Callable[[Operation], None]] = {"stablehlo.sort": _sort}
