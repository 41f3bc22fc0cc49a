"""`hlo2tx8 netlist report FILE -o X.html`: all that is known of a netlist as one page for a browser."""

import sys
from pathlib import Path
from typing import Any

from hlo2tx8.errors import UnsupportedError, writing
from hlo2tx8.netlist.epochs import executed_epochs
from hlo2tx8.netlist.instances import expand
from hlo2tx8.netlist.page import Cost, page_of
from hlo2tx8.netlist.pipes.backend import streams_of
from hlo2tx8.tools.netlist_chip import compiled_for, costs_of, places_of
from hlo2tx8.tools.netlist_input import UNSUPPORTED, add_arch, add_chip_flags, add_host_flags, read_for
from hlo2tx8.tools.netlist_streams import print_failures


def add_report_parser(commands: Any) -> None:
    """The subcommand."""
    parser = commands.add_parser("report", help="write a page for browsers: ops on the grid with cycles, queues, fused ops, pipes")
    parser.set_defaults(function=report_file, mode="fast")
    parser.add_argument("file", type=Path, help=".yaml netlist, or folder of `netlist compile`")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help=".html page")
    add_arch(parser)
    add_host_flags(parser)
    add_chip_flags(parser)


def report_file(args: Any) -> int:
    """Write the page; 1 if a graph has no streams, 3 if ops are not supported, whose cycles the page then has not."""
    from hlo2tx8.reports.page import require

    require()
    costs: dict[str, Cost] = {}
    notes: list[str] = []
    try:
        netlist, chip = compiled_for(args)
        arch = chip.rules.arch
        for epoch, cost in zip(executed_epochs(expand(netlist)), costs_of(args, netlist, chip), strict=True):
            of_bound = f"the bound is {cost.bound:,.0f}, {cost.bound / cost.cycles:.0%} of them" if cost.cycles else ""
            text = (
                f"{cost.cycles:,.0f} cycles a tensor, placement {cost.placement}, {cost.at_once} at once; {of_bound}; slowest op: "
            )
            text += f"{cost.slowest or 'none'}; busy: {', '.join(f'{n} {share:.0%}' for n, share in cost.resources.items())}"
            edges = [[e.source, e.target, e.way, f"{e.bytes:,.0f}", f"{e.cycles:,.0f}"] for e in cost.edges]
            costs[epoch.name] = Cost(text, cost.ops, places_of(cost), edges)
    except UnsupportedError as error:
        print(error, file=sys.stderr)
        netlist, arch = read_for(args)
        notes.append(f"No cycles: {error}")
    streams, result = streams_of(netlist, arch)
    page = page_of(netlist, arch, costs, streams, result, notes)
    with writing(args.output):
        args.output.write_text(page)
    print_failures(result)
    print(f"{args.output}: {len(netlist.graphs)} graphs, {len(page):,} characters")
    return UNSUPPORTED if notes else int(not result.success)
