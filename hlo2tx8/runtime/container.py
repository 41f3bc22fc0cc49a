"""The `.tx8x` container: a zip that any unzip can look into.

    manifest.json          format version, who wrote it, name, chip description, options, inputs, outputs, slots, sizes, origins,
                           named buffers, launches, registered kernels by name and version, how the function is called that was
                           compiled
    program.bin            the encoded program, uint64[n, 32] little endian
    constants.safetensors  one tensor per constant slot
    ir/<level>.mlir        the IR at each level; ir/program.txt the listing

The format version is major.minor.patch: a reader of the same major reads all minors, and leaves out what a newer one has added to
the manifest; a newer major is refused with its number and who wrote it. Format 4, whose version was a number alone, is read.
Reading executes nothing: no pickle, every size is checked before it is used.
"""

import dataclasses
import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from hlo2tx8 import __version__
from hlo2tx8.device.chip import Chip, read_chip
from hlo2tx8.device.program import Buffer, BufferUse, Launch, LibraryKernel, Program, Slot, SlotKind
from hlo2tx8.errors import ContainerError, writing
from hlo2tx8.frontend.calling import Calling
from hlo2tx8.frontend.content import GZIP, unpacked
from hlo2tx8.hlo.least_work import LeastWork
from hlo2tx8.hlo.signature import Port, Signature, dtype_of
from hlo2tx8.hlo.types import element_type
from hlo2tx8.options import Level, Mode, Options
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.tensors import decode_tensors, encode_tensors
from hlo2tx8.runtime.typed import typed

FORMAT_VERSION = (5, 1, 0)
OLD_VERSIONS = {4: "4.0.0"}
"""Versions that were numbers alone, and are read."""
PRODUCER = f"hlo2tx8 {__version__}"
_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})\.[0-9]{1,6}")
WORDS = 32
MANIFEST_LIMIT = 64 << 20
IR_LIMIT = 1 << 30
EPOCH = (1980, 1, 1, 0, 0, 0)


def write(executable: Executable, path: Path) -> None:
    """Write the container to `path`; equal executables give equal bytes. InputError if the file cannot be written."""
    with writing(path):
        write_file(executable, path)


def write_file(executable: Executable, target: Path | BinaryIO, levels: Sequence[Level] = tuple(Level)) -> None:
    """As `write`, to an open file or a stream, and only with the IR of `levels`."""
    program = executable.program
    code = np.ascontiguousarray(program.code, "<u8")
    manifest = {
        "format_version": _text(FORMAT_VERSION),
        "producer": PRODUCER,
        "name": executable.name,
        "chip": dataclasses.asdict(executable.chip),
        "options": _plain_options(executable.options),
        "inputs": [dataclasses.asdict(port) for port in executable.signature.inputs],
        "outputs": [dataclasses.asdict(port) for port in executable.signature.outputs],
        "slots": [dataclasses.asdict(slot) | {"kind": slot.kind.value} for slot in program.slots],
        "spm_bytes": program.spm_bytes,
        "num_instructions": len(code),
        "constant_bytes": sum(array.nbytes for array in program.constants),
        "origins": list(program.origins),
        "buffers": [list(dataclasses.astuple(buffer)) for buffer in program.buffers],
        "buffer_uses": [list(use) for use in program.uses],
        "launches": [dataclasses.asdict(launch) for launch in program.launches],
        "library": [dataclasses.asdict(kernel) for kernel in program.library],
    }
    if executable.least_work is not None:
        manifest["least_work"] = dataclasses.asdict(executable.least_work())
    if executable.calling is not None and executable.calling.plain is not None:
        manifest["calling"] = executable.calling.plain
    constants = {f"constant{i}": array for i, array in enumerate(program.constants)}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        _add(file, "manifest.json", json.dumps(manifest, indent=1).encode())
        _add(file, "program.bin", code.tobytes())
        _add(file, "constants.safetensors", encode_tensors(constants))
        for level in levels:
            _add(file, _ir_name(level), executable.as_text(level).encode())


