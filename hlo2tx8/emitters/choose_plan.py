"""Ways to choose one of a kernel's candidates: the first that fits, the fastest of all, or the one of a name."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Protocol, TypeAlias, TypeVar

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.errors import CompileError
from hlo2tx8.schedule.plan import Candidate, Feasibility, Rejected, Schedule, plan
from hlo2tx8.schedule.search import fastest_of, search

Choice = TypeVar("Choice")
NEAR = 1.5
MOST_TIMED = 3
"""Candidates that are timed beside a rough one and the best of each other family, at most."""
Judge: TypeAlias = Callable[[ModuleOp], Feasibility]
"""Lowers a kernel in memory; where it is the one that lowers kernels for good, it may lower the given one itself."""


def trust(kernel: ModuleOp) -> Feasibility:
    """Takes every candidate: for emission by itself, without what lowers kernels."""
    return Feasibility(0)


class Chooser(Protocol):
    """Chooses among candidates; `asks_all`: are other emitters asked too once there is a plan?"""

    @property
    def asks_all(self) -> bool: ...

    def choose(
        self, groups: Iterable[Iterable[Candidate[Choice]]], spm_bytes: int, emit: Callable[[Choice], ModuleOp]
    ) -> tuple[Schedule[Choice], ModuleOp | None]:
        """The schedule, and the kernel of the candidate that it takes. A group of candidates is asked if none of those before it
        has one that can be taken, or if all are."""
        ...


@dataclass(frozen=True)
class FirstThatFits:
    """Takes the first that can be taken, see `schedule.plan`; where its estimate is a rough one, the fastest of it and a few others
    as `time` says, which models a kernel's cycles; what it is given stays as it is. So many of the best estimates are timed at
    most, and one of each other family."""

    judge: Judge = trust
    asks_all: bool = False
    time: Judge | None = None
    most_timed: int = MOST_TIMED

    def choose(
        self, groups: Iterable[Iterable[Candidate[Choice]]], spm_bytes: int, emit: Callable[[Choice], ModuleOp]
    ) -> tuple[Schedule[Choice], ModuleOp | None]:
        kernel: list[ModuleOp] = []

        def measure(candidate: Candidate[Choice]) -> Feasibility:
            kernel[:] = [emit(candidate.choice)]
            return self.judge(kernel[0])

        schedule: Schedule[Choice] = Schedule(None, ())
        for group in groups:
            left = iter(group)
            found = plan(left, spm_bytes, measure)
            first = found.taken
            if first is not None and first.is_rough and self.time is not None:
                near = [c for c in left if c.estimate.cycles < NEAR * first.estimate.cycles]
                known = _timed(self.time, lambda _: kernel[0], first)
                timed, hopeless = _beside((first, known), near, self.most_timed, partial(_timed, self.time, emit))
                compared = fastest_of(timed, hopeless, spm_bytes)
                if compared.taken is not None:
                    found = Schedule(compared.taken, (*found.rejected, *compared.rejected), compared.cycles)
                if found.taken is not None and found.taken is not first:
                    measure(found.taken)
            schedule = Schedule(found.taken, (*schedule.rejected, *found.rejected), found.cycles)
            if found.taken is not None:
                return schedule, kernel[0]
        return schedule, None

    def replaced(
        self, schedule: Schedule[Choice], other: Candidate[Choice], spm_bytes: int, emit: Callable[[Choice], ModuleOp]
    ) -> tuple[Schedule[Choice], ModuleOp] | None:
        """The schedule with another candidate, and its kernel, if `time` says that it takes fewer cycles than the one taken."""
        if schedule.taken is None or self.time is None:
            return None
        cycles = schedule.cycles or _timed(self.time, emit, schedule.taken).cycles
        found = _timed(self.time, emit, other)
        if found.spm_bytes > spm_bytes or not 0 < found.cycles < cycles:
            return None
        again, kernel = self.choose([[replace(other, is_rough=False)]], spm_bytes, emit)
        slower = Rejected(schedule.taken.name, schedule.taken.estimate, f"{cycles:,.0f} modelled")
        rejected = (*schedule.rejected, slower, *again.rejected)
        return None if kernel is None else (Schedule(again.taken, rejected, found.cycles), kernel)


def _beside(
    first: tuple[Candidate[Choice], Feasibility],
    near: Iterable[Candidate[Choice]],
    most: int,
    time: Callable[[Candidate[Choice]], Feasibility],
) -> tuple[list[tuple[Candidate[Choice], Feasibility]], list[Candidate[Choice]]]:
    """The candidates that were timed, and those that were not: the first; the best estimate of each other family; then up to `most`
    of the others, in the order of what they are expected to take, until one is hopeless."""
    timed, family = [first], first[0].family
    by_name = {candidate.name: candidate for candidate in near if candidate.name != first[0].name}
    left = sorted(by_name.values(), key=lambda candidate: candidate.estimate.cycles)
    of_families = {candidate.family: candidate for candidate in reversed(left) if candidate.family != family}
    for candidate in of_families.values():
        timed.append((candidate, time(candidate)))
        left.remove(candidate)
    for _ in range(most):
        candidate = min(left, key=lambda candidate: _expected(candidate, timed), default=None)
        if candidate is None or _is_hopeless(candidate, timed):
            break
        timed.append((candidate, time(candidate)))
        left.remove(candidate)
    return timed, left


def _expected(candidate: Candidate[Choice], timed: Iterable[tuple[Candidate[Choice], Feasibility]]) -> float:
    """A candidate's estimate, times the least ratio of modelled to estimated cycles among those of its family that were timed."""
    of_family = [(its.cycles, known.estimate.cycles) for known, its in timed if known.family == candidate.family and its.cycles]
    return candidate.estimate.cycles * min((cycles / max(own, 1.0) for cycles, own in of_family), default=1.0)


