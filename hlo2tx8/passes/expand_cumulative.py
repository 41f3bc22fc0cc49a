"""Pass expand-cumulative: a window over all of a dimension, padded on one side, becomes a scan.

    reduce_window %x, window n, padding (n - 1, 0)    ⟶    hlo.scan %x from the initial value

    if x has many lines, or few elements; else a line is cut:

                                                           %rows   = reshape %x to [n / 512, 512]
                                                           %totals = reduce %rows over [1]
                                                           %before = the initial value, and the scan of %totals behind it
                                                           hlo.scan %rows from %before

cumsum, cumprod, cummax and cumlogsumexp of jax are such windows. A combiner may join its elements in any grouping, but in
their order. The initial value joins once, what lies in the padding not at all. With the padding behind, the dimension is
reversed before and after.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.lift_body import is_liftable, lift_body
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.hlo_lines import ScanOp
from hlo2tx8.hlo.combiner import neutral_element
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.window import Window
from hlo2tx8.hlo.spec import Array
from hlo2tx8.ir import i64_attr
from hlo2tx8.schedule.scan_lines import piece_of_line

Shape = tuple[int, ...]
Values = Sequence[SSAValue]

LEAST_LENGTH = 16
"""Shorter dimensions are windows like others."""
ACCUMULATED_BYTES = 4
"""Sums of narrower floats are kept in f32."""


@dataclass(frozen=True)
class ExpandCumulativePass(ModulePass):
    """Rewrites such windows; see the module docstring."""

    name = "expand-cumulative"

    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from hlo2tx8.device.chip import load_chip

        rates = Rates.of(load_chip(self.chip))
        rewrite_named(op, {"stablehlo.reduce_window": lambda window: _expand(window, rates)})


def _expand(op: Operation, rates: Rates) -> None:
    dim = _scanned_dimension(op)
    if dim is None or not is_liftable(op.regions[0].block):
        return
    half, shape = len(op.results), tensor_like(op.results[0].type).shape
    is_reversed = Window.of(attributes_of(op)).high[dim] > 0
    scan = _Scan(op, rates)
    rows = (prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :]))
    values = [scan.reshaped(value, rows) for value in op.operands[:half]]
    starts: Values = op.operands[half:]
    if is_reversed:
        values = [scan.reversed(value) for value in values]
    found = scan.inclusive(values, starts)
    if is_reversed:
        found = [scan.reversed(value) for value in found]
    scan.replace(*(scan.reshaped(value, shape) for value in found))


def _scanned_dimension(op: Operation) -> int | None:
    """The dimension along which each result joins all elements up to its own; None if the windows are others."""
    window, shape = Window.of(attributes_of(op)), tensor_like(op.operands[0].type).shape
    wide = [dim for dim, size in enumerate(window.size) if size != 1]
    if len(wide) != 1 or 0 in shape:
        return None
    (dim,) = wide
    n = window.size[dim]
    if n != shape[dim] or n < LEAST_LENGTH or any(step != 1 for step in (*window.strides, *window.base_dilations)):
        return None
    if window.window_dilations[dim] != 1 or (window.low[dim], window.high[dim]) not in ((n - 1, 0), (0, n - 1)):
        return None
    others = [d for d in range(len(shape)) if d != dim]
    return None if any(window.low[d] or window.high[d] for d in others) else dim


@dataclass
class _Scan(Expansion):
    """Scans of arrays [before, n, after] along n, in front of a reduce_window and with its combiner."""

    rates: Rates

    def piece(self, num_lines: int, n: int) -> int:
        """Elements of a line that one kernel scans at once."""
        width = sum(max(ACCUMULATED_BYTES, tensor_like(result.type).dtype.itemsize) for result in self.op.results)
        return piece_of_line(num_lines, n, width, self.rates)

    @property
    def body(self) -> Block:
        """The combiner."""
        return self.op.regions[0].block

    def inclusive(self, values: Values, starts: Values) -> list[SSAValue]:
        """Each element joined with all before it and, first, with a start, [before, 1, after]."""
        before, n, after = shape_of(values[0])
        columns = self.piece(before * after, n)
        num_rows = -(-n // columns)
        whole = (before * num_rows, columns, after)
        if num_rows > 1:
            missing = num_rows * columns - n
            values = [self.pad(v, self.splat(0, self.like(v, ())), (0, 0, 0), (0, missing, 0), (0, 0, 0)) for v in values]
            totals = self._totals([self.reshaped(v, whole) for v in values])
            totals = [self.reshaped(v, (before, num_rows, after)) for v in totals]
            ends = self.inclusive([self._cut(v, 0, num_rows - 1) for v in totals], starts)
            firsts = [self.everywhere(v, (before, 1, after)) if shape_of(v) == () else v for v in starts]
            starts = [self._joined(start, end) for start, end in zip(firsts, ends, strict=True)]
        starts = [start if shape_of(start) == () else self.reshaped(start, (whole[0], 1, after)) for start in starts]
        found = self._scanned([self.reshaped(v, whole) for v in values], starts)
        found = [self.reshaped(v, (before, num_rows * columns, after)) for v in found]
        return [self._cut(v, 0, n) for v in found]

    def _scanned(self, values: Values, starts: Values) -> Values:
        """Each row scanned, by a kernel of its own, which reads what `values` are reshapes of."""
        mark, types = self.op.prev_op, [value.type for value in values]
        own = [self.emit("reshape", [_source(value)], value.type) for value in values]
        properties = {"dimension": i64_attr(1)}
        new = self.insert(ScanOp([*own, *starts], types, properties, [self.op.regions[0].clone()]))
        return self.fuse_since(mark, new.results)

    def _totals(self, values: Values) -> Values:
        """All elements of each row joined, [before, 1, after]."""
        neutral = neutral_element(self.body, tensor_like(values[0].type).dtype)
        if neutral is not None:
            return [self._reduced(values[0], neutral)]
        while (n := shape_of(values[0])[1]) > 1:
            even = n - n % 2
            joined = self._combined([self._cut(v, 0, even, 2) for v in values], [self._cut(v, 1, even, 2) for v in values])
            values = [self._joined(a, self._cut(v, even, n)) if n % 2 else a for a, v in zip(joined, values, strict=True)]
        return values

    def _reduced(self, value: SSAValue, start: Array) -> SSAValue:
        before, _, after = shape_of(value)
        initial = self.emit("constant", [], self.like(value, ()), value=LiteralAttr.from_array(start))
        type_, over = self.like(value, (before, after)), {"dimensions": int_array((1,))}
        return self.insert(stablehlo.OPS["reduce"]([value, initial], [type_], over, [self.op.regions[0].clone()])).results[0]

    def _combined(self, left: Values, right: Values) -> list[SSAValue]:
        return lift_body(self.body, [*left, *right], shape_of(left[0]), self.op)

    def _joined(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """One behind the other along n."""
        before, n, after = shape_of(a)
        type_ = self.like(a, (before, n + shape_of(b)[1], after))
        return self.emit("concatenate", [a, b], type_, dimension=i64_attr(1))

    def _cut(self, value: SSAValue, start: int, limit: int, step: int = 1) -> SSAValue:
        """Every element, or every other one, from `start` to `limit` along n."""
        before, n, after = shape_of(value)
        if (start, limit, step) == (0, n, 1):
            return value
        bounds = {"start_indices": (0, start, 0), "limit_indices": (before, limit, after), "strides": (1, step, 1)}
        type_ = self.like(value, (before, -(-(limit - start) // step), after))
        return self.emit("slice", [value], type_, **{name: int_array(numbers) for name, numbers in bounds.items()})

    def everywhere(self, value: SSAValue, shape: Shape) -> SSAValue:
        """A scalar for each element of a shape."""
        return self.emit("broadcast_in_dim", [value], self.like(value, shape), broadcast_dimensions=int_array(()))

    def reversed(self, value: SSAValue) -> SSAValue:
        """The elements along n from the last to the first."""
        return self.emit("reverse", [value], value.type, dimensions=int_array((1,)))


def _source(value: SSAValue) -> SSAValue:
    """What a value has the elements of, in their order."""
    while isinstance(value.owner, stablehlo.OPS["reshape"]):
        value = value.owner.operands[0]
    return value


def shape_of(value: SSAValue) -> Shape:
    """The shape of a tensor."""
    return tensor_like(value.type).shape
