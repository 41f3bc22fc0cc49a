"""Operations over sliding windows: a view in which the window's dimensions come behind the result's, and a reduction of it.

reduce_window   ⟶   pad; fusion { a view [result..., window...] of the padded operand; reduce over the window }
pad with holes  ⟶   fusion { holes behind each element, as one more dimension }; pad
convolution     ⟶   fusion { pad; views [groups, batch, result..., features, window...] and
                                  [groups, output features, features, window...]; dot_general over features and window }

Where every channel is a group of its own, see expand_per_channel. Where the window is as large as the image, features and image are
one dimension to add up: fusion { reshapes [features * window, batch], [features * window, output features]; dot_general }.

A view is never stored: it is larger than its operand by the size of the window. An image with holes, and one that the matrix
engine does not convolve, is padded before the fusion.
"""

from collections.abc import Callable, Sequence
from math import prod

from xdsl.ir import Operation, SSAValue

from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.dialects.xla_dot import sums_type
from hlo2tx8.hlo.expansion import Expansion, dot_numbers, int_array
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.convolution import ConvNumbers, numbers_of, reversal, window_of
from hlo2tx8.hlo.ops.window import Window
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap
from hlo2tx8.passes.expand_per_channel import channels_last, is_channel_gradient, sum_by_channel

Dims = tuple[int, ...]

LEAST_WITH_HOLES = 1024
"""Elements of an array from which on a kernel of its own that puts holes between them takes less time than computing places."""


def _reduce_window(op: Operation) -> None:
    e, window, half = Expansion(op), Window.of(attributes_of(op)), len(op.operands) // 2
    shape = tensor_like(op.results[0].type).shape
    padded = [pad_window(e, window, x, start) for x, start in zip(op.operands[:half], op.operands[half:], strict=True)]
    if 0 in shape:
        pairs = zip(op.operands[half:], op.results, strict=True)
        e.replace(*(e.emit("broadcast_in_dim", [v], r.type, broadcast_dimensions=int_array(())) for v, r in pairs))
        return
    before, over = op.prev_op, int_array(())
    views: Sequence[SSAValue] = padded
    if shape:
        map = window_map(window, shape)
        views, over = [e.view(x, map) for x in padded], int_array(range(len(shape), len(map.dims)))
    regions = [op.detach_region(0)]
    new = stablehlo.OPS["reduce"]([*views, *op.operands[half:]], [r.type for r in op.results], {"dimensions": over}, regions)
    e.replace(*e.fuse_since(before, e.insert(new).results))


def pad_window(e: Expansion, window: Window, x: SSAValue, value: SSAValue) -> SSAValue:
    """The operand with `value` as the window's padding, around it and between its elements."""
    return e.pad(x, value, window.low, window.high, window.interior)


def window_map(window: Window, shape: Dims) -> IndexingMap:
    """(d0, d1) -> (d0 * stride + d1 * dilation): the operand index of a window element, for the dimensions in which windows have
    several elements (at least one).
    """
    wide = [d for d, size in enumerate(window.size) if size != 1] or [0]
    exprs: list[Expr] = [Dim(d) * stride for d, stride in enumerate(window.strides)]
    for position, d in enumerate(wide):
        exprs[d] = exprs[d] + Dim(len(shape) + position) * window.window_dilations[d]
    return IndexingMap.from_shape(exprs, (*shape, *(window.size[d] for d in wide)))


def _convolution(op: Operation) -> None:
    """dot_general gives [groups, batch, result..., output features of the group]; shaping brings that into order."""
    if is_channel_gradient(op):
        sum_by_channel(op)
        return
    op = channels_last(op) or op
    if _is_plain_product(op):
        _product(op)
        return
    e, attributes = Expansion(op), attributes_of(op)
    n = numbers_of(attributes)
    lhs, rhs = op.operands
    kernel, result = tensor_like(rhs.type).shape, tensor_like(op.results[0].type).shape
    window = window_of(attributes, kernel)
    batch_groups = int(attributes["batch_group_count"])
    groups = batch_groups * int(attributes["feature_group_count"])
    batch, spatial = result[n.output_batch_dimension], tuple(result[d] for d in n.output_spatial_dimensions)
    features, outputs = kernel[n.kernel_input_feature_dimension], result[n.output_feature_dimension] // groups
    rank = len(result)
    zero = e.splat(0, e.like(lhs, ()))
    amounts = [_on_spatial(rank, n.input_spatial_dimensions, a) for a in (window.low, window.high, window.interior)]
    outside = op.prev_op
    x = e.pad(lhs, zero, *amounts)
    before = outside if _is_padded_on_the_way(op, window) else op.prev_op
    in_rank, out_rank = 2 + len(spatial), 2
    of_x: list[Expr] = [Const(0)] * rank
    group, feature = Dim(0), Dim(in_rank)
    of_x[n.input_batch_dimension] = group * batch + Dim(1) if batch_groups > 1 else Dim(1)
    of_x[n.input_feature_dimension] = feature if batch_groups > 1 else group * features + feature
    of_kernel: list[Expr] = [Const(0)] * rank
    of_kernel[n.kernel_input_feature_dimension] = Dim(out_rank)
    of_kernel[n.kernel_output_feature_dimension] = group * outputs + Dim(1)
    for i, turned in enumerate(reversal(attributes)):
        place = Dim(2 + i) * window.strides[i] + Dim(in_rank + 1 + i) * window.window_dilations[i]
        of_x[n.input_spatial_dimensions[i]] = place
        own = Dim(out_rank + 1 + i)
        of_kernel[n.kernel_spatial_dimensions[i]] = window.size[i] - 1 - own if turned else own
    views = [
        e.view(x, IndexingMap.from_shape(of_x, (groups, batch, *spatial, features, *window.size))),
        e.view(rhs, IndexingMap.from_shape(of_kernel, (groups, outputs, features, *window.size))),
    ]
    over = 1 + len(window.size)
    numbers = dot_numbers([0], [0], range(in_rank, in_rank + over), range(out_rank, out_rank + over))
    properties = {k: v for k, v in op.properties.items() if k == "precision_config"}
    type_ = e.like(op.results[0], (groups, batch, *spatial, outputs))
    found = e.emit("dot_general", views, type_, dot_dimension_numbers=numbers, **properties)
    e.replace(*e.fuse_since(before, [_in_order(e, found, op, n)]))


