"""The search for the fastest plan of a kernel: many of its candidates are lowered and judged by the timing model.

    32 rows a step, 128 a chunk (43,789 cycles, 598,016 bytes) is rejected: 36,169 modelled
    39 others (83,709 cycles, 140,672 bytes) is rejected: estimated to take as long or longer, not lowered
    64 rows a step, 128 a chunk (44,942 cycles, 901,120 bytes) is taken: 35,945 modelled

Estimates say in which order candidates are lowered, and which need not be: those of a group that are slower than the best even if
their estimates are as much too high as the worst of the others, and some more; and all behind so many that were not faster. What
`plan` would take is always among those that are lowered, and stays where nothing is faster.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import TypeVar

from hlo2tx8.schedule.plan import Candidate, Estimate, Feasibility, Measure, Rejected, Schedule, plan

Choice = TypeVar("Choice")
MARGIN = 0.6
"""Of what a candidate is expected to take, that it may take."""
PATIENCE = 24
"""Candidates of a group that are lowered without finding a faster one."""


def search(
    groups: Iterable[Iterable[Candidate[Choice]]], spm_bytes: int, measure: Measure[Choice], known_cycles: float = inf
) -> Schedule[Choice]:
    """The candidate with the fewest modelled cycles whose buffers fit into as many bytes, of all groups; of equal ones the first.

    A candidate is known by its name: of several with one name the first counts. `measure` says modelled cycles of those that fit.
    `known_cycles`: of another way to compute the kernel; what is expected to take longer is not lowered.
    """
    best: Schedule[Choice] = Schedule(None, ())
    for group in groups:
        known: dict[str, Candidate[Choice]] = {}
        for candidate in group:
            known.setdefault(candidate.name, candidate)
        found = _search_group([*known.values()], spm_bytes, measure, min(best.cycles or inf, known_cycles))
        rejected = (*best.rejected, *found.rejected)
        if best.taken is None or (found.taken is not None and found.cycles < best.cycles):
            best, found = found, best
        if found.taken is not None:
            rejected = (*rejected, Rejected(found.taken.name, found.taken.estimate, _modelled(found.cycles)))
        best = replace(best, rejected=rejected)
    return best


def _search_group(
    candidates: Sequence[Candidate[Choice]], spm_bytes: int, measure: Measure[Choice], known_cycles: float
) -> Schedule[Choice]:
    """The same of candidates whose estimates are as good as each other's."""
    tried: dict[str, tuple[Candidate[Choice], Feasibility]] = {}

    def lower(candidate: Candidate[Choice]) -> Feasibility:
        found = measure(candidate)
        tried[candidate.name] = candidate, found
        return found

    plan(candidates, spm_bytes, lower)
    left = sorted((c for c in candidates if c.name not in tried), key=lambda c: c.estimate.cycles)
    best, ratio = _best(tried.values(), spm_bytes)
    waited = 0
    while left and waited < PATIENCE and MARGIN * ratio * left[0].estimate.cycles < min(best, known_cycles):
        lower(left.pop(0))
        before = best
        best, ratio = _best(tried.values(), spm_bytes)
        waited = 0 if best < before else waited + 1
    return fastest_of([*tried.values()], left, spm_bytes)


def _fits(found: Feasibility, spm_bytes: int) -> bool:
    return not found.why and found.spm_bytes <= spm_bytes


def _best(tried: Iterable[tuple[Candidate[Choice], Feasibility]], spm_bytes: int) -> tuple[float, float]:
    """The fewest cycles of a candidate that fits, and the least ratio to its estimate of one; infinite and 1 if there is none."""
    fitting = [(found.cycles, c.estimate.cycles) for c, found in tried if _fits(found, spm_bytes)]
    ratio = min((cycles / max(estimate, 1.0) for cycles, estimate in fitting), default=1.0)
    return min((cycles for cycles, _ in fitting), default=inf), ratio


def fastest_of(
    tried: Sequence[tuple[Candidate[Choice], Feasibility]], left: Sequence[Candidate[Choice]], spm_bytes: int
) -> Schedule[Choice]:
    """The one of the fewest modelled cycles of those that were lowered and fit; `left` were not lowered."""
    fitting = [(candidate, found) for candidate, found in tried if _fits(found, spm_bytes)]
    taken, cycles = None, 0.0
    if fitting:
        taken, best = min(fitting, key=lambda pair: pair[1].cycles)
        cycles = best.cycles
    rejected = [Rejected(c.name, c.estimate, *_why(found, spm_bytes)) for c, found in tried if c is not taken]
    if left:
        least = Estimate(left[0].estimate.cycles, min(c.estimate.spm_bytes for c in left))
        rejected.append(Rejected(f"{len(left)} others", least, "estimated to take as long or longer, not lowered"))
    return Schedule(taken, tuple(rejected), cycles)


def _why(found: Feasibility, spm_bytes: int) -> tuple[str, int]:
    """Why a candidate that was lowered is not taken, and the bytes it takes if that is why."""
    if found.why:
        return found.why, 0
    if found.spm_bytes > spm_bytes:
        return f"its buffers take {found.spm_bytes:,} of {spm_bytes:,} bytes", found.spm_bytes
    return _modelled(found.cycles), 0


def _modelled(cycles: float) -> str:
    return f"{cycles:,.0f} modelled"
