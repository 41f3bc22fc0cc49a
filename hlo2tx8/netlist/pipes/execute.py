"""Epochs run from their blobs: streams say which tiles a core gets and where its results go, kernels compute on what they get."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hlo2tx8.errors import ContainerError, NetlistRunError
from hlo2tx8.netlist.epochs import Epoch, Made, Segment
from hlo2tx8.netlist.evaluate import Rules, run_op
from hlo2tx8.netlist.formats import Array, Format
from hlo2tx8.netlist.infer import input_shape
from hlo2tx8.netlist.model import Op, Queue
from hlo2tx8.netlist.pipes.flow import stuck
from hlo2tx8.netlist.pipes.kernels import Intake, intake_of, is_elementwise, kept_of, turns_of
from hlo2tx8.netlist.pipes.model import Blob, Buffer, Stream, tiles_of_runs
from hlo2tx8.netlist.pipes.tile_maps import from_buffers, to_buffers
from hlo2tx8.netlist.shapes import TILE
from hlo2tx8.netlist.tensors import Tensor
from hlo2tx8.netlist.tms import Tm

TURNED = (Tm("transpose"),)
WHOLE_GRID = ("embedding",)
"""Ops whose kernels compute more than their core's share, which is cut out of it."""


@dataclass(frozen=True)
class _Given:
    """What an input of a core gets: tiles `at` of all buffers of `source`, and where `at` is negative a tile of `padding`.

    The source is "" if all are.
    """

    source: str
    at: Array
    padding: Array

    def of(self, tiles: Array) -> Array:
        """Those of all tiles of its source."""
        if not self.padding.size:
            return tiles[self.at]
        return np.where((self.at < 0)[:, None, None], self.padding[:, None, None], tiles[self.at]).astype(tiles.dtype)


@dataclass(frozen=True)
class _Stored:
    """Tiles `at` of the output of core `number` of an op go to `slots` of a queue's buffers."""

    op: str
    number: int
    queue: str
    at: Array
    slots: Array


@dataclass
class _Held:
    """Tiles [buffer, tile, 32, 32] of a queue's entry or of an op's output."""

    tiles: Array
    format: Format


