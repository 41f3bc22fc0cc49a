"""Whether the rows that a fusion holds whole fit a step, once it is known what else the fusion computes.

    variance and all that a normalization makes of rows of 1,568 bf16 elements, in 16 vectors at once: the sums of another fusion

A reduction joins what reads it before the rest of the fusion is known, by how many vectors a chain of them usually needs.
"""

from collections.abc import Hashable, Sequence
from math import prod

from xdsl.ir import Block, Operation

from hlo2tx8.fusion.build_fusions import build_fusion
from hlo2tx8.fusion.candidate import FusionCandidate
from hlo2tx8.hlo import numpy_dtype
from hlo2tx8.hlo.fingerprint import fingerprint
from hlo2tx8.partitioner.computation import partition_rows
from hlo2tx8.partitioner.instruction import tensor_type
from hlo2tx8.partitioner.reduction_paths import is_reduction
from hlo2tx8.partitioner.row_space import row_space
from hlo2tx8.schedule.accesses import SPM_SHARE, AccessAnalysis
from hlo2tx8.schedule.costs import Costs
from hlo2tx8.schedule.row_split import split_rows
from hlo2tx8.schedule.work_split import Target

LIVE_PER_MEMBER = 3
"""Vectors at once for each instruction at most: its result, and two of a tensor that it reads."""


def first_of_too_many(block: Block, candidates: Sequence[FusionCandidate], costs: Costs) -> Operation | None:
    """The first reduction of a fusion in the block whose rows do not fit a step; None if all do."""
    position = {op: number for number, op in enumerate(block.ops)}
    known: dict[Hashable, bool] = {}
    for candidate in candidates:
        if candidate.rows is not None and _is_large(candidate, costs):
            members = sorted(candidate.members, key=position.__getitem__)
            if not _fits(candidate, members, costs, known):
                return next(op for op in members if is_reduction(op))
    return None


def _is_large(candidate: FusionCandidate, costs: Costs) -> bool:
    """Could the rows be too many, if all that is computed were there at once?"""
    assert candidate.rows is not None
    row = prod(candidate.rows.shape[dim] for dim in candidate.rows.reduced)
    widths = [numpy_dtype(tensor_type(value).element_type).itemsize for op in candidate.members for value in op.results]
    vectors = LIVE_PER_MEMBER * len(candidate.members) + 2 * len(candidate.outputs)
    return row * costs.rates.line_bytes * max(widths) * vectors > SPM_SHARE * costs.rates.spm_bytes


def _fits(candidate: FusionCandidate, members: Sequence[Operation], costs: Costs, known: dict[Hashable, bool]) -> bool:
    """Does a step of the fusion hold whole rows, if nothing else keeps it from being one of rows? Equal fusions are `known`."""
    fusion = build_fusion(candidate, members, "")
    key = fingerprint(fusion)
    if key not in known:
        known[key] = _holds_rows(fusion.body.block, costs)
    fusion.erase()
    return known[key]


def _holds_rows(body: Block, costs: Costs) -> bool:
    space = row_space(body)
    if isinstance(space, str):
        return True
    partitioned = partition_rows(body, space)
    accesses = AccessAnalysis(partitioned, Target(costs.rates))
    return not isinstance(split_rows(space, partitioned.functions[0], accesses), str)
