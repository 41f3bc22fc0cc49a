"""A compiled netlist in a folder: the netlist, what each segment of its epochs was compiled to, and what says which is which.

netlist.yaml     the netlist as it was read
compiled.json    format version, architecture, placement, and of each segment its name, lengths of lists of sparse products,
                 inputs at once, file
0.tx8x, ..       the containers

The pipes and streams of its temporal epochs lie beside them, see `pipes`.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hlo2tx8.errors import ContainerError, InputError, writing
from hlo2tx8.netlist.evaluate import Rules
from hlo2tx8.netlist.golden import rules_of
from hlo2tx8.netlist.model import ARCHES, Netlist, Where
from hlo2tx8.netlist.reader import read_file
from hlo2tx8.netlist.tx8 import Tx8
from hlo2tx8.netlist.writer import write_netlist
from hlo2tx8.options import Options
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.typed import typed

NETLIST, INDEX = "netlist.yaml", "compiled.json"
FORMAT_VERSION = 2


@dataclass(frozen=True)
class _SegmentFile:
    segment: str
    lists: tuple[int, ...]
    inputs: int
    file: str


@dataclass(frozen=True)
class _Contents:
    format_version: int
    arch: str
    placement: Where
    segments: tuple[_SegmentFile, ...]


def save(netlist: Netlist, chip: Tx8, folder: Path) -> list[Path]:
    """Write the folder, which is new or empty; the containers' paths. InputError where it cannot be written."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError("E1004", f"{folder} is there and no empty folder")
    entries: list[_SegmentFile] = []
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for number, ((name, lists, inputs), executable) in enumerate(chip.compiled.items()):
            assert isinstance(executable, Executable)
            entries.append(_SegmentFile(name, lists, inputs, f"{number}.tx8x"))
            executable.save(folder / entries[-1].file)
        (folder / NETLIST).write_text(write_netlist(netlist))
        index = _Contents(FORMAT_VERSION, chip.rules.arch, chip.placement, tuple(entries))
        (folder / INDEX).write_text(json.dumps(asdict(index), indent=1))
    return [folder / entry.file for entry in entries]


def load_netlist(folder: Path) -> tuple[Netlist, Rules]:
    """The netlist in a folder and how it is computed. ContainerError if the folder is damaged or of another version."""
    arch = _contents(folder).arch
    netlist = read_file(folder / NETLIST)
    return netlist, rules_of(netlist, arch)


def load(folder: Path, options: Options) -> tuple[Netlist, Tx8]:
    """The netlist in a folder, and the backend that runs it and compiles nothing; `options` say how it runs. ContainerError if the
    folder is damaged or of another version.
    """
    index = _contents(folder)
    netlist, rules = load_netlist(folder)
    chip = Tx8(rules, options, index.placement, is_fixed=True)
    for entry in index.segments:
        loaded = Executable.load(folder / Path(entry.file).name)
        chip.compiled[entry.segment, tuple(entry.lists), entry.inputs] = replace(
            loaded, options=replace(loaded.options, mode=options.mode)
        )
    return netlist, chip


def _contents(folder: Path) -> _Contents:
    path = folder / INDEX
    try:
        data = json.loads(path.read_bytes())
        index: _Contents = typed(_Contents, data, INDEX)
    except (OSError, ValueError) as error:
        raise ContainerError("E1007", f"{path} cannot be read: {error}") from None
    if index.format_version != FORMAT_VERSION or index.arch not in ARCHES:
        raise ContainerError("E1007", f"{path} has format version {index.format_version}, not {FORMAT_VERSION}, or no architecture")
    return index
