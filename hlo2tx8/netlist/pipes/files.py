"""Pipes and blobs as files: YAML, of which each record is a line, and for blobs a binary layout; see docs/streams.md.

Reading executes nothing and believes nothing: sizes and numbers are checked before anything is made of them.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import numpy as np
import yaml

from hlo2tx8.errors import ContainerError, writing
from hlo2tx8.netlist.pipes.loops import MOST_RUNS, RunLoop, looped, unlooped
from hlo2tx8.netlist.pipes.model import OUTPUT, Blob, Buffer, BufferKind, Core, PipeGraph, Run, Stream, StreamKind
from hlo2tx8.runtime.typed import typed

FORMAT_VERSION = 2
"""Of files with loops; others are of version 1."""
MAGIC = b"TX8B"
PIPES = "pipes.yaml"
MOST_BYTES = 1 << 28
MOST_TILES = 1 << 26
"""That the runs of one stream may name."""
T = TypeVar("T", Blob, PipeGraph)

HEADER_FIELDS = "magic:S4 version:u2 device:u2 bytes:u4 crc32:u4 y:u2 x:u2 epoch:u4 number:u4 graph:u4 op:u4"
COUNT_FIELDS = "names:u4 name_bytes:u4 buffers:u4 streams:u4 targets:u4 runs:u4"
BUFFER_FIELDS = (
    "kind:u1 operand:u1 device:u2 y:u2 x:u2 id:u4 of:u4 number:u4 tile_bytes:u4 input_tiles:u4 unit:u4 channel:i4 reserved:u4"
    " tiles:u8 address:u8 value:f8"
)
STREAM_FIELDS = "kind:u1 noc:u1 hops:u2 id:u4 pipe:u4 buffer:u4 address:u4 tiles:u4 tile_bytes:u4 targets:u4 runs:u4 slots:u4"


def _record(text: str) -> np.dtype[Any]:
    return np.dtype([(name, kind if kind[0] == "S" else f"<{kind}") for name, kind in (part.split(":") for part in text.split())])


HEADER, BUFFER, STREAM = _record(f"{HEADER_FIELDS} {COUNT_FIELDS}"), _record(BUFFER_FIELDS), _record(STREAM_FIELDS)
RUN_FIELDS = "source:u4 first:u4 length:u4 step:i4 repeats:u4"
RUN, LOOPED, TARGET = _record(RUN_FIELDS), _record(f"{RUN_FIELDS} shift:i4 group:u4 turns:u4"), _record("id:u4")
_KINDS, _STREAM_KINDS = get_args(BufferKind), get_args(StreamKind)


def _packed(kind: np.dtype[Any], rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Records one after the other; OverflowError for a number that has no room."""
    return np.array([tuple(row[name] for name in kind.names or ()) for row in rows], kind).tobytes()


def encode(blob: Blob) -> bytes:
    """The binary file of a blob. ValueError for numbers that have no room in it."""
    names = list(dict.fromkeys([blob.graph, blob.op, *(buffer.of for buffer in blob.buffers)]))
    text = b"".join(len(data := name.encode()).to_bytes(2, "little") + data for name in names)
    text += b"\0" * (-len(text) % 4)
    buffers = [
        {**vars(b), **b.core._asdict(), "kind": _KINDS.index(b.kind), "of": names.index(b.of), "reserved": 0} for b in blob.buffers
    ]
    lists = [[list(map(Run._asdict, runs)) for runs in (stream.runs, stream.slots)] for stream in blob.streams]
    loops = [[_loop_rows(looped(runs)) for runs in (stream.runs, stream.slots)] for stream in blob.streams]
    counts = [sum(len(part) for pair in rows for part in pair) for rows in (loops, lists)]
    version = 2 if counts[0] * LOOPED.itemsize < counts[1] * RUN.itemsize else 1
    kind, lists = (LOOPED, loops) if version == 2 else (RUN, lists)
    streams = [
        {**vars(s), "kind": _STREAM_KINDS.index(s.kind), "targets": len(s.to), "runs": len(runs), "slots": len(slots)}
        for s, (runs, slots) in zip(blob.streams, lists, strict=True)
    ]
    targets = [{"id": to} for stream in blob.streams for to in stream.to]
    rows = [row for pair in lists for part in pair for row in part]
    parts = {BUFFER: buffers, STREAM: streams, TARGET: targets, kind: rows}
    try:
        body = text + b"".join(_packed(kind, rows) for kind, rows in parts.items())
        head = {
            **vars(blob),
            **blob.core._asdict(),
            "magic": MAGIC,
            "version": version,
            "graph": 0,
            "op": names.index(blob.op),
        }
        head |= {"bytes": HEADER.itemsize + len(body), "crc32": zlib.crc32(body), "names": len(names), "name_bytes": len(text)}
        head |= {"buffers": len(buffers), "streams": len(streams), "targets": len(targets), "runs": len(rows)}
        return _packed(HEADER, [head]) + body
    except OverflowError as error:
        raise ValueError(str(error)) from None


