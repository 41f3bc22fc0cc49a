"""What it costs that a reduction reads a transposed tensor where it lies: DDR charges each short run as a line.

    %t = transpose %x : [2048, 96] to [96, 2048]; softmax of the rows of %t

A step has some rows, each whole, that is some columns of %x: as many neighbours lie next to each other as the step has rows.
"""

from collections.abc import Sequence
from math import prod

from xdsl.ir import Operation

from hlo2tx8.dialects.layout import minor_to_major
from hlo2tx8.fusion.candidate import FusionCandidate
from hlo2tx8.indexing import Dim, IndexingMap
from hlo2tx8.partitioner.instruction import shape_of, tensor_type
from hlo2tx8.partitioner.reduction_paths import is_reduction
from hlo2tx8.schedule.costs import Costs
from hlo2tx8.schedule.work_split import DEFAULT_STEP_ELEMENTS, overlapping_elements

SQUARE = 4
"""Lines of results that a step has if it has lines of them along another dimension."""


def why_turned_apart(op: Operation, map: IndexingMap | None, candidate: FusionCandidate, costs: Costs) -> str:
    """The reason why a transpose had better be stored for a fusion that reduces it, or "". `map`: from the index of the fusion's
    root, and the counters of its reductions, to that of the transpose's operand."""
    if map is None or not any(is_reduction(member) for member in candidate.members):
        return ""
    line = max(1, costs.rates.line_bytes // costs.width(op.operands[0]))
    run = _neighbours(op, map, candidate, line, costs.rates.tiles)
    lost, saved = costs.transfer(op.operands[0]) * (line / run - 1), costs.saved(op, 1, 1)
    return f"it is read in runs of {run} elements: costs {lost:.0f} cycles, saves {saved:.0f}" if lost > saved else ""


def _neighbours(op: Operation, map: IndexingMap, candidate: FusionCandidate, line: int, num_tiles: int) -> int:
    """Elements of the operand that lie next to each other in what a step reads of it. Where nothing but results of reductions is
    stored, a step may have lines of neighbours along two dimensions."""
    type_, root = tensor_type(op.operands[0]), shape_of(candidate.root.results[0])
    shape = type_.get_shape()
    inner = next((dim for dim in minor_to_major(type_) if shape[dim] > 1), 0)
    joined = () if candidate.rows is None else candidate.rows.joined
    kept = [dim for dim in range(len(root)) if dim not in joined]
    along = [leaf.index for leaf in map.results[inner].leaves() if isinstance(leaf, Dim) and leaf.index in kept]
    if not along or len(along) < len(map.results[inner].leaves()):
        return shape[inner]
    rows = _rows_of_step([root[dim] for dim in kept], prod(shape), num_tiles)
    if all(dim >= len(root) for dim in joined) and rows >= SQUARE * line:
        return line
    return max(1, min(shape[inner], rows // prod(root[dim] for dim in kept[kept.index(along[-1]) + 1 :])))


def _rows_of_step(kept: Sequence[int], num_elements: int, num_tiles: int) -> int:
    """As many rows as a step is taken to have."""
    width = max(1, num_elements // max(1, prod(kept)))
    return max(1, min(DEFAULT_STEP_ELEMENTS // width, overlapping_elements(kept, num_tiles, width)))
