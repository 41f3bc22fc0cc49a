"""Do the streams of a temporal epoch come to their end? Tiles, by their numbers, go through them with the memory that there is.

Kernels, streams and buffers are a network of processes that wait for tiles or for room and for nothing else, so that whether all of
them end does not depend on which goes on first; and as all buffers are empty at the end of an input, one input says it for all.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.pipes.kernels import Turn
from hlo2tx8.netlist.pipes.model import Blob, Buffer, Core, Stream, tiles_of_runs


@dataclass
class _Memory:
    """A buffer that is filled in order: `made` tiles were put, those before `freed` are gone."""

    tiles: int
    what: str
    made: int = 0
    freed: int = 0

    @property
    def room(self) -> int:
        return self.tiles - self.made + self.freed


@dataclass(eq=False)
class _Reader:
    """What takes tiles of an output, at `at` of its sequence; `least[at]` is the first tile that it still needs."""

    tiles: Array
    most: Array
    least: Array
    at: int = 0

    @classmethod
    def of(cls, tiles: Array) -> "_Reader":
        least = np.minimum.accumulate(tiles[::-1])[::-1] if len(tiles) else tiles
        return cls(tiles, np.maximum.accumulate(tiles) if len(tiles) else tiles, np.append(least, np.iinfo(np.int64).max))

    def ready(self, made: int) -> int:
        """How many tiles from here on are there."""
        return int(np.searchsorted(self.most, made)) - self.at


@dataclass
class _Moves:
    """A pipe: the sequence of its tiles goes from memories of outputs, or of what reads DRAM, to those of inputs."""

    name: str
    sources: Sequence[tuple[_Memory, _Reader] | None]
    spans: Sequence[tuple[int, int]]  # (source, count), in order
    targets: Sequence[_Memory]
    at: int = 0
    gone: int = 0

    def step(self) -> bool:
        """Go on as far as possible; has anything moved?"""
        has_moved = False
        while self.at < len(self.spans):
            number, count = self.spans[self.at]
            source = self.sources[number]
            able = min(count - self.gone, *(target.room for target in self.targets)) if self.targets else count - self.gone
            if source is not None:
                able = min(able, source[1].ready(source[0].made))
                source[1].at += able
            for target in self.targets:
                target.made += able
            self.gone += able
            has_moved |= able > 0
            if self.gone < count:
                break
            self.at, self.gone = self.at + 1, 0
        return has_moved

    def waits_for(self) -> Iterator[tuple[_Memory, bool]]:
        """Memories that have no room (True) or not the tiles (False) to go on."""
        if self.at < len(self.spans):
            source = self.sources[self.spans[self.at][0]]
            if source is not None and not source[1].ready(source[0].made):
                yield source[0], False
            yield from ((target, True) for target in self.targets if not target.room)

    def holds(self, memory: _Memory) -> bool:
        """Does it still need the first tile of a memory?"""
        return any(own is memory and reader.least[reader.at] <= memory.freed for own, reader in filter(None, self.sources))


@dataclass
class _Kernel:
    """An op on a core: takes units of its inputs as its turns say, then makes tiles of output."""

    name: str
    turns: deque[Turn]
    inputs: Sequence[_Memory]
    units: Sequence[int]
    output: _Memory
    readers: Sequence[_Reader]
    left: list[int] = field(default_factory=list[int])
    to_make: int = 0

    def _free(self) -> None:
        """Tiles of the output that nobody needs are gone."""
        least = min((int(reader.least[reader.at]) for reader in self.readers), default=self.output.made)
        self.output.freed = min(least, self.output.made)

    def step(self) -> bool:
        """Go on as far as possible; has anything moved?"""
        has_moved = False
        while True:
            self._free()
            if self.to_make:
                able = min(self.to_make, self.output.room)
                self.output.made += able
                self.to_make -= able
                has_moved |= able > 0
                if self.to_make:
                    return has_moved
                continue
            if not self.left:
                if not self.turns:
                    return has_moved
                self.left = list(self.turns[0].units)
            for number, (memory, unit) in enumerate(zip(self.inputs, self.units, strict=True)):
                able = min(self.left[number], (memory.made - memory.freed) // unit)
                memory.freed += able * unit
                self.left[number] -= able
                has_moved |= able > 0
            if any(self.left):
                return has_moved
            turn = self.turns.popleft()
            self.to_make, self.left = turn.made, []
            if turn.repeats > 1:
                self.turns.appendleft(replace(turn, repeats=turn.repeats - 1))
            has_moved = True

    def waits_for(self) -> Iterator[tuple[_Memory, bool]]:
        """As of a pipe."""
        if self.to_make and not self.output.room:
            yield self.output, True
        yield from ((memory, False) for memory, left in zip(self.inputs, self.left, strict=False) if left)

    def holds(self, memory: _Memory) -> bool:
        """Is it an input of its?"""
        return any(own is memory for own in self.inputs)


def stuck(blobs: Sequence[Blob], turns: Mapping[str, Sequence[Turn]]) -> str:
    """What waits for what for ever if the streams of an epoch run; "" if all come to an end. `turns` are those of each op."""
    processes = list(_processes(blobs, turns))
    while sum(process.step() for process in processes):
        pass
    return _cycle(processes)


def _processes(blobs: Sequence[Blob], turns: Mapping[str, Sequence[Turn]]) -> Iterator[_Moves | _Kernel]:
    buffers: dict[int, Buffer] = {buffer.id: buffer for blob in blobs for buffer in blob.buffers}
    streams: dict[int, tuple[Stream, Core]] = {stream.id: (stream, blob.core) for blob in blobs for stream in blob.streams}
    memory = {
        buffer.id: _Memory(
            buffer.tiles, f"{'input ' + str(buffer.operand) if buffer.kind == 'input' else 'the output'} of op {buffer.of}"
        )
        for buffer in buffers.values()
    }
    readers: dict[int, list[_Reader]] = defaultdict(list)
    reads: dict[int, tuple[_Memory, _Reader]] = {}
    for stream, _ in streams.values():
        if stream.kind in ("send", "write"):
            reader = _Reader.of(tiles_of_runs(stream.runs)[1])
            readers[stream.buffer].append(reader)
            reads[stream.id] = memory[stream.buffer], reader
            if stream.kind == "write":
                yield _Moves(f"stream {stream.id}", [reads[stream.id]], [(0, len(reader.tiles))], [])
    groups: dict[int, list[Stream]] = defaultdict(list)
    for stream, _ in streams.values():
        if stream.kind == "receive":
            groups[stream.pipe].append(stream)
    for (
        group
    ) in groups.values():  # what is read from DRAM for several cores goes to them as they have room: it waits for nothing else
        sources = [run.source for run in group[0].runs]
        numbers = {source: at for at, source in enumerate(dict.fromkeys(sources))}
        spans = [(numbers[run.source], run.length * run.repeats) for run in group[0].runs]
        yield _Moves(
            f"pipe {group[0].pipe}", [reads.get(source) for source in numbers], spans, [memory[stream.buffer] for stream in group]
        )
    for blob in blobs:
        own = {buffer.operand: buffer for buffer in blob.buffers if buffer.kind in ("input", "output")}
        output = next(buffer for buffer in own.values() if buffer.kind == "output")
        inputs = [own[operand] for operand in sorted(own) if own[operand].kind == "input"]
        yield _Kernel(
            f"op {blob.op}",
            _turns(turns[blob.op], inputs),
            [memory[buffer.id] for buffer in inputs],
            [buffer.unit for buffer in inputs],
            memory[output.id],
            readers[output.id],
        )


def _turns(turns: Sequence[Turn], inputs: Sequence[Buffer]) -> deque[Turn]:
    """What a kernel does; what it keeps, so that less comes than it uses, it takes in its first turn."""
    found = deque(turn for turn in turns if turn.repeats)
    comes = [buffer.input_tiles // buffer.unit for buffer in inputs]
    uses = [sum(turn.repeats * turn.units[at] for turn in found) for at in range(len(inputs))]
    if not found or comes == uses:
        return found
    kept = [come != use for come, use in zip(comes, uses, strict=True)]
    later = deque(replace(turn, units=tuple(0 if k else n for n, k in zip(turn.units, kept, strict=True))) for turn in found)
    first = replace(later[0], repeats=1, units=tuple(c if k else n for c, n, k in zip(comes, later[0].units, kept, strict=True)))
    later[0] = replace(later[0], repeats=later[0].repeats - 1)
    return deque([first, *(turn for turn in later if turn.repeats)])


def _cycle(processes: Sequence[_Moves | _Kernel]) -> str:
    """What processes wait for, in a circle, if there is one; "" if none waits."""
    fills: dict[int, _Moves | _Kernel] = {}
    for process in processes:
        for memory in [process.output] if isinstance(process, _Kernel) else process.targets:
            fills[id(memory)] = process
    waiting = [process for process in processes if any(True for _ in process.waits_for())]
    seen: list[str] = []
    at = waiting[0] if waiting else None
    while at is not None and (wait := next(at.waits_for(), None)) is not None:
        memory, wants_room = wait
        text = f"{'room' if wants_room else 'tiles'} in {memory.what}"
        if text in seen:
            return "waits for " + ", which waits for ".join(seen[seen.index(text) :])
        seen.append(text)
        at = next((other for other in waiting if other.holds(memory)), None) if wants_room else fills.get(id(memory))
    return "waits for " + ", which waits for ".join(seen) if seen else ""