def _loop_rows(loops: Sequence[RunLoop]) -> list[dict[str, int]]:
    """Runs with how far each goes on; the first of a loop has how many they are, and the turns."""
    return [
        {**run._asdict(), "shift": shift, "group": 0 if at else len(loop.runs), "turns": 0 if at else loop.turns}
        for loop in loops
        for at, (run, shift) in enumerate(zip(loop.runs, loop.shifts, strict=True))
    ]


def _loops_of(rows: Sequence[Mapping[str, int]]) -> tuple[Run, ...]:
    """The inverse of `_loop_rows`, and of loops. ValueError for rows that are none."""
    loops: list[RunLoop] = []
    at = 0
    while at < len(rows):
        part = rows[at : at + max(1, rows[at]["group"])]
        if len(part) != rows[at]["group"] or any(row["group"] or row["turns"] for row in part[1:]):
            raise ValueError("a loop has not the runs that it says")
        runs = tuple(Run(**{name: row[name] for name in Run._fields}) for row in part)
        loops.append(RunLoop(runs, tuple(row["shift"] for row in part), part[0]["turns"]))
        at += len(part)
    return unlooped(loops)


def decode(data: bytes, where: str) -> Blob:
    """The blob of a binary file. ContainerError, which names `where`, if it is none."""
    try:
        return _checked(_decoded(data))
    except (ValueError, IndexError) as error:
        raise ContainerError("E1007", f"{where} is no blob: {error}") from None


def _decoded(data: bytes) -> Blob:
    at = 0

    def records(kind: np.dtype[Any], count: int) -> list[dict[str, Any]]:
        nonlocal at
        at += count * kind.itemsize
        rows = np.frombuffer(data, kind, count, at - count * kind.itemsize).tolist()
        return [dict(zip(kind.names or (), row, strict=True)) for row in rows]

    if len(data) < HEADER.itemsize or data[:4] != MAGIC:
        raise ValueError("it does not begin as one")
    (head,) = records(HEADER, 1)
    if head["version"] not in (1, FORMAT_VERSION):
        raise ValueError(f"its format version is {head['version']}, not at most {FORMAT_VERSION}")
    has_loops = head["version"] == FORMAT_VERSION
    kinds = {"buffers": BUFFER, "streams": STREAM, "targets": TARGET, "runs": LOOPED if has_loops else RUN}
    size = at + head["name_bytes"] + sum(head[name] * kind.itemsize for name, kind in kinds.items())
    if head["bytes"] != len(data) or size != len(data):
        raise ValueError(f"it has {len(data)} bytes, and its header says otherwise")
    if zlib.crc32(data[at:]) != head["crc32"]:
        raise ValueError("its checksum is wrong")
    names = _names(data[at : at + head["name_bytes"]], head["names"])
    at += head["name_bytes"]
    buffers = [
        Buffer(
            **{name: value for name, value in row.items() if name not in ("device", "y", "x", "reserved", "kind", "of")},
            kind=_KINDS[row["kind"]],
            of=names[int(row["of"])],
            core=_core(row),
        )
        for row in records(BUFFER, head["buffers"])
    ]
    rows = records(STREAM, head["streams"])
    targets = iter([row["id"] for row in records(TARGET, head["targets"])])
    rows_of_runs = records(kinds["runs"], head["runs"])
    if has_loops and sum(row["group"] * row["turns"] for row in rows_of_runs) > MOST_RUNS:
        raise ValueError(f"its loops are more than {MOST_RUNS} runs")
    runs = iter(rows_of_runs)
    if sum(row["targets"] for row in rows) != head["targets"] or sum(row["runs"] + row["slots"] for row in rows) != head["runs"]:
        raise ValueError("its streams have not the targets and runs that there are")
    streams: list[Stream] = []
    for row in rows:
        lists: dict[str, Any] = {"to": tuple(islice(targets, row.pop("targets")))}
        for name in ("runs", "slots"):
            part = list(islice(runs, row.pop(name)))
            lists[name] = _loops_of(part) if has_loops else tuple(Run(**run) for run in part)
        streams.append(Stream(**row | lists | {"kind": _STREAM_KINDS[row["kind"]]}))
    graph, op = (names[int(head[name])] for name in ("graph", "op"))
    return Blob(head["epoch"], graph, op, _core(head), head["number"], tuple(buffers), tuple(streams))


