"""From a temporal epoch to buffers and pipes: which tile of which buffer goes to which core, in the order its kernel takes them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hlo2tx8.netlist.epochs import Epoch
from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.model import FusedOp, NetGraph, Op, Queue
from hlo2tx8.netlist.pipes.arch import ETHERNET, KIB, Arch
from hlo2tx8.netlist.pipes.kernels import Intake, intake_of, kept_of
from hlo2tx8.netlist.pipes.model import INTERMEDIATE, OUTPUT, Buffer, Core, Pipe, PipeGraph, runs_of
from hlo2tx8.netlist.pipes.result import BackendError, StreamFailure
from hlo2tx8.netlist.pipes.tile_maps import numbers_after, places
from hlo2tx8.netlist.shapes import Shape
from hlo2tx8.netlist.tms import apply_tms

LATENCY_BYTES = 32 * KIB
"""Of an input buffer, that a core does not wait for the network."""


@dataclass
class _Builder:
    epoch: Epoch
    number: int
    arch: Arch
    fused: Mapping[str, FusedOp]
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    pipes: list[Pipe] = field(default_factory=list[Pipe])
    held: dict[str, list[Buffer]] = field(
        default_factory=dict[str, list[Buffer]]
    )  # of a queue or an op's output, in order of its grid
    ids: int = 0

    def next_id(self) -> int:
        self.ids += 1
        return self.ids - 1

    def add(self, **fields: object) -> Buffer:
        self.buffers.append(Buffer(id=self.next_id(), **fields))  # pyright: ignore[reportArgumentType]
        return self.buffers[-1]


def net2pipe(epoch: Epoch, number: int, arch: Arch, fused: Mapping[str, FusedOp]) -> PipeGraph:
    """The pipes of the temporal epoch of that number. BackendError names what has no place."""
    builder = _Builder(epoch, number, arch, fused)
    graph_of = {op.name: graph for graph in epoch.graphs for op in graph.ops}
    ops = [op for segment in epoch.segments for op in segment.ops]
    for queue in {queue.name: queue for queue in _queues(epoch)}.values():
        builder.held[queue.name] = list(_queue_buffers(builder, queue))
    intakes: dict[str, list[Intake]] = {}
    sources: dict[str, Queue | Op] = {queue.name: queue for queue in _queues(epoch)} | {op.name: op for op in ops}
    links = 0
    for op in ops:
        cores = cores_of(op, graph_of[op.name], arch, links, number)
        links += len(cores) * (op.type == "ethernet_datacopy")
        builder.held[op.name] = [_output(builder, op, at, core) for at, core in enumerate(cores)]
        for core, at in zip(cores, range(len(cores)), strict=True):
            _intermediates(builder, op, at, core)
    for op in ops:
        graph = graph_of[op.name]
        try:
            for place, name in enumerate(op.inputs):
                intakes.setdefault(op.name, []).append(_connect(builder, op, place, sources[name]))
        except ValueError as error:
            raise BackendError(StreamFailure("Net2Pipe", f"op {op.name}: {error}", number, graph.name, op.name)) from None
    for segment in epoch.segments:
        for name, queues in segment.feeds.items():
            for queue in queues:
                _store(builder, sources[name], queue)
    return PipeGraph(number, epoch.name, arch.name, tuple(builder.buffers), tuple(builder.pipes))


def _queues(epoch: Epoch) -> Iterator[Queue]:
    for segment in epoch.segments:
        yield from (source for source in segment.sources.values() if isinstance(source, Queue))
        for queues in segment.feeds.values():
            yield from queues


def cores_of(op: Op, graph: NetGraph, arch: Arch, links: int, epoch: int) -> list[Core]:
    """The cores of an op in the order of its grid. Ops of the ethernet have a row of their own, in which `links` are taken."""
    assert isinstance(graph.target_device, int)
    (rows, columns), device = op.grid_size, graph.target_device
    if op.buf_size_mb > 1 and op.buf_size_mb % 2:
        message = f"op {op.name}: buf_size_mb {op.buf_size_mb} is odd, and no double buffer"
        raise BackendError(StreamFailure("Net2Pipe", message, epoch, graph.name, op.name))
    if op.type == "ethernet_datacopy":
        return [Core(device, ETHERNET, links + n) for n in range(rows * columns)]
    y, x = op.grid_loc
    cores = [
        Core(device, y + (c if op.grid_transpose else r), x + (r if op.grid_transpose else c))
        for r in range(rows)
        for c in range(columns)
    ]
    for core in cores:
        if core.y >= len(arch.rows) or core.x >= len(arch.columns):
            message = f"op {op.name}: core [{core.y}, {core.x}] is not on the grid of {len(arch.rows)}x{len(arch.columns)}"
            raise BackendError(StreamFailure("Net2Pipe", message, epoch, graph.name, op.name, core=core))
    return cores


def _queue_buffers(builder: _Builder, queue: Queue) -> Iterator[Buffer]:
    assert isinstance(queue.target_device, int)
    size = builder.arch.tile_bytes(queue.df, queue.tile_dim, header=not queue.is_flat)
    tiles = queue.t * queue.core_tiles[0] * queue.core_tiles[1]
    for number, address in enumerate(queue.addresses):
        channel, at = address if isinstance(address, tuple) else (-1, address)
        channel = channel if queue.loc == "dram" else -1
        if channel >= len(builder.arch.dram):
            message = f"{queue.type} {queue.name}: there is no DRAM channel {channel} of {len(builder.arch.dram)}"
            raise BackendError(StreamFailure("Net2Pipe", message, builder.number, builder.epoch.graphs[0].name, queue.name))
        core = Core(queue.target_device, 0, 0)
        yield builder.add(
            kind="queue", of=queue.name, number=number, operand=0, core=core, tile_bytes=size, tiles=tiles * queue.entries,
            input_tiles=tiles, address=at, channel=channel,
        )  # fmt: skip


def _output(builder: _Builder, op: Op, number: int, core: Core) -> Buffer:
    block = op.core_tiles[0] * op.core_tiles[1]
    size = builder.arch.tile_bytes(op.out_df, op.tile_dim, header=not op.untilize_output)
    return builder.add(
        kind="output", of=op.name, number=number, operand=OUTPUT, core=core, tile_bytes=size, tiles=max(1, op.buf_size_mb) * block,
        input_tiles=op.t * block, unit=op.ublock[0] * op.ublock[1],
    )  # fmt: skip


def _intermediates(builder: _Builder, op: Op, number: int, core: Core) -> None:
    """Partial sums that are not kept in the output's own format and place, and what a fused op holds between steps."""
    size = builder.arch.tile_bytes(op.intermed_df, op.tile_dim)
    sizes: dict[str, int] = {}
    if op.type == "fused_op":
        schedules = builder.fused[op.attributes["fused_op_id"]].schedules
        for at, schedule in enumerate(schedules):
            later = {name for other in schedules[at + 1 :] for step in other for name in step.inputs}
            for step in schedule:
                if step.output.startswith("intermed"):
                    ublock = step.ublock[0] * step.ublock[1]
                    is_block = step.output in later or step.type in ("matmul", "reduce")
                    tiles = step.mblock[0] * step.mblock[1] * ublock if is_block else 2 * ublock
                    sizes[step.output] = max(tiles, sizes.get(step.output, 0))
    elif (op.gradient_op or op.attributes.get("m_k", 1) > 1) and op.intermed_df != op.out_df:
        sizes["sums"] = op.core_tiles[0] * op.core_tiles[1]
    for at, tiles in enumerate(sizes.values()):
        builder.add(
            kind="intermediate", of=op.name, number=number, operand=INTERMEDIATE + at, core=core, tile_bytes=size, tiles=tiles,
            input_tiles=0,
        )  # fmt: skip


