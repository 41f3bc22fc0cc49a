"""HLO text of graphs that the fuzzer draws: each fusion, loop body and branch a computation of its own."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from hlo2tx8.dev.fuzz.control import Branch, Control, Loop
from hlo2tx8.dev.fuzz.graph import PARAMETER, Array, Graph, Node
from hlo2tx8.hlo import TensorLike
from hlo2tx8.hlo.signature import short_dtype
from hlo2tx8.hlo.types import is_float


def module_text(graph: Graph, comment: str = "") -> str:
    """The graph as an HLO module."""
    return _Printer(graph).module(comment)


@dataclass
class _Printer:
    graph: Graph
    computations: list[str] = field(default_factory=list[str])
    numbers: Iterator[int] = field(default_factory=count)

    def module(self, comment: str) -> str:
        roots = self.graph.roots
        lines = self.block(range(len(self.graph.nodes)), self.graph.controls)
        lines.append(f"ROOT result = {self.types(roots)} {self.tuple(roots)}")
        ins = ", ".join(self.type(p) for p in self.graph.parameters)
        entry = "ENTRY main {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
        head = f"HloModule fuzz, entry_computation_layout={{({ins})->{self.types(roots)}}}\n\n"
        note = "".join(f"// {line}\n" for line in comment.splitlines())
        return head + note + "\n".join([*self.computations, entry])

    def type(self, i: int) -> str:
        return shape_text(self.graph.nodes[i].result)

    def types(self, numbers: Iterable[int]) -> str:
        return f"({', '.join(self.type(i) for i in numbers)})"

    def tuple(self, numbers: Iterable[int]) -> str:
        return f"tuple({', '.join(f'v{i}' for i in numbers)})"

    def elements(self, numbers: Sequence[int], whole: str, first: int = 0) -> list[str]:
        """Lines that take values out of a tuple, from element `first` on."""
        return [f"v{i} = {self.type(i)} get-tuple-element({whole}), index={first + k}" for k, i in enumerate(numbers)]

    def computation(self, name: str, lines: Iterable[str]) -> str:
        self.computations.append(f"{name} {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n")
        return name

    def block(self, nodes: range, controls: Sequence[Control]) -> list[str]:
        """Lines for a range of nodes; `controls` are those inside of it, at any depth."""
        lines: list[str] = []
        stop_of = dict(self.graph.fusions)
        outermost = {c.start: c for c in sorted(controls, key=lambda c: c.stop)}
        i = nodes.start
        while i < nodes.stop:
            if i in outermost:
                control = outermost[i]
                inner = [c for c in controls if c is not control and c.start in control.range]
                lines += self.loop(control, inner) if isinstance(control, Loop) else self.branch(control, inner)
                i = control.stop
            elif i in stop_of:
                lines += self.fusion(range(i, stop_of[i]))
                i = stop_of[i]
            else:
                lines.append(f"v{i} = {self.instruction(i)}")
                i += 1
        return lines

    def read_by(self, nodes: range) -> list[int]:
        """What nodes and controls in a range read from before it."""
        found = {o for i in nodes for o in self.graph.nodes[i].operands}
        found.update(o for c in self.graph.controls if c.start in nodes for o in c.reads)
        return sorted(i for i in found if i < nodes.start)

    def read_later(self, nodes: range) -> list[int]:
        """Nodes of a range that somebody behind it reads."""
        found = set(self.graph.roots) | {o for node in self.graph.nodes[nodes.stop :] for o in node.operands}
        for c in self.graph.controls:
            if c.start >= nodes.stop:
                found.update(c.reads)
            elif isinstance(c, Loop) and c.range != nodes and nodes.start in c.first_turn and nodes.stop - 1 in c.first_turn:
                found.update(b for _, b in c.carried)
        return [i for i in nodes if i in found]

    def loop(self, loop: Loop, inner: Sequence[Control]) -> list[str]:
        """State: a counter, the limit if it is data, what every turn reads, what is carried."""
        name = str(next(self.numbers))
        starts, ends = ([pair[k] for pair in loop.carried] for k in (0, 1))
        limit = [] if loop.limit is None else [loop.limit]
        fixed = [i for i in self.read_by(loop.first_turn) if i not in (*starts, *limit)]
        before, after = [*limit, *fixed, *starts], [*limit, *fixed, *ends]
        state = f"(s32[], {self.types(before)[1:]}".replace(", )", ")")
        begin = [f"state = {state} parameter(0)", "turn = s32[] get-tuple-element(state), index=0"]
        bound = f"v{loop.limit}" if limit else "bound"
        known = [] if limit else [f"bound = s32[] constant({loop.turns})"]
        test = [*begin, *self.elements(limit, "state", 1), *known, f"ROOT go = pred[] compare(turn, {bound}), direction=LT"]
        turn = [*begin, *self.elements(before, "state", 1), *self.block(loop.first_turn, inner)]
        turn += ["one = s32[] constant(1)", "next = s32[] add(turn, one)"]
        turn.append(f"ROOT all = {state} tuple({', '.join(['next', *(f'v{i}' for i in after)])})")
        condition, body = self.computation(f"condition_{name}", test), self.computation(f"body_{name}", turn)
        last = [loop.last_turn + b for b in ends]
        return [
            f"zero{name} = s32[] constant(0)",
            f"state{name} = {state} tuple({', '.join([f'zero{name}', *(f'v{i}' for i in before)])})",
            f"loop{name} = {state} while(state{name}), condition={condition}, body={body}",
            *self.elements(last, f"loop{name}", 1 + len(limit) + len(fixed)),
        ]

    def branch(self, branch: Branch, inner: Sequence[Control]) -> list[str]:
        """All branches take the same tuple; those that are not selected return what they took, or zeros."""
        name = str(next(self.numbers))
        ins = self.read_by(branch.range) or [branch.selector]
        outs = self.read_later(branch.range) or [branch.stop - 1]
        begin = [f"in = {self.types(ins)} parameter(0)", *self.elements(ins, "in")]
        taken = [*begin, *self.block(branch.range, inner), f"ROOT all = {self.types(outs)} {self.tuple(outs)}"]
        names = [
            self.computation(f"branch_{name}_{k}", taken if k == branch.number else [*begin, *self.instead(ins, outs)])
            for k in range(branch.branches)
        ]
        whole = f"in{name}"
        selector = self.graph.nodes[branch.selector].result
        if selector.dtype.kind == "b":
            which = f"true_computation={names[0]}, false_computation={names[1]}"
        else:
            which = f"branch_computations={{{', '.join(names)}}}"
        arguments = ", ".join([f"v{branch.selector}", *[whole] * branch.branches])
        return [
            f"{whole} = {self.types(ins)} {self.tuple(ins)}",
            f"out{name} = {self.types(outs)} conditional({arguments}), {which}",
            *self.elements(outs, f"out{name}"),
        ]

    def instead(self, ins: Sequence[int], outs: Sequence[int]) -> list[str]:
        """Lines of a branch that nobody takes."""
        lines: list[str] = []
        named: list[str] = []
        for o in outs:
            result = self.graph.nodes[o].result
            like = next((i for i in ins if self.graph.nodes[i].result == result), None)
            named.append(f"v{o}" if like is None else f"v{like}")
            if like is None:
                zero = "false" if result.dtype.kind == "b" else "0"
                lines.append(f"zero{o} = {short_dtype(result.dtype.name)}[] constant({zero})")
                lines.append(f"v{o} = {self.type(o)} broadcast(zero{o}), dimensions={{}}")
        return [*lines, f"ROOT all = {self.types(outs)} tuple({', '.join(named)})"]

    def fusion(self, nodes: range) -> list[str]:
        """Lines that call the fusion of some nodes."""
        last = nodes.stop - 1
        ins, outs = self.read_by(nodes), self.read_later(nodes) or [last]
        body = [f"v{o} = {self.type(o)} parameter({k})" for k, o in enumerate(ins)]
        body += [("ROOT " if outs == [i] == [last] else "") + f"v{i} = {self.instruction(i)}" for i in nodes]
        is_tuple = outs != [last]
        if is_tuple:
            body.append(f"ROOT all = {self.types(outs)} {self.tuple(outs)}")
        name = self.computation(f"fused_{nodes.start}", body)
        call = f"fusion({', '.join(f'v{o}' for o in ins)}), kind=kLoop, calls={name}"
        if not is_tuple:
            return [f"v{last} = {self.type(last)} {call}"]
        return [f"call{nodes.start} = {self.types(outs)} {call}", *self.elements(outs, f"call{nodes.start}")]

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
