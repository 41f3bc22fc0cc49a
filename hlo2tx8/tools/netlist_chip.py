"""`hlo2tx8 netlist compile|analyze FILE`: netlists compiled into a folder, and what they take on the chip."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from hlo2tx8.errors import UnsupportedError
from hlo2tx8.netlist.epochs import executed_epochs
from hlo2tx8.netlist.golden import run_netlist
from hlo2tx8.netlist.instances import expand
from hlo2tx8.netlist.model import Netlist
from hlo2tx8.options import Options
from hlo2tx8.tools.netlist_input import UNSUPPORTED, add_arch, add_chip_flags, add_host_flags, chip_for, inputs_of, params_of
from hlo2tx8.tools.netlist_streams import print_failures
from hlo2tx8.tools.table import Table, percent

if TYPE_CHECKING:
    from hlo2tx8.netlist.analyze import EpochCost
    from hlo2tx8.netlist.tx8 import Tx8


def add_chip_parsers(commands: Any) -> None:
    """The subcommands."""
    compile = commands.add_parser("compile", help="compile the graphs that programs execute, for the chip")
    compile.set_defaults(function=compile_file, mode="fast")
    compile.add_argument("file", type=Path, help=".yaml netlist")
    compile.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for what `run` and `analyze` take")
    analyze = commands.add_parser("analyze", help="say what graphs take on the chip, and which op takes most")
    analyze.set_defaults(function=analyze_file, mode="fast")
    analyze.add_argument("file", type=Path, help=".yaml netlist, or folder of `netlist compile`")
    analyze.add_argument("--format", choices=("text", "yaml"), default="text", help="(text)")
    for command in (compile, analyze):
        add_arch(command)
        add_host_flags(command)
        add_chip_flags(command)


def compile_file(args: Any) -> int:
    """Compile what programs execute into a folder; 1 if it has no streams, 3 if ops are not supported."""
    from hlo2tx8.netlist.pipes.backend import save_streams
    from hlo2tx8.netlist.saved import save
    from hlo2tx8.runtime.executable import Executable

    try:
        netlist, chip = compiled_for(args)
    except UnsupportedError as error:
        print(error, file=sys.stderr)
        return UNSUPPORTED
    files = save(netlist, chip, args.output)
    for file, (key, executable) in zip(files, chip.compiled.items(), strict=True):
        assert isinstance(executable, Executable)
        print(f"graph {key[0]}: {executable.report.cycles / key[2]:,.0f} cycles a tensor, {file}")
    result = save_streams(netlist, chip.rules.arch, args.output)
    print_failures(result)
    return int(not result.success)


def compiled_for(args: Any) -> tuple[Netlist, "Tx8"]:
    """The netlist and all that its programs run; those with sparse products run with numpy, as inputs say how long lists are."""
    from hlo2tx8.netlist.tx8 import Rehearsal, is_sparse

    netlist, chip = chip_for(args, Options(chip=args.chip))
    if any(map(is_sparse, netlist.ops.values())) and not chip.is_fixed:
        run_netlist(netlist, Rehearsal(chip), inputs_of(args), params_of(args), max_steps=args.max_steps)
    return netlist, chip


def analyze_file(args: Any) -> int:
    """Print what each epoch takes; 3 if ops are not supported."""
    from hlo2tx8.netlist.analyze import cost_of
    from hlo2tx8.runtime.executable import Executable

    try:
        netlist, chip = compiled_for(args)
    except UnsupportedError as error:
        print(error, file=sys.stderr)
        return UNSUPPORTED
    if any(isinstance(executable, Executable) and executable.time.deciding for executable in chip.compiled.values()):
        run_netlist(netlist, chip, inputs_of(args), params_of(args), max_steps=args.max_steps)  # what is taken depends on data
    whole = expand(netlist)
    costs = [cost_of(epoch, chip) for epoch in executed_epochs(whole)]
    if args.format == "yaml":
        sys.stdout.write(yaml.safe_dump([cost.as_dict() for cost in costs], sort_keys=False))
        return 0
    print("\n".join(text_of(cost, {op.name: op.type for op in whole.ops.values()}) for cost in costs), end="")
    return 0


def text_of(cost: "EpochCost", types: Mapping[str, str]) -> str:
    """Two lines about an epoch and a table of its ops, which are of these types."""
    reached = percent(cost.bound / cost.cycles) if cost.cycles else "all"
    busy = ", ".join(f"{name} {percent(share)}" for name, share in cost.resources.items())
    rows = [(name, types.get(name, ""), f"{cycles:,.0f}", percent(cycles / cost.cycles)) for name, cycles in cost.ops.items()]
    table = Table(("op", "type", ">cycles", ">share"), rows).text(is_terminal=False)
    return (
        f"epoch {cost.name}: {cost.cycles:,.0f} cycles a tensor, {cost.tensors} an execution; "
        f"the bound is {cost.bound:,.0f}, {reached} of them\n"
        f"slowest op: {cost.slowest or 'none'}; busy: {busy}\n{table}"
    )
