"""When a contraction joins the fusion that reads it: float arithmetic on every element of its result, made before the block of a
step leaves the scratchpad.

%0 = dot_general %x, %w                       joins add_fusion: multiply, bias and relu are
%1 = maximum (%0 * %a + broadcast %b), 0      instructions on the block that the matrix engine has written
"""

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Operation, SSAValue

from hlo2tx8.fusion.candidate import CandidateUse, FusionCandidate
from hlo2tx8.hlo import Kind
from hlo2tx8.partitioner.contraction import is_contraction, why_not_on_engine
from hlo2tx8.partitioner.instruction import CONSTANTS, is_free, kind_of, shape_of, tensor_type
from hlo2tx8.schedule.costs import Costs

LEAST_TILES = 2
"""A contraction that waits for DDR is made by few tiles, so that operands are read seldom; then they make its epilogue too."""
LEAST_SHARE = 128 * 128
"""Elements per tile of a result that all tiles make: they share what they read."""
ARITHMETIC = (Kind.ELEMENTWISE, Kind.PER_CHANNEL)
FLOATS = (BFloat16Type, Float16Type, Float32Type)
"""What CT computes, on lanes in any order."""


def why_no_epilogue(op: Operation, found: Sequence[CandidateUse], costs: Costs) -> str:
    """Why a contraction does not join its readers, or "" if it does."""
    if not is_contraction(op) or why_not_on_engine(op):
        return "its own kind of kernel"
    if not found:
        return "a result of the program"
    use = found[0]
    if any(other.is_outside or not other.same_place(use) for other in found):
        return "read as a whole or at several places"
    candidate = use.candidate
    if not candidate.is_loop or use.map is not None or use.scope is not None or not candidate.has_index_of(op.results[0]):
        return "read at another index"
    is_in_place = all(_is_made_in_place(member, candidate) for member in candidate.members)
    if candidate.rows is not None or candidate.accesses or not is_in_place:
        return "its reader is no arithmetic on its elements"
    passes = sum(costs.compute(member) for member in candidate.members if kind_of(member) in ARITHMETIC)
    is_large = prod(shape_of(op.results[0])) >= LEAST_SHARE * costs.rates.tiles
    saved, lost = costs.saved(op, 1, 1), 0.0 if is_large else passes * (costs.rates.tiles / LEAST_TILES - 1)
    if lost > saved:
        return f"few tiles would make the epilogue: costs {lost:.0f} cycles, saves {saved:.0f}"
    return ""


def _is_made_in_place(op: Operation, candidate: FusionCandidate) -> bool:
    """Can the vector engine make an instruction's result on the block of a step?"""
    if op.name in CONSTANTS or is_free(op):
        return True
    shape = shape_of(candidate.root.results[0])
    is_whole = kind_of(op) in ARITHMETIC and all(shape_of(value) == shape for value in op.results)
    return is_whole and all(map(_is_float, (*op.operands, *op.results)))


def _is_float(value: SSAValue) -> bool:
    return isinstance(tensor_type(value).element_type, FLOATS)
