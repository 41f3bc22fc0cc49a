"""Convolutions with one group per channel, with the channels as the innermost dimension.

convolution [b, f, 0, 1], a group per channel     ⟶    transpose; convolution [b, 0, 1, f]; transpose
its gradient by the kernel, a batch group each    ⟶    fusion { views [result..., batch, window..., channels]; multiply; sum }

The matrix engine takes a vector of channels at once in the one; in the other each channel would be a product of its own, of which
the engine computes one element in the time of thousands.
"""

from math import prod

from xdsl.dialects.builtin import Float32Type, TensorType
from xdsl.ir import Operation, SSAValue

from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import StructAttr, minor_to_major
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.dialects.struct_text import parse_struct
from hlo2tx8.hlo.expansion import Expansion, int_array
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.convolution import ConvNumbers, numbers_of, reversal, window_of
from hlo2tx8.hlo.types import is_float
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap
from hlo2tx8.passes.body_builder import BodyBuilder

LEAST_CHANNELS = 16
"""With fewer, moving them costs more than it saves."""
LEAST_ELEMENTS = 4096
"""Of the image; smaller ones take no time either way."""


def channels_last(op: Operation) -> Operation | None:
    """The convolution, with one group per channel, of the image with its channels transposed to be innermost; None if they already
    are.
    """
    attributes, (lhs, rhs), result = attributes_of(op), op.operands[:2], op.results[0]
    n, groups = numbers_of(attributes), int(attributes["feature_group_count"])
    shape, kernel = tensor_like(lhs.type).shape, tensor_like(rhs.type).shape
    if groups < LEAST_CHANNELS or kernel[n.kernel_input_feature_dimension] != 1 or prod(shape) < LEAST_ELEMENTS:
        return None
    if _innermost(lhs) == n.input_feature_dimension and _innermost(result) == n.output_feature_dimension:
        return None
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
    assert isinstance(found.owner, Operation)
    return found.owner


def is_channel_gradient(op: Operation) -> bool:
    """True for a convolution with many batch groups of one image and one output feature each."""
    attributes, (lhs, rhs) = attributes_of(op), op.operands[:2]
    n, groups = numbers_of(attributes), int(attributes["batch_group_count"])
    counts = (tensor_like(lhs.type).shape[n.input_batch_dimension], tensor_like(rhs.type).shape[n.kernel_output_feature_dimension])
    own = is_float(tensor_like(lhs.type).dtype) and tensor_like(lhs.type).dtype == tensor_like(rhs.type).dtype
    return own and groups >= LEAST_CHANNELS and counts == (groups, groups) and 0 not in tensor_like(op.results[0].type).shape


def sum_by_channel(op: Operation) -> None:
    """[result..., channels] = sum over batch and window of image * kernel, in f32 unless they are wider."""
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


def _innermost(value: SSAValue) -> int:
    """The dimension whose elements are next to each other."""
    return minor_to_major(as_tensor(value.type))[0]


def _order_with_inner(value: SSAValue, dim: int) -> list[int]:
    """The dimensions of an array whose elements along `dim` are next to each other."""
    rank = len(as_tensor(value.type).get_shape())
    return list(range(rank)) if _innermost(value) == dim else [*(d for d in range(rank) if d != dim), dim]
