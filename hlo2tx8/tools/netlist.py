"""`hlo2tx8 netlist run|compile|analyze|debug|emit|report|check|show FILE`: TT-BUDA netlists.

Exit code 0 if nothing is wrong, 1 if a netlist breaks a rule, cannot be run, or gives results that are not near enough, or has
no streams, 3 if it has ops that are not supported.
"""

import argparse
import json
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from hlo2tx8.errors import InputError, UnsupportedError, writing
from hlo2tx8.netlist.check_addresses import overlaps_of
from hlo2tx8.netlist.checks import problems_of
from hlo2tx8.netlist.compare import compare
from hlo2tx8.netlist.config import TestConfig
from hlo2tx8.netlist.epochs import Golden
from hlo2tx8.netlist.evaluate import Rules
from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.golden import outputs_of, rules_of, run_netlist
from hlo2tx8.netlist.instances import expand
from hlo2tx8.netlist.model import Netlist
from hlo2tx8.netlist.reader import read_file
from hlo2tx8.netlist.schema import netlist_schema
from hlo2tx8.netlist.show import show_netlist
from hlo2tx8.netlist.stimulus import config_of
from hlo2tx8.options import Level, Mode, Options
from hlo2tx8.runtime.levels import RUNS, LevelRun
from hlo2tx8.tools.command_parser import CommandParser
from hlo2tx8.tools.flags import add_switch
from hlo2tx8.tools.netlist_chip import add_chip_parsers
from hlo2tx8.tools.netlist_debug import add_debug_parser
from hlo2tx8.tools.netlist_emit import add_emit_parser
from hlo2tx8.tools.netlist_input import (
    UNSUPPORTED,
    add_arch,
    add_chip_flags,
    add_host_flags,
    arch_of,
    chip_for,
    inputs_of,
    params_of,
    read_for,
)
from hlo2tx8.tools.netlist_report import add_report_parser
from hlo2tx8.tools.netlist_streams import read_compiled, show_pipes, streamed
from hlo2tx8.tools.run import run_level_named

if TYPE_CHECKING:
    from hlo2tx8.netlist.tx8 import Tx8


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The subcommands of `netlist`."""
    commands = parser.add_subparsers(dest="netlist_command", required=True, metavar="COMMAND", parser_class=CommandParser)
    run = commands.add_parser("run", help="run a netlist's programs")
    run.set_defaults(function=run_file)
    run.add_argument("file", type=Path, help=".yaml netlist, or folder of `netlist compile`")
    add_arch(run)
    run.add_argument(
        "--on",
        choices=("golden", "streams", "tx8"),
        help="what runs it: numpy, as the reference model, or core by core from its streams (golden; tx8 for a folder)",
    )
    add_chip_flags(run)
    run.add_argument("--mode", choices=get_args(Mode), default="fast", help="emulator mode (fast)")
    run.add_argument("--level", type=run_level_named, default=Level.PROGRAM, help="run the IR of this level (program), or all")
    add_switch(run, "report", "print of each graph modelled cycles, what bounds them and memory use")
    add_host_flags(run)
    run.add_argument("--outputs", type=Path, help=".npz for [n, t, rows, columns] of each IO that an op feeds")
    add_chip_parsers(commands)
    add_debug_parser(commands)
    add_emit_parser(commands)
    add_report_parser(commands)
    check = commands.add_parser("check", help="name every rule that a netlist breaks")
    check.set_defaults(function=check_file)
    check.add_argument("file", type=Path, help=".yaml netlist")
    add_arch(check)
    schema = commands.add_parser("schema", help="print the JSON schema of netlists, for editors")
    schema.set_defaults(function=print_schema)
    show = commands.add_parser("show", help="draw ops on the grid, queues, fused ops and programs")
    show.set_defaults(function=show_file)
    show.add_argument("file", type=Path, help=".yaml netlist")
    add_switch(show, "pipes", "show the pipes between cores and what lies in their L1 instead")
    add_arch(show)


def run_file(args: Any) -> int:
    """Run on given inputs, or on the netlist's own and compare; 1 if results are not near enough, 3 if ops are not supported."""
    on = args.on or ("tx8" if args.file.is_dir() else "golden")
    for name in ("chip", "placement", "mode", "level", "report"):
        if on != "tx8" and name in args.given:
            raise InputError("E1004", f"--{name} is of tx8, and --on is {on}")
    if args.report and args.level is not Level.PROGRAM:
        raise InputError("E1004", "--report is of programs, and --level runs the IR")
    params, inputs = params_of(args), inputs_of(args)
    if on == "golden":
        netlist, arch = read_for(args)
        rules = rules_of(netlist, arch)
        found = run_netlist(netlist, Golden(rules), inputs, params, max_steps=args.max_steps)
        return _judge(args, netlist, found, inputs, params, replace(rules, exact=True))
    if on == "streams":
        netlist, rules, folder = read_compiled(args)
        found = run_netlist(netlist, streamed(netlist, rules, folder), inputs, params, max_steps=args.max_steps)
        return _judge(args, netlist, found, inputs, params, rules)
    status = 0
    for run in RUNS if args.level is None else (LevelRun("", args.level, args.mode),):
        if run.name:
            print(f"** {run.name} **")
        try:
            netlist, chip = chip_for(args, Options(chip=args.chip, mode=run.mode, until=run.level))
        except UnsupportedError as error:
            print(error, file=sys.stderr)
            return UNSUPPORTED
        found = run_netlist(netlist, chip, inputs, params, max_steps=args.max_steps)
        status |= _judge(args, netlist, found, inputs, params, chip.rules)
        sys.stdout.write(describe_runs(chip, reports=args.report))
    return status


