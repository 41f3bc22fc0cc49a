"""When a reduction joins a fusion whose steps hold whole rows, and what reads it reads one element per row.

m = reduce max x over 1          read by x - m at (d0, d1) -> (d0): joins, if rows fit a step
"""

from collections.abc import Sequence
from math import prod

from xdsl.ir import Operation

from hlo2tx8.dialects.layout import minor_to_major
from hlo2tx8.fusion.candidate import CandidateUse, Rows
from hlo2tx8.hlo import numpy_dtype
from hlo2tx8.indexing import Dim, IndexingMap
from hlo2tx8.partitioner.instruction import shape_of, tensor_type
from hlo2tx8.partitioner.reduction_order import reduced_dimensions, why_in_order
from hlo2tx8.schedule.costs import Costs, size_bytes

ROW_VECTORS = 10
"""Vectors of a step that a chain of row reductions is taken to need, for whether its rows fit."""
ROW_PASSES = 8
"""Vector instructions on all elements that it is taken to have, for what idle tiles cost."""


def rows_of(op: Operation, use: CandidateUse, costs: Costs) -> Rows | str:
    """The rows over which a reduction can be part of its reader's fusion, or a sentence that says why it cannot."""
    if len(op.results) > 1:
        return "a reduction with several results"
    if reason := why_in_order(op):
        return reason
    candidate, reduced, shape = use.candidate, tuple(reduced_dimensions(op)), shape_of(op.operands[0])
    rows = candidate.rows
    if rows is None:
        if not candidate.has_index_of(op.operands[0]) or use.scope is not None:
            return "a reduction read at another index"
        rows = Rows(reduced, None, shape, reduced, IndexingMap.identity(shape).dims)
    if rows.shape != shape or rows.reduced != reduced:
        return "a reduction over other rows"
    if not _is_once_per_row(use, rows, len(shape_of(candidate.root.results[0]))):
        return "a reduction read at another index than that of its rows"
    return _why_not_whole(op, reduced, costs) or rows


def kept_dims(rows: Rows) -> list[Dim]:
    """The dimensions of the rows' shape that are not reduced."""
    return [Dim(dim) for dim in range(len(rows.shape)) if dim not in rows.reduced]


def _is_once_per_row(use: CandidateUse, rows: Rows, rank: int) -> bool:
    if use.map is None:
        return use.scope is None and rows.scope is not None  # the fusion's own index is that of its rows
    kept = kept_dims(rows) if rows.scope is None else list(map(Dim, range(rank)))
    return use.scope is rows.scope and not use.map.constraints and list(use.map.results) == kept


def _why_not_whole(op: Operation, reduced: Sequence[int], costs: Costs) -> str:
    """Why steps cannot, or should not, have whole rows of what a reduction reads, or ""."""
    type_ = tensor_type(op.operands[0])
    shape, width = type_.get_shape(), numpy_dtype(type_.element_type).itemsize
    row = prod(shape[dim] for dim in reduced)
    if row <= 1:
        return "rows of one element"
    if not prod(shape):
        return "no rows"
    inner = 1
    for dim in (dim for dim in minor_to_major(type_) if shape[dim] > 1):
        if dim in reduced:
            break
        inner *= shape[dim]
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
