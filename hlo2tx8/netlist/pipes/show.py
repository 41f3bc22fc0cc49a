"""The pipes of a netlist for a person: what goes from where to where, and what lies in each core's L1."""

from collections.abc import Iterator

from hlo2tx8.netlist.pipes.arch import ARCHES
from hlo2tx8.netlist.pipes.backend import EpochStreams
from hlo2tx8.netlist.pipes.links import loads
from hlo2tx8.netlist.pipes.model import INTERMEDIATE, Buffer, Run
from hlo2tx8.netlist.pipes.pipegen import BY_ETHERNET

MOST_LINKS = 5


def show_streams(epoch: EpochStreams) -> str:
    """Lines for each pipe, the links and channels that most goes over, and a line for each core with its buffers."""
    return "\n".join(_lines(epoch)) + "\n"


def _lines(epoch: EpochStreams) -> Iterator[str]:
    graph = epoch.graph
    buffers = {buffer.id: buffer for buffer in graph.buffers}
    yield f"epoch {graph.epoch}, {graph.name} on {graph.arch}: {len(graph.pipes)} pipes, {len(epoch.blobs)} cores"
    both = [stream for blob in epoch.blobs for stream in blob.streams]
    streams = {stream.pipe: stream for stream in sorted(both, key=lambda stream: stream.kind in ("read", "send"))}
    for pipe in graph.pipes:
        targets = [buffers[target] for target in pipe.targets]
        tiles = sum(run.length * run.repeats for run in pipe.runs)
        sources = [buffers[source] for source in dict.fromkeys(run.source for run in pipe.runs)]
        noc, hops = streams[pipe.id].noc, streams[pipe.id].hops
        way = "by ethernet" if noc == BY_ETHERNET else f"{hops} hops on network {noc}"
        yield f"  pipe {pipe.id}: {pipe.kind}, {tiles} tiles, {way}"
        yield f"    {' '.join(map(buffer_name, sources))} -> {' '.join(map(buffer_name, targets))}"
        yield f"    tiles {_runs(pipe.runs, buffers)}" + (f" to {_runs(pipe.slots, {})}" if pipe.slots else "")
    links, channels = loads(epoch.blobs, ARCHES[graph.arch])
    for (device, noc, source, target), size in links.most_common(MOST_LINKS):
        yield f"  device {device}, network {noc}, from {source} to {target}: {size:,} bytes an input"
    for (device, channel), size in channels.most_common():
        yield f"  device {device}, {f'DRAM channel {channel}' if channel >= 0 else 'host'}: {size:,} bytes an input"
    for blob in epoch.blobs:
        own = [buffer for buffer in blob.buffers if buffer.kind not in ("queue", "padding")]
        parts = [f"{_operand(b)} {b.address:#x}+{b.bytes} ({b.tiles} tiles)" for b in own]
        yield f"  core {blob.core} {blob.op}: {len(blob.streams)} streams; {', '.join(parts)}"


def buffer_name(buffer: Buffer) -> str:
    """An op's or queue's name with the number of the core or buffer, and which operand it is."""
    if buffer.kind == "padding":
        return f"padding {buffer.value:g}"
    where = f"{buffer.of}[{buffer.number}]"
    return f"{where}.{_operand(buffer)}" if buffer.kind == "input" else where


def _operand(buffer: Buffer) -> str:
    return {"input": f"input {buffer.operand}", "output": "output"}.get(
        buffer.kind, f"intermediate {buffer.operand - INTERMEDIATE}"
    )


def _runs(runs: tuple[Run, ...], buffers: dict[int, Buffer], most: int = 8) -> str:
    """The first runs, as 0..3+4 x2 for two runs of four tiles that are four apart."""
    texts: list[str] = []
    for run in runs[:most]:
        of = f"{buffer_name(buffers[run.source])} " if len({r.source for r in runs}) > 1 else ""
        span = f"{run.first}..{run.first + run.length - 1}" if run.length > 1 else str(run.first)
        texts.append(f"{of}{span}" + (f"{run.step:+} x{run.repeats}" if run.repeats > 1 else ""))
    return ", ".join(texts) + (f", and {len(runs) - most} runs" if len(runs) > most else "")
