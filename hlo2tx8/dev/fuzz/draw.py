"""Drawing of graphs: elementwise ops and their dtypes from the OpSpec table, moves of any shape, layouts, fusions."""

from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from typing import Any

import numpy as np

from hlo2tx8.dev.fuzz.control import Control
from hlo2tx8.dev.fuzz.graph import PARAMETER, Array, Graph, Node
from hlo2tx8.hlo import Kind, TensorLike, all_specs
from hlo2tx8.hlo.draw_moves import MoveDrawer
from hlo2tx8.hlo.edge_values import edge_values
from hlo2tx8.hlo.spec import Sample
from hlo2tx8.hlo.types import dtype, integer_limits, is_float, is_integer

DTYPES = (
    *("float32", "bfloat16", "float16", "int32", "uint32", "bool", "int8", "uint8", "int16", "uint16", "int64", "uint64"),
    *("float32", "bfloat16", "float16"),
)
"""Dtypes of parameters; floats twice as often."""
WITHOUT_TEXT = ("stablehlo.complex", "stablehlo.real", "stablehlo.imag", "stablehlo.bitcast_convert")
"""No real dtypes, or a change of shape."""


@dataclass(frozen=True)
class Case:
    """A graph, its inputs, and how many elements a tile works on per step (0: the schedule chooses)."""

    graph: Graph
    arrays: tuple[Array, ...]
    step_elements: int = 0
    hlo_passes: bool = True


@cache
def elementwise_samples() -> tuple[tuple[str, Sample], ...]:
    """(spec name, sample) of every elementwise use in HLO text over DTYPES; shapes only tell rank 0 from the rest."""
    known = {dtype(name) for name in DTYPES}
    found: list[tuple[str, Sample]] = []
    for spec in all_specs():
        is_drawn = spec.kind is Kind.ELEMENTWISE and spec.name.startswith("stablehlo.") and spec.name not in WITHOUT_TEXT
        if not is_drawn and spec.name != "chlo.erf":
            continue
        for sample in spec.samples():
            full = all(o.shape == sample.results[0].shape for o in sample.operands)
            if (full or spec.name == "stablehlo.clamp") and {o.dtype for o in (*sample.operands, *sample.results)} <= known:
                found.append((spec.name, sample))
    return tuple(found)


