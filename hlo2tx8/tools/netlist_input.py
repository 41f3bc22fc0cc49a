"""What the commands of `hlo2tx8 netlist` are given: a netlist or a folder that one was compiled into, an architecture, arrays."""

import argparse
import json
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from hlo2tx8.errors import InputError
from hlo2tx8.netlist.checks import problems_of, refuse_broken
from hlo2tx8.netlist.epochs import executed_epochs
from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.golden import rules_of
from hlo2tx8.netlist.instances import expand
from hlo2tx8.netlist.model import ARCHES, Netlist, Where
from hlo2tx8.netlist.reader import read_file
from hlo2tx8.options import Options
from hlo2tx8.tools.flags import whole

if TYPE_CHECKING:
    from hlo2tx8.netlist.tx8 import Tx8

UNSUPPORTED = 3
"""The exit code for ops that are not supported."""


def add_host_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of what programs are given."""
    parser.add_argument("--inputs", type=Path, help=".npz with [n, t, rows, columns] for each IO that the host fills (stimulus)")
    parser.add_argument("--params", type=Path, help='.json with the parameters of programs, as {"$p_name": 1} (test-args, else 1)')
    parser.add_argument("--max_steps", type=whole(1), help="end in an error after so many turns of loops")


def add_chip_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of what is compiled."""
    parser.add_argument("--chip", type=Path, help="chip description (YAML) instead of the built-in one")
    parser.add_argument(
        "--placement",
        choices=get_args(Where),
        default="netlist",
        help="ops run on the tiles that their grids say, or on all (netlist)",
    )


def add_arch(parser: argparse.ArgumentParser) -> None:
    """The flag that chooses an architecture."""
    parser.add_argument(
        "--arch", type=str.lower, choices=ARCHES, help="one of the netlist's ($ARCH_NAME, else the first whose rules it keeps)"
    )


def arch_of(args: Any, netlist: Netlist) -> str:
    """The architecture that was chosen; InputError if the netlist is not for it."""
    there_are = netlist.devices.arches
    chosen: str = args.arch or os.environ.get("ARCH_NAME", "").lower()
    if not chosen:
        # The first stepping of wormhole has a dest of its own size: it is taken by its name only.
        return next((arch for arch in there_are if arch != "wormhole" and not problems_of(netlist, arch)), there_are[0])
    if chosen not in there_are:
        raise InputError("E1004", f"{args.file}: is for {' or '.join(there_are)}, not {chosen}")
    return chosen


def read_for(args: Any) -> tuple[Netlist, str]:
    """The netlist, which breaks no rule, and the architecture that it is for."""
    netlist = read_file(args.file)
    arch = arch_of(args, netlist)
    refuse_broken(netlist, arch)
    return netlist, arch


def chip_for(args: Any, options: Options) -> tuple[Netlist, "Tx8"]:
    """The netlist, and the chip for which it is compiled now, or was into a folder."""
    from hlo2tx8.netlist.saved import load
    from hlo2tx8.netlist.tx8 import Tx8

    if not args.file.is_dir():
        netlist, arch = read_for(args)
        chip = Tx8(rules_of(netlist, arch), options, args.placement)
        chip.prepare(executed_epochs(expand(netlist)))
        return netlist, chip
    if wrong := next((name for name in ("arch", "chip", "level", "placement") if name in args.given), ""):
        raise InputError("E1004", f"--{wrong} is of what is compiled, and {args.file} is compiled already")
    return load(args.file, options)


def params_of(args: Any) -> dict[str, int]:
    return _read_params(args.params) if args.params else {}


def inputs_of(args: Any) -> dict[str, Array] | None:
    return read_arrays(args.inputs) if args.inputs else None


def _read_params(path: Path) -> dict[str, int]:
    try:
        given: Any = json.loads(path.read_bytes())
    except ValueError as error:
        raise InputError("E1004", f"{path}: {error}") from None
    params = cast("dict[str, Any]", given if isinstance(given, dict) else {"": None})
    if not all(isinstance(value, int) for value in params.values()):
        raise InputError("E1004", f'{path}: is not {{"$p_name": integer, ..}}')
    return {"$" + name.lstrip("$"): int(value) for name, value in params.items()}


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of an .npz file; InputError if it is none."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, zipfile.BadZipFile, EOFError, KeyError) as error:
        raise InputError("E1004", f"{path}: is no file of arrays: {error}") from None
