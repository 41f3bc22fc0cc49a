"""From pipes to the streams of each core, with routes, and with addresses in L1 for all buffers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from hlo2tx8.netlist.epochs import Epoch
from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.pipes.arch import ETHERNET, KIB, Arch, Place
from hlo2tx8.netlist.pipes.model import Blob, Buffer, Core, Pipe, PipeGraph, Run, Stream, runs_of, tiles_of_runs
from hlo2tx8.netlist.pipes.result import BackendError, StreamFailure

READ_BYTES = 32 * KIB
"""Of memory from which tiles of DRAM are multicast."""
PCIE, ELSEWHERE = (0, 4), (-1, -1)
BY_ETHERNET = 2
_IN_L1 = ("output", "intermediate", "input")


@dataclass
class _Generator:
    graph: PipeGraph
    arch: Arch
    ids: int
    buffers: dict[int, Buffer]
    streams: dict[Core, list[Stream]] = field(default_factory=dict[Core, list[Stream]])

    def add(self, core: Core, buffer: Buffer, targets: Sequence[Place], **fields: object) -> Stream:
        """A stream of a buffer's memory, whose tiles go to those places."""
        noc, hops = self.route([(place_of_core(self.arch, core), target) for target in targets])
        self.ids += 1
        stream = Stream(self.ids - 1, buffer=buffer.id, noc=noc, hops=hops, tile_bytes=buffer.tile_bytes, **fields)  # pyright: ignore[reportArgumentType]
        self.streams.setdefault(core, []).append(stream)
        return stream

    def place(self, core: Core, device: int) -> Place:
        """Of a core as one of a device sees it."""
        return place_of_core(self.arch, core) if core.device == device else ELSEWHERE

    def route(self, ways: Sequence[tuple[Place, Place]]) -> tuple[int, int]:
        """The network of some ways, and the hops of the farthest."""
        return (BY_ETHERNET, 1) if any(ELSEWHERE in way for way in ways) else self.arch.nearer(ways)


def place_of_core(arch: Arch, core: Core) -> Place:
    """On the network; ELSEWHERE for those of the ethernet."""
    return ELSEWHERE if core.y == ETHERNET else (arch.columns[core.x], arch.rows[core.y])


def place_in(arch: Arch, queue: Buffer) -> Place:
    """Where on the network a buffer of a queue is."""
    return arch.dram[queue.channel] if queue.channel >= 0 else PCIE


def pipegen(graph: PipeGraph, arch: Arch, epoch: Epoch) -> tuple[Blob, ...]:
    """The blobs of all cores. BackendError where the buffers of one do not fit into L1."""
    placed, free = _allocated(graph, arch, epoch)
    ids = 1 + max((item.id for item in chain(graph.buffers, graph.pipes)), default=0)
    generator = _Generator(graph, arch, ids, {buffer.id: buffer for buffer in placed})
    for pipe in graph.pipes:
        if generator.buffers[pipe.targets[0]].kind == "queue":
            _write(generator, pipe)
        else:
            _bring(generator, pipe, free)
    _check_memory(free, graph, arch, epoch, placed)
    return tuple(_blobs(generator, epoch))


def _allocated(graph: PipeGraph, arch: Arch, epoch: Epoch) -> tuple[list[Buffer], dict[Core, int]]:
    """Buffers with addresses, each core's from the base of its data up, and by core the first byte that is free."""
    free: dict[Core, int] = {}
    ops = {op.name: op for graph in epoch.graphs for op in graph.ops}
    placed: dict[int, Buffer] = {}
    for kind in _IN_L1:
        for buffer in graph.buffers:
            if buffer.kind == kind:
                extra = ops[buffer.of].overlay_size or 0
                at = free.setdefault(buffer.core, arch.aligned(limits(arch, buffer.core)[0] + extra))
                placed[buffer.id] = replace(buffer, address=at)
                free[buffer.core] = arch.aligned(at + buffer.bytes)
    return [placed.get(buffer.id, buffer) for buffer in graph.buffers], free


def limits(arch: Arch, core: Core) -> tuple[int, int]:
    """Where the data of a core may begin, and where L1 ends."""
    return (160 * KIB, 256 * KIB) if core.y == ETHERNET else (arch.data_base, arch.l1_bytes)


def _check_memory(free: Mapping[Core, int], graph: PipeGraph, arch: Arch, epoch: Epoch, placed: list[Buffer]) -> None:
    of = {buffer.core: buffer.of for buffer in placed if buffer.kind == "output"}
    for core, end in free.items():
        base, limit = limits(arch, core)
        if end > limit:
            name = next(g.name for g in epoch.graphs if of[core] in {op.name for op in g.ops})
            message = f"op {of[core]}: buffers of {end - base} bytes on core {core} for the {limit - base} bytes of L1"
            raise BackendError(StreamFailure("L1Size", message, graph.epoch, name, of[core], core, limit - base, end - base))


