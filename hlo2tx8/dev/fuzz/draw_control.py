"""Drawing of graphs with loops and branches."""

from dataclasses import dataclass, replace

import numpy as np

from hlo2tx8.dev.fuzz.control import Branch, Loop
from hlo2tx8.dev.fuzz.draw import Case, Drawer
from hlo2tx8.dev.fuzz.graph import PARAMETER, Array, Node
from hlo2tx8.hlo import TensorLike

MOST_DEPTH = 2


@dataclass
class ControlDrawer(Drawer):
    """Draws cases whose steps may be loops and branches, inside each other too."""

    depth: int = 0

    def step(self, moves: float) -> None:
        """One more node, loop or branch."""
        if self.depth == MOST_DEPTH or self.rng.random() > 0.25:
            super().step(moves)
            return
        self.depth += 1
        if self.rng.random() < 0.6:
            self.loop(moves)
        else:
            self.branch(moves)
        self.depth -= 1

    def loop(self, moves: float) -> None:
        """A few steps, then the same steps again on what they made."""
        outside, start = self.seen(), len(self.nodes)
        for _ in range(self.below(1, 5)):
            self.step(moves)
        body = [i for i in range(start, len(self.nodes)) if self.nodes[i].name != PARAMETER]
        given = [*outside, *(i for i in self.seen() if i >= start and self.nodes[i].name == PARAMETER)]
        carried: dict[int, int] = {}
        for b in reversed([i for i in body if i not in self.hidden]):
            if carried and self.rng.random() < 0.4:
                continue
            fits = [i for i in given if self.nodes[i].result == self.nodes[b].result and i not in carried]
            carried[self.pick(fits) if fits else self.parameter(self.nodes[b].result)] = b
        limit, turns = None, self.below(2, 5)
        if self.rng.random() < 0.5:
            limit = self.scalar(np.array(turns, np.int32))
        latest = dict(carried)
        for _ in range(turns - 1):
            new: dict[int, int] = {}
            for i in body:
                operands = tuple(latest.get(o, new.get(o, o)) for o in self.nodes[i].operands)
                values = [self.values[o] for o in operands]
                node = replace(self.nodes[i], operands=operands)
                new[i] = self.add(node, node.evaluate(values))
            latest = {a: new[b] for a, b in carried.items()}
        ends = set(latest.values())
        self.hidden |= {i: None for i in range(start, len(self.nodes)) if self.nodes[i].name != PARAMETER and i not in ends}
        self.controls.append(Loop(start, len(self.nodes), turns, tuple(carried.items()), limit))

    def branch(self, moves: float) -> None:
        """A few steps under a condition that holds."""
        start, number, branches = len(self.nodes), self.below(0, 3), 3
        for _ in range(self.below(1, 5)):
            self.step(moves)
        if self.rng.random() < 0.5:
            number, branches = number % 2, 2
            selector = self.scalar(np.array(number == 0))
        else:
            selector = self.scalar(np.array(self.pick((2, 3, -1, 1 << 20)) if number == 2 else number, np.int32))
        self.controls.append(Branch(start, len(self.nodes), selector, number, branches))

    def scalar(self, value: Array) -> int:
        """A parameter with that value, for nobody else."""
        self.arrays.append(value)
        number = self.add(Node(PARAMETER, TensorLike((), value.dtype)), value)
        self.hidden[number] = None
        return number


def draw_control(seed: int) -> Case:
    """The case of a seed, with loops and branches."""
    return ControlDrawer(np.random.default_rng(seed)).case()
