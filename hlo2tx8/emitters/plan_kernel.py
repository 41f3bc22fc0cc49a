"""The plan of a fusion's kernel: the candidates of the emitters that match it, and the one that is taken."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import prod
from typing import Protocol, TypeAlias, runtime_checkable

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.emitters.choose_plan import Chooser
from hlo2tx8.emitters.emitter import Declined, Emitter, Fusion, Match
from hlo2tx8.errors import CapacityError, CompileError
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.schedule.costs import Costs
from hlo2tx8.schedule.plan import Candidate, Estimate, Rejected
from hlo2tx8.schedule.work_split import DEFAULT_STEP_ELEMENTS

LARGER_STEPS = (16384, 32768, 65536, 131072)
"""Elements of a step that are tried too where the fastest is searched for."""
Groups: TypeAlias = Iterator[Iterable[Candidate[Match]]]
"""Candidates in groups: one is asked if none of those before it has a candidate that can be taken."""


@runtime_checkable
class HasCandidates(Protocol):
    """An emitter that knows more ways than steps of other sizes."""

    def candidates(self, match: Match) -> Groups:
        """The ways to emit the match."""
        ...


def candidates_of(emitter: Emitter, match: Match) -> Groups:
    """The emitter's own, or its kernel in steps of fewer and fewer elements."""
    return emitter.candidates(match) if isinstance(emitter, HasCandidates) else iter([_in_smaller_steps(emitter, match)])


def _in_smaller_steps(emitter: Emitter, match: Match) -> Iterator[Candidate[Match]]:
    fusion = match.fusion
    most = fusion.target.step_elements or DEFAULT_STEP_ELEMENTS
    sizes = [most >> shift for shift in range(most.bit_length())]
    if fusion.target.is_searched and not fusion.target.step_elements:
        sizes += LARGER_STEPS
    for elements in sizes:
        found: Match | Declined = match
        if elements != most:
            found = emitter.match(replace(fusion, target=replace(fusion.target, step_elements=elements)))
        if isinstance(found, Match):
            yield Candidate(f"{emitter.name} in steps of {elements} elements", _estimate(fusion, elements), found)


def _estimate(fusion: Fusion, step_elements: int) -> Estimate:
    """What moves and is computed, and a start of the engines per step; two buffers per tensor that is read or written."""
    rates, body = fusion.target.rates, [op for op in fusion.body.ops if op is not fusion.body.last_op]
    values = (*fusion.op.operands, *fusion.op.results)
    most = max((prod(shape_of(value)) for value in fusion.op.results), default=0)
    steps = -(-most // (rates.tiles * step_elements))
    started = steps * (2 * rates.transfer_start + len(body) * rates.vector_pass)
    widest = max((Costs(rates).width(value) for value in values), default=1)
    return Estimate(Costs(rates).of_body(values, body) + started, step_elements * widest * (2 * len(values) + len(body)))


class KernelPlanner:
    """Chooses among the candidates of a kernel, emitter by emitter; `rejected` are those that were not taken."""

    def __init__(self, name: str, chooser: Chooser, spm_bytes: int) -> None:
        self.name, self.chooser, self.spm_bytes = name, chooser, spm_bytes
        self.rejected: list[Rejected] = []

    def take(self, emitter: Emitter, match: Match, notes: list[str]) -> tuple[float, ModuleOp] | None:
        """The kernel of the candidate that is taken, and its modelled cycles if they were asked for; None if there is none. `notes`
        gets a line per candidate."""
        schedule, kernel = self.chooser.choose(candidates_of(emitter, match), self.spm_bytes, emitter.emit)
        notes += schedule.explain(self.name)
        schedule = replace(schedule, rejected=(*self.rejected, *schedule.rejected))
        self.rejected = list(schedule.rejected)
        if not self.chooser.asks_all and (warning := schedule.warning(self.name)):
            notes.append(warning)
        return (schedule.cycles, kernel) if kernel is not None else None

    def failure(self) -> CompileError:
        """Why nothing could be taken: what is the smallest that does not fit, or what the last candidate is refused for."""
        too_large = [other for other in self.rejected if other.spm_bytes]
        if not too_large:
            return CompileError(
                "E3208", f"kernel {self.name}: {self.rejected[-1].why if self.rejected else 'there is no way to compute it'}"
            )
        least = min(too_large, key=lambda other: other.spm_bytes)
        return CapacityError(
            "E3101",
            f"the buffers of kernel {self.name} take {least.spm_bytes:,} bytes, the scratchpad has {self.spm_bytes:,} for them:"
            f" {least.name}",
            hint="split its fusion",
        )