def read(path: Path) -> Executable:
    """The executable in a container, which gzip may have packed; ContainerError if it is damaged, newer, or none, InputError
    if the packing is damaged.
    """
    if not path.is_file():
        raise ContainerError("E1007", f"no file {path}")
    with path.open("rb") as file:
        is_packed = file.read(len(GZIP)) == GZIP
    return read_file(io.BytesIO(unpacked(path.read_bytes(), str(path))) if is_packed else path, str(path))


def read_file(source: Path | BinaryIO, name: str) -> Executable:
    """The executable in an open file or stream, which errors call `name`; ContainerError as for `read`."""
    try:
        with zipfile.ZipFile(source) as file:
            return _read(file, source, name)
    except ContainerError:
        raise
    except Exception as error:  # of zip, zlib, JSON, safetensors: there is no list of what they raise for hostile bytes
        raise ContainerError("E1007", f"{name} is not a sound .tx8x file: {error}") from error


@dataclass(frozen=True)
class _SavedOptions:
    """The options of an executable that say how it runs."""

    mode: Mode
    threads: int
    step_elements: int


@dataclass(frozen=True)
class _Manifest:
    """manifest.json."""

    name: str
    chip: Mapping[str, Any]
    options: _SavedOptions
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    slots: tuple[Slot, ...]
    spm_bytes: int
    num_instructions: int
    constant_bytes: int
    origins: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    buffer_uses: tuple[BufferUse, ...]
    launches: tuple[Launch, ...]
    library: tuple[LibraryKernel, ...] = ()
    least_work: LeastWork | None = None
    calling: Mapping[str, Any] | None = None


