"""Pass join-updates: a scatter whose updates meet in lines that fit the scratchpad joins them there, not one by one in memory.

write_at %x, %u, %i by +                   ⟶    %p = hlo.join_at (neutral elements, a line per part of the updates), %i, %u
    x [512, 64], u [8192, 64]                    add %x, (reduce %p over its lines)

write_at %x, %u, %i                        ⟶    hlo.join_at %x, %i, %u                  each line has updates of its own
    x [2048, 1024], u [2048, 16]

Dimensions of x along which an update has all elements, or is at its own index, are lines in front of those that indices move
along, and columns behind them. Parts join the updates in another grouping, by a combiner that allows it; else they stay
in order. Whether updates go one by one is decided by an estimate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp, NoneAttr, StringAttr, TensorType, i1, i32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import FusionOp, LiteralAttr
from hlo2tx8.dialects.hlo_lines import JoinAtOp
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.combiner import neutral_element
from hlo2tx8.hlo.constants import Array, scalar_of
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.indexed import IndexedAccess
from hlo2tx8.hlo.types import integer_limits, is_unsigned
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap
from hlo2tx8.schedule.join_lines import UpdatedLines

DTYPES = (
    *(f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)),
    *("float16", "bfloat16", "float32", "float64", "bool"),
)
"""Of elements that the kernel core joins with one instruction."""
MEMORY_TURN_CYCLES = 70
"""Of an update in memory at least: its window is read, joined and written before the next one begins."""
LARGEST_INDEX = (1 << 31) - 1


@dataclass(frozen=True)
class JoinUpdatesPass(ModulePass):
    """Rewrites such scatters; see the module docstring."""

    name = "join-updates"

    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rates = Rates.of(load_chip(self.chip))
        rewrite_named(op, {"hlo.write_at": lambda update: _join(update, rates)})


def _join(op: Operation, rates: Rates) -> None:
    types = [as_tensor(value.type) for value in op.operands]
    is_plain = all(isinstance(type_.encoding, NoneAttr) and 0 not in type_.get_shape() for type_ in types)
    if len(op.results) != 1 or not is_plain or isinstance(op.parent_op(), FusionOp):
        return
    dtype = tensor_like(op.results[0].type).dtype
    neutral = neutral_element(op.regions[0].block, dtype) if op.regions else None
    if dtype.name not in DTYPES or (op.regions and neutral is None) or (walk := _Dimensions.of(op)) is None:
        return
    lines = UpdatedLines.of(walk.shape, walk.num_updates, dtype.itemsize, is_loaded=scalar_of(op.operands[0]) is None)
    one_by_one = _in_memory(op, lines, rates)
    if walk.is_turned:
        one_by_one -= 2 * lines.lines * lines.updates * lines.columns * lines.width / rates.ddr + rates.kernel
    whole, (parts, in_parts) = lines.cycles(rates), lines.in_parts(rates)
    e = _Join(op, walk)
    if whole < one_by_one and (neutral is None or whole <= in_parts):
        e.replace(e.at_once())
    elif neutral is not None and in_parts < one_by_one:
        e.replace(e.in_parts(parts, neutral))


def _in_memory(op: Operation, lines: UpdatedLines, rates: Rates) -> float:
    """The estimate of windows that are read and written one after the other."""
    in_order: Sequence[int] = attributes_of(op)["in_order"]
    turns = prod(tensor_like(op.operands[1].type).shape[d] for d in in_order)
    num_lines = lines.lines * lines.updates // turns
    window_bytes = num_lines * max(rates.line_bytes, lines.columns * lines.width)
    return turns * max(MEMORY_TURN_CYCLES, 2 * window_bytes / rates.ddr)


@dataclass(frozen=True)
class _Dimensions:
    """How a scatter walks over its operand: `sizes` of the operand's dimensions in front of those that `moved` says indices move
    along, of these, and of those behind; the updates' dimensions in `order`, which are of lines, of updates and of columns.
    """

    sizes: tuple[tuple[int, ...], ...]
    moved: tuple[int, ...]
    order: tuple[tuple[int, ...], ...]
    num_updates: int
    is_turned: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        before, places, behind = map(prod, self.sizes)
        return before, places, behind

    @staticmethod
    def of(op: Operation) -> "_Dimensions | None":
        """None if an update may have a part of what is along a dimension, or indices move it along dimensions that are not side by
        side."""
        place = IndexedAccess.of(attributes_of(op))
        shape, updates = (tensor_like(value.type).shape for value in op.operands[:2])
        own: dict[int, int] = {}
        moved: list[int] = []
        for dim, (size, expr) in enumerate(zip(shape, place.map.results, strict=True)):
            numbers = [k for k, d in enumerate(place.dims) if d == dim]
            if numbers:
                k = numbers[0]
                if expr != Const(0) or place.rooms[k] != size - 1 or len(numbers) > 1:
                    return None
                expr = _counted(op.operands[2 + k], place.index_maps[k].results)
            if isinstance(expr, Dim) and updates[expr.index] == size and expr.index not in own.values():
                own[dim] = expr.index
            elif numbers:
                moved.append(dim)
            elif size != 1 or expr != Const(0):
                return None
        if not moved or moved != list(range(moved[0], moved[-1] + 1)) or not 1 < prod(shape[d] for d in moved) < LARGEST_INDEX:
            return None
        before, behind = ([own[d] for d in own if (d < moved[0]) == is_before] for is_before in (True, False))
        walked = [d for d in range(len(updates)) if d not in own.values()]
        if any(isinstance(e, Dim) and e.index in behind for m in place.index_maps for e in m.results):
            return None
        order = [d for d in (*before, *walked, *behind) if updates[d] > 1]
        sizes = shape[: moved[0]], shape[moved[0] : moved[-1] + 1], shape[moved[-1] + 1 :]
        numbers = tuple(place.dims.index(dim) for dim in moved)
        dims = tuple(before), tuple(walked), tuple(behind)
        return _Dimensions(sizes, numbers, dims, prod(updates[d] for d in walked), order != sorted(order))


@dataclass
class _Join(Expansion):
    """Builds what a scatter becomes, in front of it."""

    walk: _Dimensions

    def at_once(self) -> SSAValue:
        """All updates of a line in order."""
        x, (first, places, _) = self.op.operands[0], self.walk.sizes
        start = scalar_of(x)
        return self._joined(x if start is None else start, tensor_like(x.type).shape, len(first), len(places), self._places())

    def in_parts(self, parts: UpdatedLines, neutral: Array) -> SSAValue:
        """Parts of the updates of a line, each joined with neutral elements, and then with each other and the line."""
        x, (lines, places, columns) = self.op.operands[0], self.walk.shape
        count = parts.lines // lines
        missing, none = count * parts.updates - self.walk.num_updates, self.splat(-1, TensorType(i32, ()))
        index = self._places()
        if missing:
            index = self._reshaped(index, (lines, self.walk.num_updates))
            index = self.pad(index, none, (0, 0), (0, missing), (0, 0))
        found = self._joined(neutral, (lines, count, places, columns), 2, 1, index)
        start = scalar_of(x)
        type_, over = self.like(x, self.walk.shape), {"dimensions": int_array((1,))}
        operands = [found, self._constant(neutral if start is None else start, ())]
        reduced = self.insert(stablehlo.OPS["reduce"](operands, [type_], over, [self.op.regions[0].clone()])).results[0]
        reduced = self._reshaped(reduced, tensor_like(x.type).shape)
        first = self.op.regions[0].block.first_op
        assert first is not None
        return reduced if start is not None else self.emit(first.name.rpartition(".")[2], [x, reduced], x.type)

    def _joined(self, x: SSAValue | Array, shape: Sequence[int], num_lines: int, num_places: int, index: SSAValue) -> SSAValue:
        """Lines of that shape with the updates: a fusion of its own, with what is constant."""
        count = prod(tensor_like(index.type).shape) // self.walk.shape[0]
        updates, mark = self._updates(count), self.op.prev_op
        if isinstance(x, np.ndarray):
            x = self._constant(x, shape)
        if isinstance(updates, np.ndarray):
            updates = self._constant(updates, (*tensor_like(index.type).shape, self.walk.shape[2]))
        properties = {"places": IntegerAttr(num_lines, i64), "columns": IntegerAttr(num_lines + num_places, i64)}
        regions = [self.op.regions[0].clone()] if self.op.regions else []
        new = self.insert(JoinAtOp([x, index, updates], [self.like(self.op.results[0], shape)], properties, regions))
        return self.fuse_since(mark, new.results)[0]

    def _constant(self, element: Array, shape: Sequence[int]) -> SSAValue:
        return self.emit("constant", [], self.like(self.op.results[0], shape), value=LiteralAttr.from_array(element))

    def _updates(self, count: int) -> SSAValue | Array:
        """Of all lines, with `count` updates each; if all are the same, the element."""
        updates = self.op.operands[1]
        if (scalar := scalar_of(updates)) is not None:
            return scalar
        lines, _, columns = self.walk.shape
        turned = self.transpose(updates, [d for dims in self.walk.order for d in dims]) if self.walk.is_turned else updates
        if not (missing := count - self.walk.num_updates):
            return turned
        turned = self._reshaped(turned, (lines, self.walk.num_updates, columns))
        return self.pad(turned, self.splat(0, self.like(updates, ())), (0, 0, 0), (0, missing, 0), (0, 0, 0))

    def _places(self) -> SSAValue:
        """s32 [lines, updates], in some shape; those that are none are outside."""
        found = [self._index(number) for number in self.walk.moved]
        if len(found) == 1:
            return found[0]
        total, outside = None, None
        for index, size in zip(found, self.walk.sizes[1], strict=True):
            total = index if total is None else self.emit("add", [self._times(total, size), index], index.type)
            for direction, limit in (("LT", 0), ("GE", size)):
                type_ = TensorType(i1, as_tensor(index.type).get_shape())
                is_outside = self._compared(direction, index, self.splat(limit, as_tensor(index.type)), type_)
                outside = is_outside if outside is None else self.emit("or", [outside, is_outside], type_)
        assert total is not None and outside is not None
        return self.emit("select", [outside, self.splat(-1, as_tensor(total.type)), total], total.type)

    def _times(self, index: SSAValue, size: int) -> SSAValue:
        return self.emit("multiply", [index, self.splat(size, as_tensor(index.type))], index.type)

    def _compared(self, direction: str, a: SSAValue, b: SSAValue, type_: TensorType[IntegerType]) -> SSAValue:
        return self.emit("compare", [a, b], type_, comparison_direction=StringAttr(direction))

    def _index(self, number: int) -> SSAValue:
        """An index of all updates, s32, in some shape; the same for all indices if there are several."""
        place = IndexedAccess.of(attributes_of(self.op))
        value, at = _component(self.op.operands[2 + number], place.index_maps[number].results)
        lines, walked, _ = self.walk.order
        dims = [*lines, *walked]
        sizes = [tensor_like(self.op.operands[1].type).shape[d] for d in dims]
        own: list[Expr] = [Const(0)] * (max(dims, default=0) + 1)
        for position, dim in enumerate(dims):
            own[dim] = Dim(position)
        exprs = [expr.substitute(own, ()) for expr in at]
        wanted = [Dim(position) for position, size in enumerate(sizes) if size > 1]
        read = [expr for expr, size in zip(exprs, tensor_like(value.type).shape, strict=True) if size > 1]
        if read != wanted:
            value = self.view(value, IndexingMap.from_shape(exprs, sizes))
        limited = self._limited(value, place.rooms[number] + 1)
        return limited if len(self.walk.moved) == 1 else self._reshaped(limited, (self.walk.shape[0], self.walk.num_updates))

    def _limited(self, value: SSAValue, size: int) -> SSAValue:
        """As s32; an index that may be none of it is limited to -1, `size` before."""
        type_ = as_tensor(value.type)
        dtype = tensor_like(value.type).dtype
        if dtype.itemsize >= 4 and is_unsigned(dtype):
            value = self.emit("minimum", [value, self.splat(size, type_)], type_)
        elif dtype.itemsize > 4:
            value = self.emit("clamp", [self.splat(-1, self.like(value, ())), value, self.splat(size, self.like(value, ()))], type_)
        return self.converted(value, i32)

    def _reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The same elements in another shape."""
        same = tensor_like(value.type).shape == tuple(shape)
        return value if same else self.emit("reshape", [value], self.like(value, shape))


