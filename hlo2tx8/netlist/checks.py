"""Rules that a netlist keeps beyond its form; every one that is broken is named with the op, queue, graph or program."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from hlo2tx8.errors import NetlistError
from hlo2tx8.netlist.infer import input_shape, output_shape
from hlo2tx8.netlist.instances import expand
from hlo2tx8.netlist.model import NetGraph, Netlist, Op, Queue
from hlo2tx8.netlist.shapes import Shape
from hlo2tx8.netlist.tms import shape_after


@dataclass(frozen=True)
class Problem:
    """What is wrong, and the line of the op, queue, graph or program that it is about."""

    message: str
    line: int


@dataclass
class Examined:
    """A netlist, expanded over its devices, on an architecture; problems are added to it."""

    netlist: Netlist
    arch: str
    problems: list[Problem] = field(default_factory=list[Problem])

    def add(self, message: str, line: int) -> None:
        self.problems.append(Problem(message, line))

    @cached_property
    def ops(self) -> Mapping[str, Op]:
        return self.netlist.ops

    @cached_property
    def graph_of(self) -> Mapping[str, NetGraph]:
        """The graph of an op's name."""
        return {op.name: graph for graph in self.netlist.graphs.values() for op in graph.ops}

    @cached_property
    def fed_by(self) -> Mapping[str, tuple[Queue, ...]]:
        """Queues and rams by the op that writes them."""
        found: dict[str, list[Queue]] = {}
        for queue in self.netlist.queues.values():
            found.setdefault(queue.input, []).append(queue)
        return {name: tuple(queues) for name, queues in found.items()}

    def source(self, name: str) -> Queue | Op | None:
        """The op or queue of a name that an op reads."""
        return self.netlist.queues.get(name) or self.ops.get(name)

    def readers(self, graph: NetGraph) -> Iterator[tuple[Queue, Op]]:
        """Queues and rams that a graph reads, with the op that does."""
        for op in graph.ops:
            for name in dict.fromkeys(op.inputs):
                if name in self.netlist.queues:
                    yield self.netlist.queues[name], op


def problems_of(netlist: Netlist, arch: str) -> list[Problem]:
    """Everything that is wrong, in the order of the file's sections; empty if nothing is."""
    from hlo2tx8.netlist.check_fused import check_fused
    from hlo2tx8.netlist.check_ops import check_ops
    from hlo2tx8.netlist.check_programs import check_programs

    subject = Examined(expand(netlist), arch)
    checks: tuple[Callable[[Examined], None], ...] = (
        check_names,
        check_queues,
        check_fused,
        check_ops,
        check_shapes,
        check_programs,
        check_epochs,
    )
    for check in checks:
        check(subject)
        if check is check_names and subject.problems:
            break  # nothing else can be said of names that nobody has
    return list(dict.fromkeys(subject.problems))


def refuse_broken(netlist: Netlist, arch: str) -> None:
    """NetlistError for the first rule that is broken."""
    for problem in problems_of(netlist, arch)[:1]:
        raise NetlistError(problem.message, origin=f"{netlist.file}:{problem.line}")


def check_names(subject: Examined) -> None:
    """Names are there, and there once."""
    netlist = subject.netlist
    seen: dict[str, str] = {}
    for graph in netlist.graphs.values():
        for op in graph.ops:
            if op.name in seen:
                subject.add(f"op {op.name}: is in graph {seen[op.name]} and in graph {graph.name}", op.line)
            elif op.name in netlist.queues:
                subject.add(f"op {op.name}: a queue has the same name", op.line)
            seen[op.name] = graph.name
            for name in op.inputs:
                if subject.source(name) is None:
                    subject.add(f"op {op.name}: field inputs: there is no op or queue {name}", op.line)
            fused = op.attributes.get("fused_op_id")
            if fused is not None and fused not in netlist.fused_ops:
                subject.add(f"op {op.name}: attribute fused_op_id: there is no fused op {fused}", op.line)
    for queue in netlist.queues.values():
        if not queue.is_fed_by_host and queue.input not in subject.ops:
            subject.add(f"queue {queue.name}: field input: there is no op {queue.input}", queue.line)
        if queue.alias and queue.alias not in netlist.queues:
            subject.add(f"queue {queue.name}: field alias: there is no ram {queue.alias}", queue.line)