def _bring(generator: _Generator, pipe: Pipe, free: dict[Core, int]) -> None:
    """Streams of a pipe to inputs of an op."""
    targets = [generator.buffers[target] for target in pipe.targets]
    sources, tiles = tiles_of_runs(pipe.runs)
    given = [generator.buffers[int(source)] for source in np.unique(sources)]
    senders = [buffer for buffer in given if buffer.kind == "output"]
    first = targets[0]
    ids = {target.id: generator.ids + at for at, target in enumerate(targets)}
    generator.ids += len(targets)
    runs, positions = pipe.runs, tiles.copy()
    froms = [place_in(generator.arch, buffer) for buffer in given if buffer.kind == "queue"]
    sent: list[tuple[Core, Stream]] = []
    if not senders and len(targets) > 1:  # where most memory is left
        room = {target.core: limits(generator.arch, target.core)[1] - free[target.core] for target in targets}
        core = max(room, key=lambda core: room[core])
        memory = max(1, min(READ_BYTES, room[core] // 4) // first.tile_bytes)
        others = [generator.place(target.core, core.device) for target in targets]
        stream = generator.add(
            core, first, others, kind="read", pipe=pipe.id, address=free[core], tiles=memory, to=tuple(ids.values()), runs=pipe.runs
        )
        sent.append((core, stream))
        free[core] = generator.arch.aligned(free[core] + memory * first.tile_bytes)
        runs = (Run(stream.id, 0, len(tiles)),)
    for buffer in senders:
        own = sources == buffer.id
        others = [generator.place(target.core, buffer.core.device) for target in targets]
        stream = generator.add(
            buffer.core, buffer, others, kind="send", pipe=pipe.id, address=buffer.address, tiles=buffer.tiles,
            to=tuple(ids.values()), runs=runs_of(sources[own], tiles[own]),
        )  # fmt: skip
        sent.append((buffer.core, stream))
        sources[own], positions[own] = stream.id, np.arange(own.sum())
    if senders:
        runs = runs_of(sources, positions)
    for target in targets:
        noc, hops = _arriving(generator, target.core, sent, froms)
        stream = Stream(
            ids[target.id], "receive", pipe.id, target.id, target.address, target.tiles, target.tile_bytes, noc, hops, (), runs
        )
        generator.streams.setdefault(target.core, []).append(stream)


def _arriving(generator: _Generator, core: Core, sent: Sequence[tuple[Core, Stream]], froms: Sequence[Place]) -> tuple[int, int]:
    """The network by which the farthest tiles come, and their hops: from streams that chose it, or from places of DRAM."""
    here = place_of_core(generator.arch, core)
    if not sent:
        return generator.route([(place, here) for place in froms])
    ways = [(stream.noc, generator.place(other, core.device)) for other, stream in sent]
    found = [(noc, 1 if noc == BY_ETHERNET else generator.arch.ways(place, here)[noc]) for noc, place in ways]
    return max(found, key=lambda way: way[1])


def _write(generator: _Generator, pipe: Pipe) -> None:
    """A stream for each core that makes tiles of a queue's buffer."""
    target = generator.buffers[pipe.targets[0]]
    sources, tiles = tiles_of_runs(pipe.runs)
    _, slots = tiles_of_runs(pipe.slots)
    for source in np.unique(sources).tolist():
        buffer, own = generator.buffers[source], sources == source
        generator.add(
            buffer.core, buffer, [place_in(generator.arch, target)], kind="write", pipe=pipe.id, address=buffer.address,
            tiles=buffer.tiles, to=(target.id,), runs=runs_of(sources[own], tiles[own]), slots=_slots(slots[own]),
        )  # fmt: skip


def _slots(slots: Array) -> tuple[Run, ...]:
    return runs_of(np.zeros_like(slots), slots)


def _blobs(generator: _Generator, epoch: Epoch) -> Iterator[Blob]:
    graph_of = {op.name: graph.name for graph in epoch.graphs for op in graph.ops}
    own: dict[Core, list[Buffer]] = {}
    for buffer in generator.buffers.values():
        if buffer.kind in _IN_L1:
            own.setdefault(buffer.core, []).append(buffer)
    for core, buffers in own.items():
        streams = sorted(generator.streams.get(core, ()), key=lambda stream: stream.id)
        named = {run.source for stream in streams for run in stream.runs} | {to for stream in streams for to in stream.to}
        others = [generator.buffers[name] for name in sorted(named) if name in generator.buffers]
        reached = [buffer for buffer in others if buffer.kind in ("queue", "padding")]
        first = next(buffer for buffer in buffers if buffer.kind == "output")
        yield Blob(generator.graph.epoch, graph_of[first.of], first.of, core, first.number, (*buffers, *reached), tuple(streams))
