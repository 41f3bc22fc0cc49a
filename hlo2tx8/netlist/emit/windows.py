"""HLO instructions that combine elements: reductions, windows and convolutions."""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from hlo2tx8.hlo.ops import convolution as conv
from hlo2tx8.hlo.ops.window import Window
from hlo2tx8.netlist.emit import contractions
from hlo2tx8.netlist.emit.build import Builder, Value
from hlo2tx8.netlist.emit.moves import reshaped
from hlo2tx8.netlist.emit.operands import Known, Operand, const, repeated, together
from hlo2tx8.netlist.emit.shaping import as_value, concatenated, reversed_, sliced
from hlo2tx8.netlist.emit.truth import equals
from hlo2tx8.netlist.emit.use import Occurrence, minimum
from hlo2tx8.netlist.formats import FORMATS
from hlo2tx8.passes.expand_place_of_extreme import computes_extreme

BODIES = {
    "stablehlo.add": "add",
    "stablehlo.multiply": "multiply",
    **dict.fromkeys(("stablehlo.maximum", "stablehlo.or"), "maximum"),
    **dict.fromkeys(("stablehlo.minimum", "stablehlo.and"), "minimum"),
}
LEAST = -(2.0**127) * (2 - 2.0**-7)
"""The least number of Float16_b: products move it, as they do not infinity."""
NEUTRAL = {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}


def _combiner(use: Occurrence) -> str:
    body = use.op.regions[0].block
    ops = list(body.ops)
    if len(use.operands) != 2 or len(ops) != 2 or ops[0].name not in BODIES or {*ops[0].operands} != {*body.args}:
        raise use.builder.refuse("what combines elements is no sum, maximum or minimum")
    if use.kind(0) != "b" and ops[0].name in ("stablehlo.or", "stablehlo.and"):
        raise use.builder.refuse("a netlist has no ops on the bits of whole numbers")
    return BODIES[ops[0].name]


def _over(use: Occurrence, kind: str, over: Callable[[Value, str], Value]) -> Operand:
    """A sum or an extreme, with what it begins with."""
    if FORMATS[use.df].is_integer and use.df != "Int8":
        use = use.of(use.shape, "Float32")
    sign, value = use.splat(-1), use.value
    if kind == "minimum":
        minus = Known(np.broadcast_to(np.float32(-1), value.layout.shape), value.df)
        value = use.builder.elementwise("multiply", together(use.builder, [value, minus]))
        made: Operand = use.apply("multiply", over(value, "maximum"), sign)
    else:
        made = over(value, kind)
    start = use.scalar(1)
    lowest = {"maximum": np.finfo(np.float32).min, "minimum": np.finfo(np.float32).max}.get(kind)
    if start in (NEUTRAL[kind], lowest):
        return made
    return minimum(use, made, use.splat(start)) if kind == "minimum" else use.apply(kind, made, use.splat(start))


def reduce(use: Occurrence) -> list[Operand]:
    dims = list(use.attributes["dimensions"])
    if len(use.operands) == 4:
        return _extreme(use, dims)
    return [_over(use, _combiner(use), lambda value, kind: _reduced(use, value, dims, kind))]


