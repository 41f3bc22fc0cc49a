"""Drawing of graphs: elementwise ops and their dtypes from the OpSpec table, moves of any shape, layouts, fusions."""

from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from typing import Any

import numpy as np

from hlo2tx8.dev.fuzz.control import Control
from hlo2tx8.dev.fuzz.graph import PARAMETER, Array, Graph, Node
from hlo2tx8.hlo import Kind, TensorLike, all_specs
from hlo2tx8.hlo.edge_values import edge_values
from hlo2tx8.hlo.ops.shaping import pad_shape
from hlo2tx8.hlo.spec import Sample
from hlo2tx8.hlo.types import dtype, integer_limits, is_float, is_integer

DTYPES = (
    *("float32", "bfloat16", "float16", "int32", "uint32", "bool", "int8", "uint8", "int16", "uint16", "int64", "uint64"),
    *("float32", "bfloat16", "float16"),
)
"""Dtypes of parameters; floats twice as often."""
SIZES = (*(1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 60, 64, 65, 100, 127, 128, 129, 255, 256, 257, 1000), 0)
LARGEST = 20_000
MAX_RANK = 6
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
class Drawer:
    """Draws one case; equal seeds give equal cases."""

    rng: np.random.Generator
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

    def below(self, low: int, high: int) -> int:
        """A whole number in [low, high)."""
        return int(self.rng.integers(low, high))

    def pick(self, choices: Any) -> Any:
        return choices[self.below(0, len(choices))]

    def dtype(self) -> Any:
        return dtype(self.pick(DTYPES))

    def shape(self) -> tuple[int, ...]:
        rank = self.below(0, MAX_RANK + 1)
        found: list[int] = []
        for _ in range(rank):
            fitting = [n for n in SIZES if n * prod(filter(None, found)) <= LARGEST]  # a 0 may be joined with more
            size = int(self.pick(fitting[:8] if self.rng.random() < 0.5 else fitting))
            found.append(size or self.below(0, 2))
        return tuple(int(n) for n in self.rng.permutation(found))

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

    def transpose(self, source: int, own: TensorLike) -> None:
        order = tuple(int(d) for d in self.rng.permutation(len(own.shape)))
        self.append("stablehlo.transpose", TensorLike(tuple(own.shape[d] for d in order), own.dtype), (source,), permutation=order)

    def reverse(self, source: int, own: TensorLike) -> None:
        dims = tuple(d for d in range(len(own.shape)) if self.rng.random() < 0.5)
        self.append("stablehlo.reverse", own, (source,), dimensions=dims)

    def slice(self, source: int, own: TensorLike) -> None:
        whole = self.rng.random(len(own.shape)) < 0.4
        starts = tuple(0 if w else self.below(0, max(1, n // 2 + 1)) for w, n in zip(whole, own.shape, strict=True))
        limits = tuple(n if w else self.below(min(s + 1, n), n + 1) for w, s, n in zip(whole, starts, own.shape, strict=True))
        strides = tuple(1 if self.rng.random() < 0.6 else self.below(1, 4) for _ in own.shape)
        shape = tuple(-(-(b - a) // s) for a, b, s in zip(starts, limits, strides, strict=True))
        attributes = {"start_indices": starts, "limit_indices": limits, "strides": strides}
        self.append("stablehlo.slice", TensorLike(shape, own.dtype), (source,), **attributes)

    def pad(self, source: int, own: TensorLike) -> None:
        edges = [(self.below(-2, 4), self.below(-2, 4), int(self.pick((0, 0, 0, 1, 2)))) for _ in own.shape]
        edges = [(0, 0, 0) if self.rng.random() < 0.4 else e for e in edges]
        spread = [n + max(0, n - 1) * e[2] for n, e in zip(own.shape, edges, strict=True)]
        edges = [e if n + e[0] + e[1] >= 0 else (0, 0, e[2]) for n, e in zip(spread, edges, strict=True)]
        names = ("edge_padding_low", "edge_padding_high", "interior_padding")
        attributes = {name: tuple(e[k] for e in edges) for k, name in enumerate(names)}
        (result,) = pad_shape(attributes, (own,))
        if own.shape and prod(result.shape) <= 2 * LARGEST:
            self.append("stablehlo.pad", result, (source, self.of(TensorLike((), own.dtype))), **attributes)

    def reshape(self, source: int, own: TensorLike) -> None:
        pieces = [1] * self.below(0 if prod(own.shape) == 1 else 1, MAX_RANK + 1)
        for factor in _factors(prod(own.shape)):
            pieces[self.below(0, len(pieces))] *= factor
        self.append("stablehlo.reshape", TensorLike(tuple(pieces), own.dtype), (source,))

    def concatenate(self, source: int, own: TensorLike) -> None:
        if not own.shape:
            return
        along = self.below(0, len(own.shape))
        parts = [source]
        for _ in range(self.below(1, 4)):
            size = own.shape[along] if self.rng.random() < 0.6 else self.below(0, 6)
            shape = (*own.shape[:along], size, *own.shape[along + 1 :])
            if prod(shape) <= LARGEST:
                parts.insert(self.below(0, len(parts) + 1), self.of(TensorLike(shape, own.dtype)))
        total = sum(self.nodes[p].result.shape[along] for p in parts)
        shape = (*own.shape[:along], total, *own.shape[along + 1 :])
        if prod(shape) <= 4 * LARGEST:
            self.append("stablehlo.concatenate", TensorLike(shape, own.dtype), tuple(parts), dimension=along)

    def broadcast(self, source: int, own: TensorLike) -> None:
        shape, dims = list(own.shape), list(range(len(own.shape)))
        for _ in range(self.below(1, 3)):
            size = int(self.pick((1, 2, 3, 5, 16, 33)))
            if len(shape) == MAX_RANK or size * prod(shape) > LARGEST:
                break
            at = self.below(0, len(shape) + 1)
            shape.insert(at, size)
            dims = [d + (d >= at) for d in dims]
        self.append("stablehlo.broadcast_in_dim", TensorLike(tuple(shape), own.dtype), (source,), broadcast_dimensions=tuple(dims))

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


def _factors(number: int) -> list[int]:
    found: list[int] = []
    divisor = 2
    while number > 1:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return found if number else [0]
