"""The whole way from a netlist to the blobs of its temporal epochs, with what went wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from hlo2tx8.errors import writing
from hlo2tx8.netlist.epochs import Epoch, executed_epochs
from hlo2tx8.netlist.infer import input_shape
from hlo2tx8.netlist.instances import expand
from hlo2tx8.netlist.model import FusedOp, Netlist
from hlo2tx8.netlist.pipes.arch import ARCHES, Arch
from hlo2tx8.netlist.pipes.files import encode, load_epoch, save_epoch
from hlo2tx8.netlist.pipes.flow import stuck
from hlo2tx8.netlist.pipes.kernels import Turn, intake_of, turns_of
from hlo2tx8.netlist.pipes.model import Blob, PipeGraph
from hlo2tx8.netlist.pipes.net2pipe import net2pipe
from hlo2tx8.netlist.pipes.pipegen import pipegen
from hlo2tx8.netlist.pipes.result import BackendError, CompileResult, StreamFailure

FOLDER, RESULT = "temporal_epoch_", "compile_result.yaml"


@dataclass(frozen=True)
class EpochStreams:
    """What a temporal epoch becomes."""

    graph: PipeGraph
    blobs: tuple[Blob, ...]


def streams_of(netlist: Netlist, arch: str) -> tuple[list[EpochStreams], CompileResult]:
    """Of every temporal epoch that programs execute, in the netlist's order; those that fail are only in the result."""
    found: list[EpochStreams] = []
    failures: list[StreamFailure] = []
    whole = expand(netlist)
    for number, epoch in enumerate(executed_epochs(whole)):
        try:
            found.append(epoch_streams(epoch, number, ARCHES[arch], whole.fused_ops))
        except BackendError as error:
            failures.append(error.failure)
    return found, CompileResult(tuple(failures))


def save_streams(netlist: Netlist, arch: str, folder: Path) -> CompileResult:
    """Write the files of every temporal epoch into folders of their own, `temporal_epoch_0` and so on, and compile_result.yaml.
    InputError where they cannot be written.
    """
    found, result = streams_of(netlist, arch)
    for epoch in found:
        save_epoch(epoch.graph, epoch.blobs, folder / f"{FOLDER}{epoch.graph.epoch}")
    with writing(folder):
        (folder / RESULT).write_text(yaml.safe_dump(result.as_dict(), sort_keys=False))
    return result


def load_streams(folder: Path) -> dict[str, tuple[Blob, ...]]:
    """The blobs of each temporal epoch by its name. ContainerError if a file cannot be read."""
    epochs = [load_epoch(part) for part in sorted(folder.glob(f"{FOLDER}*"))]
    return {graph.name: blobs for graph, blobs in epochs}


def epoch_streams(epoch: Epoch, number: int, arch: Arch, fused: Mapping[str, FusedOp]) -> EpochStreams:
    """Of one temporal epoch. BackendError if it cannot have streams, or they would wait for each other for ever."""
    graph = net2pipe(epoch, number, arch, fused)
    blobs = pipegen(graph, arch, epoch)
    _check_blobs(blobs, epoch, arch)
    if wait := stuck(blobs, turns_in(epoch, fused)):
        raise BackendError(StreamFailure("PipeGen", f"deadlock: {wait}", number, epoch.graphs[0].name))
    return EpochStreams(graph, blobs)


def _check_blobs(blobs: Sequence[Blob], epoch: Epoch, arch: Arch) -> None:
    """Every blob has its binary form, for which there is room on its core."""
    ops = {op.name: op for graph in epoch.graphs for op in graph.ops}
    for blob in blobs:
        limit = arch.blob_bytes + (ops[blob.op].overlay_size or 0)
        try:
            size = len(encode(blob))
        except ValueError as error:
            raise BackendError(
                StreamFailure("BlobGen", f"op {blob.op}: {error}", blob.epoch, blob.graph, blob.op, blob.core)
            ) from None
        if size > limit:
            message = f"op {blob.op}: a blob of {size} bytes on core {blob.core}, which has room for {limit}"
            raise BackendError(StreamFailure("OverlaySize", message, blob.epoch, blob.graph, blob.op, blob.core, limit, size))


def turns_in(epoch: Epoch, fused: Mapping[str, FusedOp]) -> dict[str, tuple[Turn, ...]]:
    """What each op of an epoch does on a core."""
    found: dict[str, tuple[Turn, ...]] = {}
    sources = {name: source for segment in epoch.segments for name, source in segment.sources.items()}
    ops = {op.name: op for segment in epoch.segments for op in segment.ops}
    for op in ops.values():
        shapes = [input_shape(op, number, (sources.get(name) or ops[name]).shape) for number, name in enumerate(op.inputs)]
        found[op.name] = turns_of(op, [intake_of(op, number, shape, fused) for number, shape in enumerate(shapes)], fused)
    return found
