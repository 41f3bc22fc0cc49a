"""Buffers, pipes, streams and blobs, as frozen dataclasses of plain values: what the files of a temporal epoch hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from hlo2tx8.netlist.formats import Array

BufferKind: TypeAlias = Literal["queue", "padding", "input", "output", "intermediate"]
StreamKind: TypeAlias = Literal["read", "send", "receive", "write"]
OUTPUT = 255
"""The operand number of an op's output; intermediate buffers count on from 128."""
INTERMEDIATE = 128


class Core(NamedTuple):
    """A core of a device by its place on the grid."""

    device: int
    y: int
    x: int

    def __str__(self) -> str:
        return f"{self.device}-{self.y}-{self.x}"


class Run(NamedTuple):
    """Tiles of one source: `length` from `first`, then as many `step` further on, so often as `repeats` says."""

    source: int
    first: int
    length: int
    step: int = 0
    repeats: int = 1


@dataclass(frozen=True)
class Buffer:
    """Memory for tiles: of an op's operand on a core, in L1 at `address`; of a queue in DRAM or on the host; or a tile of padding.

    `of` is the op or queue, `number` which core or buffer of its grid. A buffer in L1 holds `tiles`, of which `input_tiles` come or
    go for each input and `unit` are freed at once; one of a queue has `tiles` for all entries, `input_tiles` in each. `channel` is
    the DRAM's, -1 the host. `value` fills a tile of padding.
    """

    id: int
    kind: BufferKind
    of: str
    number: int
    operand: int
    core: Core
    tile_bytes: int
    tiles: int
    input_tiles: int
    unit: int = 1
    address: int = 0
    channel: int = -1
    value: float = 0.0

    @property
    def bytes(self) -> int:
        return self.tiles * self.tile_bytes


@dataclass(frozen=True)
class Pipe:
    """Tiles that one or several buffers give and each of `targets` gets, in the order of `runs`, whose sources are buffers.

    To a queue's buffer a pipe brings a whole entry, and run by run the tiles' places in it are those of `slots`.
    """

    id: int
    targets: tuple[int, ...]
    runs: tuple[Run, ...]
    slots: tuple[Run, ...] = ()

    @property
    def kind(self) -> str:
        """What its sources and targets make it."""
        sources = len({run.source for run in self.runs})
        many = "gather" if sources > 1 else "scatter" if len(self.runs) > 1 or len(self.slots) > 1 else "unicast"
        return f"{many} multicast" if len(self.targets) > 1 and sources > 1 else "multicast" if len(self.targets) > 1 else many


@dataclass(frozen=True)
class PipeGraph:
    """The buffers and pipes of a temporal epoch."""

    epoch: int
    name: str
    arch: str
    buffers: tuple[Buffer, ...]
    pipes: tuple[Pipe, ...]


@dataclass(frozen=True)
class Stream:
    """One end of a pipe on a core.

    `read` takes tiles of a queue or of padding and `send` those of an output, to the streams `to`; `receive` gets what streams
    send, or reads by itself if its runs are of buffers; `write` puts tiles of an output into the queue's buffer `to`, at `slots`.
    Sources of runs: buffers, or of `receive` the streams that send, of whose tiles these come. Its memory has `tiles` at
    `address`. `noc` is the network that its tiles go by, of `receive` come by, 2 the ethernet, and `hops` the farthest way.
    """

    id: int
    kind: StreamKind
    pipe: int
    buffer: int
    address: int
    tiles: int
    tile_bytes: int
    noc: int
    hops: int
    to: tuple[int, ...]
    runs: tuple[Run, ...]
    slots: tuple[Run, ...] = ()


@dataclass(frozen=True)
class Blob:
    """All that one core is told of a temporal epoch. `buffers` are its own, then those elsewhere that it reads or writes."""

    epoch: int
    graph: str
    op: str
    core: Core
    number: int
    buffers: tuple[Buffer, ...]
    streams: tuple[Stream, ...]


def runs_of(sources: Array, tiles: Array) -> tuple[Run, ...]:
    """The runs of tiles that are these, one after the other."""
    if not len(tiles):
        return ()
    ends = np.flatnonzero((np.diff(tiles) != 1) | (np.diff(sources) != 0)) + 1
    starts = np.concatenate([[0], ends])
    counts = np.diff(np.concatenate([starts, [len(tiles)]]))
    found: list[Run] = []
    at = Run(-1, 0, 0)
    for source, first, count in zip(sources[starts].tolist(), tiles[starts].tolist(), counts.tolist(), strict=True):
        is_next = at.repeats == 1 or first == at.first + at.step * at.repeats
        if source == at.source and count == at.length and is_next:
            at = Run(source, at.first, count, first - at.first if at.repeats == 1 else at.step, at.repeats + 1)
            continue
        found.append(at)
        at = Run(source, first, count)
    return (*found[1:], at)


def tiles_of_runs(runs: Sequence[Run]) -> tuple[Array, Array]:
    """Sources and tiles; the inverse of `runs_of`."""
    none = np.zeros(0, np.int64)
    parts = [
        (np.arange(run.repeats)[:, None] * run.step + np.arange(run.first, run.first + run.length)).reshape(-1) for run in runs
    ]
    sources = np.repeat([run.source for run in runs], [len(part) for part in parts]) if runs else none
    return sources, np.concatenate([none, *parts])
