"""`hlo2tx8 profile FILE`: where the modelled time of a module goes, by fusion, HLO instruction and engine."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hlo2tx8.tools.combinations import check_flags, rules_of_profile
from hlo2tx8.tools.flags import add_compiler_flags, add_dump_flags, given_inputs, options_of, whole
from hlo2tx8.tools.run_chips import add_flags, chips_module
from hlo2tx8.tools.table import Table, count, percent, size

if TYPE_CHECKING:
    from hlo2tx8.device.timing import EngineCounters, Report
    from hlo2tx8.runtime.executable import Executable
    from hlo2tx8.runtime.profile import Profile, Row

TOP = 20
MOST_CAUSES = 3
COLUMNS = (">cycles", ">share", "bound", "next", ">roofline", ">bytes", ">flops")


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `profile`."""
    parser.set_defaults(function=profile_file)
    parser.add_argument("file", help=".hlo, .mlir, .mlirbc or .pb module, .tx8x program, - for stdin")
    parser.add_argument("--format", choices=("text", "json", "jsonl"), default="text", help="jsonl: an object per row (text)")
    parser.add_argument("--top", type=whole(0), default=TOP, metavar="N", help=f"rows of a table, 0 for all ({TOP}); JSON has all")
    add_flags(parser)
    add_compiler_flags(parser)
    add_dump_flags(parser)


def profile_file(args: Any) -> int:
    """Print the profile; 0, or an Hlo2tx8Error is raised."""
    check_flags(args, rules_of_profile(args))
    if (chips := _for_chips(args)) is not None:
        sys.stdout.write(chips)
        return 0
    profile = _executable(args).profile()
    match args.format:
        case "json":
            print(json.dumps(profile.as_dict(), indent=1))
        case "jsonl":
            sys.stdout.writelines(f"{json.dumps(row)}\n" for row in lines_of(profile))
        case _:
            sys.stdout.write(text_of(profile, args.top, is_terminal=sys.stdout.isatty()))
    return 0


def _for_chips(args: Any) -> str | None:
    """The profiles of a module's parts on several chips, and what chips_report says of them; None of a module for one."""
    from hlo2tx8.runtime.progress_bar import shown
    from hlo2tx8.spmd.chips import compile_chips_module
    from hlo2tx8.tools.chips_report import chip_rows, link_rows, text_of_tables
    from hlo2tx8.tools.saved import is_saved

    module = None if is_saved(args.file) else chips_module(args.file, options_of(args), args)
    if module is None:
        return None
    with shown() as watch:
        executable = compile_chips_module(module, options_of(args), watch)
    parts = [(each.profile(), times) for each, times in executable.local.programs]
    if args.format == "text":
        found = [f"part {n}, times: {times}\n{text_of(each, args.top, is_terminal=False)}" for n, (each, times) in enumerate(parts)]
        return "\n".join([*found, text_of_tables(executable)])
    tables = {"link": link_rows(executable), "chip": chip_rows(executable)}
    if args.format == "json":
        found = {"parts": [{"times": times, **each.as_dict()} for each, times in parts], **tables}
        return json.dumps(found, indent=1) + "\n"
    rows = [{"part": n, "times": times} | row for n, (each, times) in enumerate(parts) for row in lines_of(each)]
    rows += [{"kind": kind, **row} for kind, found in tables.items() for row in found]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def _executable(args: Any) -> "Executable":
    from hlo2tx8.runtime.compile import compile_source
    from hlo2tx8.runtime.executable import Executable
    from hlo2tx8.runtime.progress_bar import shown
    from hlo2tx8.tools.saved import is_saved

    if is_saved(args.file):
        return Executable.load(args.file)
    with shown() as watch:
        return compile_source(args.file, options_of(args), args=given_inputs(args), format=args.input_format, watch=watch)


def lines_of(profile: "Profile") -> list[dict[str, object]]:
    """The profile as one dictionary per row; `kind` is program, fusion, instruction or engine."""
    tables = {"fusion": profile.fusions, "instruction": profile.instructions}
    engines = profile.report.engines.items()
    return [
        {"kind": "program", "name": profile.program, **profile.report.as_dict()},
        *({"kind": kind, **row.as_dict()} for kind, rows in tables.items() for row in rows),
        *({"kind": "engine", "name": name, **counters.as_dict()} for name, counters in engines),
    ]


def text_of(profile: "Profile", top: int, *, is_terminal: bool) -> str:
    """The profile as text: a line about the program and three tables of at most `top` rows."""
    fusions = sorted(profile.fusions, key=lambda row: -row.cycles)
    tables = (
        (_rows("fusion", fusions, top), len(fusions)),
        (_rows("HLO instruction", profile.instructions, top), len(profile.instructions)),
        (engine_table(profile.report), 0),
    )
    parts = [f"{profile.program}: {profile.report}\n", losses_of(profile.report.bound_cycles, profile.lost_cycles)]
    parts += [f"registered kernel: {kernel}\n" for kernel in profile.library]
    for table, total in tables:
        more = f"and {total - len(table.rows)} more\n" if total > len(table.rows) else ""
        parts += ["\n", table.text(is_terminal=is_terminal), more]
    return "".join(parts)


def losses_of(bound_cycles: float, lost: Mapping[str, float]) -> str:
    """A line about what a program does beyond its lower bound, "" if that is not known."""
    named = [f"{cause} {cycles:,.0f}" for cause, cycles in lost.items() if cycles >= 1]
    return f"lower bound {bound_cycles:,.0f} cycles; beyond it: {', '.join(named) or 'nothing'}\n" if bound_cycles else ""


def _rows(what: str, rows: Sequence["Row"], top: int) -> Table:
    shown = rows[:top] if top > 0 else rows
    cells = [(row.name, row.source, *_numbers(row)) for row in shown]
    return Table((what, "source", *COLUMNS), cells, [row.share for row in shown])


def _numbers(row: "Row") -> tuple[str, ...]:
    bound = (row.bound, row.next_bound)
    return (count(row.cycles), percent(row.share), *bound, percent(row.roofline), size(row.bytes, "B"), size(row.flops))


def engine_table(report: "Report") -> Table:
    """Counters, means over tiles; the busiest tile's share of the time; what blocked an engine most."""
    shown = {name: c for name, c in report.engines.items() if c.instructions or c.blocked_cycles}
    rows = [_engine(name, c, report.busy.get(name, 0.0), report.cycles) for name, c in shown.items()]
    header = ("engine", ">instructions", ">busy", ">busiest tile", ">blocked", ">idle", "blocked by")
    return Table(header, rows, [c.busy_cycles / report.cycles for c in shown.values()])


def _engine(name: str, c: "EngineCounters", most: float, cycles: float) -> tuple[str, ...]:
    causes = sorted(c.blocked_cycles.items(), key=lambda item: (-item[1], item[0]))
    named = ", ".join(f"{cause} {percent(value / cycles)}" for cause, value in causes[:MOST_CAUSES] if value >= 0.005 * cycles)
    shares = (percent(value / cycles) for value in (c.busy_cycles, most, sum(c.blocked_cycles.values()), c.idle_cycles))
    return (name, count(c.instructions), *shares, named)
