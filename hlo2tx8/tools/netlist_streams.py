"""What the commands of `hlo2tx8 netlist` do with streams: run from blobs, show pipes, tell failures."""

import sys
from pathlib import Path
from typing import Any

from hlo2tx8.errors import InputError
from hlo2tx8.netlist.epochs import executed_epochs
from hlo2tx8.netlist.evaluate import Rules
from hlo2tx8.netlist.golden import rules_of
from hlo2tx8.netlist.instances import expand
from hlo2tx8.netlist.model import Netlist
from hlo2tx8.netlist.pipes.backend import load_streams, streams_of
from hlo2tx8.netlist.pipes.execute import Streamed
from hlo2tx8.netlist.pipes.files import decode, encode
from hlo2tx8.netlist.pipes.result import BackendError, CompileResult
from hlo2tx8.netlist.pipes.show import show_streams
from hlo2tx8.tools.netlist_input import read_for


def print_failures(result: CompileResult) -> None:
    """A line for each on stderr."""
    for failure in result.failures:
        print(BackendError(failure), file=sys.stderr)


def read_compiled(args: Any) -> tuple[Netlist, Rules, Path | None]:
    """A netlist, its rules, and the folder that it was compiled into if that is what is given."""
    if not args.file.is_dir():
        netlist, arch = read_for(args)
        return netlist, rules_of(netlist, arch), None
    if "arch" in args.given:
        raise InputError("E1004", f"--arch is of what is compiled, and {args.file} is compiled already")
    from hlo2tx8.netlist.saved import load_netlist

    netlist, rules = load_netlist(args.file)
    return netlist, rules, args.file


def streamed(netlist: Netlist, rules: Rules, folder: Path | None) -> Streamed:
    """What runs a netlist from the blobs in a folder, or from those that it becomes. BackendError if it has none."""
    if folder is not None:
        return Streamed(rules, load_streams(folder), executed_epochs(expand(netlist)))
    found, result = streams_of(netlist, rules.arch)
    for failure in result.failures:
        raise BackendError(failure)
    blobs = {epoch.graph.name: [decode(encode(blob), "blob") for blob in epoch.blobs] for epoch in found}
    return Streamed(rules, blobs, executed_epochs(expand(netlist)))


def show_pipes(netlist: Netlist, arch: str) -> int:
    """Print the pipes of every temporal epoch; 1 if one has none."""
    found, result = streams_of(netlist, arch)
    print("\n".join(map(show_streams, found)), end="")
    print_failures(result)
    return int(not result.success)
