"""Parallel copies between slots, put into an order in which they can be done one after the other.

a ⟶ b, b ⟶ c          as    b ⟶ c, a ⟶ b
a ⟶ b, b ⟶ a          as    b ⟶ aside, a ⟶ b, aside ⟶ a
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from xdsl.ir import Attribute


class Move(NamedTuple):
    """A copy of a value of type `type` from slot `source` to slot `target`."""

    source: int
    target: int
    type: Attribute


def in_order(moves: Sequence[Move], aside: Callable[[Attribute], int]) -> Iterator[Move]:
    """The copies in an order in which none overwrites the source of a later one; `aside(type)` gives a free slot for copies in a
    circle.

    All targets are different slots, and each has the type of what is copied there.
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
