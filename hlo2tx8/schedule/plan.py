"""The plan of a kernel: candidates, what each is estimated to cost, and which of them is taken.

    blocks of [1, 2, 640, 64], 256 deep      2,650,112 cycles   2,764,800 bytes     its buffers take 3,145,728 of 3,014,656 bytes
    blocks of [1, 4, 384, 64], 256 deep      2,871,296 cycles   2,359,296 bytes     taken

Candidates come with the fewest estimated cycles first. Estimates of bytes are made before a kernel is emitted; `measure` lowers a
candidate's kernel in memory and says what its buffers take. Where that is more than estimated, further candidates of the family are
held to estimates as much larger: one that would not fit then is not lowered. Of each family a few are lowered at most; if none of
those can be taken, the one of all others that is estimated to take the fewest bytes is asked: it is slow, but what is no candidate
at all is slower.

`search` has what is done instead where the fastest is wanted, whatever it takes to find it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from hlo2tx8.notes import Decision, Name, What

Choice = TypeVar("Choice")
MOST_TRIALS = 8
"""Candidates of a family that are lowered at most: what keeps them from being taken need not keep those of others."""
MARGIN = 0.75
"""Of what a candidate is expected to take beside others of its family that were timed, that it may take."""
MUCH_SLOWER = 2.0
"""A plan that is estimated to take so many times as long as one that was rejected is not taken without a word."""


@dataclass(frozen=True)
class Estimate:
    """What a candidate costs: `cycles` of the chip, and `spm_bytes` that its buffers take of a tile's scratchpad."""

    cycles: float
    spm_bytes: int

    def __str__(self) -> str:
        return f"{self.cycles:,.0f} cycles, {self.spm_bytes:,} bytes"


@dataclass(frozen=True)
class Candidate(Generic[Choice]):
    """One way to compute a kernel, by a name that tells it from the others; `choice` is what an emitter makes it of. What one
    candidate of a `family` takes beyond its estimate, the others are held to. `is_rough`: its estimate is, so that it is timed
    beside others before it is taken; at `margin` of what is expected beside those of its family, if it may be faster there."""

    name: str
    estimate: Estimate
    choice: Choice
    family: str = ""
    is_rough: bool = False
    margin: float = MARGIN


@dataclass(frozen=True)
class Feasibility:
    """Of a candidate that was lowered: the bytes its buffers take, and `why` it cannot be taken whatever they are, or "";
    modelled `cycles`, 0 where nobody asked for them."""

    spm_bytes: int
    why: str = ""
    cycles: float = 0.0


@dataclass(frozen=True)
class Rejected:
    """A candidate that was not taken, and why; `spm_bytes` that its buffers take, if they do not fit."""

    name: str
    estimate: Estimate
    why: str
    spm_bytes: int = 0


@dataclass(frozen=True)
class Schedule(Generic[Choice]):
    """The candidate that is taken, None if there is none that can be; those that were rejected, in the order asked; the modelled
    `cycles` of the one taken, 0 where nobody asked for them."""

    taken: Candidate[Choice] | None
    rejected: tuple[Rejected, ...]
    cycles: float = 0.0

    def explain(self, kernel: str) -> Iterator[str]:
        """A line per candidate."""
        about = (Name(kernel),)
        for other in self.rejected:
            way = Name(f"{other.name} ({other.estimate})")
            yield Decision(What.NO_PLAN, about, way, other.why, cycles=other.estimate.cycles).line()
        if self.taken is not None:
            modelled = f": {self.cycles:,.0f} modelled" if self.cycles else ""
            way = Name(f"{self.taken.name} ({self.taken.estimate})")
            yield Decision(What.PLAN, about, way, modelled, cycles=self.taken.estimate.cycles).line()

    def warning(self, kernel: str) -> str:
        """Says that the plan is much slower than one that was rejected; "" if it is not."""
        if self.taken is None or not self.rejected:
            return ""
        best = min(self.rejected, key=lambda other: other.estimate.cycles)
        times = self.taken.estimate.cycles / max(best.estimate.cycles, 1.0)
        if times < MUCH_SLOWER:
            return ""
        return f"warning: {kernel}: {self.taken.name} is estimated to take {times:.1f} times as long as {best.name}: {best.why}"


Measure: TypeAlias = Callable[[Candidate[Choice]], Feasibility]
"""Lowers a candidate's kernel in memory."""


def plan(candidates: Iterable[Candidate[Choice]], spm_bytes: int, measure: Measure[Choice]) -> Schedule[Choice]:
    """The first of the candidates whose buffers fit into as many bytes; few of a family are asked for more than that, and behind
    all the smallest of those that were not."""
    rejected: list[Rejected] = []
    factors, trials = dict[str, float](), Counter[str]()
    for candidate in _few_of_families(candidates, trials):
        factor = factors.get(candidate.family, 1.0)
        expected = int(candidate.estimate.spm_bytes * factor)
        if trials and expected > spm_bytes:
            rejected.append(_too_large(candidate, expected, spm_bytes, "would take about"))
            continue
        found = measure(candidate)
        trials[candidate.family] += 1
        if not found.why and found.spm_bytes <= spm_bytes:
            return Schedule(candidate, tuple(rejected), found.cycles)
        if found.why:
            rejected.append(Rejected(candidate.name, candidate.estimate, found.why))
        else:
            factors[candidate.family] = max(factor, found.spm_bytes / max(1, candidate.estimate.spm_bytes))
            rejected.append(_too_large(candidate, found.spm_bytes, spm_bytes, "take"))
    return Schedule(None, tuple(rejected))


def _few_of_families(candidates: Iterable[Candidate[Choice]], trials: Counter[str]) -> Iterator[Candidate[Choice]]:
    """The candidates of families of which few have been tried so far, and behind them the smallest of the others."""
    others: list[Candidate[Choice]] = []
    for candidate in candidates:
        if trials[candidate.family] < MOST_TRIALS:
            yield candidate
        else:
            others.append(candidate)
    yield from sorted(others, key=lambda other: other.estimate.spm_bytes)[:1]


def _too_large(candidate: Candidate[Choice], num_bytes: int, spm_bytes: int, verb: str) -> Rejected:
    why = f"its buffers {verb} {num_bytes:,} of {spm_bytes:,} bytes"
    return Rejected(candidate.name, candidate.estimate, why, num_bytes)
