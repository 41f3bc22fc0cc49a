"""Two turns of a loop at once: the second half of a turn beside the first half of the next one.

Engines work at once, but what a turn does is mostly a chain: a product waits for the arithmetic before it, and that for the product
before it. The halves of two turns know nothing of each other, so an engine has work of one while the other waits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hlo2tx8.device.isa.fields import Engine

ROUNDING = 1e-9
"""By which a sum of cycles may be off that is added up in another order."""


@dataclass(frozen=True)
class Unit:
    """What a turn does in one go: cycles of engines, one after the other, once those units of the same turn that it is `after` are
    done."""

    parts: tuple[tuple[Engine, float], ...]
    after: tuple[int, ...]


@dataclass(frozen=True)
class Merged:
    """Units in the order in which they are issued; `cycles` from the first one's start to the last one's end."""

    order: tuple[int, ...]
    cycles: float


@dataclass(frozen=True)
class Turn:
    """Units of a turn, in program order."""

    units: Sequence[Unit]

    @cached_property
    def cycles(self) -> float:
        """Of a turn by itself."""
        return self.merged(0).cycles

    @cached_property
    def least_at_once(self) -> float:
        """The cycles that two turns at once take at least: those of the engine that has the most to do."""
        busy: dict[Engine, float] = {}
        for engine, cycles in (part for unit in self.units for part in unit.parts):
            busy[engine] = busy.get(engine, 0.0) + cycles
        return max(busy.values(), default=0.0) * (1 - ROUNDING)

    def least(self, cut: int) -> float:
        """The cycles that they take at least if a turn is cut there: as long as units of a half wait for each other, too."""
        return max(self.least_at_once, max(*self._heads[:cut], *self._tails_of_all[cut:]) * (1 - ROUNDING))

    @cached_property
    def _heads(self) -> list[float]:
        """Of each unit the cycles of those that wait for each other, up to its end."""
        heads: list[float] = []
        for unit in self.units:
            heads.append(sum(cycles for _, cycles in unit.parts) + max((heads[other] for other in unit.after), default=0.0))
        return heads

    @cached_property
    def _tails_of_all(self) -> list[float]:
        return self._tails(range(len(self.units)))

    def cuts(self) -> list[int]:
        """Where a turn may be cut in two: where another engine goes on."""
        units = self.units
        return [k for k in range(1, len(units)) if units[k - 1].parts[-1][0] is not units[k].parts[0][0]]

    def merged(self, cut: int) -> Merged:
        """The units up to the cut, of the next turn, beside those from there on, of this one.

        Next comes always the one that can start first; of two that can at once, the one for which more waits.
        """
        free: dict[Engine, float] = {}
        ends: dict[int, float] = {}
        order: list[int] = []
        halves = [range(cut, len(self.units)), range(cut)]
        tails = [*self._tails(range(cut)), *self._tails(range(cut, len(self.units)))]
        left = [list(half) for half in halves]
        while any(left):
            starts = [
                (self._start(own[0], free, ends, half), -tails[own[0]], number)
                for number, (own, half) in enumerate(zip(left, halves, strict=True))
                if own
            ]
            time, _, number = min(starts)
            unit = left[number].pop(0)
            for engine, cycles in self.units[unit].parts:
                time = max(time, free.get(engine, 0.0)) + cycles
                free[engine] = time
            ends[unit] = time
            order.append(unit)
        return Merged(tuple(order), max(ends.values(), default=0.0))

    def _tails(self, half: range) -> list[float]:
        """Of each unit of a half the cycles from its start to the end of the last one that waits for it."""
        tails = [sum(cycles for _, cycles in self.units[number].parts) for number in half]
        for number in reversed(half):
            for other in self.units[number].after:
                if other in half:
                    own = sum(cycles for _, cycles in self.units[other].parts)
                    tails[other - half.start] = max(tails[other - half.start], own + tails[number - half.start])
        return tails

    def _start(self, unit: int, free: dict[Engine, float], ends: dict[int, float], half: range) -> float:
        own = self.units[unit]
        return max([free.get(own.parts[0][0], 0.0), *(ends[other] for other in own.after if other in half)])