def _core(row: Mapping[str, int]) -> Core:
    return Core(row["device"], row["y"], row["x"])


def _names(text: bytes, count: int) -> list[str]:
    """Strings, each after its length in two bytes."""
    found: list[str] = []
    for _ in range(count):
        end = 2 + int.from_bytes(text[:2], "little")
        if len(text) < end:
            raise ValueError("its names are cut off")
        found.append(text[2:end].decode())
        text = text[end:]
    return found


def _checked(blob: Blob) -> Blob:
    """A blob that can be followed; ValueError for one that nobody has written so."""
    buffers = {buffer.id: buffer for buffer in blob.buffers}
    ids = [*(buffer.id for buffer in blob.buffers), *(stream.id for stream in blob.streams)]
    if len({*ids}) != len(ids):
        raise ValueError("an id is there twice")
    if [buffer.kind for buffer in blob.buffers if buffer.operand == OUTPUT] != ["output"]:
        raise ValueError("it has not one output")
    for buffer in blob.buffers:
        if min(buffer.tiles, buffer.tile_bytes, buffer.unit) < 1 or min(buffer.input_tiles, buffer.address, buffer.number) < 0:
            raise ValueError(f"buffer {buffer.id} has sizes that there are not")
    for stream in blob.streams:
        counts = [sum(run.length * run.repeats for run in runs) for runs in (stream.runs, stream.slots)]
        if any(not _has_tiles(run) for run in (*stream.runs, *stream.slots)) or max(counts) > MOST_TILES:
            raise ValueError(f"stream {stream.id} has a run of tiles that there are not")
        if stream.kind == "write" and (counts[0] != counts[1] or len(stream.to) != 1):
            raise ValueError(f"stream {stream.id} has {counts[0]} tiles, {counts[1]} places and {len(stream.to)} buffers for them")
        if stream.kind != "read" and _memory(stream) != _memory(buffers.get(stream.buffer)):
            raise ValueError(f"stream {stream.id} has not the memory of buffer {stream.buffer}")
    own = [buffer for buffer in blob.buffers if buffer.kind not in ("queue", "padding")]
    memories = sorted(_memory(part) for part in (*own, *(stream for stream in blob.streams if stream.kind == "read")))
    if any(first[0] + first[1] * first[2] > second[0] for first, second in pairwise(memories)):
        raise ValueError("its buffers overlap")
    return blob


def _memory(of: Buffer | Stream | None) -> tuple[int, ...]:
    return (of.address, of.tiles, of.tile_bytes) if of is not None else ()


