"""Pass expand-transposed-convolution: a convolution of an image with holes becomes one of the image, with more channels.

    convolution %x, %w  lhs_dilate = [2, 2], o channels     ⟶    %p = convolution %x, %v, 4 * o channels: [b, h, w, 4 * o]
                                                                 reshape [b, h, w, 2, 2, o]; transpose [b, h, 2, w, 2, o]; reshape

Holes are multiplied by nothing: of a window only the elements that meet no hole count, others for each place of a result between
two points of the image. The weights of each such place become channels of their own, zero where its window is smaller:

    result[d * q + p] = sum over m of image[q + m - floor(low / d)] * weights[d * m + low mod d - p]
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from operator import sub

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, conv_numbers, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.literal import ElementsAttr, LiteralAttr
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.convolution import ConvNumbers, numbers_of, reversal, window_of
from hlo2tx8.hlo.ops.window import Window
from hlo2tx8.ir import i64_attr
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.passes.dimensions.alike import is_reordered


@dataclass(frozen=True)
class ExpandTransposedConvolutionPass(ModulePass):
    """Rewrites convolutions with holes in the image; see the module docstring."""

    name = "expand-transposed-convolution"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.convolution": _expand})


def _expand(op: Operation) -> None:
    """Puts the convolution of the image without holes in the place of one with holes, if its windows are next to each other."""
    (image, weights), result, attributes = op.operands, op.results[0], attributes_of(op)
    n, window = numbers_of(attributes), window_of(attributes, shape_of(weights))
    groups, steps = int(attributes["feature_group_count"]) * int(attributes["batch_group_count"]), window.base_dilations
    if max(steps, default=1) == 1 or groups > 1 or max((*window.strides, *window.window_dilations)) > 1:
        return
    if (
        not all(map(is_reordered, (image, weights, result)))
        or any(reversal(attributes))
        or 0 in (*shape_of(image), *shape_of(weights))
    ):
        return
    e, spatial, sizes = Expansion(op), len(steps), [shape_of(result)[d] for d in n.output_spatial_dimensions]
    counts = [-(-size // step) for size, step in zip(sizes, steps, strict=True)]
    places = _of_places(e, weights, n, window)
    taps, outputs = shape_of(places)[:spatial], shape_of(result)[n.output_feature_dimension]
    padding: list[tuple[int, int]] = []
    for d, count, tap, low, step in zip(n.input_spatial_dimensions, counts, taps, window.low, steps, strict=True):
        padding.append((low // step, count + tap - 1 - shape_of(image)[d] - low // step))
    made = _convolution(e, op, places, (shape_of(result)[n.output_batch_dimension], *counts, prod(steps) * outputs), padding)
    batch, last = shape_of(made)[0], 2 * spatial + 1
    made = e.emit("reshape", [made], e.like(result, (batch, *counts, *steps, outputs)))
    made = e.transpose(made, [0, *(d for point in range(1, spatial + 1) for d in (point, point + spatial)), last])
    whole = [count * step for count, step in zip(counts, steps, strict=True)]
    made = e.emit("reshape", [made], e.like(result, (batch, *whole, outputs)))
    if whole != sizes:
        bounds = {"start_indices": [0] * (spatial + 2), "limit_indices": [batch, *sizes, outputs], "strides": [1] * (spatial + 2)}
        made = e.emit("slice", [made], e.like(result, (batch, *sizes, outputs)), **{k: int_array(v) for k, v in bounds.items()})
    order = (n.output_batch_dimension, *n.output_spatial_dimensions, n.output_feature_dimension)
    e.replace(e.transpose(made, [order.index(d) for d in range(len(order))]))


def _convolution(
    e: Expansion, op: Operation, weights: SSAValue, shape: Sequence[int], padding: Sequence[tuple[int, int]]
) -> SSAValue:
    """A convolution as the op, without holes, whose weights and result have their channels last."""
    dims, n = tuple(range(len(padding))), numbers_of(attributes_of(op))
    numbers = replace(
        n,
        kernel_spatial_dimensions=dims,
        kernel_input_feature_dimension=len(dims),
        kernel_output_feature_dimension=len(dims) + 1,
        output_batch_dimension=0,
        output_spatial_dimensions=tuple(d + 1 for d in dims),
        output_feature_dimension=len(dims) + 1,
    )
    amounts = ElementsAttr(LiteralAttr.from_array(np.array(padding, np.int64)), TensorType(i64, (len(dims), 2)))
    properties = {name: value for name, value in op.properties.items() if name not in ("lhs_dilation", "window_reversal")}
    properties |= {"dimension_numbers": conv_numbers(numbers), "padding": amounts}
    return e.emit("convolution", [op.operands[0], weights], e.like(op.results[0], shape), **properties)


def _of_places(e: Expansion, weights: SSAValue, n: ConvNumbers, window: Window) -> SSAValue:
    """[elements of a window, features, places between two points of the image * filters]."""
    order = [*n.kernel_spatial_dimensions, n.kernel_input_feature_dimension, n.kernel_output_feature_dimension]
    weights, steps = e.transpose(weights, order), window.base_dilations
    *sizes, features, filters = shape_of(weights)
    front = [step - 1 - low % step for low, step in zip(window.low, steps, strict=True)]
    taps = [-(-(size + own) // step) for size, own, step in zip(sizes, front, steps, strict=True)]
    places = product(*(reversed(range(step)) for step in steps))
    parts = [_of_place(e, weights, [*map(sub, place, front)], steps, taps) for place in places]
    type_ = e.like(weights, (*taps, features, len(parts), filters))
    found = e.emit("concatenate", parts, type_, dimension=i64_attr(len(taps) + 1))
    return e.emit("reshape", [found], e.like(weights, (*taps, features, len(parts) * filters)))


def _of_place(e: Expansion, weights: SSAValue, first: Sequence[int], steps: Sequence[int], taps: Sequence[int]) -> SSAValue:
    """[elements of a window, features, 1, filters]: weights by `steps` from the `first` ones on, which may lie in front of all."""
    *sizes, features, filters = shape_of(weights)
    low = [max(0, -(own // step)) for own, step in zip(first, steps, strict=True)]
    start = [own + step * missing for own, step, missing in zip(first, steps, low, strict=True)]
    counts = [max(0, -(-(size - own) // step)) for size, own, step in zip(sizes, start, steps, strict=True)]
    type_ = e.like(weights, (*taps, features, 1, filters))
    if 0 in counts:
        return e.splat(0, type_)
    bounds = {
        "start_indices": [*start, 0, 0],
        "limit_indices": [*sizes, features, filters],
        "strides": [*steps, 1, 1],
    }
    part = e.emit("slice", [weights], e.like(weights, (*counts, features, filters)), **{k: int_array(v) for k, v in bounds.items()})
    high = [tap - count - missing for tap, count, missing in zip(taps, counts, low, strict=True)]
    part = e.pad(part, e.splat(0, e.like(weights, ())), [*low, 0, 0], [*high, 0, 0], [0] * len(shape_of(weights)))
    return e.emit("reshape", [part], type_)
