"""Copies that happen at once, one after the other.

a ⟶ b, b ⟶ c          as    b ⟶ c, a ⟶ b
a ⟶ b, b ⟶ a          as    b ⟶ aside, a ⟶ b, aside ⟶ a
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from xdsl.ir import Attribute


class Move(NamedTuple):
    """A value of a type from one slot to another."""

    source: int
    target: int
    type: Attribute


def in_order(moves: Sequence[Move], aside: Callable[[Attribute], int]) -> Iterator[Move]:
    """The moves so that none overwrites what a later one reads; `aside` gives a free slot for a type.

    Targets differ from each other; what lies in a target has the type of what comes there.
    """
    waiting = [move for move in moves if move.source != move.target]
    while waiting:
        sources = {move.source for move in waiting}
        ready = next((move for move in waiting if move.target not in sources), None)
        if ready is not None:
            waiting.remove(ready)
            yield ready
            continue
        # Only circles are left: what the first target holds steps aside.
        target, type_ = waiting[0].target, waiting[0].type
        free = aside(type_)
        yield Move(target, free, type_)
        waiting = [move._replace(source=free) if move.source == target else move for move in waiting]
