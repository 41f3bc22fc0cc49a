"""Work split of a row space: a step has some rows, each of them whole.

rows inside, [4096, 1024] over 1        8 rows of 1024 neighbours
rows outside, [4096, 1024] over 0       16 columns, runs of 16 elements, of 4096 lines
"""

from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import TensorType

from hlo2tx8.hlo import numpy_dtype
from hlo2tx8.indexing import Dim
from hlo2tx8.partitioner.computation import SubgraphFunction
from hlo2tx8.partitioner.iteration_space import iteration_space
from hlo2tx8.partitioner.row_space import RowSpace
from hlo2tx8.schedule.accesses import SPM_SHARE, AccessAnalysis, TensorAccess
from hlo2tx8.schedule.work_split import MIN_CHUNK_ELEMENTS, MIN_STEP_ELEMENTS, WorkSplit, choose_box, split_work

MORE_OF_ODD = 4
"""Times as many elements that a step has of rows that are no whole vector units: each of them moves by itself between its lanes
and the units that are reduced, which takes less of a step of more rows."""

LEAST_OF_ODD_BYTES = 8192
"""That such a step has at least."""


@dataclass(frozen=True)
class JoinedLanes:
    """A reduction goes over these lanes of the step."""

    lanes: tuple[int, ...]


@dataclass(frozen=True)
class RowSplit:
    """The split, and the lanes of it that are joined."""

    split: WorkSplit
    joined: JoinedLanes


def split_rows(space: RowSpace, function: SubgraphFunction, accesses: AccessAnalysis) -> RowSplit | str:
    """The split of a row space, or why rows do not fit a step."""
    kept = space.map_of_kept()
    element = space.order.element_type
    rows = TensorAccess(kept, TensorType(element, [space.shape[dim] for dim in space.kept]))
    found = iteration_space(space.order, [*accesses.of(function), rows])
    if not found.is_affine:
        return "its reads are not affine"
    joined = sorted({leaf.index for dim in space.joined for leaf in found.to_output[dim].leaves() if isinstance(leaf, Dim)})
    target, outer = accesses.target, [dim for dim in range(len(found.shape)) if dim not in joined]
    inner, is_split = [dim for dim in outer if dim > joined[-1]], any(joined[0] < dim < joined[-1] for dim in outer)
    fits = int(SPM_SHARE * target.rates.spm_bytes / accesses.bytes_per_element(function, prod(space.shape)))
    wanted = target.step_elements or accesses.step_elements(function)
    is_odd = not target.step_elements and space.width % MIN_CHUNK_ELEMENTS != 0
    least_step = LEAST_OF_ODD_BYTES // numpy_dtype(element).itemsize if is_odd else MIN_STEP_ELEMENTS
    if is_odd:
        wanted = max(wanted, min(MORE_OF_ODD * wanted, fits))
    least = space.width
    if inner:
        least *= min(prod(found.shape[dim] for dim in inner), max(1, target.rates.line_bytes // numpy_dtype(element).itemsize))
    if least > (target.step_elements or fits):
        return f"{least} elements of whole rows do not fit a step"
    box = [1 if dim in outer else size for dim, size in enumerate(found.shape)]
    cut = inner if is_split else outer  # a row in several pieces is a step of its own, with its neighbours
    most = max(wanted, least) // space.width
    if cut:
        alone = accesses.alone_in_rows(function, prod(space.shape))
        sizes = choose_box([found.shape[dim] for dim in cut], most, target.rates.tiles, space.width, alone, least_step)
        for dim, size in zip(cut, sizes, strict=True):
            box[dim] = 1 if inner and dim not in inner else size  # joined lanes do not lie between others
        if inner:
            box[cut[-1]] = max(box[cut[-1]], min(found.shape[cut[-1]], least // space.width))
    split = split_work(found.shape, found.to_output, 0, target.rates.tiles, box=box)
    lanes = split.lane_dims
    return RowSplit(split, JoinedLanes(tuple(position for position, dim in enumerate(lanes) if dim in joined)))
