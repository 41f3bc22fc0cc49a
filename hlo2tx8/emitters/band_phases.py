"""Group emitter: groups by bands as one kernel, each of which reads what the one before left in the scratchpads.

    %0 = hlo.group band 2 (%x, ...) { a block of a network }
    %1 = hlo.group band 2 (%0, ...) { the next one }

A tile computes the same part of the images in each. All tiles meet in between, and neighbours exchange the rows that windows need
of both (`lower.dma.keep_bands`).
"""

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from hlo2tx8.dialects.hlo import GroupOp
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.emitters.band_group import chain_of, emit_bands
from hlo2tx8.emitters.choose_plan import Chooser, FirstThatFits
from hlo2tx8.emitters.phase_group import join_phases
from hlo2tx8.errors import CapacityError
from hlo2tx8.schedule.plan import Candidate, Estimate
from hlo2tx8.schedule.plan_band_group import PHASE_SHARES, BandChain, BandGroupPlan, kept_beside
from hlo2tx8.schedule.work_split import Target

MOST_TRIED = 6
"""Choices of plans of all phases: what does not fit as estimated may do so with other bands."""
NEAR = 1.06
"""So many times the cycles of the first choice, others are tried that take less room before other groups are."""
LESS = 0.97
"""Of the bytes of a plan, that one may take that is tried in its place."""


def is_of_bands(group: GroupOp) -> bool:
    """Is it a group of phases that are groups by bands?"""
    return group.phases is not None and all(isinstance(op, GroupOp) and op.band_rows for op in ops_of(group.body.block)[:-1])


def emit_band_phases(
    group: GroupOp, name: str, target: Target, notes: list[str] | None = None, chooser: Chooser | None = None
) -> ModuleOp:
    """The LOOPS module `name` of a group of groups by bands.

    `notes` gets a line per plan; `chooser` says which of them is taken. CapacityError if none fits the scratchpad.
    """
    notes = [] if notes is None else notes
    groups = [op for op in group.body.block.ops if isinstance(op, GroupOp)]
    chains = phases_of(groups, target, group.attempt)
    schedule, kernel = (chooser or FirstThatFits()).choose(
        [_candidates(chains, is_last=group.attempt + 1 == len(PHASE_SHARES))],
        target.rates.spm_bytes,
        lambda plans: join_phases(
            group,
            name,
            [
                emit_bands(own, f"{name}_{number}", chain, target, plan)
                for number, (own, chain, plan) in enumerate(zip(groups, chains, plans, strict=True))
            ],
        ),
    )
    notes += schedule.explain(name)
    if kernel is None:
        raise CapacityError("E3101", f"no bands of the phases of {name} fit the scratchpad")
    assert schedule.taken is not None
    for number, plan in enumerate(schedule.taken.choice):
        notes.append(f"{name}: {number}: {plan.candidate.name} ({plan.candidate.estimate})")
    notes.append(f"{name}: group emitter, {len(groups)} groups by bands as phases")
    return kernel


def phases_of(groups: list[GroupOp], target: Target, attempt: int = 0) -> list[BandChain]:
    """The members of each, that know what stays; `attempt`: of `PHASE_SHARES`."""
    share = PHASE_SHARES[attempt]
    found: list[BandChain] = []
    last = {value: number for number, group in enumerate(groups) for value in group.operands}
    chains = [chain_of(group, target) for group in groups]
    outside = [dict[SSAValue, SSAValue](zip(group.body.block.args, group.operands, strict=True)) for group in groups]
    by_windows = {names[arg] for chain, names in zip(chains, outside, strict=True) for arg in chain.read_by_windows if arg in names}
    whole = {value for value, number in last.items() if number == len(groups) - 1} - by_windows
    for number, (group, chain, names) in enumerate(zip(groups, chains, outside, strict=True)):
        resident = frozenset(arg for arg, value in names.items() if value.owner in groups)
        stays = number + 1 < len(groups)
        made: list[SSAValue] = [value for own in groups[:number] for value in own.outputs]
        there = {value: last[value] == number for value in made if last.get(value, -1) >= number}
        taken = kept_beside(there, group.outputs[0] if stays else None, whole, target.rates)
        found.append(replace(chain, resident=resident, stays=stays, taken_bytes=taken, share=share))
    return found


def _candidates(chains: list[BandChain], *, is_last: bool) -> Iterator[Candidate[list[BandGroupPlan]]]:
    """The fastest plans of all phases; then, of those that take most of the scratchpad, again and again the fastest that take
    less. Only those that are not much slower, while other groups may still be made of the fusions, for less room."""
    limit = inf
    plans = [chain.plans() for chain in chains]
    for _ in range(MOST_TRIED):
        if not all(plans):
            return
        best = [own[0] for own in plans]
        estimate = Estimate(sum(plan.cycles for plan in best), max(plan.spm_bytes for plan in best))
        if estimate.cycles > limit:
            return
        limit = inf if is_last else min(limit, NEAR * estimate.cycles)
        yield Candidate(f"bands of {', '.join(str(plan.bands[-1].rows) for plan in best)} rows", estimate, best)
        smaller = [[plan for plan in own if plan.spm_bytes <= LESS * own[0].spm_bytes] for own in plans]
        widest = max((own[0].spm_bytes for own, less in zip(plans, smaller, strict=True) if less), default=None)
        if widest is None:
            return
        plans = [less if less and own[0].spm_bytes == widest else own for own, less in zip(plans, smaller, strict=True)]
