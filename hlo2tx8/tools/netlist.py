"""`hlo2tx8 netlist check|show FILE`: TT-BUDA netlists. Exit code 0 if nothing is wrong."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from hlo2tx8.errors import InputError
from hlo2tx8.netlist.checks import problems_of
from hlo2tx8.netlist.model import ARCHES, Netlist
from hlo2tx8.netlist.reader import read_file
from hlo2tx8.netlist.show import show_netlist
from hlo2tx8.tools.command_parser import CommandParser


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The subcommands of `netlist`."""
    commands = parser.add_subparsers(dest="netlist_command", required=True, metavar="COMMAND", parser_class=CommandParser)
    check = commands.add_parser("check", help="name every rule that a netlist breaks")
    check.set_defaults(function=check_file)
    check.add_argument("file", type=Path, help=".yaml netlist")
    add_arch(check)
    show = commands.add_parser("show", help="draw ops on the grid, queues, fused ops and programs")
    show.set_defaults(function=show_file)
    show.add_argument("file", type=Path, help=".yaml netlist")


def add_arch(parser: argparse.ArgumentParser) -> None:
    """The flag that chooses an architecture."""
    parser.add_argument("--arch", choices=ARCHES, help="one of the netlist's architectures ($ARCH_NAME, else the first of them)")


def arch_of(args: Any, netlist: Netlist) -> str:
    """The architecture that was chosen; InputError if the netlist is not for it."""
    there_are = netlist.devices.arches
    chosen: str = args.arch or os.environ.get("ARCH_NAME", "").lower() or there_are[0]
    if chosen not in there_are:
        raise InputError("E1004", f"{args.file}: is for {' or '.join(there_are)}, not {chosen}")
    return chosen


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
