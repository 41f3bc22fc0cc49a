"""Smaller cases that still fail in the same way: fewer roots, nodes and fusions, smaller dimensions, plain layouts."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hlo2tx8.dev.fuzz.draw import Case
from hlo2tx8.dev.fuzz.graph import PARAMETER, Array, Node
from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.hlo import Kind, TensorLike, spec_of
from hlo2tx8.hlo.ops.shaping import pad_shape


def shrink(case: Case, still_fails: Callable[[Case], bool], tries: int = 400) -> Case:
    """The smallest failing case that greedy steps find within so many tries."""
    left = tries
    while True:
        for candidate in _smaller(case):
            if left == 0:
                return case
            left -= 1
            if still_fails(candidate):
                case = candidate
                break
        else:
            return case


def _smaller(case: Case) -> Generator[Case]:
    """Cases with one thing less, the largest steps first."""
    graph = case.graph
    if len(graph.roots) > 1:
        yield from (live(replace(case, graph=replace(graph, roots=(root,)))) for root in graph.roots)
    for i in reversed(range(len(graph.nodes))):
        if graph.nodes[i].name != PARAMETER:
            yield from _without(case, i)
    if case.step_elements:
        yield replace(case, step_elements=0)
    if not case.hlo_passes:
        yield replace(case, hlo_passes=True)
    if graph.controls:
        yield replace(case, graph=replace(graph, controls=()))
        for control in graph.controls:
            yield replace(case, graph=replace(graph, controls=tuple(c for c in graph.controls if c != control)))
    if graph.fusions:
        yield replace(case, graph=replace(graph, fusions=()))
        for fusion in graph.fusions:
            yield replace(case, graph=replace(graph, fusions=tuple(f for f in graph.fusions if f != fusion)))
    yield from _resized(case)
    if any(node.result.layout for node in graph.nodes):
        yield replace(case, graph=replace(graph, nodes=tuple(_plain(node) for node in graph.nodes)))
        for i, node in enumerate(graph.nodes):
            if node.result.layout:
                yield replace(case, graph=replace(graph, nodes=(*graph.nodes[:i], _plain(node), *graph.nodes[i + 1 :])))


def live(case: Case) -> Case:
    """Without what no root needs."""
    given = dict(zip(case.graph.parameters, case.arrays, strict=True))
    graph = case.graph.rolled()
    arrays = tuple(given[i] for i in graph.live_parameters)
    return replace(case, graph=graph.live(), arrays=arrays)


def _without(case: Case, number: int) -> Generator[Case]:
    """The node's readers read one of its operands instead, or a new parameter with its value."""
    graph = case.graph
    own = graph.nodes[number]
    for operand in dict.fromkeys(own.operands):
        other = graph.nodes[operand].result
        if (other.shape, other.dtype) == (own.result.shape, own.result.dtype):
            nodes = tuple(replace(n, operands=tuple(operand if o == number else o for o in n.operands)) for n in graph.nodes)
            roots = tuple(operand if r == number else r for r in graph.roots)
            if any(graph.nodes[r].name != PARAMETER for r in roots):
                yield live(replace(case, graph=replace(graph, nodes=nodes, roots=roots)))
    if number not in graph.roots:
        values = graph.values(case.arrays)
        given = dict(zip(graph.parameters, case.arrays, strict=True)) | {number: values[number]}
        nodes = (*graph.nodes[:number], Node(PARAMETER, own.result), *graph.nodes[number + 1 :])
        whole = replace(graph, nodes=nodes)
        arrays = tuple(given[i] for i in whole.parameters)
        smaller = live(replace(case, graph=whole, arrays=arrays))
        yield replace(smaller, graph=smaller.graph.with_parameters_first())


def _plain(node: Node) -> Node:
    return replace(node, result=replace(node.result, layout=None))


def _resized(case: Case) -> Generator[Case]:
    """Every dimension of one size made smaller, shapes worked out again; what does not fit together is left out."""
    sizes = sorted({n for node in case.graph.nodes for n in node.result.shape if n > 1}, reverse=True)
    for size in sizes:
        for smaller in dict.fromkeys((1, 2, size // 2, size - 1)):
            if 0 < smaller < size and (found := resized(case, size, smaller)) is not None:
                yield found


def resized(case: Case, size: int, to: int) -> Case | None:
    """The case with dimensions of `size` made `to`; None where that gives no graph."""

    def cut(shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(to if n == size else n for n in shape)

    nodes: list[Node] = []
    try:
        for node in case.graph.nodes:
            nodes.append(_resized_node(node, [nodes[o].result for o in node.operands], cut))
        given = zip(case.graph.parameters, case.arrays, strict=True)
        arrays = tuple(_cut(array, nodes[i].result.shape) for i, array in given)
        graph = replace(case.graph, nodes=tuple(nodes)).rolled()
        values = graph.values(arrays)
    except (Hlo2tx8Error, ValueError, IndexError):
        return None
    fits = all(v.shape == n.result.shape for v, n in zip(values, nodes, strict=True))
    is_new = any(n.result.shape != old.result.shape for n, old in zip(nodes, case.graph.nodes, strict=True))
    return replace(case, graph=graph, arrays=arrays) if fits and is_new else None


def _resized_node(node: Node, operands: Sequence[TensorLike], cut: Callable[[Sequence[int]], tuple[int, ...]]) -> Node:
    own, attributes = node.result, dict(node.attributes)
    shape: Sequence[int]
    match node.name.partition(".")[2]:
        case "slice":
            shape = _cut_slice(attributes, operands[0].shape)
        case "transpose":
            order: list[int] = list(attributes["permutation"])
            shape = [operands[0].shape[d] for d in order]
        case "pad":
            shape = pad_shape(attributes, (operands[0],))[0].shape
        case "concatenate":
            along = int(attributes["dimension"])
            first = operands[0].shape
            if any(o.shape[:along] + o.shape[along + 1 :] != first[:along] + first[along + 1 :] for o in operands):
                raise ValueError
            shape = (*first[:along], sum(o.shape[along] for o in operands), *first[along + 1 :])
        case "broadcast_in_dim":
            spread = list(cut(own.shape))
            for d, n in zip(attributes["broadcast_dimensions"], operands[0].shape, strict=True):
                spread[d] = n
            shape = spread
        case "constant":
            shape = cut(own.shape)
            attributes["value"] = _cut(np.asarray(attributes["value"]), shape)
        case "reverse":
            shape = operands[0].shape
        case _ if node.name != PARAMETER and spec_of(node.name).kind is Kind.ELEMENTWISE:
            shape = max((o.shape for o in operands), key=len)
            if any(o.shape not in (shape, ()) for o in operands):
                raise ValueError
        case _:
            shape = cut(own.shape)
    return replace(node, result=replace(own, shape=tuple(shape)), attributes=attributes)


def _cut_slice(attributes: dict[str, Any], operand: tuple[int, ...]) -> tuple[int, ...]:
    """Bounds of a slice within an operand that has become smaller; the shape it then has."""
    limits: list[int] = [min(limit, n) for limit, n in zip(attributes["limit_indices"], operand, strict=True)]
    starts: list[int] = [min(start, limit) for start, limit in zip(attributes["start_indices"], limits, strict=True)]
    strides: list[int] = list(attributes["strides"])
    attributes |= {"limit_indices": tuple(limits), "start_indices": tuple(starts)}
    return tuple(-(-(b - a) // s) for a, b, s in zip(starts, limits, strides, strict=True))


def _cut(array: Array, shape: Sequence[int]) -> Array:
    return np.ascontiguousarray(array[tuple(slice(n) for n in shape)]).reshape(shape)
