"""An instruction with several readers: their fusions are merged, its result becomes an output, or it is copied into each.

negate(x), abs(x), x = tanh(a)          one fusion with two outputs: x is neither written nor read
x, negate(x)                            x is an output of the fusion of negate
"""

from collections.abc import Sequence
from math import prod

from xdsl.ir import Operation, SSAValue

from hlo2tx8.fusion.candidate import MAX_INSTRUCTIONS, MAX_OUTPUTS, CandidateUse, FusionCandidate, Rows, reads_once
from hlo2tx8.fusion.epilogues import contraction_in
from hlo2tx8.fusion.row_candidates import kept_dims, rows_of
from hlo2tx8.fusion.views import SLICE, keeps_order
from hlo2tx8.indexing import Dim
from hlo2tx8.notes import Decision, What
from hlo2tx8.partitioner.contraction import is_contraction
from hlo2tx8.partitioner.instruction import is_elementwise, shape_of
from hlo2tx8.partitioner.moves import is_move
from hlo2tx8.partitioner.reduction_order import reduced_dimensions, why_in_order
from hlo2tx8.partitioner.reduction_paths import is_reduction
from hlo2tx8.schedule.costs import Costs, size_bytes, vector_times
from hlo2tx8.schedule.whole_rows import why_not_whole

CLEARLY = 0.75
"""Copies must cost less than this share of the other way: what they read gets more readers, too."""


def merge(target: FusionCandidate, other: FusionCandidate, value: SSAValue, costs: Costs) -> Decision:
    """Merge two readers of a value at the same index into one candidate if possible; returns what was decided."""
    why = ""
    if len(target.members) + len(other.members) > MAX_INSTRUCTIONS or len(target.outputs) + len(other.outputs) > MAX_OUTPUTS:
        why = "together they have too many instructions or outputs"
    elif any(map(is_contraction, target.members)) and any(map(is_contraction, other.members)):
        why = "each has products of its own"
    elif target.rows and other.rows and not target.rows.are_like(other.rows):
        why = "their reductions go over different rows"
    elif target.reaches(other) or other.reaches(target):
        why = "one reads what is made of the other"
    saved, roots = costs.rates.kernel + costs.transfer(value), (target.name, other.name)
    if why:
        return Decision(What.APART, roots[:1], roots[1], why, saved)
    target.absorb(other)
    return Decision(What.MERGED, roots[:1], roots[1], saved=saved)


def are_alike(use: CandidateUse, other: CandidateUse, costs: Costs) -> bool:
    """Is a value read at the same place by two candidates, at their own index or in rows which steps hold whole?"""
    if use.map != other.map:
        return False
    if use.scope is None and other.scope is None:
        return True
    rows, others = _rows_read(use, costs), _rows_read(other, costs)
    return rows is not None and others is not None and rows.are_like(others)


def _rows_read(use: CandidateUse, costs: Costs) -> Rows | None:
    """The rows that a candidate reduces, if it reads them and steps hold them whole."""
    rows, reductions = use.candidate.rows, [op for op in use.candidate.members if is_reduction(op)]
    if rows is None or use.scope is not rows.scope or any(why_in_order(op) or len(op.results) > 1 for op in reductions):
        return None
    return rows if not any(why_not_whole(op, reduced_dimensions(op), costs) for op in reductions) else None


def is_output_of(op: Operation, use: CandidateUse, costs: Costs) -> bool:
    """True if the instruction has one element per index of the reader's fusion, or one per row of it."""
    if use.scope is not None:
        return _is_of_rows_loop(op, use, costs)
    if use.map is None:
        return use.candidate.has_index_of(op.results[0])
    shape = shape_of(use.candidate.root.results[0])
    dims = [result.index for result in use.map.results if isinstance(result, Dim)]
    if use.map.constraints or len(dims) < len(use.map.results) or len(use.map.dims) != len(shape):
        return False
    if dims != sorted(set(dims)) or shape_of(op.results[0]) != tuple(shape[dim] for dim in dims):
        return False
    rows = rows_of(op, use, costs) if reads_once(op) else use.candidate.rows
    if rows is None:
        return len(dims) < len(shape) and not any(map(is_contraction, use.candidate.members))  # a reduction before it may join
    return isinstance(rows, Rows) and rows.scope is None and dims == [dim.index for dim in kept_dims(rows)]


