"""When a reduction joins a fusion whose steps hold whole rows, and what reads it reads one element per row.

m = reduce max x over 1          read by x - m at (d0, d1) -> (d0): joins, if rows fit a step
"""

from xdsl.ir import Operation

from hlo2tx8.fusion.candidate import CandidateUse, Rows
from hlo2tx8.indexing import Dim, IndexingMap
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.partitioner.reduction_order import reduced_dimensions, why_in_order
from hlo2tx8.schedule.costs import Costs
from hlo2tx8.schedule.whole_rows import why_not_whole


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
    return why_not_whole(op, reduced, costs) or rows


def kept_dims(rows: Rows) -> list[Dim]:
    """The dimensions of the rows' shape that are not reduced."""
    return [Dim(dim) for dim in range(len(rows.shape)) if dim not in rows.reduced]


def _is_once_per_row(use: CandidateUse, rows: Rows, rank: int) -> bool:
    if use.map is None:
        return use.scope is None and rows.scope is not None  # the fusion's own index is that of its rows
    kept = kept_dims(rows) if rows.scope is None else list(map(Dim, range(rank)))
    return use.scope is rows.scope and not use.map.constraints and list(use.map.results) == kept