@dataclass
class Streamed:
    """The backend that runs blobs, by the name of the temporal epoch. ContainerError for blobs that are not of the netlist."""

    rules: Rules
    blobs: Mapping[str, Sequence[Blob]]
    epochs: Sequence[Epoch]
    given: dict[tuple[str, int, int], _Given] = field(default_factory=dict[tuple[str, int, int], _Given])
    stored: dict[str, list[_Stored]] = field(default_factory=dict[str, list[_Stored]])
    intakes: dict[str, list[Intake]] = field(default_factory=dict[str, list[Intake]])

    def __post_init__(self) -> None:
        for epoch in self.epochs:
            sources: dict[str, Queue | Op] = {op.name: op for segment in epoch.segments for op in segment.ops}
            for segment in epoch.segments:
                sources |= segment.sources
            for op in (op for segment in epoch.segments for op in segment.ops):
                shapes = [input_shape(op, at, sources[name].shape) for at, name in enumerate(op.inputs)]
                self.intakes[op.name] = [intake_of(op, at, shape, self.rules.fused) for at, shape in enumerate(shapes)]
            try:
                self._load(epoch)
                self._check(epoch, sources)
            except (KeyError, IndexError, ValueError) as error:
                raise ContainerError("E1007", f"blobs of epoch {epoch.name}: contradict each other: {error}") from None

    def _load(self, epoch: Epoch) -> None:
        """Follow every stream of an epoch, which has to come to its end in the memory that there is."""
        if epoch.name not in self.blobs:
            raise ContainerError("E1007", f"there are no blobs of epoch {epoch.name}")
        blobs = self.blobs[epoch.name]
        ops = {op.name: op for segment in epoch.segments for op in segment.ops}
        if {(blob.op, blob.number) for blob in blobs} != {(op.name, at) for op in ops.values() for at in range(_cores(op))}:
            raise ContainerError("E1007", f"blobs of epoch {epoch.name}: are not those of its cores")
        turns = {name: turns_of(op, self.intakes[name], self.rules.fused) for name, op in ops.items()}
        if wait := stuck(blobs, turns):
            raise ContainerError("E1007", f"blobs of epoch {epoch.name}: {wait}")
        buffers = {buffer.id: buffer for blob in blobs for buffer in blob.buffers}
        streams = {stream.id: stream for blob in blobs for stream in blob.streams}
        for blob in blobs:
            for stream in blob.streams:
                if stream.kind == "receive":
                    own = buffers[stream.buffer]
                    given, uses = _followed(stream, streams, buffers), self.intakes[blob.op][own.operand].tiles
                    if len(given.at) == kept_of(ops[blob.op], own.operand):
                        given = _Given(
                            given.source, np.resize(given.at, uses), np.resize(given.padding, uses * bool(given.padding.size))
                        )
                    self.given[blob.op, blob.number, own.operand] = given
                elif stream.kind == "write":
                    queue, at = buffers[stream.to[0]], tiles_of_runs(stream.runs)[1]
                    slots = tiles_of_runs(stream.slots)[1] + queue.number * queue.input_tiles
                    self.stored.setdefault(blob.op, []).append(_Stored(blob.op, blob.number, queue.of, at, slots))

    def _check(self, epoch: Epoch, sources: Mapping[str, Queue | Op]) -> None:
        """ValueError for tiles of another tensor than an op reads or that there are not, and for entries with gaps."""
        for segment in epoch.segments:
            for op in segment.ops:
                for number, (name, intake) in enumerate(zip(op.inputs, self.intakes[op.name], strict=True)):
                    for core in range(_cores(op)):
                        given = self.given[op.name, core, number]
                        if (
                            given.source not in (name, "")
                            or len(given.at) != intake.tiles
                            or given.at.max() >= sources[name].shape.num_tiles
                        ):
                            raise ValueError(f"op {op.name} does not get the tiles of input {number}")
                for queue in segment.feeds.get(op.name, ()):
                    parts = [part for part in self.stored[op.name] if part.queue == queue.name]
                    slots = np.sort(np.concatenate([part.slots for part in parts]))
                    if not np.array_equal(slots, np.arange(queue.shape.num_tiles)):
                        raise ValueError(f"{queue.type} {queue.name} does not get every tile once")

    def run(self, segment: Segment, sources: Mapping[str, Tensor], before: Mapping[str, Array]) -> Made:
        """One input of a segment; see `compute` of golden."""
        given = {name: source for name, source in segment.sources.items() if name in sources}
        held = {name: _Held(to_buffers(given[name], sources[name].data), sources[name].format) for name in given}
        dims = {name: source.tile_dim for name, source in segment.sources.items()} | {op.name: op.tile_dim for op in segment.ops}
        wholes: dict[str, Tensor] = {}
        pushed: dict[str, Tensor] = {}
        for op in segment.ops:
            cores = range(_cores(op))
            groups = [cores] if self._is_even(op) else [range(core, core + 1) for core in cores]
            try:
                made = [self._compute(op, group, held, dims, before.get(op.name)) for group in groups]
            except ValueError as error:
                raise NetlistRunError(f"op {op.name}: {error}") from None
            held[op.name] = _Held(np.concatenate([tensor.data for tensor in made]), made[0].format)
            if op.gradient_op or op.name in segment.leaves:
                wholes[op.name] = Tensor(from_buffers(op, held[op.name].tiles), made[0].format)
            for queue in segment.feeds.get(op.name, ()):
                entry = np.zeros((queue.shape.num_tiles, TILE, TILE), held[op.name].tiles.dtype)
                for part in self.stored[op.name]:
                    if part.queue == queue.name:
                        entry[part.slots] = held[op.name].tiles[part.number, part.at]
                pushed[queue.name] = Tensor(from_buffers(queue, entry), made[0].format)
        sums = {op.name: wholes[op.name].data for op in segment.ops if op.gradient_op}
        return Made({name: wholes[name] for name in segment.leaves}, sums, pushed)

    def _is_even(self, op: Op) -> bool:
        """Does each z of the output depend on that z of the inputs only? Then cores are computed at once, one behind the other."""
        if is_elementwise(op, self.rules.fused):
            return True
        depths = {intake.depth for intake in self.intakes[op.name]}
        return op.type == "matmul" and not op.attributes.get("identity") and depths == {op.t}

    def _compute(
        self, op: Op, cores: Sequence[int], held: Mapping[str, _Held], dims: Mapping[str, tuple[int, int]], before: Array | None
    ) -> Tensor:
        """The tiles [core, n, 32, 32] that some cores make."""
        inputs: list[tuple[Tensor, tuple[int, int]]] = []
        turned: dict[int, tuple[Tm, ...]] = {}
        for number, (name, intake) in enumerate(zip(op.inputs, self.intakes[op.name], strict=True)):
            is_turned = sum(tm.name == "transpose" for tm in op.tms.get(number, ())) % 2 == 1
            if is_turned:
                turned[number] = TURNED
            source = held[name].tiles.reshape(-1, TILE, TILE)
            tiles = np.concatenate([self.given[op.name, core, number].of(source) for core in cores])
            inputs.append((Tensor(_arranged(tiles, intake, is_turned), held[name].format), dims[name]))
        alone = replace(op, grid_size=(1, 1), t=op.t * len(cores))
        attributes = {**op.attributes, "fracture_factor": 1} if op.attributes.get("identity") else op.attributes
        whole = op if op.type in WHOLE_GRID else alone
        local = replace(whole, tms=turned, pads={}, unpads={}, attributes=attributes)
        shares = None if before is None else np.concatenate([_cut(op, core, before) for core in cores])
        made = run_op(local, inputs, self.rules, shares)
        shared = made.data if len(cores) > 1 else _cut(op, cores[0], made.data)
        return Tensor(to_buffers(alone, shared).reshape(len(cores), -1, TILE, TILE), made.format)


