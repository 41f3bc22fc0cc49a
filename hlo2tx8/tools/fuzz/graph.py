"""Graphs that the fuzzer draws, and their HLO text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hlo2tx8.hlo import TensorLike, spec_of
from hlo2tx8.hlo.types import is_float
from hlo2tx8.runtime.signature import short_dtype

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
    """Nodes in topological order; each range [start, stop) of `fusions` is one kLoop fusion of those nodes."""

    nodes: tuple[Node, ...]
    roots: tuple[int, ...]
    fusions: tuple[tuple[int, int], ...] = ()

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
        found = set(self.roots)
        for i in reversed(range(len(self.nodes))):
            if i in found:
                found.update(self.nodes[i].operands)
        return tuple(sorted(found))

    @property
    def live_parameters(self) -> tuple[int, ...]:
        """Numbers of the parameters that a root depends on."""
        return tuple(i for i in self.needed if self.nodes[i].name == PARAMETER)

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
        return Graph(nodes, tuple(number[r] for r in self.roots), tuple(fusions))

    def to_hlo(self, comment: str = "") -> str:
        """The graph as an HLO module; each fusion a computation of its own."""
        return _Printer(self).module(comment)


@dataclass
class _Printer:
    graph: Graph
    computations: list[str] = field(default_factory=list[str])

    def module(self, comment: str) -> str:
        lines: list[str] = []
        start_of = dict(self.graph.fusions)
        i = 0
        while i < len(self.graph.nodes):
            if i in start_of:
                lines += self.fusion(i, start_of[i])
                i = start_of[i]
                continue
            lines.append(f"v{i} = {self.instruction(i)}")
            i += 1
        roots = self.graph.roots
        shapes = [shape_text(self.graph.nodes[r].result) for r in roots]
        named = ", ".join(f"v{r}" for r in roots)
        lines.append(f"ROOT result = ({', '.join(shapes)}) tuple({named})")
        ins = ", ".join(shape_text(self.graph.nodes[p].result) for p in self.graph.parameters)
        entry = "ENTRY main {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
        head = f"HloModule fuzz, entry_computation_layout={{({ins})->({', '.join(shapes)})}}\n\n"
        note = "".join(f"// {line}\n" for line in comment.splitlines())
        return head + note + "\n".join([*self.computations, entry])

    def fusion(self, start: int, stop: int) -> list[str]:
        """Lines of the entry computation that call the fusion of nodes [start, stop)."""
        nodes = self.graph.nodes
        inside = range(start, stop)
        ins = sorted({o for i in inside for o in nodes[i].operands if o < start})
        later = {o for node in nodes[stop:] for o in node.operands} | set(self.graph.roots)
        outs = [i for i in inside if i in later]
        body = [f"v{o} = {shape_text(nodes[o].result)} parameter({k})" for k, o in enumerate(ins)]
        body += [("ROOT " if outs == [i] == [stop - 1] else "") + f"v{i} = {self.instruction(i)}" for i in inside]
        shapes = ", ".join(shape_text(nodes[o].result) for o in outs)
        whole = f"({shapes})" if len(outs) > 1 or outs != [stop - 1] else shapes
        if whole.startswith("("):
            body.append(f"ROOT all = {whole} tuple({', '.join(f'v{o}' for o in outs)})")
        name = f"fused_{start}"
        self.computations.append(f"{name} {{\n" + "".join(f"  {line}\n" for line in body) + "}\n")
        call = f"fusion({', '.join(f'v{o}' for o in ins)}), kind=kLoop, calls={name}"
        if not whole.startswith("("):
            return [f"v{outs[0]} = {whole} {call}"]
        parts = [f"v{o} = {shape_text(nodes[o].result)} get-tuple-element(call{start}), index={k}" for k, o in enumerate(outs)]
        return [f"call{start} = {whole} {call}", *parts]

    def instruction(self, i: int) -> str:
        node = self.graph.nodes[i]
        shape = shape_text(node.result)
        if node.name == PARAMETER:
            return f"{shape} parameter({self.graph.parameters.index(i)})"
        if node.name == "stablehlo.constant":
            return f"{shape} constant({literal_text(np.asarray(node.attributes['value']))})"
        extra = "".join(f", {text}" for text in attribute_texts(node, len(node.result.shape)))
        return f"{shape} {opcode(node.name)}({', '.join(f'v{o}' for o in node.operands)}){extra}"


def opcode(name: str) -> str:
    """HLO's word: stablehlo.shift_left → shift-left, broadcast_in_dim → broadcast."""
    word = name.partition(".")[2].replace("_in_dim", "")
    return word.replace("_", "-")


def shape_text(tensor: TensorLike) -> str:
    """`f32[2,3]{0,1}`."""
    layout = "" if tensor.layout is None else "{" + ",".join(map(str, tensor.layout)) + "}"
    return f"{short_dtype(tensor.dtype.name)}[{','.join(map(str, tensor.shape))}]{layout}"


def literal_text(value: Array) -> str:
    """`{{1, 2}, {3, 4}}`."""
    if value.ndim:
        return "{" + ", ".join(literal_text(part) for part in value) + "}"
    if value.dtype.kind == "b":
        return "true" if value else "false"
    return repr(float(value)) if is_float(value.dtype) else str(int(value))


def attribute_texts(node: Node, rank: int) -> list[str]:
    """What follows the operands in HLO text."""
    a = node.attributes
    match opcode(node.name):
        case "compare":
            total = [f"type={a['compare_type']}"] if "compare_type" in a else []
            return [f"direction={a['comparison_direction']}", *total]
        case "reduce-precision" | "iota":
            return [f"{key}={value}" for key, value in a.items()]
        case "transpose":
            return [f"dimensions={_braces(a['permutation'])}"]
        case "broadcast":
            return [f"dimensions={_braces(a['broadcast_dimensions'])}"]
        case "reverse":
            return [f"dimensions={_braces(a['dimensions'])}"]
        case "concatenate":
            return [f"dimensions={{{a['dimension']}}}"]
        case "slice":
            bounds = zip(a["start_indices"], a["limit_indices"], a["strides"], strict=True)
            return ["slice={" + ", ".join(f"[{s}:{e}:{d}]" for s, e, d in bounds) + "}"]
        case "pad" if rank:
            edges = zip(a["edge_padding_low"], a["edge_padding_high"], a["interior_padding"], strict=True)
            return ["padding=" + "x".join(f"{low}_{high}_{inner}" for low, high, inner in edges)]
        case _:
            return []


def _braces(numbers: Sequence[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"
