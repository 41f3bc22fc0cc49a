"""Pass order-filters: weights of convolutions have their filters next to each other, in the direction in which they are read.

    convolution %x, %w : [b, 0, 1, f]x[o, i, 0, 1]    ⟶    %t = transpose %w, dims = [2, 3, 1, 0]
                                                           convolution %x, %t : [b, 0, 1, f]x[0, 1, i, o]

A convolution is a product of matrices for each element of its window, on weights as they lie in memory, which tiles share; others
are turned on every tile, for each part of the image. One of bytes may be an instruction for all elements, whose weights
have features next to each other: [0, 1, o, i]. Weights of one element are a matrix, which the engine takes either way, and the
second operand of a gradient of weights is an image.
"""

from dataclasses import dataclass, replace
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion, conv_numbers, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.device.rates import block_width, is_multiplied_in_blocks
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.dialects.xla_dot import sums_type
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.convolution import numbers_of, reversal, window_of
from hlo2tx8.passes.dimensions.alike import is_reordered
from hlo2tx8.passes.dimensions.channels_last import is_forward

LEAST_IMAGES = 4
"""Which share weights, for turning them to take less time than it saves."""


@dataclass(frozen=True)
class OrderFiltersPass(ModulePass):
    """Rewrites convolutions; see the module docstring."""

    name = "order-filters"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.convolution": _order})


def _order(op: Operation) -> None:
    """Transposes the weights, and reverses those that are read backwards."""
    (image, weights), attributes = op.operands, attributes_of(op)
    n, kernel = numbers_of(attributes), tensor_like(weights.type).shape
    element, channels = as_tensor(weights.type).element_type, (n.kernel_input_feature_dimension, n.kernel_output_feature_dimension)
    order = [*n.kernel_spatial_dimensions, *(reversed(channels) if _is_one_instruction(op) else channels)]
    backwards = [d for d, turned in zip(n.kernel_spatial_dimensions, reversal(attributes), strict=True) if turned and kernel[d] > 1]
    if (order[-1] == len(order) - 1 and not backwards) or not is_reordered(weights) or not is_forward(op):
        return
    if prod(kernel[d] for d in n.kernel_spatial_dimensions) == 1 or 0 in kernel or sums_type(element) is None:
        return
    e, rank = Expansion(op), len(order)
    if backwards:
        weights = e.emit("reverse", [weights], weights.type, dimensions=int_array(sorted(backwards)))
    numbers = replace(
        n,
        kernel_spatial_dimensions=tuple(range(rank - 2)),
        kernel_input_feature_dimension=order.index(n.kernel_input_feature_dimension),
        kernel_output_feature_dimension=order.index(n.kernel_output_feature_dimension),
    )
    properties = {k: v for k, v in op.properties.items() if k != "window_reversal"} | {"dimension_numbers": conv_numbers(numbers)}
    found = e.emit("convolution", [image, e.transpose(weights, order)], op.results[0].type, **properties)
    Rewriter.replace_op(op, [], [found])


def _is_one_instruction(op: Operation) -> bool:
    """Is it a convolution of bytes that goes over the elements of its window in one instruction? That takes less time where
    channels are no blocks, and unless weights lie as products want them or are several whole blocks that several images share."""
    (image, weights), n = op.operands, numbers_of(attributes_of(op))
    if not isinstance(as_tensor(weights.type).element_type, IntegerType):
        return False
    shape, kernel = tensor_like(image.type).shape, tensor_like(weights.type).shape
    window, features, last = window_of(attributes_of(op), kernel), kernel[n.kernel_input_feature_dimension], len(kernel) - 1
    if not is_multiplied_in_blocks([features], 1) or max(window.base_dilations, default=1) > 1:
        return True
    if n.kernel_output_feature_dimension == last:
        return False
    if n.kernel_input_feature_dimension == last and (shape[n.input_batch_dimension] < LEAST_IMAGES or features <= block_width(1)):
        return True
    return features > block_width(1) and features % block_width(1) > 0
