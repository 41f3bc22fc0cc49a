"""Temporal epochs: graphs that run together, and their ops in segments that are computed as wholes."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from hlo2tx8.errors import NetlistError, NetlistRunError
from hlo2tx8.netlist.evaluate import Rules, run_op
from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.instructions import Execute
from hlo2tx8.netlist.model import NetGraph, Netlist, Op, Queue
from hlo2tx8.netlist.tensors import Tensor
from hlo2tx8.netlist.tms import apply_tms


@dataclass(frozen=True)
class Segment:
    """Ops in order, of which none reads a queue that another of them feeds: one function of tensors.

    `sources` are the queues, and ops of earlier segments, that they read; `leaves` the ops that later segments read; `feeds` the
    queues and rams of each op.
    """

    name: str
    ops: tuple[Op, ...]
    sources: Mapping[str, Queue | Op]
    leaves: tuple[str, ...]
    feeds: Mapping[str, tuple[Queue, ...]]

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(name for name, source in self.sources.items() if isinstance(source, Queue))


@dataclass(frozen=True)
class Epoch:
    """Graphs that run together, as ops of one read those of another."""

    graphs: tuple[NetGraph, ...]
    segments: tuple[Segment, ...]

    @property
    def name(self) -> str:
        return "+".join(graph.name for graph in self.graphs)

    @property
    def reads(self) -> tuple[str, ...]:
        """Queues and rams that ops read."""
        return tuple(dict.fromkeys(name for segment in self.segments for name in segment.reads))

    @property
    def writes(self) -> tuple[str, ...]:
        """Queues and rams that ops feed."""
        return tuple(queue.name for segment in self.segments for queues in segment.feeds.values() for queue in queues)

    @property
    def is_streaming(self) -> bool:
        """Does what is read for an input depend on nothing that the inputs before it made, so that several may be under way?"""
        is_writing_queues = not any(q.is_ram for segment in self.segments for queues in segment.feeds.values() for q in queues)
        is_summing = any(op.gradient_op for graph in self.graphs for op in graph.ops)
        return len(self.segments) == 1 and is_writing_queues and not is_summing and not set(self.reads) & set(self.writes)


@dataclass(frozen=True)
class Made:
    """What a segment makes of one input: by op what it `left` to later segments and its `sums`, by queue or ram what is pushed."""

    left: Mapping[str, Tensor]
    sums: Mapping[str, Array]
    pushed: Mapping[str, Tensor]


def compute(
    segment: Segment,
    sources: Mapping[str, Tensor],
    before: Mapping[str, Array],
    rules: Rules,
    scope: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> Made:
    """What a segment makes of what it reads; `before` is what ops that sum up made before. Each op is computed in its own `scope`.

    NetlistRunError where an op has no answer.
    """
    held, dims = dict(sources), {name: source.tile_dim for name, source in segment.sources.items()}
    sums: dict[str, Array] = {}
    pushed: dict[str, Tensor] = {}
    for op in segment.ops:
        try:
            with scope(op.name):
                made = run_op(op, [(held[name], dims[name]) for name in op.inputs], rules, before.get(op.name))
                if op.gradient_op:
                    sums[op.name] = made.data
                held[op.name] = rules.kept(made, op.out_df)
                for queue in segment.feeds.get(op.name, ()):
                    pushed[queue.name] = Tensor(apply_tms(queue.input_tms, held[op.name].data), made.format)
        except ValueError as error:
            raise NetlistRunError(f"op {op.name}: {error}") from None
        dims[op.name] = op.tile_dim
    return Made({name: held[name] for name in segment.leaves}, sums, pushed)


@dataclass(frozen=True)
class Golden:
    """The backend that computes with numpy."""

    rules: Rules

    def run(self, segment: Segment, sources: Mapping[str, Tensor], before: Mapping[str, Array]) -> Made:
        """One input of a segment; see `compute`."""
        return compute(segment, sources, before, self.rules)


def epochs_of(netlist: Netlist) -> list[Epoch]:
    """Every graph, those whose ops read each other's together. NetlistError where ops wait for each other."""
    graph_of = {op.name: graph.name for graph in netlist.graphs.values() for op in graph.ops}
    group: dict[str, set[str]] = {name: {name} for name in netlist.graphs}
    for graph in netlist.graphs.values():
        for other in {graph_of[name] for op in graph.ops for name in op.inputs if name in graph_of} - {graph.name}:
            both = group[graph.name] | group[other]
            group |= dict.fromkeys(both, both)
    together = {min(names): tuple(netlist.graphs[name] for name in netlist.graphs if name in names) for names in group.values()}
    return [_epoch(netlist, graphs) for graphs in together.values()]


def executed_epochs(netlist: Netlist) -> list[Epoch]:
    """Those that a program executes."""
    named = {i.graph_name for program in netlist.programs for i in program.instructions if isinstance(i, Execute)}
    return [epoch for epoch in epochs_of(netlist) if named & {graph.name for graph in epoch.graphs}]


def _epoch(netlist: Netlist, graphs: Sequence[NetGraph]) -> Epoch:
    if len({graph.input_count for graph in graphs}) > 1:
        raise NetlistError(f"graphs {', '.join(graph.name for graph in graphs)}: of one temporal epoch with different input_count")
    if len({str(graph.target_device) for graph in graphs}) < len(graphs):
        raise NetlistError(f"graphs {', '.join(graph.name for graph in graphs)}: of one temporal epoch, and two on one device")
    ops = {op.name: op for graph in graphs for op in graph.ops}
    feeds: dict[str, tuple[Queue, ...]] = {}
    for queue in netlist.queues.values():
        if queue.input in ops:
            feeds[queue.input] = (*feeds.get(queue.input, ()), queue)
    writers = {queue.name: op for op, queues in feeds.items() for queue in queues if not queue.is_ram}
    waits = {op.name: [writers.get(name, name) for name in op.inputs if name in ops or name in writers] for op in ops.values()}
    try:
        order = [ops[name] for name in TopologicalSorter(waits).static_order()]
    except CycleError as error:
        raise NetlistError(f"op {error.args[1][0]}: waits for itself") from None
    segments: list[list[Op]] = [[]]
    for op in order:
        if {writers.get(name) for name in op.inputs} & {earlier.name for earlier in segments[-1]}:
            segments.append([])
        segments[-1].append(op)
    name = "+".join(graph.name for graph in graphs)
    names = [name, *(f"{name}.{number}" for number in range(1, len(segments)))]
    return Epoch(
        tuple(graphs), tuple(_segment(netlist, name, own, order, feeds) for name, own in zip(names, segments, strict=True))
    )


def _segment(
    netlist: Netlist, name: str, own: Sequence[Op], order: Sequence[Op], feeds: Mapping[str, tuple[Queue, ...]]
) -> Segment:
    inside = {op.name for op in own}
    ops = {op.name: op for op in order}
    read = dict.fromkeys(name for op in own for name in op.inputs if name not in inside)
    elsewhere = {name for op in order if op.name not in inside for name in op.inputs}
    return Segment(
        name,
        tuple(own),
        {name: netlist.queues.get(name) or ops[name] for name in read},
        tuple(op.name for op in own if op.name in elsewhere),
        {op.name: feeds[op.name] for op in own if op.name in feeds},
    )
