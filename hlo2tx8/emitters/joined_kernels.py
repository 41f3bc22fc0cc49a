"""A kernel that stands beside others in one: what is chosen among its candidates is judged and timed with those.

    %0 = hlo.fusion "layer_norm_fusion"(%x)         \\
    %1 = hlo.group phases (%0, %w, %v) {...}         > one kernel: candidates of %1 are, each with %0 in front

The emitter of the inner kernel need not know of that.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.emitters.choose_plan import Chooser, Fastest, FirstThatFits, Judge, Named
from hlo2tx8.errors import CapacityError
from hlo2tx8.schedule.plan import Feasibility

FEW = 1
"""Of the best estimates that are timed: larger kernels take longer to be lowered."""


@dataclass
class JoinedKernels:
    """Asks the `given` chooser about kernels that `join` makes of the inner ones, which stay as they are."""

    given: Chooser
    join: Callable[[ModuleOp], ModuleOp]
    judged: list[ModuleOp] = field(default_factory=list[ModuleOp])
    fastest: Fastest | None = None
    inner: ModuleOp | None = None

    @property
    def time(self) -> Judge | None:
        """Models the cycles of a kernel as the given chooser does; None if it does not where estimates are clear."""
        return self.given.time if isinstance(self.given, FirstThatFits) else None

    def chooser(self) -> Chooser:
        """Chooses among inner kernels."""
        match self.given:
            case FirstThatFits(judge, asks_all, time):
                return FirstThatFits(self._judge(judge), asks_all, None if time is None else self._time(time), FEW)
            case Named(name, judge):
                return Named(name, self._judge(judge))
            case Fastest(time, name, cycles, asks_all):
                self.fastest = Fastest(self._time(time), name, cycles, asks_all)
                return self.fastest
            case _:
                raise CapacityError("E3101", "this chooser knows nothing of kernels that are one")

    def joined(self, inner: ModuleOp) -> ModuleOp:
        """All as one kernel, the inner one of which was chosen last."""
        if isinstance(self.given, Fastest) and self.fastest is not None:
            self.given.name, self.given.cycles = self.fastest.name, self.fastest.cycles
        return self.judged[0] if self.judged else self.join(inner)

    def _judge(self, judge: Judge) -> Judge:
        """The last one that was judged is kept: it may have been lowered for good."""

        def judged(inner: ModuleOp) -> Feasibility:
            self.inner, self.judged[:] = inner, [self.join(inner)]
            return judge(self.judged[0])

        return judged

    def _time(self, time: Judge) -> Judge:
        return lambda inner: time(self.judged[0] if inner is self.inner else self.join(inner))


def timed_kernels(time: Judge) -> tuple[FirstThatFits, list[float]]:
    """A chooser that takes the first kernel that fits, or the fastest of a few, and the modelled cycles of those that it judges:
    the last are those of what it takes."""
    seen: list[float] = []

    def judge(kernel: ModuleOp) -> Feasibility:
        found = time(kernel)
        seen.append(found.cycles)
        return found

    return FirstThatFits(judge, time=time), seen