def _read(file: zipfile.ZipFile, source: Path | BinaryIO, name: str) -> Executable:
    data = json.loads(_member(file, "manifest.json", MANIFEST_LIMIT))
    data = _known(data, name)
    manifest: _Manifest = typed(_Manifest, data, "manifest.json")
    chip = read_chip(manifest.chip, "manifest.json")
    count, size = manifest.num_instructions, manifest.constant_bytes
    raw = _member(file, "program.bin", count * WORDS * 8, exact=True)
    tensors = decode_tensors(_member(file, "constants.safetensors", size + (1 << 16) + size // 8))
    constants = tuple(tensors[f"constant{slot.index}"] for slot in manifest.slots if slot.kind is SlotKind.CONSTANT)
    program = Program(
        code=np.frombuffer(raw, "<u8").reshape(count, WORDS),
        slots=manifest.slots,
        constants=constants,
        spm_bytes=manifest.spm_bytes,
        origins=manifest.origins,
        buffers=manifest.buffers,
        uses=manifest.buffer_uses,
        launches=manifest.launches,
        library=manifest.library,
        trusted=False,
    )
    signature = Signature(manifest.inputs, manifest.outputs)
    _check(program, signature, chip, size)
    least, calling = manifest.least_work, manifest.calling
    return Executable(
        name=manifest.name,
        program=program,
        signature=signature,
        chip=chip,
        options=Options(**dataclasses.asdict(manifest.options)),
        text_at=partial(_text_at, source, name),
        least_work=None if least is None else lambda: least,
        calling=None if calling is None else Calling.of_plain(calling, len(manifest.inputs), len(manifest.outputs)),
    )


def _known(data: dict[str, Any], name: str) -> Mapping[str, Any]:
    """What this reader knows of a manifest; ContainerError if its version is none that it reads."""
    version, producer = data.pop("format_version", None), data.pop("producer", "")
    text: object = OLD_VERSIONS.get(version) if type(version) is int else version
    found = _VERSION.fullmatch(text) if isinstance(text, str) else None
    if found is not None:
        (major, minor), (our_major, our_minor) = map(int, found.groups()), FORMAT_VERSION[:2]
        if major in OLD_VERSIONS or (major == our_major and minor <= our_minor):
            return data
        if major == our_major:
            known = {field.name for field in dataclasses.fields(_Manifest)}
            return {key: value for key, value in data.items() if key in known}
    raise ContainerError(
        "E1007",
        f"{name} has format version {str(version)[:20]}{f' of {producer!s:.40}' if producer else ''}, "
        f"this hlo2tx8 reads {', '.join(OLD_VERSIONS.values())} and {_text(FORMAT_VERSION)}",
        hint="update hlo2tx8, or compile the module again",
    )


def _check(program: Program, signature: Signature, chip: Chip, constant_bytes: int) -> None:
    """ValueError if the parts of a program do not fit each other or the chip."""
    count = len(program.code)
    for port in (*signature.inputs, *signature.outputs, *program.slots):
        element_type(dtype_of(port.dtype))
        _need(min(port.shape, default=0) >= 0 and port.size_bytes <= chip.ddr_bytes, f"no tensor has the shape {port.shape}")
    for port in (*signature.inputs, *signature.outputs):
        _need(not port.layout or sorted(port.layout) == list(range(len(port.shape))), f"no layout is {port.layout}")
    for kind in SlotKind:
        slots = program.slots_of(kind)
        _need([slot.index for slot in slots] == list(range(len(slots))), f"{kind.value} slots have other numbers than 0, 1, ...")
    sides = ((SlotKind.INPUT, signature.inputs), (SlotKind.OUTPUT, signature.outputs))
    for kind, ports in sides:
        sizes = [slot.size_bytes for slot in program.slots_of(kind)]
        _need(sizes == [port.size_bytes for port in ports], f"{kind.value} slots are not those of the signature")
    for slot in program.slots:
        size, is_scratch = slot.num_elements * dtype_of(slot.dtype).itemsize, slot.kind is SlotKind.SCRATCH
        _need(slot.size_bytes == size or (is_scratch and slot.size_bytes >= 0), f"{slot.name} has no such size")
    inputs = program.slots_of(SlotKind.INPUT)
    for slot in program.slots:
        if (taken := slot.takes_over) is not None:
            _need(0 <= taken < len(inputs) and inputs[taken].size_bytes == slot.size_bytes, f"{slot.name} takes over nothing")
    held = [slot.size_bytes for slot in program.slots_of(SlotKind.CONSTANT)]
    _need(sum(held) == constant_bytes and held == [array.nbytes for array in program.constants], "constants have other sizes")
    _need(0 <= program.spm_bytes <= chip.spm_bytes, "it uses more SPM than the chip has")
    firsts = [launch.first for launch in program.launches]
    _need(firsts == sorted(firsts) and all(0 <= first <= count for first in firsts), "launches are of no records")
    places = ((use.record, use.buffer) for use in program.uses)
    _need(all(0 <= r < count and 0 <= b < len(program.buffers) for r, b in places), "uses of buffers are of no records")


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _text_at(source: Path | BinaryIO, name: str, level: Level) -> str:
    """The IR of a level, unpacked when it is asked for."""
    try:
        with zipfile.ZipFile(source) as file:
            if _ir_name(level) not in file.namelist():
                raise ContainerError("E1007", f"{name} holds no IR of level {level.name.lower()}")
            return _member(file, _ir_name(level), IR_LIMIT).decode()
    except ContainerError:
        raise
    except Exception as error:  # as in read_file
        raise ContainerError("E1007", f"{name} is not a sound .tx8x file: {error}") from error


def _member(file: zipfile.ZipFile, name: str, limit: int, *, exact: bool = False) -> bytes:
    size = file.getinfo(name).file_size
    if size > limit or (exact and size != limit):
        raise ContainerError("E1007", f"{file.filename}: {name} has {size} bytes, {'not' if exact else 'more than'} {limit}")
    return file.read(name)


def _add(file: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    file.writestr(info, data)


def _ir_name(level: Level) -> str:
    return "ir/program.txt" if level is Level.PROGRAM else f"ir/{level.name.lower()}.mlir"


def _plain_options(options: Options) -> dict[str, Any]:
    return {"mode": options.mode, "threads": options.threads, "step_elements": options.step_elements}
