"""A netlist as a text picture: which op sits on which cores, what flows where, what a fused op does step by step."""

import string
from collections.abc import Iterator, Mapping

from hlo2tx8.netlist.instances import devices_of
from hlo2tx8.netlist.instructions import Program
from hlo2tx8.netlist.model import NetGraph, Netlist, Op, Queue, ScheduledOp
from hlo2tx8.netlist.shapes import FULL_TILE, Blocked
from hlo2tx8.netlist.writer import instruction_text

MARKS = string.ascii_uppercase + string.ascii_lowercase + string.digits


def show_netlist(netlist: Netlist) -> str:
    """Queues, every graph on the grid of its device, fused ops and programs."""
    return "\n".join(_lines(netlist)) + "\n"


def _lines(netlist: Netlist) -> Iterator[str]:
    yield f"devices: {' or '.join(netlist.devices.arches)}"
    yield from ("", "queues")
    yield from _columns([_queue(queue, netlist) for queue in netlist.queues.values()])
    for graph in netlist.graphs.values():
        devices = ", ".join(map(str, devices_of(graph.target_device)))
        yield from (
            "",
            f"graph {graph.name}: device {devices}, {graph.input_count} input{'s' * (graph.input_count != 1)} an execution",
        )
        marks = {op.name: MARKS[number % len(MARKS)] for number, op in enumerate(op for op in graph.ops if op.cores)}
        yield from _grid(graph, marks)
        yield from _columns([_op(op, marks, netlist) for op in graph.ops])
    for fused in netlist.fused_ops.values():
        yield from ("", f"fused op {fused.name}: {fused.inputs} inputs, {fused.intermediates} intermediate buffers")
        yield from _columns([row for number, schedule in enumerate(fused.schedules) for row in _schedule(number, schedule)])
    for program in netlist.programs:
        yield from ("", f"program {program.name}")
        yield from (f"  {text}" for text in program_lines(program))


def program_lines(program: Program) -> list[str]:
    """The instructions of a program, those in loops further to the right."""
    lines: list[str] = []
    depth = 0
    for instruction in program.instructions:
        text = instruction_text(instruction)
        depth -= text == "endloop"
        lines.append("  " * max(depth, 0) + text)
        depth += text.startswith("loop:")
    return lines


def map_of(graph: NetGraph) -> str:
    """The ops of a graph on the grid, and for each its cores, how its output is blocked, and its formats."""
    marks = {op.name: MARKS[number % len(MARKS)] for number, op in enumerate(op for op in graph.ops if op.cores)}
    devices = ", ".join(map(str, devices_of(graph.target_device)))
    head = ["", "op", "type", "cores", "grid", "t", "mblock", "ublock", "buffer", "formats", "accumulates", "fidelity"]
    lines = [f"graph {graph.name}: device {devices}", *_grid(graph, marks)]
    return "\n".join([*lines, *_columns([head, *(_placed(op, marks) for op in graph.ops)])]) + "\n"


def _placed(op: Op, marks: Mapping[str, str]) -> list[str]:
    first, last = (min(op.cores), max(op.cores)) if op.cores else ((), ())
    cores = f"{list(first)} to {list(last)}" if len(op.cores) > 1 else str(list(first)) if op.cores else "none"
    sizes = [f"{rows}x{columns}" for rows, columns in (op.grid_size, op.mblock, op.ublock)]
    grid = sizes[0] + " transposed" * op.grid_transpose
    formats = f"{', '.join(format.name for format in op.in_df)} -> {op.out_df.name}"
    place = [marks.get(op.name, "-"), op.name, op.type, cores, grid, str(op.t), sizes[1], f"{sizes[2]} {op.ublock_order}"]
    return [*place, f"{op.buf_size_mb}", formats, f"{op.intermed_df.name}, {op.acc_df.name}", op.math_fidelity]


def _columns(rows: list[list[str]]) -> Iterator[str]:
    """Rows with their parts below each other."""
    widths = [max((len(row[at]) for row in rows if at < len(row)), default=0) for at in range(max(map(len, rows), default=0))]
    for row in rows:
        yield "  " + "  ".join(part.ljust(width) for part, width in zip(row, widths, strict=False)).rstrip()


def blocks_text(of: Blocked) -> str:
    """t x rows x columns in elements, and the grid it is split over."""
    shape = "x".join(map(str, of.host_shape))
    return f"[{shape}] on {of.grid_size[0]}x{of.grid_size[1]}" + (
        "" if of.tile_dim == FULL_TILE else f" tiles {of.tile_dim[0]}x{of.tile_dim[1]}"
    )


def _queue(queue: Queue, netlist: Netlist) -> list[str]:
    readers = [op.name for graph in netlist.graphs.values() for op in graph.ops if queue.name in op.inputs]
    flow = f"{queue.input} -> {', '.join(readers) or 'host'}"
    tms = f"({', '.join(map(str, queue.input_tms))})" if queue.input_tms else ""
    alias = f"alias {queue.alias}" if queue.alias else ""
    return [
        queue.name,
        f"{queue.type} x{queue.entries}",
        blocks_text(queue),
        queue.df.name,
        " ".join(filter(None, (flow, tms, alias))),
    ]


def _grid(graph: NetGraph, marks: Mapping[str, str]) -> Iterator[str]:
    """A letter for each core that is used."""
    at = {core: marks[op.name] for op in graph.ops for core in op.cores}
    if not at:
        return
    columns = max(column for _, column in at) + 1
    if columns > len(MARKS) or max(row for row, _ in at) > len(MARKS):
        return
    yield "     " + " ".join(str(column % 10) for column in range(columns))
    for row in range(max(row for row, _ in at) + 1):
        yield f"  {row:2} " + " ".join(at.get((row, column), ".") for column in range(columns))


def _op(op: Op, marks: Mapping[str, str], netlist: Netlist) -> list[str]:
    parts: list[str] = []
    for number, name in enumerate(op.inputs):
        steps = [f"unpad {p.rt} {p.ct}" for p in (op.unpads.get(number),) if p]
        steps += [str(tm) for tm in op.tms.get(number, ())]
        steps += [f"pad {p.rt} {p.ct} {p.pad_value:g}" for p in (op.pads.get(number),) if p]
        parts.append(f"{name} ({', '.join(steps)})" if steps else name)
    outs = [queue.name for queue in netlist.queues.values() if queue.input == op.name]
    kind = f"fused {op.attributes['fused_op_id']}" if op.type == "fused_op" else op.type
    flow = f"{', '.join(parts)}" + (f" -> {', '.join(outs)}" if outs else "")
    return [marks.get(op.name, "-"), op.name, kind, blocks_text(op), op.out_df.name, flow]


def _schedule(number: int, schedule: tuple[ScheduledOp, ...]) -> Iterator[list[str]]:
    for step in schedule:
        parts = [
            f"{name} ({', '.join(map(str, step.tms[at]))})" if step.tms.get(at) else name for at, name in enumerate(step.inputs)
        ]
        yield [
            str(number),
            step.name,
            f"{step.output} = {step.type}({', '.join(parts)})",
            f"pops {', '.join(step.pops)}" if step.pops else "",
        ]