def _is_of_rows_loop(op: Operation, use: CandidateUse, costs: Costs) -> bool:
    """True if the root reduces rows, and the instruction has one element per row, too: it is at the root's own index."""
    rows = rows_of(op, use, costs) if reads_once(op) else use.candidate.rows
    if not isinstance(rows, Rows) or rows.scope is not use.scope or use.map is None or use.map.constraints:
        return False
    rank = len(shape_of(use.candidate.root.results[0]))
    return use.candidate.has_index_of(op.results[0]) and list(use.map.results) == list(map(Dim, range(rank)))


def why_no_output(op: Operation, place: CandidateUse, rest: Sequence[CandidateUse], costs: Costs) -> str:
    """Why the instruction cannot be an output of one reader's fusion, to be read from memory by the readers `rest`; "" if it
    can.
    """
    if not is_output_of(op, place, costs):
        return "it is at another index"
    if len(place.candidate.outputs) >= MAX_OUTPUTS:
        return f"there are {MAX_OUTPUTS} already"
    if any(use.candidate.reaches(place.candidate) for use in rest):
        return "another reader lies between them"
    return ""


def copies_are_cheaper(op: Operation, places: Sequence[CandidateUse], costs: Costs, *, is_output: bool) -> bool:
    """True if computing the instruction in each reader costs clearly less than writing its result once and reading it everywhere.

    `is_output` says that the first reader's fusion could write it, as it computes it anyway.
    """
    if is_output and places[0].map is not None:
        return False
    found = costs_of_copies(op, places, costs, is_output=is_output)
    return found is not None and CLEARLY * found[1] > found[0]


def is_sooner_made_again(op: Operation, places: Sequence[CandidateUse], costs: Costs) -> bool:
    """Is an instruction that one fusion reads through several indexing maps sooner computed at each of these places than written
    once and read from memory? What it reads is in memory then, so that nothing else is computed more than once."""
    return all(_is_written(value, op) for value in op.operands) and copies_are_cheaper(op, places, costs, is_output=False)


def _is_written(value: SSAValue, reader: Operation) -> bool:
    """Will a value, or what it is a part of, be in memory if its reader is no epilogue? That is a parameter; or the result of a
    product, if the reader takes a part of it, or makes more bytes than the product then writes."""
    size = size_bytes(value)
    while isinstance(owner := value.owner, Operation) and (is_move(owner) or owner.name == SLICE):
        value = owner.operands[0]
    if not isinstance(owner, Operation):
        return True
    return contraction_in(owner) is not None and (reader.name == SLICE or size < size_bytes(reader.results[0]))


def costs_of_copies(op: Operation, places: Sequence[CandidateUse], costs: Costs, *, is_output: bool) -> tuple[float, float] | None:
    """Cycles of a copy in each reader, and of a result that is written once; None of what is never copied."""
    is_index_only = keeps_order(op) or op.name == SLICE
    if not is_index_only and (not is_elementwise(op) or vector_times(op, costs.rates) > 1):
        return None
    read, again = sum(map(size_bytes, op.results if is_index_only else op.operands)), len(places) - 1
    moved = size_bytes(op.results[0]) * (1 + (again if is_output else len(places)))
    own = max(1, prod(shape_of(op.results[0])))
    times = sum(max(1.0, prod(shape_of(use.candidate.root.results[0])) / own) for use in places) - 1
    kernel = 0 if is_output else costs.rates.kernel
    computed = 0.0 if is_index_only else times * costs.compute(op)
    return again * read / costs.rates.ddr + computed, moved / costs.rates.ddr + kernel
