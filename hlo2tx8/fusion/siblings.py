"""Fusions that read the same tensor at the same index become one, which reads it once, though neither reads the other.

sum(x), max(x) over rows        one fusion with two outputs
negate(x), abs(x)               so are these, whoever made x

Readers of an instruction that joins them are merged while candidates are found (`sharing`); these are those of inputs, and of
results of other fusions.
"""

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from hlo2tx8.fusion.candidate import CandidateUse, FusionCandidate
from hlo2tx8.fusion.sharing import are_alike, merge
from hlo2tx8.notes import Decision
from hlo2tx8.schedule.costs import Costs, size_bytes

MOST_BEFORE = 8
"""Candidates that read the same before one, which it may become one with: with more, all layers of a model read a mask."""


def merge_siblings(reads: Mapping[SSAValue, Sequence[CandidateUse]], costs: Costs) -> list[Decision]:
    """Merges candidates that read one of these values alike, the largest value first; what was decided."""
    decisions: list[Decision] = []
    several = [(value, uses) for value, uses in reads.items() if len(uses) > 1 and costs.transfer(value) >= costs.rates.kernel]
    for value, uses in sorted(several, key=lambda item: -size_bytes(item[0])):
        alike: dict[FusionCandidate, CandidateUse] = {}
        for use in uses:
            if use.candidate.is_loop and not use.is_outside and value.owner not in use.candidate.members:
                alike.setdefault(use.candidate, use)
        ordered = sorted(alike.values(), key=lambda use: use.candidate.last)
        for number, use in enumerate(ordered):
            for other in ordered[max(0, number - MOST_BEFORE) : number]:
                root = other.candidate.root.results[0]
                if use.candidate is not other.candidate and use.candidate.has_index_of(root) and are_alike(use, other, costs):
                    decisions.append(merge(use.candidate, other.candidate, value, costs))
    return decisions
