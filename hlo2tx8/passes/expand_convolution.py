"""Pass expand-convolution: a convolution becomes a product of views of its operands.

    convolution %x, %w   ⟶   fusion { pad; views [groups, batch, result..., features, window...] and
                                            [groups, output features, features, window...]; dot_general over features and window }

An image with holes, and one that the matrix engine does not convolve, is padded before the fusion.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, dot_numbers, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.dialects.xla_dot import sums_type
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.convolution import ConvNumbers, numbers_of, reversal, window_of
from hlo2tx8.hlo.ops.window import Window
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap

Dims = tuple[int, ...]


@dataclass(frozen=True)
class ExpandConvolutionPass(ModulePass):
    """Rewrites convolutions; see the module docstring."""

    name = "expand-convolution"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.convolution": _convolution})


def _convolution(op: Operation) -> None:
    """dot_general gives [groups, batch, result..., output features of the group]; shaping brings that into order."""
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