def _connect(builder: _Builder, op: Op, place: int, source: Queue | Op) -> Intake:
    """The input buffers of an operand and the pipes to them: cores that take the same tiles in the same order share one."""
    shape = source.shape
    numbers, values = numbers_after(op, place, shape)
    intake = intake_of(op, place, Shape(*numbers.shape), builder.fused)
    given = builder.held[source.name]
    taken, unit, kept = taken_by(intake, numbers, op.grid_size), intake.unit, kept_of(op, place)
    if kept and intake.tiles % kept == 0 and (taken.reshape(len(taken), -1, kept) == taken[:, None, :kept]).all():
        taken, unit = np.ascontiguousarray(taken[:, :kept]), kept
    format = source.df if isinstance(source, Queue) else source.out_df
    has_header = not (isinstance(source, Queue) and source.is_flat)
    size = builder.arch.tile_bytes(format, source.tile_dim, header=has_header)
    tiles = _capacity(op, place, unit, size)
    cores = [buffer.core for buffer in builder.held[op.name]]
    targets = [
        builder.add(
            kind="input", of=op.name, number=at, operand=place, core=core, tile_bytes=size, tiles=tiles, input_tiles=taken.shape[1],
            unit=unit,
        )
        for at, core in enumerate(cores)
    ]  # fmt: skip
    paddings = [
        builder.add(
            kind="padding", of=op.name, number=at, operand=place, core=cores[0], tile_bytes=size, tiles=1, input_tiles=1,
            value=value,
        )
        for at, value in enumerate(values)
    ]  # fmt: skip
    where, per_buffer = places(source).reshape(-1), shape.num_tiles // len(given)
    ids = np.array([*(buffer.id for buffer in given), *(buffer.id for buffer in reversed(paddings))])
    groups: dict[bytes, list[int]] = {}
    for at, row in enumerate(taken):
        groups.setdefault(row.tobytes(), []).append(at)
    for members in groups.values():
        row = taken[members[0]]
        at = np.where(row < 0, 0, where[row])
        runs = runs_of(ids[np.where(row < 0, row, at // per_buffer)], np.where(row < 0, 0, at % per_buffer))
        for part in rectangles(members, op.grid_size):
            builder.pipes.append(Pipe(builder.next_id(), tuple(targets[core].id for core in part), runs))
    return intake


def taken_by(intake: Intake, numbers: Array, grid: tuple[int, int]) -> Array:
    """[core, n]: the tiles that each core of a grid takes, by the numbers that they have in a source."""
    found = [numbers[:, rows][:, :, columns].reshape(-1)[intake.order] for rows in intake.rows for columns in intake.columns]
    return np.ascontiguousarray(found)


def rectangles(members: Sequence[int], grid: tuple[int, int]) -> Iterator[tuple[int, ...]]:
    """Cores of a grid as rectangles, which the network can multicast to."""
    rows: dict[tuple[int, ...], list[int]] = {}
    for r in range(grid[0]):
        columns = tuple(at % grid[1] for at in members if at // grid[1] == r)
        part: list[int] = []
        for column in columns:
            if part and column != part[-1] + 1:
                rows.setdefault(tuple(part), []).append(r)
                part = []
            part.append(column)
        if part:
            rows.setdefault(tuple(part), []).append(r)
    for columns, at in rows.items():
        starts = [n for n in range(len(at)) if n == 0 or at[n] != at[n - 1] + 1]
        for first, end in zip(starts, [*starts[1:], len(at)], strict=True):
            yield tuple(r * grid[1] + c for r in at[first:end] for c in columns)


def _capacity(op: Op, place: int, unit: int, size: int) -> int:
    """Tiles of an input buffer: two units, what hides the latency of the network, and what the netlist asks for."""
    asked = op.input_buf_min_size_tiles[place] if place < len(op.input_buf_min_size_tiles) else 0
    inputs = len(op.inputs)
    bytes = KIB if op.type == "ethernet_datacopy" else LATENCY_BYTES * min(3, inputs) // inputs
    is_kept = kept_of(op, place) or (op.attributes.get("identity") and place in (0, 2))
    least = max(2 * unit, asked, 0 if is_kept else bytes // size)
    return -(-least // unit) * unit


def _store(builder: _Builder, op: Queue | Op, queue: Queue) -> None:
    """A pipe for each buffer of a queue, from all cores that make tiles of it, in the order they make them."""
    assert isinstance(op, Op)
    tiles = np.arange(op.shape.num_tiles).reshape(op.shape.z, op.shape.rt, op.shape.ct)
    made, given = apply_tms(queue.input_tms, tiles), builder.held[op.name]
    stored = np.empty(made.size, np.int64)
    stored[places(queue).reshape(-1)] = places(op).reshape(-1)[made.reshape(-1)]
    per_buffer, ids = op.shape.num_tiles // len(given), np.array([buffer.id for buffer in given])
    for buffer, at in zip(builder.held[queue.name], stored.reshape(len(builder.held[queue.name]), -1), strict=True):
        order = np.lexsort((at // per_buffer, at % per_buffer))
        at = at[order]
        runs, slots = runs_of(ids[at // per_buffer], at % per_buffer), runs_of(np.zeros_like(order), order)
        builder.pipes.append(Pipe(builder.next_id(), (buffer.id,), runs, slots))