def _is_hopeless(candidate: Candidate[Choice], timed: Iterable[tuple[Candidate[Choice], Feasibility]]) -> bool:
    """Would a candidate be slower than the best that was timed even if it took only its `margin` of what is expected?"""
    found = [its.cycles for _, its in timed if its.cycles and not its.why]
    return bool(found) and candidate.margin * _expected(candidate, timed) > min(found)


def _timed(time: Judge, emit: Callable[[Choice], ModuleOp], candidate: Candidate[Choice]) -> Feasibility:
    """What a candidate takes, or why its kernel cannot be lowered."""
    try:
        return time(emit(candidate.choice))
    except CompileError as error:
        return Feasibility(0, error.message)


@dataclass
class Fastest:
    """Takes the one with the fewest modelled cycles, see `schedule.search`; `name` and `cycles` are those of the best of all
    that it was asked for so far."""

    time: Judge
    name: str = ""
    cycles: float = inf
    asks_all: bool = True

    def choose(
        self, groups: Iterable[Iterable[Candidate[Choice]]], spm_bytes: int, emit: Callable[[Choice], ModuleOp]
    ) -> tuple[Schedule[Choice], ModuleOp | None]:
        schedule = search(groups, spm_bytes, partial(_timed, self.time, emit), self.cycles)
        if schedule.taken is None:
            return schedule, None
        if schedule.cycles < self.cycles:
            self.name, self.cycles = schedule.taken.name, schedule.cycles
        return schedule, emit(schedule.taken.choice)


@dataclass(frozen=True)
class Named:
    """Takes the first of a name, if it fits."""

    name: str
    judge: Judge
    asks_all: bool = field(default=False, init=False)

    def choose(
        self, groups: Iterable[Iterable[Candidate[Choice]]], spm_bytes: int, emit: Callable[[Choice], ModuleOp]
    ) -> tuple[Schedule[Choice], ModuleOp | None]:
        wanted = next((c for group in groups for c in group if c.name == self.name), None)
        return FirstThatFits(self.judge).choose([[wanted]] if wanted is not None else [], spm_bytes, emit)