def check_queues(subject: Examined) -> None:
    """Addresses, aliases, manipulations, ports and who writes a queue."""
    for queue in subject.netlist.queues.values():
        for message in _queue_problems(subject, queue):
            subject.add(f"queue {queue.name}: {message}", queue.line)


def _queue_problems(subject: Examined, queue: Queue) -> Iterator[str]:
    buffers = queue.grid_size[0] * queue.grid_size[1]
    if len(queue.addresses) != buffers:
        yield f"field {queue.loc}: {len(queue.addresses)} addresses for a grid of {buffers} buffers"
    if queue.loc == "dram" and not all(isinstance(at, tuple) for at in queue.dram):
        yield "field dram: is not a list of [channel, address]"
    if subject.arch == "grayskull" and queue.tile_dim != (32, 32):
        yield "field tile_dim: grayskull has tiles of 32x32 only"
    for name, ports in (("read_ports", queue.read_ports), ("write_ports", queue.write_ports)):
        if ports and (subject.arch == "grayskull" or len(ports) != buffers):
            yield f"field {name}: one for each of the {buffers} buffers, and none on grayskull"
    if wrong := [tm for tm in queue.input_tms if tm.name in ("transpose", "pad", "tile_broadcast")]:
        yield f"field input_tms: {wrong[0].name} of a queue"
    if queue.alias:
        base = subject.netlist.queues[queue.alias]
        same_total = base.entries * base.shape.num_tiles == queue.entries * queue.shape.num_tiles
        if not (queue.is_ram and base.is_ram) or base.alias or base.addresses != queue.addresses or not same_total:
            yield f"field alias: {queue.alias} is not a ram of the same addresses and as many elements"
    if queue.is_fed_by_host:
        return
    producer = subject.ops[queue.input]
    if producer.tile_dim != queue.tile_dim:
        yield f"field tile_dim: {list(queue.tile_dim)}, but op {producer.name} writes {list(producer.tile_dim)}"
    try:
        made = shape_after(queue.input_tms, producer.shape)
    except ValueError as error:
        yield f"field input_tms: {error}"
        return
    if made != queue.shape:
        yield f"is of {queue.shape}, but op {producer.name} writes {made}"
    if producer.untilize_output and queue.grid_size != (1, 1):
        yield f"field grid_size: op {producer.name} has untilize_output and needs [1, 1]"


def check_shapes(subject: Examined) -> None:
    """What an op declares is what its inputs make."""
    for graph in subject.netlist.graphs.values():
        for op in graph.ops:
            shapes: list[Shape] = []
            try:
                for number, name in enumerate(op.inputs):
                    source = subject.source(name)
                    assert source is not None
                    shapes.append(input_shape(op, number, source.shape))
            except ValueError as error:
                subject.add(f"op {op.name}: field input_{len(shapes)}_tms: {error}", op.line)
                continue
            try:
                made = output_shape(op, shapes, subject.netlist.fused_ops)
            except ValueError as error:
                subject.add(f"op {op.name}: {error}", op.line)
                continue
            if made != op.shape:
                subject.add(f"op {op.name}: is of {op.shape}, but its inputs make {made}", op.line)


def check_epochs(subject: Examined) -> None:
    """Graphs whose ops read each other's can run together; looked at if nothing else is wrong."""
    from hlo2tx8.netlist.epochs import epochs_of

    try:
        if not subject.problems:
            epochs_of(subject.netlist)
    except NetlistError as error:
        subject.add(error.message, next((graph.line for graph in subject.netlist.graphs.values()), 1))
