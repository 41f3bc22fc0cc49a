"""The `hlo2tx8` command: one parser, one function per subcommand, errors as clear lines.

Exit codes: 0 everything agreed, 1 a run failed or the input was refused, 2 wrong usage, 130 interrupted.
"""

import argparse
import io
import sys
import warnings
from collections.abc import Sequence

import hlo2tx8
from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.tools import bisect as bisect_tool
from hlo2tx8.tools import check as check_tool
from hlo2tx8.tools import compile as compile_tool
from hlo2tx8.tools import explain as explain_tool
from hlo2tx8.tools import netlist as netlist_tool
from hlo2tx8.tools import opcase as opcase_tool
from hlo2tx8.tools import oplib as oplib_tool
from hlo2tx8.tools import profile as profile_tool
from hlo2tx8.tools import report_page as report_tool
from hlo2tx8.tools import run as run_tool
from hlo2tx8.tools import scale as scale_tool
from hlo2tx8.tools import sweep as sweep_tool
from hlo2tx8.tools.command_parser import CommandParser
from hlo2tx8.tools.flags import add_switch
from hlo2tx8.tools.test_ops import command as test_ops_tool

TRACEBACK = "show where in the compiler an error was raised"
INTERRUPTED = 130  # 128 + SIGINT, as shells say it


def parser() -> CommandParser:
    """All subcommands and their flags."""
    top = CommandParser(prog="hlo2tx8", description="Compile HLO and StableHLO to TX8 tile programs and run them on the emulator.")
    add_switch(top, "traceback", TRACEBACK)
    top.add_argument("--version", action="version", version=f"hlo2tx8 {hlo2tx8.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run_tool.add_parser(commands.add_parser("run", help="run modules and compare with a reference"))
    compile_tool.add_parser(commands.add_parser("compile", help="compile one module; print or save the result"))
    profile_tool.add_parser(commands.add_parser("profile", help="say where the modelled time of a module goes"))
    explain_tool.add_parser(commands.add_parser("explain", help="say why a program is as it is, where time and memory go"))
    report_tool.add_parser(
        commands.add_parser("report", help="write a page for browsers: where the time goes, what lies where, when")
    )
    check_tool.add_parser(commands.add_parser("check", help="say which ops and fusions of a module compile, where and why not"))
    bisect_tool.add_parser(commands.add_parser("bisect", help="find where a module goes wrong, and a smaller one that does"))
    netlist_tool.add_parser(
        commands.add_parser("netlist", help="run, compile, analyze, debug, emit, report, check and show TT-BUDA netlists")
    )
    opcase_tool.add_parser(commands.add_parser("opcase", help="write random uses of an op as chip folders, or replay such folders"))
    oplib_tool.add_parser(
        commands.add_parser("oplib", help="answer what the vendor's flow asks of an op: code, cycles, scratch, shares")
    )
    test_ops_tool.add_parser(commands.add_parser("test-ops", help="run every op in each element type against its framework"))
    sweep_tool.add_parser(commands.add_parser("sweep", help="model modules on all chips of a cross product of parameters"))
    scale_tool.add_parser(commands.add_parser("scale", help="model the time of training a Llama-style model on many chips"))
    sweep_tool.add_search_parser(commands.add_parser("search-chip", help="look for the chip that is best for modules"))
    for command in (own := tuple(commands.choices.values())):
        add_switch(command, "traceback", TRACEBACK, default=argparse.SUPPRESS)
        command.others = own
    commands.add_parser("opt", help="run passes on IR text (same as hlo2tx8-opt)", add_help=False)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # locales without a bar's or a name's characters
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["opt"]:
        from hlo2tx8.tools.opt import main as opt

        return opt(given[1:], "hlo2tx8 opt")
    args = argparse.Namespace(traceback=False)
    try:
        args = parser().parse_args(given)
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            status: int = args.function(args)
    except Hlo2tx8Error as error:
        if args.traceback:
            raise
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        return 1
    except OSError as error:
        if args.traceback:
            raise
        print(f"error E1004: {error.filename or 'a file'}: {error.strerror}", file=sys.stderr)
        return 1
    except Exception as error:
        if args.traceback:
            raise
        line = f"{type(error).__name__}: {error}".splitlines()[0]
        print(f"error E1000: internal error: {line}\n  hint: --traceback shows where", file=sys.stderr)
        return 1
    return status


def _show_warning(message: Warning | str, *_: object) -> None:
    print(f"warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
