"""Ways to choose one of a kernel's candidates: the first that fits, the fastest of all, or the one of a name."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Protocol, TypeAlias, TypeVar

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.errors import CompileError
from hlo2tx8.schedule.plan import Candidate, Feasibility, Rejected, Schedule, plan
from hlo2tx8.schedule.search import search

Choice = TypeVar("Choice")
NEAR = 1.5
MOST_TIMED = 3
"""So many candidates, and one of another family, whose estimates are less than so many times a rough one are timed beside it."""
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
    as `time` says, which lowers a kernel that is thrown away and models its cycles."""

    judge: Judge = trust
    asks_all: bool = False
    time: Judge | None = None

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
            taken = found.taken
            if taken is not None and taken.is_rough and self.time is not None:
                found = self._fastest(found, taken, left, spm_bytes, emit)
                if found.taken is not taken and found.taken is not None:
                    measure(found.taken)
            schedule = Schedule(found.taken, (*schedule.rejected, *found.rejected), found.cycles)
            if found.taken is not None:
                return schedule, kernel[0]
        return schedule, None

    def _fastest(
        self,
        found: Schedule[Choice],
        first: Candidate[Choice],
        left: Iterable[Candidate[Choice]],
        spm_bytes: int,
        emit: Callable[[Choice], ModuleOp],
    ) -> Schedule[Choice]:
        """The fastest of the one found first and those that are estimated to take little longer."""
        assert self.time is not None
        near = sorted((c for c in left if c.estimate.cycles < NEAR * first.estimate.cycles), key=lambda c: c.estimate.cycles)
        firsts = {c.family: c for c in reversed(near) if c.family != first.family}
        timed: list[tuple[float, Candidate[Choice]]] = []
        rejected = [*found.rejected]
        for candidate in {c.name: c for c in (first, *firsts.values(), *near[:MOST_TIMED])}.values():
            try:
                own = self.time(emit(candidate.choice))
            except CompileError as error:
                own = Feasibility(0, error.message)
            if own.why or not own.cycles:
                why = own.why or f"its buffers take {own.spm_bytes:,} of {spm_bytes:,} bytes"
                rejected.append(Rejected(candidate.name, candidate.estimate, why, own.spm_bytes))
            else:
                timed.append((own.cycles, candidate))
        if not timed:
            return found
        cycles, best = min(timed, key=lambda pair: pair[0])
        rejected += [Rejected(c.name, c.estimate, f"{own:,.0f} modelled") for own, c in timed if c is not best]
        return Schedule(best, tuple(rejected), cycles)


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
        def measure(candidate: Candidate[Choice]) -> Feasibility:
            try:
                return self.time(emit(candidate.choice))
            except CompileError as error:
                return Feasibility(0, error.message)

        schedule = search(groups, spm_bytes, measure, self.cycles)
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
