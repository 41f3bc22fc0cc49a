"""Pass fold-windows: windows that lie side by side along a row of the image are channels of their places in it.

    convolution %x, %w : [8, 224, 224, 3], [16, 16, 3, 768]    ⟶    %a = reshape %x     [8, 224, 14, 48]
    stride = [16, 16]                                               %b = reshape %w     [16, 1, 48, 768]
                                                                    convolution %a, %b, stride = [16, 1]

So patches of an image are read in runs of a row of a patch, not of the channels of a point, and as many products are added up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion, conv_numbers, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.convolution import numbers_of, reversal, window_of
from hlo2tx8.passes.dimensions.alike import is_reordered


@dataclass(frozen=True)
class FoldWindowsPass(ModulePass):
    """Rewrites convolutions; see the module docstring."""

    name = "fold-windows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.convolution": _fold})


def _fold(op: Operation) -> None:
    if not _lie_side_by_side(op):
        return
    e, n, strides = Expansion(op), numbers_of(attributes_of(op)), [int(n) for n in attributes_of(op)["window_strides"]]
    (image, weights), rank = op.operands, len(tensor_like(op.results[0].type).shape)
    if n.kernel_spatial_dimensions[-1] + 1 != n.kernel_input_feature_dimension:
        order = [*n.kernel_spatial_dimensions, n.kernel_input_feature_dimension, n.kernel_output_feature_dimension]
        weights = e.transpose(weights, order)
        last = {"kernel_input_feature_dimension": rank - 2, "kernel_output_feature_dimension": rank - 1}
        n = replace(n, kernel_spatial_dimensions=tuple(range(rank - 2)), **last)
    image, weights = (
        e.reshaped(operand, _merged(tensor_like(operand.type).shape, dim, strides[-1]))
        for operand, dim in ((image, n.input_feature_dimension), (weights, n.kernel_input_feature_dimension))
    )
    properties = dict(op.properties) | {"window_strides": int_array([*strides[:-1], 1]), "dimension_numbers": conv_numbers(n)}
    found = e.emit("convolution", [image, weights], op.results[0].type, **properties)
    Rewriter.replace_op(op, [], [found])


def _merged(shape: Sequence[int], features: int, width: int) -> list[int]:
    """A shape whose features take in so many places of the dimension in front of them."""
    found = list(shape)
    found[features - 1 : features + 1] = [shape[features - 1] // width, shape[features] * width]
    return found


def _lie_side_by_side(op: Operation) -> bool:
    """Are windows along the innermost line of places, which are in front of channels, next to each other from end to end of the
    image?"""
    attributes, (image, weights) = attributes_of(op), op.operands
    n, shape, kernel = numbers_of(attributes), tensor_like(image.type).shape, tensor_like(weights.type).shape
    if not n.input_spatial_dimensions or not (is_reordered(image) and is_reordered(weights)) or 0 in (*shape, *kernel):
        return False
    if int(attributes["batch_group_count"]) * int(attributes["feature_group_count"]) > 1:
        return False
    line, window = n.input_spatial_dimensions[-1], window_of(attributes, kernel)
    at = len(n.input_spatial_dimensions) - 1
    width = window.size[at]
    is_plain = window.low[at] == window.high[at] == window.interior[at] == 0 and window.window_dilations[at] == 1
    is_in_order = line + 1 == n.input_feature_dimension == len(shape) - 1
    is_beside = width > 1 and window.strides[at] == width and shape[line] % width == 0
    return is_plain and is_in_order and is_beside and not reversal(attributes)[at]
