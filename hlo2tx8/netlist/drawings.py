"""Drawings of a netlist as SVG: ops on the grid of cores, and what reads what as a graph in layers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from hlo2tx8.netlist.model import FusedOp, NetGraph, Netlist

CELL_WIDTH, CELL_HEIGHT, MARGIN = 74, 40, 18
BOX_WIDTH, BOX_HEIGHT, BETWEEN_COLUMNS, BETWEEN_ROWS = 132, 34, 84, 12
MOST_NODES = 150
"""Of a graph that is drawn."""
LONGEST = 10
Lines = tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Diagram:
    """Nodes by name, each with a title, a line below it and a class; and lines from one to another, with a label."""

    nodes: Mapping[str, tuple[str, str, str]]
    lines: Lines


def _short(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def grid_drawing(graph: NetGraph, size: tuple[int, int], cycles: Mapping[str, float]) -> str:
    """The cores of a device, those of an op in its colour; the more it takes of the cycles of the slowest, the fuller."""
    rows = max([size[0], *(row + 1 for op in graph.ops for row, _ in op.cores)])
    columns = max([size[1], *(column + 1 for op in graph.ops for _, column in op.cores)])
    slowest = max((cycles.get(op.name, 0.0) for op in graph.ops), default=0.0)
    parts = [f'<text x="{MARGIN + c * CELL_WIDTH + CELL_WIDTH // 2}" y="12" class="at">{c}</text>' for c in range(columns)] + [
        f'<text x="8" y="{MARGIN + r * CELL_HEIGHT + CELL_HEIGHT // 2 + 4}" class="at">{r}</text>' for r in range(rows)
    ]
    parts += [_cell(r, c, "idle", "") for r in range(rows) for c in range(columns)]
    for number, op in enumerate(op for op in graph.ops if op.cores):
        share = cycles.get(op.name, 0.0) / slowest if slowest else 0.5
        fill = f'style="fill:hsl({number * 67 % 360} 65% 50%);fill-opacity:{0.2 + 0.7 * share:.2f}"'
        spent = f", {cycles[op.name]:,.0f} cycles" if op.name in cycles else ""
        tip = f"<title>{escape(op.name)}: {escape(op.type)} on {len(op.cores)} cores{spent}</title>"
        parts += [_cell(r, c, "core", tip, fill) for r, c in sorted(op.cores)]
        r, c = min(op.cores)
        x, y = MARGIN + c * CELL_WIDTH + 5, MARGIN + r * CELL_HEIGHT + 16
        parts.append(f'<text x="{x}" y="{y}">{escape(_short(op.name))}</text>')
        if spent:
            parts.append(f'<text x="{x}" y="{y + 15}" class="small">{cycles[op.name]:,.0f}</text>')
    return _svg(MARGIN + columns * CELL_WIDTH + 4, MARGIN + rows * CELL_HEIGHT + 4, parts)


def _cell(row: int, column: int, kind: str, inner: str, more: str = "") -> str:
    x, y = MARGIN + column * CELL_WIDTH, MARGIN + row * CELL_HEIGHT
    return f'<rect x="{x}" y="{y}" width="{CELL_WIDTH - 3}" height="{CELL_HEIGHT - 3}" rx="4" class="{kind}" {more}>{inner}</rect>'


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}">{"".join(parts)}</svg>'


def graph_diagram(graph: NetGraph, netlist: Netlist) -> Diagram:
    """Ops of a graph, with the queues that they read and write."""
    nodes = {op.name: (op.name, op.type, "op") for op in graph.ops}
    lines: list[tuple[str, str, str]] = []
    for op in graph.ops:
        for number, name in enumerate(op.inputs):
            if name in netlist.queues:
                nodes[name] = (name, netlist.queues[name].type, "queue")
            elif name not in nodes:
                nodes[name] = (name, "another graph", "queue")
            lines.append((name, op.name, ", ".join(map(str, op.tms.get(number, ())))))
    for queue in netlist.queues.values():
        if any(op.name == queue.input for op in graph.ops):
            name = f"{queue.name} " if queue.name in nodes else queue.name  # read here and written here
            nodes[name] = (queue.name, queue.type, "queue")
            lines.append((queue.input, name, ", ".join(map(str, queue.input_tms))))
    return Diagram(nodes, tuple(lines))


def fused_diagram(fused: FusedOp) -> Diagram:
    """The steps of a fused op; labels say where a value is until it is read."""
    nodes = {f"input{n}": (f"input{n}", "", "queue") for n in range(fused.inputs)}
    holds = {name: name for name in nodes}
    lines: list[tuple[str, str, str]] = []
    for number, step in enumerate(fused.steps):
        name = f"{number} {step.name}"
        nodes[name] = (step.name, step.type, "op")
        for at, source in enumerate(step.inputs):
            tms = ", ".join(map(str, step.tms.get(at, ())))
            label = " ".join(filter(None, ("" if source.startswith("input") else source, tms)))
            lines.append((holds.get(source, source), name, label))
        holds[step.output] = name
    nodes["output"] = ("output", "", "queue")
    return Diagram(nodes, (*lines, (holds.get("output", ""), "output", "")))


def diagram_drawing(diagram: Diagram) -> str:
    """Nodes in columns, each right of all that it reads; a sentence instead if there are too many."""
    if len(diagram.nodes) > MOST_NODES:
        return f"<p>{len(diagram.nodes)} nodes, which are not drawn.</p>"
    lines = [line for line in diagram.lines if line[0] in diagram.nodes and line[1] in diagram.nodes]
    places, ways = _places(diagram.nodes, lines)
    parts: list[str] = []
    for (source, target, label), way in zip(lines, ways, strict=True):
        x, y = (places[source][0] + BOX_WIDTH, places[source][1] + BOX_HEIGHT // 2)
        path = f"M{x} {y}"
        for name in (*way, target):
            (to_x, to_y), middle = places[name], x + (places[name][0] - x) // 2
            to_y += BOX_HEIGHT // 2
            path += f"C{middle} {y} {middle} {to_y} {to_x} {to_y}"
            x, y = to_x, to_y
            if name != target:  # past the boxes of a column
                x += BOX_WIDTH
                path += f"H{x}"
        parts.append(f'<path d="{path}"><title>{escape(label)}</title></path>')
        if label:
            parts.append(f'<text x="{x - 3}" y="{y - 4}" class="label">{escape(_short(label, 16))}</text>')
    for name, (title, below, kind) in diagram.nodes.items():
        x, y = places[name]
        tip = f"<title>{escape(title)}: {escape(below)}</title>"
        box = f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" class="{kind}">{tip}</rect>'
        parts.append(f'{box}<text x="{x + 7}" y="{y + (14 if below else 21)}">{escape(_short(title, 18))}</text>')
        parts.append(f'<text x="{x + 7}" y="{y + 28}" class="small">{escape(_short(below, 20))}</text>' if below else "")
    width = max((x for x, _ in places.values()), default=0) + BOX_WIDTH + 4
    return _svg(width, max((y for _, y in places.values()), default=0) + BOX_HEIGHT + 4, parts)


def _places(
    nodes: Mapping[str, object], lines: Sequence[tuple[str, str, str]]
) -> tuple[dict[str, tuple[int, int]], list[list[str]]]:
    """Columns by the longest way from a node that reads nothing; in a column the order of what is read in those before. Lines over
    several columns have a place in each, whose names are the second result.
    """
    sources: dict[str, list[str]] = {name: [] for name in nodes}
    readers: dict[str, list[str]] = {name: [] for name in nodes}
    for source, target, _ in lines:
        sources[target].append(source)
        readers[source].append(target)
    column: dict[str, int] = {}
    for name in _ordered(sources):
        column[name] = max((column[source] + 1 for source in sources[name] if source in column), default=0)
    for name in nodes:  # what reads nothing stands beside its first reader
        if not sources[name] and readers[name]:
            column[name] = max(0, min(column[reader] for reader in readers[name]) - 1)
    before = dict(sources)
    ways: list[list[str]] = []
    for source, target, _ in lines:
        passed = [f"{source} past {number}" for number in range(column[source] + 1, column[target])]
        for last, name in zip([source, *passed], passed, strict=False):
            column[name], before[name] = column[source] + int(1 + passed.index(name)), [last]
        ways.append(passed)
        if passed:
            before[target] = [*(name for name in before[target] if name != source), passed[-1]]
    row: dict[str, int] = {}
    for number in range(max(column.values(), default=0) + 1):
        there = [name for name in column if column[name] == number]
        wanted = {name: _mean([row[source] for source in before[name] if source in row]) for name in there}
        row |= {name: at for at, name in enumerate(sorted(there, key=lambda name: wanted[name]))}
    step = BOX_WIDTH + BETWEEN_COLUMNS, BOX_HEIGHT + BETWEEN_ROWS
    return {name: (2 + column[name] * step[0], 2 + row[name] * step[1]) for name in column}, ways


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _ordered(sources: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Names behind all that they read; those in circles at the end."""
    left = dict.fromkeys(sources)
    while left:
        ready = [name for name in left if not any(source in left for source in sources[name])] or list(left)
        for name in ready:
            del left[name]
            yield name
