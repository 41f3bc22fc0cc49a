"""An order of DDR slots in which those that equal runs of launches reach one after the other lie one behind the other.

    run                0   1   2   3            slots now     0  1  2  3  4  5  6  7  8
    weights         slot 0   3   4   5          order         0  3  4  5  1  6  7  8  2
    result          slot 1   6   7   8          numbers       of weights 0 + run, of results 4 + run

Runs whose slots grow by the same each time can be a loop. Arguments come in the order of their names, layer 10 in front of layer 2,
and slots for what is computed in that of first use.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass
class SlotChains:
    """Slots beside each other: each has at most two beside it."""

    beside: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    def with_paths(self, paths: Iterable[Sequence[int]]) -> "SlotChains | int":
        """Also those on some paths, one beside the next; if that cannot be, the place in a path behind which it fails.
        There are different slots on each."""
        chains = SlotChains({slot: [*near] for slot, near in self.beside.items()})
        for path in paths:
            place = chains._add(path)
            if place is not None:
                return place
        return chains

    def _add(self, path: Sequence[int]) -> int | None:
        for place, (a, b) in enumerate(pairwise(path)):
            near_a, near_b = self.beside.setdefault(a, []), self.beside.setdefault(b, [])
            if a == b:  # it stays there: what is odd is another slot in front of it, or behind it
                return place - 1 if place else next(k for k, slot in enumerate(path) if slot != a) - 1
            if b in path[:place]:
                return place
            if b in near_a:
                continue
            if len(near_a) > 1 or len(near_b) > 1 or (near_a and near_b and self._chain(a)[-1] == b):
                return place
            near_a.append(b)
            near_b.append(a)
        return None

    def _chain(self, end: int) -> list[int]:
        """The slots of a chain from one of its ends on."""
        found, before = [end], end
        while following := [slot for slot in self.beside.get(found[-1], ()) if slot != before]:
            before = found[-1]
            found.append(following[0])
        return found

    def order(self, count: int) -> list[int]:
        """All of `count` slots, those of a chain where the first of them was that is an end."""
        found: dict[int, None] = {}
        for slot in range(count):
            if slot not in found and len(self.beside.get(slot, ())) < 2:
                found |= dict.fromkeys(self._chain(slot))
        return [*found]