@dataclass
class Drawer(MoveDrawer):
    """Draws one case; equal seeds give equal cases."""

    nodes: list[Node] = field(default_factory=list[Node])
    values: list[Array] = field(default_factory=list[Array])
    arrays: list[Array] = field(default_factory=list[Array])
    controls: list[Control] = field(default_factory=list[Control])
    hidden: dict[int, None] = field(default_factory=dict[int, None])

    def case(self) -> Case:
        """A graph of up to about 20 nodes, turns of loops aside."""
        for _ in range(self.below(1, 4)):
            self.parameter(TensorLike(self.shape(), self.dtype()))
        moves = self.rng.choice([0.1, 0.35, 0.7])
        for _ in range(self.below(1, 16)):
            self.step(moves)
        if not self.controls and self.rng.random() < 0.35:
            self.draw_layouts()
        used = {o for node in self.nodes for o in node.operands}
        roots = [i for i in self.seen() if i not in used and self.nodes[i].name != PARAMETER]
        roots += [i for i in self.seen() if i in used and self.rng.random() < 0.07]
        roots = roots or [self.seen()[-1]]
        chosen = [int(r) for r in self.rng.permutation(roots)[: self.below(1, 5)]]
        whole = Graph(tuple(self.nodes), tuple(chosen), (), tuple(self.controls))
        given = dict(zip(whole.parameters, self.arrays, strict=True))
        arrays = tuple(given[i] for i in whole.live_parameters)
        graph = whole.with_parameters_first().live()
        graph = replace(graph, fusions=self.fusions(graph))
        return Case(
            graph, arrays, step_elements=int(self.rng.choice([0, 0, 0, 64, 100, 512])), hlo_passes=bool(self.rng.random() < 0.85)
        )

    def dtype(self) -> Any:
        return dtype(self.pick(DTYPES))

    def seen(self) -> list[int]:
        """The nodes that others may read."""
        return [i for i in range(len(self.nodes)) if i not in self.hidden]

    def step(self, moves: float) -> None:
        """One more node; `moves`: how often it is a move."""
        if self.rng.random() < moves:
            self.move()
        else:
            self.elementwise()

    def add(self, node: Node, value: Array) -> int:
        self.nodes.append(node)
        self.values.append(value)
        return len(self.nodes) - 1

    def parameter(self, tensor: TensorLike) -> int:
        value = self.data(tensor)
        self.arrays.append(value)
        return self.add(Node(PARAMETER, tensor), value)

    def data(self, tensor: TensorLike) -> Array:
        """Mostly tame numbers, some at the edges of the dtype."""
        kind, shape = tensor.dtype, tensor.shape
        if kind.kind == "b":
            return np.asarray(self.rng.integers(0, 2, shape)).astype(bool)
        if is_integer(kind):
            low, high = integer_limits(kind)
            small = np.asarray(self.rng.integers(max(low, -9), 10, shape)).astype(kind)
            large = np.asarray(self.rng.integers(low, high, shape, kind, endpoint=True))
            return np.where(self.rng.random(shape) < self.rng.choice([0.0, 0.5, 1.0]), large, small).astype(kind)
        tame = np.asarray(self.rng.normal(0.0, self.rng.choice([0.5, 2.0, 20.0]), shape)).astype(np.float32).astype(kind)
        edges = edge_values(kind)
        odd = edges[self.rng.integers(0, len(edges), shape)]
        return np.where(self.rng.random(shape) < self.rng.choice([0.0, 0.0, 0.1]), odd, tame).astype(kind)

    def constant(self, tensor: TensorLike) -> int:
        value = self.data(tensor)
        return self.add(Node("stablehlo.constant", tensor, (), {"value": value}), value)

    def of(self, tensor: TensorLike) -> int:
        """A node of that dtype and shape: an old one, a parameter, an iota, a constant, or a scalar spread out."""
        old = [i for i in self.seen() if self.nodes[i].result == TensorLike(tensor.shape, tensor.dtype)]
        roll = self.rng.random()
        if old and roll < 0.75:
            return int(self.pick(old[-4:] if roll < 0.4 else old))
        if roll < 0.85:
            like = [i for i in self.seen() if self.nodes[i].result.shape == tensor.shape]
            if like and self.rng.random() < 0.6:
                return self.append("stablehlo.convert", tensor, (int(self.pick(like)),))
            return self.parameter(tensor)
        if roll < 0.9 and tensor.shape and tensor.dtype.kind != "b":
            return self.append("stablehlo.iota", tensor, (), iota_dimension=self.below(0, len(tensor.shape)))
        if roll < 0.94 and prod(tensor.shape) <= 64:
            return self.constant(tensor)
        keep = tuple(d for d in range(len(tensor.shape)) if self.rng.random() < 0.4)
        small = TensorLike(tuple(tensor.shape[d] for d in keep), tensor.dtype)
        source = self.constant(small) if prod(small.shape) <= 64 else self.parameter(small)
        return self.append("stablehlo.broadcast_in_dim", tensor, (source,), broadcast_dimensions=keep)

    def append(self, name: str, result: TensorLike, operands: tuple[int, ...], **attributes: Any) -> int:
        node = Node(name, result, operands, attributes)
        return self.add(node, node.evaluate([self.values[o] for o in operands]))

    def elementwise(self) -> None:
        """An elementwise op on a recent node; where it makes mostly NaN or inf of numbers, another is drawn."""
        first = int(self.pick(self.seen()[-5:]))
        own = self.nodes[first].result
        names = sorted({name for name, s in elementwise_samples() if any(o.dtype == own.dtype for o in s.operands)})
        for _ in range(4):
            name = self.pick(names)
            uses = [s for n, s in elementwise_samples() if n == name and any(o.dtype == own.dtype for o in s.operands)]
            sample = self.pick(uses)
            scalar = [name == "stablehlo.clamp" and not o.shape and bool(sample.operands[1].shape) for o in sample.operands]
            fits = [k for k, o in enumerate(sample.operands) if o.dtype == own.dtype and not scalar[k]]
            if not fits:
                continue
            length, place = len(self.nodes), self.pick(fits)
            arrays = len(self.arrays)
            operands = tuple(
                first if k == place else self.of(TensorLike(() if scalar[k] else own.shape, o.dtype))
                for k, o in enumerate(sample.operands)
            )
            self.append(name, TensorLike(own.shape, sample.results[0].dtype), operands, **sample.attributes)
            if _is_tame(self.values[-1]):
                return
            del self.nodes[length:], self.values[length:], self.arrays[arrays:]

    def move(self) -> None:
        """A move of a recent node."""
        source = int(self.pick(self.seen()[-5:]))
        own = self.nodes[source].result
        moves = (self.transpose, self.reverse, self.slice, self.pad, self.reshape, self.concatenate, self.broadcast)
        self.pick(moves)(source, TensorLike(own.shape, own.dtype))

    def draw_layouts(self) -> None:
        """Any order of dimensions in memory for some nodes."""
        share = self.rng.choice([0.2, 0.6, 1.0])
        for i, node in enumerate(self.nodes):
            rank = len(node.result.shape)
            if rank > 1 and self.rng.random() < share:
                layout = tuple(int(d) for d in self.rng.permutation(rank))
                self.nodes[i] = replace(node, result=replace(node.result, layout=layout))

    def fusions(self, graph: Graph) -> tuple[tuple[int, int], ...]:
        """Ranges without parameters that cross into no loop or branch; none in a third of the graphs."""
        if self.rng.random() < 0.35:
            return ()
        found: list[tuple[int, int]] = []
        start = 0
        longest = int(self.rng.choice([3, 8, 40]))
        while start < len(graph.nodes):
            if graph.nodes[start].name == PARAMETER:
                start += 1
                continue
            stop, length = start, self.below(1, longest)
            around = graph.around(start)
            while stop < min(start + length, len(graph.nodes)) and graph.nodes[stop].name != PARAMETER:
                if graph.around(stop) != around:
                    break
                stop += 1
            if self.rng.random() < 0.8 and graph.is_printed(start):
                found.append((start, stop))
            start = stop
        return tuple(found)


def draw(seed: int) -> Case:
    """The case of a seed."""
    return Drawer(np.random.default_rng(seed)).case()


def _is_tame(value: Array) -> bool:
    """Are most of the numbers finite and not absurdly large?"""
    if not is_float(value.dtype) or not value.size:
        return True
    wide = np.abs(value.astype(np.float64))
    return bool(np.mean(wide < 1e30) > 0.6)
