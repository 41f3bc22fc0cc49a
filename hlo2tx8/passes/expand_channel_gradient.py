"""Pass expand-channel-gradient: the gradient by the kernel of a convolution with a group for each channel becomes a sum.

    convolution, a batch group each    ⟶    fusion { views [result..., batch, window..., channels]; multiply; sum }

As products each channel would be one of its own, of which the matrix engine computes one element in the time of thousands.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import Float32Type, ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.body_builder import BodyBuilder
from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.convolution import ConvNumbers, numbers_of, reversal, window_of
from hlo2tx8.hlo.types import is_float
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap
from hlo2tx8.passes.windows.channels import LEAST_CHANNELS, innermost


@dataclass(frozen=True)
class ExpandChannelGradientPass(ModulePass):
    """Rewrites such gradients; see the module docstring."""

    name = "expand-channel-gradient"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.convolution": _sum_by_channel})


def _is_channel_gradient(op: Operation) -> bool:
    """True for a convolution with many batch groups of one image and one output feature each."""
    attributes, (lhs, rhs) = attributes_of(op), op.operands[:2]
    n, groups = numbers_of(attributes), int(attributes["batch_group_count"])
    counts = (tensor_like(lhs.type).shape[n.input_batch_dimension], tensor_like(rhs.type).shape[n.kernel_output_feature_dimension])
    own = is_float(tensor_like(lhs.type).dtype) and tensor_like(lhs.type).dtype == tensor_like(rhs.type).dtype
    return own and groups >= LEAST_CHANNELS and counts == (groups, groups) and 0 not in tensor_like(op.results[0].type).shape


def _sum_by_channel(op: Operation) -> None:
    """[result..., channels] = sum over batch and window of image * kernel, in f32 unless they are wider."""
    if not _is_channel_gradient(op):
        return
    e, attributes, (lhs, rhs), result = Expansion(op), attributes_of(op), op.operands[:2], op.results[0]
    n: ConvNumbers = numbers_of(attributes)
    kernel, shape = tensor_like(rhs.type).shape, tensor_like(result.type).shape
    window, rank = window_of(attributes, kernel), len(shape)
    of_x: list[Expr] = [Const(0)] * rank
    of_kernel: list[Expr] = [Const(0)] * rank
    amounts = [[0, 0, 0] for _ in range(rank)]
    spatial = [shape[d] for d in n.output_spatial_dimensions]
    count, features = len(spatial), kernel[n.kernel_input_feature_dimension]
    channel, batch = Dim(2 * count + 1), Dim(count)
    of_x[n.input_batch_dimension], of_x[n.input_feature_dimension] = channel, batch
    of_kernel[n.kernel_output_feature_dimension], of_kernel[n.kernel_input_feature_dimension] = channel, batch
    for i, turned in enumerate(reversal(attributes)):
        own = Dim(count + 1 + i)
        of_x[n.input_spatial_dimensions[i]] = Dim(i) * window.strides[i] + own * window.window_dilations[i]
        amounts[n.input_spatial_dimensions[i]] = [window.low[i], window.high[i], window.interior[i]]
        of_kernel[n.kernel_spatial_dimensions[i]] = window.size[i] - 1 - own if turned else own
    x_order = _order_with_inner(lhs, n.input_batch_dimension)
    kernel_order = _order_with_inner(rhs, n.kernel_output_feature_dimension)
    image, dy = e.transpose(lhs, x_order), e.transpose(rhs, kernel_order)
    image = e.pad(image, e.splat(0, e.like(lhs, ())), *zip(*(amounts[d] for d in x_order), strict=True))
    before, places = op.prev_op, ([of_x[d] for d in x_order], [of_kernel[d] for d in kernel_order])
    space = (*spatial, features, *window.size, shape[n.output_feature_dimension])
    factors = [e.view(v, IndexingMap.from_shape(place, space)) for v, place in zip((image, dy), places, strict=True)]
    element = as_tensor(lhs.type).element_type
    sums = element if tensor_like(lhs.type).dtype.itemsize > 4 else Float32Type()
    products = e.emit("multiply", [e.converted(v, sums) for v in factors], TensorType(sums, space))
    body = BodyBuilder([sums, sums])
    over = {"dimensions": int_array(range(count, 2 * count + 1))}
    start = e.splat(0, TensorType(sums, []))
    kept = TensorType(sums, [*spatial, space[-1]])
    reduce = stablehlo.OPS["reduce"]([products, start], [kept], over, [body.region(body.emit("add", body.args))])
    total = e.converted(e.insert(reduce).results[0], as_tensor(result.type).element_type)
    order = [*n.output_spatial_dimensions, n.output_feature_dimension]
    total = e.transpose(total, [order.index(d) for d in sorted(order)])
    e.replace(e.fuse_since(before, [e.emit("reshape", [total], e.like(result, shape))])[0])


def _order_with_inner(value: SSAValue, dim: int) -> list[int]:
    """The dimensions of an array whose elements along `dim` are next to each other."""
    rank = len(as_tensor(value.type).get_shape())
    return list(range(rank)) if innermost(value) == dim else [*(d for d in range(rank) if d != dim), dim]
