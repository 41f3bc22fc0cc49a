"""How much goes over each link of the network, and to and from each channel of DRAM, for one input of a temporal epoch."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from hlo2tx8.netlist.pipes.arch import Arch, Place
from hlo2tx8.netlist.pipes.model import Blob, Run
from hlo2tx8.netlist.pipes.pipegen import BY_ETHERNET, ELSEWHERE, place_in, place_of_core

Link: TypeAlias = tuple[int, int, Place, Place]
"""A device, a network, and two neighbours on it."""
Way: TypeAlias = tuple[Place, Place]


def way(arch: Arch, noc: int, source: Place, target: Place) -> Iterator[Way]:
    """The links from a place to another: along the row first on network 0, along the column first on network 1."""
    at = list(source)
    for axis in (0, 1) if noc == 0 else (1, 0):
        while at[axis] != target[axis]:
            before = (at[0], at[1])
            at[axis] = (at[axis] + (1 if noc == 0 else -1)) % arch.size[axis]
            yield before, (at[0], at[1])


def loads(blobs: Sequence[Blob], arch: Arch) -> tuple[Counter[Link], Counter[tuple[int, int]]]:
    """Bytes over each link, a multicast's once on links that its targets share, and of each device's channels."""
    links: Counter[Link] = Counter()
    channels: Counter[tuple[int, int]] = Counter()
    cores = {stream.id: blob.core for blob in blobs for stream in blob.streams}
    queues = {buffer.id: buffer for blob in blobs for buffer in blob.buffers if buffer.kind == "queue"}
    for core, stream in ((blob.core, stream) for blob in blobs for stream in blob.streams):
        here, size = place_of_core(arch, core), _tiles(stream.runs) * stream.tile_bytes
        legs: list[tuple[int, Sequence[Way], int]] = []
        if stream.kind in ("send", "read"):
            legs.append((stream.noc, [(here, place_of_core(arch, cores[to])) for to in stream.to], size))
        for source in sorted({run.source for run in stream.runs} & {*queues}):
            part = _tiles([run for run in stream.runs if run.source == source]) * stream.tile_bytes
            come = [(place_in(arch, queues[source]), here)]
            legs.append((arch.nearer(come)[0], come, part))
            channels[core.device, queues[source].channel] += part
        if stream.kind == "write":
            queue = queues[stream.to[0]]
            legs.append((stream.noc, [(here, place_in(arch, queue))], size))
            channels[core.device, queue.channel] += size
        for noc, ways, bytes in legs:
            if noc != BY_ETHERNET and not any(ELSEWHERE in ends for ends in ways):
                passed = {link for ends in ways for link in way(arch, noc, *ends)}
                links.update({(core.device, noc, *link): bytes for link in passed})
    return links, channels


def _tiles(runs: Sequence[Run]) -> int:
    return sum(run.length * run.repeats for run in runs)
