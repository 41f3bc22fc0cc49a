"""Pass expand-select-and-scatter: select_and_scatter becomes two reduces over views.

They say which element each window selects, then what was scattered to each element.

    pad of x, pad with -1 of the numbers of x's elements
    fusion { views [windows..., window...] of both; reduce: the number of the element selected, -1 for none }
    pads of the source and of those numbers: a window's element stands where it starts, holes between
    fusion { views [elements..., window...] of both; reduce: what belongs to this element, put through the combiner }

The windows that contain an element meet it in the order of the source. For windows side by side see expand-select-apart.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, StringAttr, TensorType, i1, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.body_builder import BodyBuilder
from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.window import Window
from hlo2tx8.ir import i64_attr
from hlo2tx8.passes.windows.holding import holding
from hlo2tx8.passes.windows.views import pad_window, window_map

Dims = tuple[int, ...]
INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class ExpandSelectAndScatterPass(ModulePass):
    """Rewrites select_and_scatter; see the module docstring."""

    name = "expand-select-and-scatter"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.select_and_scatter": _select_and_scatter})


def _select_and_scatter(op: Operation) -> None:
    x, source, initial = op.operands
    e, window = Expansion(op), Window.of(attributes_of(op))
    shape, windows = tensor_like(x.type).shape, tensor_like(source.type).shape
    if 0 in shape or 0 in windows:
        e.replace(e.emit("broadcast_in_dim", [initial], op.results[0].type, broadcast_dimensions=int_array(())))
        return
    selected = _select(e, window, x, windows)
    e.replace(_scatter(e, window, source, selected, shape))


def _select(e: Expansion, window: Window, x: SSAValue, windows: Dims) -> SSAValue:
    """Per window the number of the element it selects; -1 if all of it lies outside."""
    shape = tensor_like(x.type).shape
    zero, none = e.splat(0, e.like(x, ())), e.splat(-1, TensorType(_number_type(shape), []))
    padded = [pad_window(e, window, x, zero), pad_window(e, window, _numbers(e, shape), none)]
    before = e.op.prev_op
    map = window_map(window, windows)
    views = [e.view(value, map) for value in padded]
    body = BodyBuilder([e.like(x, ()).element_type, _number_type(shape)] * 2)
    left, left_number, right, right_number = body.args
    none_yet, outside = (body.compare("LT", n, body.number(0, n)) for n in (left_number, right_number))
    (keep,), (keep_right,) = (body.inline(e.op.regions[0].block, pair) for pair in ([left, right], [right, left]))
    # Of two that would both stay, or both go, the one that a walk through the window ends with, whichever side it is on.
    in_order = body.emit("not", [body.emit("xor", [keep, body.compare("LT", left_number, right_number)])])
    keep = body.emit("select", [body.emit("xor", [keep, keep_right]), keep, in_order])
    keep = body.emit("or", [outside, body.emit("and", [body.emit("not", [none_yet]), keep])])
    chosen = [body.emit("select", [keep, a, b], a.type) for a, b in ((left, right), (left_number, right_number))]
    region = body.region(*chosen)
    over = int_array(range(len(windows), len(map.dims)))
    types = [e.like(x, windows), TensorType(_number_type(shape), windows)]
    new = e.insert(stablehlo.OPS["reduce"]([*views, zero, none], types, {"dimensions": over}, [region]))
    return e.fuse_since(before, [new.results[1]])[0]


def _scatter(e: Expansion, window: Window, source: SSAValue, selected: SSAValue, shape: Dims) -> SSAValue:
    """Per element what the windows that selected it hold, put through the combiner behind the initial value."""
    initial, starts = e.op.operands[2], _starts(window, tensor_like(source.type).shape, shape)
    zero, none = e.splat(0, e.like(source, ())), e.splat(-1, e.like(selected, ()))
    padded = [pad_window(e, starts, source, zero), pad_window(e, starts, selected, none)]
    numbers = _numbers(e, shape)
    before = e.op.prev_op
    map = window_map(starts, shape)
    whole = [d.hi + 1 for d in map.dims]
    values, owners = (e.view(value, map) for value in padded)
    own = e.emit("broadcast_in_dim", [numbers], e.like(numbers, whole), broadcast_dimensions=int_array(range(len(shape))))
    preds: TensorType[Attribute] = TensorType(i1, whole)
    is_own = e.insert(stablehlo.OPS["compare"]([owners, own], [preds], {"comparison_direction": StringAttr("EQ")})).results[0]
    region = holding(e.op.regions[1].block)
    over = int_array(range(len(shape), len(whole)))
    true = e.emit("constant", [], TensorType(i1, []), value=LiteralAttr.from_array(np.array(True)))
    types = [e.op.results[0].type, TensorType(i1, shape)]
    new = e.insert(stablehlo.OPS["reduce"]([values, is_own, initial, true], types, {"dimensions": over}, [region]))
    return e.fuse_since(before, [new.results[0]])[0]


def _starts(window: Window, windows: Dims, shape: Dims) -> Window:
    """The windows of windows: the k-th of those that contain element d starts at d + k in the padded, dilated source."""
    ones = (1,) * len(shape)
    low = tuple(size - 1 - before for size, before in zip(window.size, window.low, strict=True))
    spans = ((count - 1) * stride + 1 for count, stride in zip(windows, window.strides, strict=True))
    sizes = zip(shape, window.size, low, spans, strict=True)
    high = tuple(n + size - 1 - before - span for n, size, before, span in sizes)
    return Window(window.size, ones, window.strides, ones, low, high)


def _number_type(shape: Dims) -> IntegerType:
    return i32 if prod(shape) <= INT32_MAX else i64


def _numbers(e: Expansion, shape: Dims) -> SSAValue:
    """Each element's number, in row-major order."""
    type_ = _number_type(shape)
    flat = e.emit("iota", [], TensorType(type_, [prod(shape)]), iota_dimension=i64_attr(0))
    return e.emit("reshape", [flat], TensorType(type_, shape))
