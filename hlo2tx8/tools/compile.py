"""`hlo2tx8 compile FILE`: compile one module; print a level, the listing or the report; save a container."""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from hlo2tx8.tools.before_run import check_writable
from hlo2tx8.tools.flags import add_compiler_flags, add_switch, given_inputs, load_given, options_of


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `compile`."""
    parser.set_defaults(function=compile_file)
    parser.add_argument("file", help=".hlo, .mlir, .mlirbc or .pb module, .tx8x program, - for stdin")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="save the executable (.tx8x)")
    add_switch(parser, "time", "print what each pass took")
    add_compiler_flags(parser)


def compile_file(args: Any) -> int:
    """Compile the file and print or save what was asked for; returns 0, or raises an Hlo2tx8Error."""
    from hlo2tx8.compiler.driver import lower
    from hlo2tx8.options import Level
    from hlo2tx8.runtime.compile import compile_module, compile_source
    from hlo2tx8.runtime.progress_bar import shown
    from hlo2tx8.tools.report import describe, describe_lowered
    from hlo2tx8.tools.saved import is_saved

    options = options_of(args)
    check_writable(args.output)
    if options.until is not Level.PROGRAM:
        sys.stdout.write(describe_lowered(lower(partial(load_given, args, args.file), options)))
        return 0
    with shown() as watch:
        if is_saved(args.file):
            executable = compile_module(partial(load_given, args, args.file), options, watch)
        else:
            executable = compile_source(args.file, options, args=given_inputs(args), format=args.input_format, watch=watch)
    show_program = args.print_program or args.until is Level.PROGRAM
    sys.stdout.write(describe(executable, program=show_program, report=args.report))
    if args.time:
        for name, seconds in executable.seconds.items():
            print(f"{1e3 * seconds:10.3f} ms  {name}")
    if args.output is not None:
        executable.save(args.output)
    return 0
