"""Which tensors get their channels last: what the matrix engine saves then, and what it costs to bring others into that order."""

from collections import Counter
from collections.abc import Iterator
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.convolution import numbers_of
from hlo2tx8.passes.dimensions.alike import is_moved, is_reordered, sets_alike
from hlo2tx8.passes.windows.channels import LEAST_CHANNELS
from hlo2tx8.schedule.costs import size_bytes

Order = tuple[int, ...]
"""Of the dimensions of a tensor: which of the old ones each new one is."""
LEAST_ELEMENTS = 4096
"""Of an image that is worth moving for such a convolution alone."""
PER_CHANNEL = 16
"""Times that an image is worth moving for a convolution per channel, which is off the matrix engine otherwise."""
MOVED = 2
"""Times that a tensor is moved, read and written, to have its dimensions in another order."""


def orders_of(block: Block) -> dict[SSAValue, Order]:
    """The new order of the dimensions of each tensor of a block that gets another one."""
    wanted: dict[SSAValue, Counter[Order]] = {}
    for op in block.ops:
        if op.name == "stablehlo.convolution":
            for value, order, saved in _wanted_by(op):
                wanted.setdefault(value, Counter())[order] += saved
    if all(list(order) == sorted(order) for orders in wanted.values() for order in orders):
        return {}
    found: dict[SSAValue, Order] = {}
    for values in sets_alike(block):
        of_all = sum((wanted[value] for value in values if value in wanted), Counter[Order]())
        if not of_all:
            continue
        order, saved = of_all.most_common(1)[0]
        moved = MOVED * sum(size_bytes(value) for value in values if is_moved(value, block))
        if list(order) != sorted(order) and 2 * saved - of_all.total() > moved:
            found |= dict.fromkeys(values, order)
    return found


def is_forward(op: Operation) -> bool:
    """Is a convolution's second operand its weights? The gradient of weights has a window larger than its result."""
    n, kernel, result = numbers_of(attributes_of(op)), tensor_like(op.operands[1].type).shape, tensor_like(op.results[0].type).shape
    taps = prod(kernel[d] for d in n.kernel_spatial_dimensions)
    return taps == 1 or taps <= prod(result[d] for d in n.output_spatial_dimensions)


def _wanted_by(op: Operation) -> Iterator[tuple[SSAValue, Order, int]]:
    """The image and the result of a convolution with the order in which its channels are last, and bytes that this saves."""
    (image, kernel), result, attributes = op.operands[:2], op.results[0], attributes_of(op)
    if not all(map(is_reordered, (image, kernel, result))) or not is_forward(op):
        return
    n, groups = numbers_of(attributes), int(attributes["feature_group_count"])
    is_per_channel = groups >= LEAST_CHANNELS and tensor_like(kernel.type).shape[n.kernel_input_feature_dimension] == 1
    is_large = prod(tensor_like(image.type).shape) >= LEAST_ELEMENTS
    times = PER_CHANNEL if is_per_channel and is_large else 1
    yield image, (n.input_batch_dimension, *n.input_spatial_dimensions, n.input_feature_dimension), times * size_bytes(image)
    yield result, (n.output_batch_dimension, *n.output_spatial_dimensions, n.output_feature_dimension), times * size_bytes(result)
