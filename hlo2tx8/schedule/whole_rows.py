"""Whether the steps of a kernel should hold whole rows of what a reduction reads.

reduce [4096, 1024] over 1      8 rows of 1024 in a step: yes
reduce [100352, 64] over 0      16 columns of 100352 do not fit the scratchpad: no
"""

from collections.abc import Sequence
from itertools import takewhile
from math import prod

from xdsl.ir import Operation

from hlo2tx8.dialects.layout import minor_to_major
from hlo2tx8.hlo import numpy_dtype
from hlo2tx8.partitioner.instruction import tensor_type
from hlo2tx8.schedule.costs import Costs, size_bytes

ROW_VECTORS = 10
"""Vectors of a step that a chain of row reductions is taken to need, for whether its rows fit."""
ROW_PASSES = 8
"""Vector instructions on all elements that it is taken to have, for what idle tiles cost."""


def why_not_whole(op: Operation, reduced: Sequence[int], costs: Costs) -> str:
    """Why steps cannot, or should not, have whole rows of what a reduction reads, or ""."""
    type_ = tensor_type(op.operands[0])
    shape, width = type_.get_shape(), numpy_dtype(type_.element_type).itemsize
    row = prod(shape[dim] for dim in reduced)
    if row <= 1:
        return "rows of one element"
    if not prod(shape):
        return "no rows"
    order = [dim for dim in minor_to_major(type_) if shape[dim] > 1]
    inner = prod(shape[dim] for dim in takewhile(lambda dim: dim not in reduced, order))
    rates = costs.rates
    together = min(inner, max(1, rates.line_bytes // width))  # rows that do not lie next to each other are taken by lines
    if row * max(width, 4) * ROW_VECTORS * together > rates.spm_bytes:
        return f"rows of {row} elements do not fit the scratchpad"
    num_rows, size = prod(shape) // row, size_bytes(op.operands[0])
    busy = min(rates.tiles, -(-num_rows // together))
    saved = costs.transfer(op.operands[0]) + rates.kernel
    lost = costs.idle(busy, 2 * size) + ROW_PASSES * size / (rates.tiles * rates.vector) * (rates.tiles / busy - 1)
    if lost > saved:
        return f"{num_rows} rows leave tiles idle: costs {lost:.0f} cycles, saves {saved:.0f}"
    return ""


def lies_in_short_runs(op: Operation, reduced: Sequence[int], costs: Costs) -> bool:
    """Does a row of what a reduction reads lie in several runs of less than a line each?"""
    type_ = tensor_type(op.operands[0])
    shape, width = type_.get_shape(), numpy_dtype(type_.element_type).itemsize
    order = [dim for dim in minor_to_major(type_) if shape[dim] > 1]
    run = prod(shape[dim] for dim in takewhile(lambda dim: dim in reduced, order))
    return 1 < run < prod(shape[dim] for dim in reduced) and run * width < costs.rates.line_bytes
