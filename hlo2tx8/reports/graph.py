"""The HLO of a module at FUSED as a graph of plain values: instructions, what each reads, and the kernel that each is part of."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.dialects.hlo import FusionOp, GroupOp, name_of, origin
from hlo2tx8.emitters.emit_fusions import fusion_name
from hlo2tx8.hlo.module import program_functions
from hlo2tx8.hlo.types import numpy_dtype
from hlo2tx8.reports.printed import text_of

OUTSIDE = -1
"""The kernel or fusion of what is in none."""


@dataclass
class FusedGraph:
    """Nodes are (label, result types, kernel, fusion, origin), edges (from, to, bytes); kernels and fusions are numbers. `kernels`
    are names and texts of what becomes one kernel each, in order; `inside` the bytes that go from one of its fusions to another.
    """

    nodes: list[tuple[str, str, int, int, str]] = field(default_factory=lambda: [])
    edges: list[tuple[int, int, int]] = field(default_factory=lambda: [])
    fusions: list[str] = field(default_factory=lambda: [])
    kernels: list[tuple[str, str]] = field(default_factory=lambda: [])
    inside: list[int] = field(default_factory=lambda: [])
    results: list[int] = field(default_factory=lambda: [])
    _made: dict[SSAValue, int] = field(default_factory=lambda: {})

    @staticmethod
    def of(module: ModuleOp) -> "FusedGraph":
        """The graph of all functions of a module at FUSED."""
        graph = FusedGraph()
        for function in program_functions(module):
            for number, value in enumerate(function.body.block.args):
                graph._made[value] = graph._node(f"parameter {number}", [value.type], OUTSIDE, OUTSIDE, "")
            graph._block(function.body.block, OUTSIDE, OUTSIDE)
        graph.inside = [0] * len(graph.kernels)
        seen: set[tuple[int, int, int]] = set()
        for source, target, size in graph.edges:
            (kernel, one), (other, fusion) = graph.nodes[source][2:4], graph.nodes[target][2:4]
            if kernel == other != OUTSIDE and one != fusion and (source, target, size) not in seen:
                seen.add((source, target, size))
        for source, size in {(source, size) for source, _, size in seen}:
            graph.inside[graph.nodes[source][2]] += size
        return graph

    def _node(self, label: str, types: list[Attribute], kernel: int, fusion: int, place: str) -> int:
        self.nodes.append((label, ", ".join(map(_short, types)), kernel, fusion, place))
        return len(self.nodes) - 1

    def _block(self, block: Block, kernel: int, fusion: int) -> list[int | None]:
        """Adds what a block holds; the nodes that its terminator reads."""
        for op in block.ops:
            if op is block.last_op and not op.results:
                return [self._made.get(value) for value in op.operands]
            if isinstance(op, GroupOp | FusionOp):
                self._nested(op, kernel, fusion)
                continue
            number = self._node(name_of(op).rpartition(".")[2], [r.type for r in op.results], kernel, fusion, origin(op))
            self.edges += [(self._made[v], number, bytes_of(v.type)) for v in op.operands if v in self._made]
            self._made |= dict.fromkeys(op.results, number)
            for inner in _regions(op):
                self._made |= {arg: self._made[v] for arg, v in zip(inner.args, op.operands, strict=False) if v in self._made}
                given = self._block(inner, kernel, fusion)
                self.edges += [(source, number, 0) for source in given if source is not None]
        return []

    def _nested(self, op: GroupOp | FusionOp, kernel: int, fusion: int) -> None:
        if kernel == OUTSIDE:
            kernel = len(self.kernels)
            self.kernels.append((fusion_name(op), text_of(op)))
            self.results.append(sum(bytes_of(r.type) for r in op.results))
        if isinstance(op, FusionOp):
            fusion = len(self.fusions)
            self.fusions.append(fusion_name(op))
        inner = op.regions[0].block
        self._made |= {arg: self._made[v] for arg, v in zip(inner.args, op.operands, strict=True) if v in self._made}
        given = self._block(inner, kernel, fusion)
        self._made |= {r: n for r, n in zip(op.results, given, strict=False) if n is not None}


def _regions(op: Operation) -> Iterator[Block]:
    """Of control flow, whose blocks hold instructions of tensors; a combiner's scalars are no nodes."""
    for region in op.regions:
        for block in region.blocks:
            if any(isinstance(inner, FusionOp | GroupOp) for inner in block.walk()):
                yield block


def bytes_of(type_: Attribute) -> int:
    """Bytes of a tensor, 0 of anything else."""
    if not isinstance(type_, TensorType):
        return 0
    return prod(type_.get_shape()) * numpy_dtype(cast("TensorType[Attribute]", type_).element_type).itemsize


def _short(type_: Attribute) -> str:
    return str(type_).removeprefix("tensor<").removesuffix(">")
