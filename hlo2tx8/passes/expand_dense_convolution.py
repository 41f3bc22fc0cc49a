"""Pass expand-dense-convolution: a convolution whose window is as large as the image becomes one product of matrices.

    convolution %x, %w   ⟶   fusion { reshapes [features * window, batch], [features * window, output features]; dot_general }

Features and places are one dimension to add up. It has to be in the same order in the image and in the kernel.
"""

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, dot_numbers
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.convolution import numbers_of, reversal, window_of

Dims = tuple[int, ...]


@dataclass(frozen=True)
class ExpandDenseConvolutionPass(ModulePass):
    """Rewrites such convolutions; see the module docstring."""

    name = "expand-dense-convolution"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.convolution": _product})


def _product(op: Operation) -> None:
    if not _is_plain_product(op):
        return
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


def _as_matrix(e: Expansion, value: SSAValue, own: int) -> tuple[SSAValue, int]:
    """An operand of which all dimensions but its own one are one, and where its own is then."""
    shape = tensor_like(value.type).shape
    size = prod(n for dim, n in enumerate(shape) if dim != own)
    return e.emit("reshape", [value], e.like(value, (shape[own], size) if own == 0 else (size, shape[own]))), int(own != 0)
