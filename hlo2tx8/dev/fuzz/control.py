"""Control flow of drawn graphs: which nodes the HLO text computes in a loop or a branch.

The graph itself stays straight: its values, bounds and meaning need to know nothing of control flow.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias


@dataclass(frozen=True)
class Loop:
    """Nodes [start, stop) are the equal turns of a loop, one after the other; text has the first.

    carried: (a, b): where the first turn reads node a, the next reads node b of the turn before; only they are seen from
    outside. limit: a scalar parameter that holds the number of turns, None where the condition knows it.
    """

    start: int
    stop: int
    turns: int
    carried: tuple[tuple[int, int], ...]
    limit: int | None = None

    @property
    def range(self) -> range:
        return range(self.start, self.stop)

    @property
    def length(self) -> int:
        """Nodes of one turn."""
        return (self.stop - self.start) // self.turns

    @property
    def first_turn(self) -> "range":
        return range(self.start, self.start + self.length)

    @property
    def last_turn(self) -> int:
        """From a node of the first turn to that of the last."""
        return (self.turns - 1) * self.length

    @property
    def reads(self) -> tuple[int, ...]:
        """Nodes it needs beside the operands of its nodes."""
        return (*(a for a, _ in self.carried), *(() if self.limit is None else (self.limit,)))


@dataclass(frozen=True)
class Branch:
    """Nodes [start, stop) are computed in branch number `number` of `branches`, which the scalar `selector` selects."""

    start: int
    stop: int
    selector: int
    number: int
    branches: int

    @property
    def range(self) -> range:
        return range(self.start, self.stop)

    @property
    def length(self) -> int:
        return self.stop - self.start

    @property
    def first_turn(self) -> "range":
        return self.range

    @property
    def reads(self) -> tuple[int, ...]:
        """Nodes it needs beside the operands of its nodes."""
        return (self.selector,)


Control: TypeAlias = Loop | Branch


def moved(control: Control, number: Mapping[int, int], is_inside: Callable[[int], bool]) -> Control | None:
    """The control over nodes with new numbers, None if they are gone; nodes that are not inside have left its range."""
    kept = [number[i] for i in control.range if i in number and is_inside(i)]
    if not kept or max(kept) + 1 - min(kept) != len(kept) or any(i not in number for i in control.reads):
        return None
    start, stop = min(kept), max(kept) + 1
    if isinstance(control, Branch):
        return replace(control, start=start, stop=stop, selector=number[control.selector])
    if any(b not in number for _, b in control.carried) or len(kept) % control.turns:
        return None
    carried = tuple((number[a], number[b]) for a, b in control.carried)
    limit = None if control.limit is None else number[control.limit]
    return Loop(start, stop, control.turns, carried, limit)
