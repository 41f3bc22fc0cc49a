"""`hlo2tx8 netlist compile|analyze FILE`: netlists compiled into a folder, and what they take on the chip."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from hlo2tx8.errors import UnsupportedError
from hlo2tx8.netlist.epochs import Epoch, executed_epochs
from hlo2tx8.netlist.golden import run_netlist
from hlo2tx8.netlist.instances import expand
from hlo2tx8.netlist.model import Netlist, Where
from hlo2tx8.options import Options
from hlo2tx8.tools.netlist_input import UNSUPPORTED, add_arch, add_chip_flags, add_host_flags, chip_for, inputs_of, params_of
from hlo2tx8.tools.netlist_streams import print_failures
from hlo2tx8.tools.table import Table, percent

if TYPE_CHECKING:
    from hlo2tx8.netlist.analyze import EpochCost
    from hlo2tx8.netlist.tx8 import Tx8

MOST_LINKS = 4
"""Links that are printed, those over which most goes."""


def add_chip_parsers(commands: Any) -> None:
    """The subcommands."""
    compile = commands.add_parser("compile", help="compile the graphs that programs execute, for the chip")
    compile.set_defaults(function=compile_file, mode="fast")
    compile.add_argument("file", type=Path, help=".yaml netlist")
    compile.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for what `run` and `analyze` take")
    analyze = commands.add_parser("analyze", help="say what graphs take on the chip, and which op takes most")
    analyze.set_defaults(function=analyze_file, mode="fast")
    analyze.add_argument("file", type=Path, help=".yaml netlist, or folder of `netlist compile`")
    analyze.add_argument("--format", choices=("text", "yaml", "json"), default="text", help="(text)")
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


def costs_of(args: Any, netlist: Netlist, chip: "Tx8") -> "list[EpochCost]":
    """Of all epochs; those of programs whose branches depend on data after a run."""
    from hlo2tx8.netlist.analyze import cost_of
    from hlo2tx8.runtime.executable import Executable

    if any(isinstance(executable, Executable) and executable.time.deciding for executable in chip.compiled.values()):
        run_netlist(netlist, chip, inputs_of(args), params_of(args), max_steps=args.max_steps)
    return [cost_of(epoch, chip) for epoch in executed_epochs(expand(netlist))]


def analyze_file(args: Any) -> int:
    """Print what each epoch takes; 3 if ops are not supported."""
    try:
        netlist, chip = compiled_for(args)
    except UnsupportedError as error:
        print(error, file=sys.stderr)
        return UNSUPPORTED
    costs, whole = costs_of(args, netlist, chip), expand(netlist)
    others = _otherwise(chip, executed_epochs(whole))
    if args.format != "text":
        found = [cost.as_dict() | other for cost, other in zip(costs, others, strict=True)]
        text = json.dumps(found, indent=1) + "\n" if args.format == "json" else yaml.safe_dump(found, sort_keys=False)
        sys.stdout.write(text)
        return 0
    types = {op.name: op.type for op in whole.ops.values()}
    print("\n".join(text_of(cost, types, other) for cost, other in zip(costs, others, strict=True)), end="")
    return 0


def _otherwise(chip: "Tx8", epochs: Sequence[Epoch]) -> list[dict[str, float]]:
    """Cycles of each epoch in the other placement; none where nothing may be compiled, or not without inputs."""
    from hlo2tx8.netlist.analyze import cost_of
    from hlo2tx8.netlist.tx8 import Tx8, is_sparse

    where: Where = "chip" if chip.placement == "netlist" else "netlist"
    other = Tx8(chip.rules, chip.options, where)
    if chip.is_fixed or any(is_sparse(op) for epoch in epochs for segment in epoch.segments for op in segment.ops):
        return [{} for _ in epochs]
    other.prepare(epochs)
    return [{f"cycles of placement {where}": round(cost_of(epoch, other).cycles, 3)} for epoch in epochs]


def places_of(cost: "EpochCost") -> dict[str, str]:
    """The first tile of each op, and how many rows and columns of tiles run it."""
    return {name: f"{at.row},{at.column} {at.rows}x{at.columns}" for name, at in cost.tiles.items()}


def text_of(cost: "EpochCost", types: Mapping[str, str], other: Mapping[str, float]) -> str:
    """Lines about an epoch, and tables of its ops, which are of these types, and of what goes between them."""
    reached = percent(cost.bound / cost.cycles) if cost.cycles else "all"
    busy = ", ".join(f"{name} {percent(share)}" for name, share in cost.resources.items())
    where = places_of(cost)
    rows = [
        (name, types.get(name, ""), where.get(name, ""), f"{cycles:,.0f}", percent(cycles / cost.cycles))
        for name, cycles in cost.ops.items()
    ]
    moved = [(e.source, e.target, e.way, f"{e.bytes:,.0f}", f"{e.cycles:,.0f}") for e in cost.edges]
    links = ", ".join(f"{a} to {b} {count:,.0f}" for (a, b), count in [*cost.links.items()][:MOST_LINKS])
    compared = "".join(f"; {name}: {cycles:,.0f} a tensor" for name, cycles in other.items())
    return (
        f"epoch {cost.name}: {cost.cycles:,.0f} cycles a tensor, {cost.tensors} an execution; "
        f"the bound is {cost.bound:,.0f}, {reached} of them\n"
        f"placement {cost.placement}, {cost.at_once} inputs at once{compared}\n"
        f"slowest op: {cost.slowest or 'none'}; busy: {busy}\n"
        f"{Table(('op', 'type', 'tiles', '>cycles', '>share'), rows).text(is_terminal=False)}"
        f"{Table(('from', 'to', 'way', '>bytes', '>cycles'), moved).text(is_terminal=False)}"
        f"bytes over links of the mesh: {links or 'none'}\n"
    )
