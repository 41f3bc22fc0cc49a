"""`hlo2tx8 netlist run|check|show FILE`: TT-BUDA netlists.

Exit code 0 if nothing is wrong, 1 if a netlist breaks a rule, cannot be run, or gives results that are not near enough.
"""

import argparse
import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any, cast

import numpy as np

from hlo2tx8.errors import InputError, writing
from hlo2tx8.netlist.checks import problems_of, refuse_broken
from hlo2tx8.netlist.compare import compare
from hlo2tx8.netlist.config import TestConfig
from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.golden import outputs_of, run_golden
from hlo2tx8.netlist.instances import expand
from hlo2tx8.netlist.model import ARCHES, Netlist
from hlo2tx8.netlist.reader import read_file
from hlo2tx8.netlist.show import show_netlist
from hlo2tx8.netlist.stimulus import config_of
from hlo2tx8.tools.command_parser import CommandParser
from hlo2tx8.tools.flags import whole


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The subcommands of `netlist`."""
    commands = parser.add_subparsers(dest="netlist_command", required=True, metavar="COMMAND", parser_class=CommandParser)
    run = commands.add_parser("run", help="run a netlist's programs")
    run.set_defaults(function=run_file)
    run.add_argument("file", type=Path, help=".yaml netlist")
    add_arch(run)
    run.add_argument("--on", choices=("golden",), default="golden", help="what runs it: numpy, like the format's reference model")
    run.add_argument("--inputs", type=Path, help=".npz with [n, t, rows, columns] for each IO that the host fills (stimulus)")
    run.add_argument("--outputs", type=Path, help=".npz for [n, t, rows, columns] of each IO that an op feeds")
    run.add_argument("--params", type=Path, help='.json with the parameters of programs, as {"$p_name": 1} (test-args, else 1)')
    run.add_argument("--max_steps", type=whole(1), help="end in an error after so many turns of loops")
    check = commands.add_parser("check", help="name every rule that a netlist breaks")
    check.set_defaults(function=check_file)
    check.add_argument("file", type=Path, help=".yaml netlist")
    add_arch(check)
    show = commands.add_parser("show", help="draw ops on the grid, queues, fused ops and programs")
    show.set_defaults(function=show_file)
    show.add_argument("file", type=Path, help=".yaml netlist")


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


def run_file(args: Any) -> int:
    """Run on given inputs, or on the netlist's stimulus and compare with exact arithmetic; 1 if results are not near enough."""
    netlist = read_file(args.file)
    arch = arch_of(args, netlist)
    refuse_broken(netlist, arch)
    params = _read_params(args.params) if args.params else {}
    inputs = _read_arrays(args.inputs) if args.inputs else None
    found = run_golden(netlist, arch, inputs, params, max_steps=args.max_steps)
    if args.outputs:
        with writing(args.outputs), zipfile.ZipFile(args.outputs, "w") as file:
            for name, array in found.items():
                with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, array)
    if inputs is None:
        return _compare_exact(netlist, arch, params, found)
    for name, array in found.items():
        print(f"{name} {list(array.shape)}")
    return 0


def _compare_exact(netlist: Netlist, arch: str, params: dict[str, int], found: dict[str, Array]) -> int:
    """Print how each output compares with one computed in float64, where only integers are rounded; 1 if one does not agree."""
    expected = run_golden(netlist, arch, None, params, exact=True)
    config = (netlist.test_config or TestConfig()).comparison
    status = 0
    for name, queue in outputs_of(expand(netlist)).items():
        verdict = compare(found[name], expected[name], config_of(config, queue))
        status |= not verdict.agrees
        print(
            f"{name} {list(found[name].shape)}: {verdict.agreeing} of {verdict.tiles} tiles agree with exact arithmetic, "
            f"at least {verdict.least_pct:.1%} of elements close, correlation {verdict.least_pcc:.6f}, "
            f"largest difference {verdict.largest_difference:.3g}"
        )
    return status


def _read_params(path: Path) -> dict[str, int]:
    try:
        given: Any = json.loads(path.read_bytes())
    except ValueError as error:
        raise InputError("E1004", f"{path}: {error}") from None
    params = cast("dict[str, Any]", given if isinstance(given, dict) else {"": None})
    if not all(isinstance(value, int) for value in params.values()):
        raise InputError("E1004", f'{path}: is not {{"$p_name": integer, ..}}')
    return {"$" + name.lstrip("$"): int(value) for name, value in params.items()}


def _read_arrays(path: Path) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, zipfile.BadZipFile, EOFError, KeyError) as error:
        raise InputError("E1004", f"{path}: is no file of arrays: {error}") from None


def check_file(args: Any) -> int:
    """Print what is wrong, a line each; 1 if anything is."""
    netlist = read_file(args.file)
    arch = arch_of(args, netlist)
    problems = problems_of(netlist, arch)
    for problem in problems:
        print(f"{args.file}:{problem.line}: {problem.message}")
    ops = sum(len(graph.ops) for graph in netlist.graphs.values())
    found = f"{len(problems)} rules broken" if problems else "no rule broken"
    print(f"{len(netlist.queues)} queues, {len(netlist.graphs)} graphs, {ops} ops on {arch}: {found}")
    return int(bool(problems))


def show_file(args: Any) -> int:
    """Print the picture."""
    sys.stdout.write(show_netlist(read_file(args.file)))
    return 0
