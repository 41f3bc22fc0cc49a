"""Graphs that the fuzzer draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hlo2tx8.dev.fuzz.control import Branch, Control, moved
from hlo2tx8.hlo import TensorLike, spec_of

Array = npt.NDArray[Any]
PARAMETER = "parameter"


@dataclass(frozen=True)
class Node:
    """One instruction: a spec's name or "parameter", its result, and the numbers of the nodes it reads."""

    name: str
    result: TensorLike
    operands: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def evaluate(self, arrays: Sequence[Array]) -> Array:
        """The node's value from its operands' values."""
        (found,) = spec_of(self.name).evaluate(self.attributes, (self.result,), *arrays)
        return np.asarray(found)


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order; each range [start, stop) of `fusions` is one kLoop fusion of those nodes.

    `controls` say which ranges the text has as loops and branches: the nodes of a loop are its turns one after the other.
    """

    nodes: tuple[Node, ...]
    roots: tuple[int, ...]
    fusions: tuple[tuple[int, int], ...] = ()
    controls: tuple[Control, ...] = ()

    @property
    def parameters(self) -> tuple[int, ...]:
        """Numbers of the nodes that are parameters, in their order."""
        return tuple(i for i, node in enumerate(self.nodes) if node.name == PARAMETER)

    def values(self, arrays: Sequence[Array]) -> list[Array]:
        """The value of every node."""
        found: list[Array] = []
        given = iter(arrays)
        for node in self.nodes:
            found.append(next(given) if node.name == PARAMETER else node.evaluate([found[o] for o in node.operands]))
        return found

    @property
    def needed(self) -> tuple[int, ...]:
        """Numbers of the nodes that a root depends on."""
        found: set[int] = set()
        waiting = list(self.roots)
        while waiting:
            i = waiting.pop()
            if i not in found:
                found.add(i)
                waiting += self.nodes[i].operands
                for control in (self.controls[k] for k, _ in self.around(i) if self.nodes[i].name != PARAMETER):
                    waiting += (*control.reads, *(k for k in control.range if self.nodes[k].name != PARAMETER))
        return tuple(sorted(found))

    @property
    def live_parameters(self) -> tuple[int, ...]:
        """Numbers of the parameters that a root depends on."""
        return tuple(i for i in self.needed if self.nodes[i].name == PARAMETER)

    def around(self, i: int) -> tuple[tuple[int, int], ...]:
        """The controls that a node is in, by number, and in which turn of each."""
        return tuple((k, (i - c.start) // c.length) for k, c in enumerate(self.controls) if i in c.range)

    def is_printed(self, i: int) -> bool:
        """Is a node in no turn of a loop but the first?"""
        return all(i in control.first_turn for control in self.controls if i in control.range)

    def live(self) -> "Graph":
        """Without the nodes that no root needs; parameters go too."""
        return self._of(self.needed)

    def with_parameters_first(self) -> "Graph":
        """The same graph, parameters before all other nodes and in no fusion."""
        return self._of(sorted(range(len(self.nodes)), key=lambda i: (self.nodes[i].name != PARAMETER, i)))

    def _of(self, order: Sequence[int]) -> "Graph":
        """The nodes of those numbers in that order; fusions keep what is left of them."""
        number = {old: new for new, old in enumerate(order)}
        nodes = tuple(replace(self.nodes[i], operands=tuple(number[o] for o in self.nodes[i].operands)) for i in order)
        fusions: list[tuple[int, int]] = []
        for start, stop in self.fusions:
            kept = [number[i] for i in range(start, stop) if i in number and self.nodes[i].name != PARAMETER]
            if kept:
                fusions.append((min(kept), max(kept) + 1))
        controls = [moved(c, number, lambda i: self.nodes[i].name != PARAMETER) for c in self.controls]
        return Graph(nodes, tuple(number[r] for r in self.roots), tuple(fusions), tuple(c for c in controls if c is not None))

    def rolled(self) -> "Graph":
        """The same graph with the controls that still describe their nodes."""
        return replace(self, controls=tuple(c for c in self.controls if self._is_rolled(c)))

    def _is_rolled(self, control: Control) -> bool:
        """Are all turns of a loop the first turn with what it carries in its place, and does nobody look into them?"""
        if any(self.nodes[i].name == PARAMETER for i in control.range):
            return False
        if isinstance(control, Branch):
            return True
        latest = {a: a for a, _ in control.carried}
        inner = (c for c in self.controls if c is not control and c.start in control.range)
        if any((c.selector if isinstance(c, Branch) else c.limit) in latest for c in inner):
            return False
        if len(latest) < len(control.carried) or any(self._type(a) != self._type(b) for a, b in control.carried):
            return False
        for turn in range(control.turns):
            shift = turn * control.length
            for i in control.first_turn:
                one, other = self.nodes[i], self.nodes[i + shift]
                operands = tuple(latest.get(o, o + shift if o in control.first_turn else o) for o in one.operands)
                same = replace(one, operands=operands, attributes={}) == replace(other, attributes={})
                if not same or not _equal(one.attributes, other.attributes):
                    return False
            latest = {a: b + shift for a, b in control.carried}
        hidden = set(control.range) - {b + control.last_turn for _, b in control.carried}
        outside = {o for i, node in enumerate(self.nodes) if i not in control.range for o in node.operands}
        others = {i for c in self.controls if c.start not in control.range for i in c.reads}
        return not hidden & (outside | others | set(self.roots))

    def _type(self, i: int) -> TensorLike:
        return self.nodes[i].result

    def to_hlo(self, comment: str = "") -> str:
        """The graph as an HLO module; each fusion a computation of its own."""
        from hlo2tx8.dev.fuzz.text import module_text

        return module_text(self, comment)


def _equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)
