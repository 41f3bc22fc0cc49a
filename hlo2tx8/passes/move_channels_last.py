"""Pass move-channels-last: a convolution with a group for each channel is made of an image whose channels lie next to each other.

    convolution [b, f, 0, 1], a group per channel     ⟶    transpose; convolution [b, 0, 1, f]; transpose

The matrix engine takes a vector of channels at once.
"""

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.hlo import StructAttr
from hlo2tx8.dialects.struct_text import parse_struct
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.convolution import numbers_of
from hlo2tx8.passes.windows.channels import LEAST_CHANNELS, innermost

LEAST_ELEMENTS = 4096
"""Of the image; smaller ones take no time either way."""


@dataclass(frozen=True)
class MoveChannelsLastPass(ModulePass):
    """Rewrites convolutions with a group per channel; see the module docstring."""

    name = "move-channels-last"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.convolution": _channels_last})


def _channels_last(op: Operation) -> None:
    """Puts the convolution of the transposed image in the place of one of another order."""
    attributes, (lhs, rhs), result = attributes_of(op), op.operands[:2], op.results[0]
    n, groups = numbers_of(attributes), int(attributes["feature_group_count"])
    shape, kernel = tensor_like(lhs.type).shape, tensor_like(rhs.type).shape
    if groups < LEAST_CHANNELS or kernel[n.kernel_input_feature_dimension] != 1 or prod(shape) < LEAST_ELEMENTS:
        return
    if innermost(lhs) == n.input_feature_dimension and innermost(result) == n.output_feature_dimension:
        return
    e, rank = Expansion(op), len(shape)
    image = e.transpose(lhs, [n.input_batch_dimension, *n.input_spatial_dimensions, n.input_feature_dimension])
    weights = [*n.kernel_spatial_dimensions, n.kernel_input_feature_dimension, n.kernel_output_feature_dimension]
    order = [n.output_batch_dimension, *n.output_spatial_dimensions, n.output_feature_dimension]
    sizes = tensor_like(result.type).shape
    spatial = ", ".join(map(str, range(rank - 2)))
    numbers = StructAttr(parse_struct(f"#stablehlo.conv<[b, {spatial}, f]x[{spatial}, i, o]->[b, {spatial}, f]>"))
    properties = {**op.properties, "dimension_numbers": numbers}
    found = e.emit("convolution", [image, e.transpose(rhs, weights)], e.like(result, [sizes[d] for d in order]), **properties)
    e.replace(e.transpose(found, [order.index(d) for d in range(rank)]))
