"""The `.tx8x` container: a zip that any unzip can look into.

    manifest.json          format version, name, chip description, options, inputs, outputs, slots, sizes, origins, named
                           buffers, launches
    program.bin            the encoded program, uint64[n, 32] little endian
    constants.safetensors  one tensor per constant slot
    ir/<level>.mlir        the IR at each level; ir/program.txt the listing

Reading executes nothing: no pickle, every size is checked before it is used, a newer format is refused.
"""

import dataclasses
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from hlo2tx8.device.chip import read_chip
from hlo2tx8.device.program import Buffer, BufferUse, Launch, Program, Slot, SlotKind
from hlo2tx8.errors import ContainerError
from hlo2tx8.hlo.least_work import LeastWork
from hlo2tx8.hlo.signature import Port, Signature
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.tensors import decode_tensors, encode_tensors

FORMAT_VERSION = 4
WORDS = 32
MANIFEST_LIMIT = 64 << 20
EPOCH = (1980, 1, 1, 0, 0, 0)


def write(executable: Executable, path: Path) -> None:
    """Write the container to `path`; equal executables give equal bytes."""
    write_file(executable, path)


def write_file(executable: Executable, target: Path | BinaryIO, levels: Sequence[Level] = tuple(Level)) -> None:
    """As `write`, to an open file or a stream, and only with the IR of `levels`."""
    program = executable.program
    code = np.ascontiguousarray(program.code, "<u8")
    manifest = {
        "format_version": FORMAT_VERSION,
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
    }
    if executable.least_work is not None:
        manifest["least_work"] = dataclasses.asdict(executable.least_work())
    constants = {f"constant{i}": array for i, array in enumerate(program.constants)}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        _add(file, "manifest.json", json.dumps(manifest, indent=1).encode())
        _add(file, "program.bin", code.tobytes())
        _add(file, "constants.safetensors", encode_tensors(constants))
        for level in levels:
            _add(file, _ir_name(level), executable.as_text(level).encode())


def read(path: Path) -> Executable:
    """The executable in a container; ContainerError if it is damaged, newer, or none."""
    if not path.is_file():
        raise ContainerError("E1007", f"no file {path}")
    return read_file(path, str(path))


def read_file(source: Path | BinaryIO, name: str) -> Executable:
    """The executable in an open file or stream, which errors call `name`; ContainerError as for `read`."""
    try:
        with zipfile.ZipFile(source) as file:
            return _read(file, name)
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, OSError) as error:
        raise ContainerError("E1007", f"{name} is not a sound .tx8x file: {error}") from error


def _read(file: zipfile.ZipFile, name: str) -> Executable:
    manifest = json.loads(_member(file, "manifest.json", MANIFEST_LIMIT))
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        raise ContainerError(
            "E1007",
            f"{name} has format version {version}, this hlo2tx8 reads {FORMAT_VERSION}",
            hint="update hlo2tx8, or compile the module again",
        )
    count = int(manifest["num_instructions"])
    raw = _member(file, "program.bin", count * WORDS * 8, exact=True)
    size = int(manifest["constant_bytes"])
    tensors = decode_tensors(_member(file, "constants.safetensors", size + (1 << 16) + size // 8))
    slots = tuple(Slot(**_tuples(slot, kind=SlotKind(slot["kind"]))) for slot in manifest["slots"])
    constants = tuple(tensors[f"constant{slot.index}"] for slot in slots if slot.kind is SlotKind.CONSTANT)
    if sum(array.nbytes for array in constants) != size:
        raise ContainerError("E1007", f"{name}: constants are not the {size} bytes that its manifest says")
    program = Program(
        code=np.frombuffer(raw, "<u8").reshape(count, WORDS),
        slots=slots,
        constants=constants,
        spm_bytes=int(manifest["spm_bytes"]),
        origins=tuple(str(origin) for origin in manifest["origins"]),
        buffers=tuple(Buffer(str(name), *map(int, numbers)) for name, *numbers in manifest.get("buffers", [])),
        uses=tuple(BufferUse(*map(int, use)) for use in manifest.get("buffer_uses", [])),
        launches=tuple(Launch(str(e["name"]), str(e["origin"]), int(e["first"])) for e in manifest.get("launches", [])),
        trusted=False,
    )
    present = set(file.namelist())
    texts = {level: _member(file, _ir_name(level), 1 << 30).decode() for level in Level if _ir_name(level) in present}

    def text_at(level: Level) -> str:
        if level not in texts:
            raise ContainerError("E1007", f"{name} holds no IR of level {level.name.lower()}")
        return texts[level]

    given = manifest.get("least_work")
    least = None if given is None else LeastWork(**given)
    ports = (tuple(Port(**_tuples(port)) for port in manifest[side]) for side in ("inputs", "outputs"))
    return Executable(
        name=str(manifest["name"]),
        program=program,
        signature=Signature(*ports),
        chip=read_chip(manifest["chip"], "manifest.json"),
        options=Options(**manifest["options"]),
        text_at=text_at,
        least_work=None if least is None else lambda: least,
    )


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


def _tuples(entry: Mapping[str, Any], **given: Any) -> dict[str, Any]:
    return {key: tuple(cast(list[Any], value)) if isinstance(value, list) else value for key, value in entry.items()} | given
