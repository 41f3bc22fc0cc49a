"""Pass expand-select-apart: select_and_scatter whose windows lie side by side and cover all becomes compares and selects.

No element is in two windows, so nothing is added up.

    fusion { views of x, one per element of a window; compare and select one after the other: which element each window selects }
    fusion { select: the source where an element's place in its window is the selected one, else the initial value }

Windows of few elements that one comparison selects from, combined by addition: the gradient of a pool.
"""

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import Float32Type, ModuleOp, StringAttr, TensorType, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.hlo.accumulation import only_adds
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.window import Window
from hlo2tx8.indexing import Dim, IndexingMap

MOST_ELEMENTS = 16
"""Of a window: each is a comparison of its own."""


@dataclass(frozen=True)
class ExpandSelectApartPass(ModulePass):
    """Rewrites such a select_and_scatter; see the module docstring."""

    name = "expand-select-apart"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.select_and_scatter": _select_apart})


def _has_windows_apart(op: Operation) -> bool:
    """True for a select_and_scatter of that kind."""
    window, shape = Window.of(attributes_of(op)), tensor_like(op.operands[0].type).shape
    windows = tensor_like(op.operands[1].type).shape
    if any((*window.low, *window.high, *window.interior)) or any(step != 1 for step in window.window_dilations):
        return False
    if window.size != window.strides or not 1 < prod(window.size) <= MOST_ELEMENTS:
        return False
    covers = all(count * size == n for count, size, n in zip(windows, window.size, shape, strict=True))
    return covers and 0 not in shape and _comparison(op) is not None and only_adds(op.regions[1].block)


def _comparison(op: Operation) -> Operation | None:
    """The comparison of the first with the second that says whether a selected element stays."""
    block = op.regions[0].block
    first, last = block.first_op, block.last_op
    if first is None or last is None or first.next_op is not last or first.name != "stablehlo.compare":
        return None
    return first if tuple(first.operands) == tuple(block.args) and last.operands[0] is first.results[0] else None


def _select_apart(op: Operation) -> None:
    """Replace the op by two fusions if it is of that kind."""
    if not _has_windows_apart(op):
        return
    x, source, initial = op.operands
    e, window = Expansion(op), Window.of(attributes_of(op))
    windows = tensor_like(source.type).shape
    chosen = _chosen(e, window, x, windows)
    before = op.prev_op
    halves = [n for count, size in zip(windows, window.size, strict=True) for n in (count, size)]
    outer = int_array(range(0, len(halves), 2))
    start = e.emit("broadcast_in_dim", [initial], e.like(source, windows), broadcast_dimensions=int_array(()))
    found = e.emit("add", [start, source], e.like(source, windows))
    values = [
        e.emit("broadcast_in_dim", [value], e.like(value, halves), broadcast_dimensions=dims)
        for value, dims in ((chosen, outer), (found, outer), (initial, int_array(())))
    ]
    places = np.arange(prod(window.size), dtype=np.float32).reshape(window.size)
    table = e.emit("constant", [], TensorType(Float32Type(), window.size), value=LiteralAttr.from_array(places))
    own = e.emit("broadcast_in_dim", [table], e.like(table, halves), broadcast_dimensions=int_array(range(1, len(halves), 2)))
    is_own = _compare(e, [values[0], own], {"comparison_direction": StringAttr("EQ")})
    result = e.emit("select", [is_own, values[1], values[2]], e.like(source, halves))
    e.replace(*e.fuse_since(before, [e.emit("reshape", [result], op.results[0].type)]))


def _chosen(e: Expansion, window: Window, x: SSAValue, windows: tuple[int, ...]) -> SSAValue:
    """Per window the place, counted row by row, of the element that it selects."""
    before, comparison = e.op.prev_op, _comparison(e.op)
    assert comparison is not None
    best: SSAValue | None = None
    chosen: SSAValue | None = None
    for number, place in enumerate(product(*(range(size) for size in window.size))):
        map = IndexingMap.from_shape([Dim(d) * size + place[d] for d, size in enumerate(window.size)], windows)
        element, own = e.view(x, map), e.splat(number, TensorType(Float32Type(), windows))
        if best is None or chosen is None:
            best, chosen = element, own
            continue
        stays = _compare(e, [best, element], comparison.properties)
        best, chosen = (e.emit("select", [stays, a, b], a.type) for a, b in ((best, element), (chosen, own)))
    assert chosen is not None
    return e.fuse_since(before, [chosen])[0]


def _compare(e: Expansion, pair: list[SSAValue], properties: dict[str, Attribute]) -> SSAValue:
    shape = tensor_like(pair[0].type).shape
    return e.insert(stablehlo.OPS["compare"](pair, [TensorType(i1, shape)], dict(properties))).results[0]
