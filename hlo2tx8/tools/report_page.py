"""`hlo2tx8 report FILE -o report.html`: what is known of a program as one page for a browser."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlo2tx8.errors import writing
from hlo2tx8.tools.before_run import check_writable
from hlo2tx8.tools.combinations import check_flags, rules_of_report
from hlo2tx8.tools.flags import add_compiler_flags, add_dump_flags, given_inputs, options_of
from hlo2tx8.tools.run_chips import add_flags, chips_module

if TYPE_CHECKING:
    from hlo2tx8.reports.facts import Facts


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `report`."""
    parser.set_defaults(function=report_file, explain=True)
    parser.add_argument("file", help=".hlo, .mlir, .mlirbc or .pb module, .tx8x program, - for stdin")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help=".html page")
    parser.add_argument("--against", metavar="OTHER", help="another module or program: the page says what the first does otherwise")
    add_flags(parser)
    add_compiler_flags(parser)
    parser.set_defaults(explain=True)
    add_dump_flags(parser)


def report_file(args: Any) -> int:
    """Write the page; 0, or an Hlo2tx8Error is raised."""
    from hlo2tx8.reports.page import page_of, require

    check_flags(args, rules_of_report(args))
    check_writable(args.output)
    require()
    files = [args.file] if args.against is None else [args.file, args.against]
    programs: list[Facts] = []
    compiling = 0.0
    started = time.perf_counter()
    for file in files:
        found, seconds = _programs(file, args)
        programs += found
        compiling += seconds
    page = page_of(programs, is_comparison=args.against is not None)
    with writing(args.output):
        args.output.write_text(page, encoding="utf-8")
    taken = time.perf_counter() - started - compiling
    print(f"{args.output}: {len(page):,} characters, compiled in {compiling:.1f} s, made in {taken:.1f} s")
    return 0


def _programs(file: str, args: Any) -> "tuple[list[Facts], float]":
    """What is known of a file's program, or of those of its parts on several chips; the seconds that compiling took."""
    from hlo2tx8.reports.facts import facts_of
    from hlo2tx8.reports.shown import Shown
    from hlo2tx8.runtime.compile import compile_source
    from hlo2tx8.runtime.executable import Executable
    from hlo2tx8.runtime.progress_bar import shown as watched
    from hlo2tx8.spmd.chips import compile_chips_module
    from hlo2tx8.tools.saved import is_saved, parsed

    path = None if file == "-" else Path(file)
    name = "stdin" if path is None else path.name
    if is_saved(file):
        executable = Executable.load(file)
        return [facts_of(executable, Shown.of(executable, lambda text: parsed(text, file)), name, path)], 0.0
    options = options_of(args)
    started = time.perf_counter()
    module = chips_module(file, options, args)
    if module is not None:
        with watched() as watch:
            chips = compile_chips_module(module, options, watch)
        seconds = time.perf_counter() - started
        parts: Sequence[tuple[Executable, int]] = chips.local.programs
        return [facts_of(each, Shown(), f"{name}, part {n}, {times} times", path) for n, (each, times) in enumerate(parts)], seconds
    shown = Shown()
    with watched() as watch:
        executable = compile_source(file, options, args=given_inputs(args), format=args.input_format, watch=watch, show=shown)
    return [facts_of(executable, shown, name, path)], time.perf_counter() - started