def _is_plain_product(op: Operation) -> bool:
    """Does the window lie in one place, all over the image, whose features and places are in the order of the kernel's?"""
    attributes, (lhs, rhs) = attributes_of(op), op.operands[:2]
    n, image, kernel = numbers_of(attributes), tensor_like(lhs.type).shape, tensor_like(rhs.type).shape
    window = window_of(attributes, kernel)
    groups = int(attributes["batch_group_count"]) * int(attributes["feature_group_count"])
    if groups > 1 or any((*window.low, *window.high, *window.interior, *reversal(attributes))):
        return False
    if any(step != 1 for step, size in zip(window.window_dilations, window.size, strict=True) if size != 1):
        return False
    if 0 in (*image, *kernel) or tuple(image[d] for d in n.input_spatial_dimensions) != window.size:
        return False
    summed = (
        (n.input_feature_dimension, *n.input_spatial_dimensions),
        (n.kernel_input_feature_dimension, *n.kernel_spatial_dimensions),
    )
    orders = [sorted(range(len(dims)), key=dims.__getitem__) for dims in summed]
    return orders[0] == orders[1] and all(
        _is_at_an_end(d, image) for d in (n.input_batch_dimension, n.kernel_output_feature_dimension)
    )


def _is_at_an_end(dimension: int, shape: Dims) -> bool:
    return dimension in (0, len(shape) - 1)


def _product(op: Operation) -> None:
    e, before, n = Expansion(op), op.prev_op, numbers_of(attributes_of(op))
    (left, rows), (right, columns) = (
        _as_matrix(e, operand, own)
        for operand, own in zip(op.operands, (n.input_batch_dimension, n.kernel_output_feature_dimension), strict=True)
    )
    properties = {k: v for k, v in op.properties.items() if k == "precision_config"}
    counts = [tensor_like(value.type).shape[dim] for value, dim in ((left, rows), (right, columns))]
    numbers = dot_numbers([], [], [1 - rows], [1 - columns])
    found = e.emit("dot_general", [left, right], e.like(op.results[0], counts), dot_dimension_numbers=numbers, **properties)
    if n.output_feature_dimension < n.output_batch_dimension:
        found = e.transpose(found, [1, 0])
    e.replace(*e.fuse_since(before, [e.emit("reshape", [found], op.results[0].type)]))


def _as_matrix(e: Expansion, value: SSAValue, own: int) -> tuple[SSAValue, int]:
    """An operand of which all dimensions but its own one are one, and where its own is then."""
    shape = tensor_like(value.type).shape
    size = prod(n for dim, n in enumerate(shape) if dim != own)
    return e.emit("reshape", [value], e.like(value, (shape[own], size) if own == 0 else (size, shape[own]))), int(own != 0)


def _is_padded_on_the_way(op: Operation, window: Window) -> bool:
    """Does the matrix engine take the zeros around the image from what is loaded, so that no padded image is needed in memory?"""
    left, right = (as_tensor(operand.type).element_type for operand in op.operands)
    if left != right or sums_type(left) is None:
        return False
    return not any(window.interior) and min((*window.low, *window.high), default=0) >= 0


def _on_spatial(rank: int, dimensions: Dims, values: Dims) -> list[int]:
    found = [0] * rank
    for d, value in zip(dimensions, values, strict=True):
        found[d] = value
    return found


def _in_order(e: Expansion, found: SSAValue, op: Operation, n: ConvNumbers) -> SSAValue:
    """[groups, batch, result..., outputs] to the dimensions of the result, of which the features are groups * outputs."""
    groups, *rest = as_tensor(found.type).get_shape()
    last = len(rest)
    order: list[int] = [0] * (last)
    order[n.output_batch_dimension] = 1
    order[n.output_feature_dimension] = last
    for i, d in enumerate(n.output_spatial_dimensions):
        order[d] = 2 + i
    if groups > 1:
        order.insert(n.output_feature_dimension, 0)
        return e.emit("reshape", [e.transpose(found, order)], op.results[0].type)
    found = e.emit("reshape", [found], e.like(found, rest))
    order = [d - 1 for d in order]
    if order == sorted(order):
        return found
    return e.emit("transpose", [found], op.results[0].type, permutation=int_array(order))


def _pad(op: Operation) -> None:
    """One with holes between many elements; in a fusion it stays as it is."""
    amounts = [attributes_of(op)[name] for name in ("edge_padding_low", "edge_padding_high", "interior_padding")]
    is_large = prod(tensor_like(op.operands[0].type).shape) >= LEAST_WITH_HOLES
    if any(amounts[2]) and is_large and not isinstance(op.parent_op(), FusionOp):
        e = Expansion(op)
        e.replace(e.pad(op.operands[0], op.operands[1], *amounts))


EXPANSIONS: dict[str, Callable[[Operation], None]] = {
    "stablehlo.pad": _pad,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.convolution": _convolution,
}