def _reduced(use: Occurrence, value: Value, dims: Sequence[int], kind: str) -> Value:
    if kind != "multiply":
        return contractions.reduced(use.builder, value, dims, kind)
    for dim in dims:
        while (size := value.layout.shape[dim]) > 1:
            parts = [sliced(use.builder, value, dim, start, 1, size // 2) for start in (0, size // 2)]
            made = use.builder.elementwise("multiply", together(use.builder, parts))
            if size % 2:
                last = sliced(use.builder, value, dim, size - 1, 1, 1)
                first = sliced(use.builder, made, dim, 0, 1, 1)
                first = use.builder.elementwise("multiply", together(use.builder, [first, last]))
                rest = [sliced(use.builder, made, dim, 1, 1, size // 2 - 1)] if size > 3 else []
                made = concatenated(use.builder, [first, *rest], dim)
            value = made
    return contractions.picked(value, [dim for dim in range(len(value.layout.sizes)) if dim not in dims])


def _extreme(use: Occurrence, dims: Sequence[int]) -> list[Operand]:
    """The largest or smallest elements, and the least of the numbers that belong to them."""
    x, numbers = use.operands[:2]
    body, (dim, *others) = use.op.regions[0].block, dims
    signs = [sign for direction, sign in (("GT", 1), ("LT", -1)) if computes_extreme(body, direction)]
    if not signs or others or not isinstance(x, Value) or not isinstance(numbers, Known) or FORMATS[x.df].is_integer:
        raise use.builder.refuse("what combines elements is no sum, product, extreme or place of one")
    wide = use.of(x.layout.shape, x.df)
    value = as_value(use.builder, wide.apply("multiply", x, wide.splat(-1)) if signs[0] < 0 else x)
    most = _reduced(use, value, dims, "maximum")
    kept = [d for d in range(len(wide.shape)) if d != dim]
    is_most = equals(wide, value, repeated(most, kept, wide.shape))
    # Numbers from the end, so that the first of equal elements has the most.
    size = wide.shape[dim]
    order = wide.number(const(size - np.asarray(numbers.array), "Int32"))
    first = _reduced(use, wide.apply("multiply", is_most, order), dims, "maximum")
    narrow = use.of(most.layout.shape, x.df)
    place = narrow.apply("subtract", narrow.number(const(np.full(narrow.shape, size), "Int32")), first)
    return [narrow.apply("multiply", most, narrow.splat(-1)) if signs[0] < 0 else most, place]


def reduce_window(use: Occurrence) -> Operand:
    window = Window.of(use.attributes)
    sides = (window.size, window.strides, window.base_dilations, window.window_dilations, window.low, window.high)
    dims = [dim for dim, of in enumerate(zip(*sides, strict=True)) if of != (1, 1, 1, 1, 0, 0)]

    def pool(value: Value, kind: str) -> Value:
        own = _only(window, dims)
        counts = [use.shape[dim] for dim in dims]
        made = contractions.windowed(use.builder, value, dims, own, counts, is_summed=kind == "add")
        if kind != "add":
            made = _least_outside(use, made, own, dims, [value.layout.shape[d] for d in dims], counts)
        return _reduced(use, made, [0], kind)

    return _over(use, _combiner(use), pool)


def _only(window: Window, dims: Sequence[int]) -> Window:
    def of(values: Sequence[int]) -> tuple[int, ...]:
        return tuple(values[dim] for dim in dims)

    strides, dilations = (of(window.strides), of(window.base_dilations)), of(window.window_dilations)
    return Window(of(window.size), *strides, dilations, of(window.low), of(window.high))


def _least_outside(
    use: Occurrence, value: Value, window: Window, dims: Sequence[int], sizes: Sequence[int], counts: Sequence[int]
) -> Value:
    """With the least number where a window sees nothing."""
    seen = contractions.window_matrix(use.builder, sizes, window, counts, is_summed=False).any(axis=2).reshape(-1, *counts)
    if seen.all():
        return value
    shape = [seen.shape[0], *(counts[list(dims).index(d)] if d in dims else 1 for d in range(len(value.layout.shape) - 1))]
    outside = np.where(seen, np.float32(0), np.float32(LEAST)).reshape(shape)
    return use.builder.elementwise(
        "add", together(use.builder, [value, const(np.broadcast_to(outside, value.layout.shape), value.df)])
    )


def convolution(use: Occurrence) -> Operand:
    """The elements that each position of the kernel sees, and a product of them with the kernel."""
    given, (x, kernel) = use.attributes, use.operands
    n, builder = conv.numbers_of(given), use.builder
    if int(given["batch_group_count"]) != 1:
        raise builder.refuse("groups of batches")
    groups, window = int(given["feature_group_count"]), conv.window_of(given, kernel.layout.shape)
    spatial, rank = list(n.input_spatial_dimensions), len(n.input_spatial_dimensions)
    turned = [i for i, is_turned in enumerate(conv.reversal(given)) if is_turned]
    counts = [use.shape[d] for d in n.output_spatial_dimensions]
    order = (*n.kernel_spatial_dimensions, n.kernel_input_feature_dimension, n.kernel_output_feature_dimension)
    if isinstance(kernel, Known):
        kernel = const(np.flip(np.transpose(kernel.array, order), tuple(turned)), kernel.df)
    else:
        kernel = reversed_(builder, contractions.picked(kernel, order), turned)
    *_, width, out = kernel.layout.shape
    kernel = _reshape_any(builder, kernel, (prod(window.size), width, groups, out // groups))
    value = as_value(builder, x)
    value = contractions.picked(value, (n.input_batch_dimension, *spatial, n.input_feature_dimension))
    moves = any((*window.low, *window.high, *(v - 1 for v in (*window.size, *window.strides, *window.base_dilations))))
    dims = list(range(1, rank + 1))
    if moves:
        value = contractions.windowed(builder, value, dims, window, counts, [rank + 1])
    else:
        value = reshaped(builder, value, (1, *value.layout.shape))
    batch = value.layout.shape[1]
    value = reshaped(builder, value, (prod(window.size), batch, *counts, groups, width))
    made = contractions.dot(builder, value, kernel, [(rank + 2, 2)], [(0, 0), (rank + 3, 1)], use.df)
    made = contractions.picked(made, (1, *range(2, rank + 2), 0, rank + 2))
    made = reshaped(builder, made, (batch, *counts, out))
    back = (n.output_batch_dimension, *n.output_spatial_dimensions, n.output_feature_dimension)
    return contractions.picked(made, [back.index(dim) for dim in range(rank + 2)])


def _reshape_any(builder: Builder, operand: Operand, shape: Sequence[int]) -> Operand:
    if isinstance(operand, Known):
        return const(np.ascontiguousarray(operand.array).reshape(tuple(shape)), operand.df)
    return reshaped(builder, operand, shape)