def _has_tiles(run: Run) -> bool:
    return min(run.length, run.repeats) > 0 and run.first >= 0 and run.first + run.step * (run.repeats - 1) >= 0


def to_yaml(item: Blob | PipeGraph) -> str:
    """The YAML file of a blob, or of the pipes of a temporal epoch."""
    lines: list[str] = []
    has_loops = False
    for field in fields(item):
        value = getattr(item, field.name)
        if field.name not in ("buffers", "pipes", "streams"):
            lines.append(f"{field.name}: {_json(value)}")
            continue
        lines.append(f"{field.name}:{'' if value else ' []'}")
        for part in value:
            row: dict[str, Any] = {**vars(part)}
            for name in {"runs", "slots"} & {*row}:
                loops = looped(row[name])
                has_loops |= any(loop.turns > 1 for loop in loops)
                row[name] = [entry for loop in loops for entry in ([loop] if loop.turns > 1 else loop.runs)]
            lines.append(f"- {_json(row)}")
    return "\n".join([f"format_version: {FORMAT_VERSION if has_loops else 1}", *lines]) + "\n"


def _json(value: object) -> str:
    """As JSON, which is YAML; without what YAML could take for a name to repeat."""
    return json.dumps(value).replace("&", "\\u0026").replace("*", "\\u002a")


def from_yaml(text: str, kind: type[T], where: str) -> T:
    """What `to_yaml` has written. ContainerError, which names `where`, for a file that it has not."""
    try:
        if len(text) > MOST_BYTES or "&" in text or "*" in text:
            raise ValueError("it is too long, or has & or *")
        data: Any = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        data = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        version = data.pop("format_version", None)
        if version not in (1, FORMAT_VERSION):
            raise ValueError(f"its format version is not at most {FORMAT_VERSION}")
        if version == FORMAT_VERSION:
            _unfold(data)
        item: T = typed(kind, data, kind.__name__)
        return item if isinstance(item, PipeGraph) else cast("T", _checked(item))
    except (ValueError, yaml.YAMLError, RecursionError, TypeError, LookupError, AttributeError) as error:
        raise ContainerError("E1007", f"{where} cannot be read: {str(error).splitlines()[0]}") from None


def _unfold(data: dict[str, Any]) -> None:
    """With the runs of loops one by one. ValueError or TypeError for what is none."""
    total = 0
    for row in (*data.get("streams", ()), *data.get("pipes", ())):
        for name in {"runs", "slots"} & {*row}:
            runs: list[Run | list[int]] = []
            for entry in row[name]:
                runs += unlooped([typed(RunLoop, entry, "loop")]) if isinstance(entry[0], list) else [entry]
                if total + len(runs) > MOST_RUNS:
                    raise ValueError(f"loops of more than {MOST_RUNS} runs")
            total += len(runs)
            row[name] = [list(run) for run in runs]


def save_epoch(graph: PipeGraph, blobs: Sequence[Blob], folder: Path) -> None:
    """Write pipes.yaml and, of each core, a .yaml and a .blob into a new folder. InputError where they cannot be written."""
    with writing(folder):
        folder.mkdir(parents=True)
        (folder / PIPES).write_text(to_yaml(graph))
        for blob in blobs:
            name = f"core_{blob.core.device}_{blob.core.y}_{blob.core.x}"
            (folder / f"{name}.yaml").write_text(to_yaml(blob))
            (folder / f"{name}.blob").write_bytes(encode(blob))


def load_epoch(folder: Path) -> tuple[PipeGraph, tuple[Blob, ...]]:
    """The pipes in a folder, and its blobs from their binary files. ContainerError if one cannot be read."""
    try:
        graph = from_yaml((folder / PIPES).read_text(), PipeGraph, str(folder / PIPES))
        return graph, tuple(decode(file.read_bytes(), str(file)) for file in sorted(folder.glob("*.blob")))
    except (OSError, UnicodeDecodeError) as error:
        raise ContainerError("E1007", f"{folder} cannot be read: {error}") from None
