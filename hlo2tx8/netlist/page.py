"""A netlist as one page of HTML, which loads nothing: epochs on the grid with cycles, queues, fused ops, pipes, programs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import prod

from hlo2tx8.netlist.drawings import diagram_drawing, fused_diagram, graph_diagram, grid_drawing
from hlo2tx8.netlist.epochs import executed_epochs
from hlo2tx8.netlist.formats import tile_bytes
from hlo2tx8.netlist.instances import expand
from hlo2tx8.netlist.model import NetGraph, Netlist
from hlo2tx8.netlist.pipes.arch import ARCHES
from hlo2tx8.netlist.pipes.backend import EpochStreams
from hlo2tx8.netlist.pipes.links import loads
from hlo2tx8.netlist.pipes.result import CompileResult
from hlo2tx8.netlist.pipes.show import buffer_name
from hlo2tx8.netlist.show import blocks_text, program_lines

MOST_PIPES, MOST_LINKS = 200, 10


@dataclass(frozen=True)
class Cost:
    """What is known of a temporal epoch on the chip: a line about it, the cycles of one tensor by op, the tiles that run an op, and
    [from, to, way, bytes, cycles] of what goes between ops and queues.
    """

    text: str = ""
    ops: Mapping[str, float] = field(default_factory=dict[str, float])
    tiles: Mapping[str, str] = field(default_factory=dict[str, str])
    edges: Sequence[Sequence[str]] = ()


def page_of(
    netlist: Netlist,
    arch: str,
    costs: Mapping[str, Cost],
    streams: Sequence[EpochStreams],
    result: CompileResult,
    notes: Sequence[str],
) -> str:
    """The page of a netlist; `costs` are by name of the temporal epoch, `notes` say what it does not have. InputError
    without jinja2.
    """
    from hlo2tx8.reports.page import render

    whole = expand(netlist)
    ops = sum(len(graph.ops) for graph in whole.graphs.values())
    sections = {
        "Epochs": _epochs(whole, arch, costs),
        "Queues": _queues(whole),
        "Fused ops": _fused(whole),
        "Pipes": _pipes(streams, result),
        "Programs": (f"<h3>{escape(p.name)}</h3><pre>{escape(chr(10).join(program_lines(p)))}</pre>" for p in whole.programs),
    }
    counts = f"{len(whole.graphs)} graphs, {ops} ops, {len(whole.queues)} queues, {len(whole.fused_ops)} fused ops"
    return render(
        "netlist.html.j2",
        title=netlist.file or "netlist",
        about=f"{counts} for {arch}",
        notes=notes,
        sections=[(name, _id(name), list(parts)) for name, parts in sections.items()],
    )


def _id(name: str) -> str:
    return name.lower().replace(" ", "-")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells are text, or HTML if they begin with a tag; `>` before a name marks a column of numbers."""
    kinds = [' class="number"' if name.startswith(">") else "" for name in header]
    top = "".join(f"<th{kind}>{escape(name.lstrip('>'))}</th>" for name, kind in zip(header, kinds, strict=True))
    body = "".join(f"<tr>{''.join(map(_data, row, kinds))}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{top}</tr>{body}</table></div>'


def _data(cell: str, kind: str) -> str:
    return f"<td{kind}>{cell if cell.startswith('<span') else escape(cell)}</td>"


def _epochs(netlist: Netlist, arch: str, costs: Mapping[str, Cost]) -> Iterator[str]:
    size = len(ARCHES[arch].rows), len(ARCHES[arch].columns)
    names = {graph.name: epoch.name for epoch in executed_epochs(netlist) for graph in epoch.graphs}
    for graph in netlist.graphs.values():
        cost = costs.get(names.get(graph.name, ""), Cost())
        about = f"device {graph.target_device}, {graph.input_count} inputs an execution"
        yield f"<h3>{escape(graph.name)}</h3><p>{escape(about)}{'<br>' if cost.text else ''}{escape(cost.text)}</p>"
        yield f"<figure>{grid_drawing(graph, size, cost.ops)}</figure>"
        yield _ops(graph, cost)
        own = {op.name for op in graph.ops}
        if edges := [edge for edge in cost.edges if own & {*edge[:2]}]:
            yield _table(("on the chip from", "to", "way", ">bytes", ">cycles"), edges)
        yield f"<figure>{diagram_drawing(graph_diagram(graph, netlist))}</figure>"


def _ops(graph: NetGraph, cost: Cost) -> str:
    cycles, own = cost.ops, {op.name for op in graph.ops}
    total = sum(cycles.values())
    rows: list[list[str]] = []
    for op in sorted(graph.ops, key=lambda op: -cycles.get(op.name, 0.0)):
        counts = Counter(format.name for format in op.in_df)
        taken = ", ".join(f"{count} {name}" if count > 1 else name for name, count in counts.items())
        formats = f"{taken} → {op.out_df.name}"
        cores = f"{list(op.grid_loc)} {op.grid_size[0]}x{op.grid_size[1]}"
        blocks = f"t {op.t}, {op.mblock[0]}x{op.mblock[1]} of {op.ublock[0]}x{op.ublock[1]}"
        rows.append(
            [
                op.name,
                op.type,
                *_spent(cycles.get(op.name), total),
                cores,
                cost.tiles.get(op.name, ""),
                blocks,
                formats,
                ", ".join(op.inputs),
            ]
        )
    rows += [
        [name, "", *_spent(value, total), "", "", "", "", ""]
        for name, value in cycles.items()
        if name.startswith("(") or name not in own
    ]
    return _table(("op", "type", ">cycles", "share", "cores", "tiles", "blocks", "formats", "inputs"), rows)


def _spent(cycles: float | None, total: float) -> tuple[str, str]:
    if cycles is None or not total:
        return "", ""
    return (
        f"{cycles:,.0f}",
        f'<span><span class="bar" style="width:{60 * cycles / total:.0f}px"></span> {cycles / total:.1%}</span>',
    )


def _queues(netlist: Netlist) -> Iterator[str]:
    readers: dict[str, list[str]] = {}
    for op in netlist.ops.values():
        for name in dict.fromkeys(op.inputs):
            readers.setdefault(name, []).append(op.name)
    rows: list[list[str]] = []
    for queue in netlist.queues.values():
        size = queue.entries * prod((queue.shape.z, queue.shape.rt, queue.shape.ct)) * tile_bytes(queue.df, queue.tile_dim)
        first = queue.addresses[0] if queue.addresses else ""
        place = f"{queue.loc} {f'{first[0]}:{first[1]:#x}' if isinstance(first, tuple) else first}"
        more = f" and {len(queue.addresses) - 1} more" if len(queue.addresses) > 1 else ""
        to = ", ".join(readers.get(queue.name, ["host"]))
        rows.append(
            [
                queue.name,
                queue.type,
                str(queue.entries),
                blocks_text(queue),
                queue.df.name,
                f"{size:,}",
                queue.input,
                to,
                place + more,
            ]
        )
    yield _table(("queue", "type", ">entries", "shape", "format", ">bytes", "from", "to", "at"), rows)


def _fused(netlist: Netlist) -> Iterator[str]:
    for fused in netlist.fused_ops.values():
        used = [op.name for op in netlist.ops.values() if op.attributes.get("fused_op_id") == fused.name]
        about = f"of {', '.join(used) or 'no op'}; {fused.intermediates} intermediate buffers"
        yield f"<h3>{escape(fused.name)}</h3><p>{escape(about)}</p>"
        yield f"<figure>{diagram_drawing(fused_diagram(fused))}</figure>"


def _pipes(streams: Sequence[EpochStreams], result: CompileResult) -> Iterator[str]:
    for failure in result.failures:
        yield f'<p class="wrong">{escape(failure.failure_type)}: graph {escape(failure.graph)}: {escape(failure.message)}</p>'
    for epoch in streams:
        buffers = {buffer.id: buffer for buffer in epoch.graph.buffers}
        rows: list[tuple[int, list[str]]] = []
        for pipe in epoch.graph.pipes:
            tiles = sum(run.length * run.repeats for run in pipe.runs)
            targets, sources = ([buffers[n] for n in ids] for ids in (pipe.targets, dict.fromkeys(r.source for r in pipe.runs)))
            size = tiles * targets[0].tile_bytes
            names = [", ".join([*map(buffer_name, part[:4]), *(["…"] if len(part) > 4 else [])]) for part in (sources, targets)]
            rows.append((size, [str(pipe.id), pipe.kind, *names, f"{tiles:,}", f"{size:,}"]))
        rows.sort(key=lambda row: -row[0])
        total = sum(size for size, _ in rows)
        yield f"<h3>{escape(epoch.graph.name)}</h3><p>{len(rows)} pipes, {total:,} bytes an input</p>"
        yield _table(("pipe", "kind", "from", "to", ">tiles", ">bytes"), [row for _, row in rows[:MOST_PIPES]])
        yield f"<p>and {len(rows) - MOST_PIPES} that bring less.</p>" if len(rows) > MOST_PIPES else ""
        links, channels = loads(epoch.blobs, ARCHES[epoch.graph.arch])
        ways = [[f"device {d}, network {n}, {a} to {b}", f"{size:,}"] for (d, n, a, b), size in links.most_common(MOST_LINKS)]
        names = {c: f"DRAM channel {c}" if c >= 0 else "host" for _, c in channels}
        ways += [[f"device {d}, {names[c]}", f"{size:,}"] for (d, c), size in channels.most_common()]
        yield _table(("most used links, and channels", ">bytes an input"), ways)
