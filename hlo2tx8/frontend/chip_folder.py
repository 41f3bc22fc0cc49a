"""`ChipFolder`: a folder of the vendor's flow: model_info.json, a module in tx8be, and the data of each chip.

DIR/model_info.json                     arrays of each chip: formats, shapes, files, sizes in bytes
DIR/<name>.mlir                         what each chip runs
DIR/chip0/agent/data/in0.bin, param.bin, out0_ref.bin
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hlo2tx8.device.formats import Format
from hlo2tx8.errors import InputError
from hlo2tx8.hlo.signature import Port, Signature, dtype_of

Array = npt.NDArray[Any]

INFO = "model_info.json"
FORMATS: Mapping[int, str] = {fmt: "bool" if fmt is Format.BOOL else fmt.numpy_dtype.name for fmt in Format if fmt <= Format.UINT64}
"""Dtypes by format code of the machine; TF32 has 32 bits, and bool takes a byte."""
MOST_CHIPS = 1024
"""A folder has no more."""
REFERENCES = ("ref", "riscv", "cmodel")
"""Whose results a folder may have: out0_ref.bin is the reference's, the others what a platform computed."""


def is_chip_folder(path: Path) -> bool:
    """Is that a folder with the vendor's description of a model?"""
    return (path / INFO).is_file()


@dataclass(frozen=True)
class ChipTensor:
    """An array of the folder: what it is, and where its elements are, dense and row major."""

    port: Port
    file: Path
    label: str

    def read(self) -> Array:
        """The array; InputError if the file is not there or has another size."""
        data = _bytes_of(self.file, self.label)
        if len(data) != self.port.size_bytes:
            raise InputError("E1004", f"{self.label} has {len(data):,} bytes, and {self.port} has {self.port.size_bytes:,}")
        array = np.frombuffer(data, dtype_of(self.port.dtype)).reshape(self.port.shape)
        if self.port.dtype == "bool" and (array.view(np.uint8) > 1).any():
            raise InputError("E1004", f"{self.label}: a byte of bool is neither 0 nor 1")
        return array


@dataclass(frozen=True)
class ChipEntry:
    """One chip's inputs and outputs in order, and the file of its parameters, None if there is none."""

    inputs: tuple[ChipTensor, ...]
    outputs: tuple[ChipTensor, ...]
    parameters_file: Path | None

    @property
    def ports(self) -> tuple[list[Port], list[Port]]:
        """What its inputs and outputs are."""
        return [tensor.port for tensor in self.inputs], [tensor.port for tensor in self.outputs]