def _judge(
    args: Any,
    netlist: Netlist,
    found: Mapping[str, Array],
    inputs: Mapping[str, Array] | None,
    params: dict[str, int],
    rules: Rules,
) -> int:
    """Write outputs, and compare them with what the rules give if the inputs are the netlist's own; 1 if one does not agree."""
    if args.outputs:
        with writing(args.outputs), zipfile.ZipFile(args.outputs, "w") as file:
            for name, array in found.items():
                with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asarray(array))
    if inputs is None:
        expected = run_netlist(netlist, Golden(rules), None, params, exact=rules.exact, max_steps=args.max_steps)
        return _compare(netlist, found, expected, "exact arithmetic" if rules.exact else "golden")
    for name, array in found.items():
        print(f"{name} {list(array.shape)}")
    return 0


def _compare(netlist: Netlist, found: Mapping[str, Array], expected: Mapping[str, Array], what: str) -> int:
    """Print how each output compares with the one expected; 1 if one does not agree."""
    config = (netlist.test_config or TestConfig()).comparison
    status = 0
    for name, queue in outputs_of(expand(netlist)).items():
        verdict = compare(found[name], expected[name], config_of(config, queue))
        status |= not verdict.agrees
        print(
            f"{name} {list(found[name].shape)}: {verdict.agreeing} of {verdict.tiles} tiles agree with {what}, "
            f"at least {verdict.least_pct:.1%} of elements close, correlation {verdict.least_pcc:.6f}, "
            f"largest difference {verdict.largest_difference:.3g}"
        )
    return status


def describe_runs(chip: "Tx8", *, reports: bool) -> str:
    """What graphs took on the chip, a line each, and their reports if asked for."""
    from hlo2tx8.runtime.executable import Executable
    from hlo2tx8.tools.report import describe

    lines: list[str] = []
    for key, count in chip.runs.items():
        if isinstance(executable := chip.compiled[key], Executable):
            cycles, inputs = executable.report.cycles, key[2]
            each = f"{cycles / inputs:,.0f} cycles each" + (f", {inputs} at once" if inputs > 1 else "")
            lines.append(f"graph {key[0]}: {count * inputs} tensors, {each}, {count * cycles:,.0f} in all\n")
            lines.append(describe(executable, program=False, report=reports))
    return "".join(lines)


def check_file(args: Any) -> int:
    """Print what is wrong, a line each; 1 if anything is."""
    netlist = read_file(args.file)
    arch = arch_of(args, netlist)
    problems = problems_of(netlist, arch) or overlaps_of(netlist, arch)
    for problem in problems:
        print(f"{args.file}:{problem.line}: {problem.message}")
    ops = sum(len(graph.ops) for graph in netlist.graphs.values())
    found = f"{len(problems)} rules broken" if problems else "no rule broken"
    print(f"{len(netlist.queues)} queues, {len(netlist.graphs)} graphs, {ops} ops on {arch}: {found}")
    return int(bool(problems))


def show_file(args: Any) -> int:
    """Print the picture, or the pipes; 1 if there are none."""
    if args.pipes:
        return show_pipes(*read_for(args))
    sys.stdout.write(show_netlist(read_file(args.file)))
    return 0


def print_schema(args: Any) -> int:
    """Print the schema."""
    print(json.dumps(netlist_schema(), indent=1))
    return 0