def _counted(value: SSAValue, at: Sequence[Expr]) -> Expr | None:
    """What an index equals that is a count."""
    value, at = _component(value, at)
    owner, (shape, dtype) = value.owner, (tensor_like(value.type).shape, tensor_like(value.type).dtype)
    if not isinstance(owner, Operation) or owner.name != "stablehlo.iota":
        return None
    dim = int(attributes_of(owner)["iota_dimension"])
    return at[dim] if shape[dim] - 1 <= integer_limits(dtype)[1] else None


def _component(value: SSAValue, at: Sequence[Expr]) -> tuple[SSAValue, Sequence[Expr]]:
    """Where the element of a tensor at some index comes from, and its index there."""
    while isinstance(owner := value.owner, Operation):
        if owner.name == "stablehlo.concatenate":
            dim = int(attributes_of(owner)["dimension"])
            if not isinstance(start := at[dim], Const):
                break
            position, before = start.value, 0
            for part in owner.operands:
                value, size = part, tensor_like(part.type).shape[dim]
                if position < before + size:
                    break
                before += size
            at = [Const(position - before) if d == dim else expr for d, expr in enumerate(at)]
        elif owner.name == "stablehlo.broadcast_in_dim":
            source, dims = owner.operands[0], attributes_of(owner)["broadcast_dimensions"]
            sizes = tensor_like(source.type).shape
            at = [Const(0) if n == 1 else at[int(d)] for d, n in zip(dims, sizes, strict=True)]
            value = source
        elif owner.name == "stablehlo.reshape":
            before, source = tensor_like(value.type).shape, owner.operands[0]
            kept = [(expr, n) for expr, n in zip(at, before, strict=True) if n > 1]
            shape = tensor_like(source.type).shape
            if [n for _, n in kept] != [n for n in shape if n > 1]:
                break
            exprs = iter([expr for expr, _ in kept])
            at = [next(exprs) if n > 1 else Const(0) for n in shape]
            value = source
        else:
            break
    return value, at