def _cores(op: Op) -> int:
    return op.grid_size[0] * op.grid_size[1]


def _followed(stream: Stream, streams: Mapping[int, Stream], buffers: Mapping[int, Buffer]) -> _Given:
    """Where the tiles that a stream receives come from, through the streams that send them."""
    peers, positions = tiles_of_runs(stream.runs)
    sources, tiles = peers.copy(), positions.copy()
    for peer in np.unique(peers).tolist():
        if peer in streams:
            own = peers == peer
            through, sent = tiles_of_runs(streams[peer].runs)
            sources[own], tiles[own] = through[positions[own]], sent[positions[own]]
    used = {source: buffers[source] for source in np.unique(sources).tolist()}
    names = {buffer.of for buffer in used.values() if buffer.kind != "padding"}
    at, padding = np.full(len(tiles), -1), np.zeros(0)
    for source, buffer in used.items():
        own = sources == source
        if buffer.kind == "padding":
            padding = padding if padding.size else np.zeros(len(tiles))
            padding[own] = buffer.value
        else:
            at[own] = buffer.number * buffer.input_tiles + tiles[own]
    if len(names) > 1:
        raise ContainerError("E1007", f"stream {stream.id} brings tiles of {len(names)} tensors")
    return _Given(next(iter(names), ""), at, padding)


def _arranged(tiles: Array, intake: Intake, is_turned: bool) -> Array:
    """The tensor [z, rows, columns] that kernels see of tiles in the order they take them; turned, only the grid of tiles was."""
    rows, columns = intake.rows.shape[1], intake.columns.shape[1]
    local = np.empty_like(tiles).reshape(-1, intake.tiles, TILE, TILE)
    local[:, intake.order] = tiles.reshape(local.shape)
    blocks = local.reshape(-1, rows, columns, TILE, TILE)
    axes = (0, 2, 3, 1, 4) if is_turned else (0, 1, 3, 2, 4)
    high, wide = (columns, rows) if is_turned else (rows, columns)
    return np.ascontiguousarray(blocks.transpose(axes)).reshape(-1, high * TILE, wide * TILE)


def _cut(op: Op, core: int, data: Array) -> Array:
    """A core's share of what an op makes, of an array that may have more than that."""
    high, wide = (size * TILE for size in op.core_tiles)
    row, column = core // op.grid_size[1], core % op.grid_size[1]
    rows = slice(row * high, (row + 1) * high) if data.shape[1] > high else slice(None)
    columns = slice(column * wide, (column + 1) * wide) if data.shape[2] > wide else slice(None)
    return data[:, rows, columns]