@dataclass(frozen=True)
class ChipFolder:
    """A folder that was read; `mesh` has columns and rows of chips, which all have arrays of the same shapes."""

    path: Path
    module: Path
    chips: tuple[ChipEntry, ...]
    mesh: tuple[int, int] = (1, 1)

    @staticmethod
    def of(path: Path) -> "ChipFolder":
        """Read the description; InputError names the entry of the json that is wrong, also a file outside of the folder."""
        try:
            text = (path / INFO).read_bytes().decode()
            info = json.loads(text)
        except OSError as error:
            raise InputError("E1004", f"{path / INFO}: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise InputError("E1004", f"{path / INFO}: {error}") from None
        root = _Entry(info, str(path / INFO))
        count, columns, rows = (root[key].number() for key in ("chip_num", "chip_x", "chip_y"))
        if count != columns * rows or not 1 <= count <= MOST_CHIPS:
            raise InputError("E1004", f"{path / INFO}: {count} chips in {rows} rows of {columns}; there are 1 to {MOST_CHIPS}")
        entries = root["chip"].items(count)
        chips = [_chip(path, entry) for entry in entries]
        for entry, chip in zip(entries, chips, strict=True):
            if chip.ports != chips[0].ports:
                raise InputError("E1004", f"{entry.name} has other arrays than chip 0")
        modules = sorted(path.glob("*.mlir"))
        if len(modules) != 1:
            names = ", ".join(module.name for module in modules) or "none"
            raise InputError("E1004", f"{path} should have one module, .mlir, and has {names}")
        return ChipFolder(path, modules[0], tuple(chips), (columns, rows))

    def parameters(self) -> bytes:
        """The bytes that LoadConst reads; b"" where the folder names no file of them. InputError if chips have others."""
        files = [chip.parameters_file for chip in self.chips]
        found = [b"" if file is None else _bytes_of(file, _name(file, self.path)) for file in files]
        if (other := next((n for n, data in enumerate(found) if data != found[0]), None)) is not None:
            raise InputError("E1004", f"chip {other} has other parameters than chip 0: {files[other] or 'none'}")
        return found[0]

    def check(self, signature: Signature) -> None:
        """InputError if the module takes or gives other arrays than the description says."""
        chip = self.chips[0]
        pairs = (("input", chip.inputs, signature.inputs), ("output", chip.outputs, signature.outputs))
        for what, found, ports in pairs:
            given = [(tensor.port.shape, tensor.port.dtype) for tensor in found]
            if given != [(port.shape, port.dtype) for port in ports]:
                words = [", ".join(map(str, side)) or "none" for side in ([t.port for t in found], ports)]
                raise InputError("E1004", f"{INFO} has the {what}s {words[0]}, and {self.module.name} {words[1]}")

    def references(self, chip: int = 0) -> Iterator[tuple[int, ChipTensor]]:
        """The results that are there of a chip, with the number of the output; InputError if there is none of an output."""
        for number, output in enumerate(self.chips[chip].outputs):
            folder = output.file.parent
            found = [folder / f"out{number}_{word}.bin" for word in REFERENCES]
            found = [file for file in found if file.is_file()]
            if not found:
                raise InputError("E1004", f"{folder.relative_to(self.path)} has no results of output {number}: out{number}_ref.bin")
            for file in found:
                name = _name(file, self.path)
                yield number, ChipTensor(output.port, _within(self.path, file, INFO, name), name)


def _name(file: Path, folder: Path) -> str:
    return file.relative_to(folder).as_posix()


@dataclass(frozen=True)
class _Entry:
    """A value of the json, and the words that lead to it."""

    value: Any
    name: str

    def __getitem__(self, key: str) -> "_Entry":
        given: Any = self.value
        value = cast(Mapping[str, Any], given).get(key, self) if isinstance(given, dict) else self
        if value is self:
            raise InputError("E1004", f"{self.name}: there is no {key}")
        return _Entry(value, f"{self.name}: {key}" if self.name.endswith(INFO) else f"{self.name}.{key}")

    def number(self) -> int:
        """The value as an integer of 0 or more."""
        if type(self.value) is not int or self.value < 0:
            raise InputError("E1004", f"{self.name} should be a number, and is {str(self.value)[:80]!r}")
        return self.value

    def items(self, count: int | None = None) -> Sequence["_Entry"]:
        """The value as a list, of that length."""
        value: Any = self.value
        values = cast(list[Any], value) if isinstance(value, list) else None
        if values is None or count not in (None, len(values)):
            size = "" if count is None else f" of {count}"
            raise InputError("E1004", f"{self.name} should be a list{size}, and is {str(self.value)[:80]!r}")
        return [_Entry(value, f"{self.name}[{k}]") for k, value in enumerate(values)]


def _chip(path: Path, chip: _Entry) -> ChipEntry:
    params = chip["param_file"].items(chip["param_num"].number())
    if len(params) > 1:
        raise InputError("E1004", f"{chip['param_file'].name}: {len(params)} files; one is read")
    return ChipEntry(_tensors(path, chip, "input"), _tensors(path, chip, "output"), _inside(path, params[0]) if params else None)


def _tensors(path: Path, chip: _Entry, kind: str) -> tuple[ChipTensor, ...]:
    count = chip[f"{kind}_num"].number()
    columns = [chip[f"{kind}_{what}"].items(count) for what in ("tensor", "file", "size")]
    return tuple(_tensor(path, *entries) for entries in zip(*columns, strict=True))


def _tensor(path: Path, tensor: _Entry, file: _Entry, size: _Entry) -> ChipTensor:
    code, shape = tensor["dtype"].number(), tuple(entry.number() for entry in tensor["shape"].items(tensor["dim"].number()))
    if code not in FORMATS:
        raise InputError("E1004", f"{tensor.name}.dtype: there is no format {code}")
    port = Port(shape, FORMATS[code])
    if prod(shape) * dtype_of(port.dtype).itemsize != size.number():
        raise InputError("E1004", f"{size.name} is {size.value}, and {port} has {port.size_bytes} bytes")
    return ChipTensor(port, _inside(path, file), str(file.value))


def _inside(folder: Path, entry: _Entry) -> Path:
    """The file that an entry names; InputError if that is no name, or one outside of the folder."""
    name = entry.value if isinstance(entry.value, str) and "\0" not in entry.value else ""
    return _within(folder, folder / name, entry.name, entry.value)


def _within(folder: Path, file: Path, who: str, given: object) -> Path:
    """The file, which must lie in the folder, behind links too; InputError says `who` named it, as `given`."""
    home = folder.resolve()
    try:
        found = file.resolve()
    except (OSError, RuntimeError):
        found = home
    if found == home or not found.is_relative_to(home):
        raise InputError("E1004", f"{who} should be a file in the folder, and is {str(given)[:80]!r}")
    return folder / found.relative_to(home)


def _bytes_of(file: Path, label: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError("E1004", f"{label}: {error.strerror}") from None
