"""Products of the same rows: one fusion computes them, which reads the rows once.

%q = dot_general %x, %wq        one fusion with three results: a step multiplies its rows of %x
%k = dot_general %x, %wk        by columns of %wq, of %wk and of %wv
%v = dot_general %x, %wv
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from hlo2tx8.fusion.candidate import MAX_INSTRUCTIONS, FusionCandidate
from hlo2tx8.fusion.converted import are_converted_alike, are_of_same_bytes
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.notes import Decision, What
from hlo2tx8.partitioner.contraction import MOST_PRODUCTS, is_dot, why_not_on_engine
from hlo2tx8.partitioner.turns import is_same_in_all_turns
from hlo2tx8.schedule.costs import Costs

CLEARLY = 0.95
"""One kernel must take less than this share of what the kernels take: a step of it has fewer rows and columns."""
MUCH_LARGER = 2
"""A result that is so many times as large as what the product reads had better stay with its reader, by rows of a group."""


def _products_in(candidate: FusionCandidate) -> list[Operation]:
    """The dots of a candidate that are products of the same rows."""
    return [op for op in candidate.members if is_dot(op)]


@dataclass(frozen=True)
class SameRows:
    """The candidates with dots met so far, by what they have as rows."""

    of_rows: dict[SSAValue, list[FusionCandidate]] = field(default_factory=dict[SSAValue, list[FusionCandidate]])

    def merge(self, op: Operation, candidate: FusionCandidate, costs: Costs) -> Iterator[Decision]:
        """Merge a candidate with the dot `op` into one with products of the same rows if that saves cycles; a decision about it."""
        if not is_dot(op) or why_not_on_engine(op) or num_parts(op) > 1:
            return
        if costs.transfer(op.results[0]) > MUCH_LARGER * sum(map(costs.transfer, op.operands)):
            return
        others = self.of_rows.setdefault(op.operands[0], [])
        for other in dict.fromkeys(other.find() for other in others):
            dots = _products_in(candidate), _products_in(other)
            apart, together = sum(_cycles(own, costs) for own in dots), _cycles([*dots[0], *dots[1]], costs)
            if together < CLEARLY * apart and _fit_together(op, candidate, other):
                yield Decision(What.SAME_ROWS, (candidate.name,), other.name, saved=apart - together)
                other.absorb(candidate)
                return
        others.append(candidate)


def _fit_together(op: Operation, candidate: FusionCandidate, other: FusionCandidate) -> bool:
    """Are the products of another candidate like this dot, stored in the same order, and independent of it?"""
    dots = _products_in(other)
    if not dots or len(dots) >= MOST_PRODUCTS or len(_products_in(candidate)) > 1:
        return False
    if candidate.is_loop != other.is_loop and not (other.is_loop and is_same_in_all_turns(op, 1)):
        return False
    if len(candidate.members) + len(other.members) > MAX_INSTRUCTIONS or candidate.root.result_types != other.root.result_types:
        return False
    if not all(are_of_same_rows(op, dot) for dot in dots):
        return False
    return not candidate.reaches(other) and not other.reaches(candidate)


def are_of_same_rows(dot: Operation, other: Operation) -> bool:
    """Do two products multiply the same rows by as many columns, which are loaded alike?"""
    mine, its = ((op.name, op.properties, op.operands[0], op.operand_types, op.result_types) for op in (dot, other))
    return mine == its and are_converted_alike(dot, other)


def _cycles(dots: Sequence[Operation], costs: Costs) -> float:
    """What a kernel takes that reads the rows once, and not in each turn what all turns read: DDR, or the matrix engine."""
    columns = dots[:1] if all(are_of_same_bytes(dots[0], dot) for dot in dots) else dots
    columns = [dot for dot in columns if not is_same_in_all_turns(dot, 1)]
    moved = [dots[0].operands[0], *(dot.operands[1] for dot in columns), *(dot.results[0] for dot in dots)]
    return max(sum(map(costs.transfer, moved)), sum(map(costs.products, dots))) + costs.rates.kernel
