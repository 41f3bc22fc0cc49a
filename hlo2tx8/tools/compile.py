"""`hlo2tx8 compile FILE`: compile one module; print a level, the listing or the report; save a container."""

import argparse
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hlo2tx8.errors import InputError
from hlo2tx8.tools.before_run import check_writable
from hlo2tx8.tools.combinations import check_flags, rules_of_compile
from hlo2tx8.tools.emit import add_emit, emit
from hlo2tx8.tools.flags import (
    add_compiler_flags,
    add_dump_flags,
    add_print_flags,
    add_switch,
    given_inputs,
    load_given,
    options_of,
)
from hlo2tx8.tools.run_chips import add_flags, chips_module


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `compile`."""
    parser.set_defaults(function=compile_file)
    parser.add_argument("file", help=".hlo, .mlir, .mlirbc or .pb module, .tx8x program, - for stdin")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="save the executable (.tx8x), or what --emit writes")
    add_emit(parser)
    add_switch(parser, "time", "print what each pass took")
    add_flags(parser)
    add_compiler_flags(parser)
    add_dump_flags(parser)
    add_print_flags(parser)


def compile_file(args: Any) -> int:
    """Compile the file and print or save what was asked for; returns 0, or raises an Hlo2tx8Error."""
    from hlo2tx8.compiler.driver import lower
    from hlo2tx8.options import Level
    from hlo2tx8.runtime.compile import compile_module, compile_source
    from hlo2tx8.runtime.progress_bar import shown
    from hlo2tx8.spmd.chips import compile_chips_module
    from hlo2tx8.tools.chips_report import describe_chips
    from hlo2tx8.tools.report import describe, describe_lowered
    from hlo2tx8.tools.saved import is_saved

    check_flags(args, rules_of_compile(args))
    options = options_of(args)
    if args.emit is not None:
        return emit(args, options)
    check_writable(args.output)
    if options.until is not Level.PROGRAM:
        lowered = lower(partial(load_given, args, args.file), options)
        sys.stdout.write(describe_lowered(lowered, explains=args.explain))
        _print_seconds(args, dict(lowered.seconds))
        return 0
    module = None if is_saved(args.file) else chips_module(args.file, options, args)
    if module is not None:
        if args.output is not None:
            raise InputError("E1004", "a .tx8x holds the program of one chip", hint="hlo2tx8 run --report")
        with shown() as watch:
            chips = compile_chips_module(module, options, watch)
        sys.stdout.write(describe_chips(chips, program=args.print_program or args.until is Level.PROGRAM, report=args.report))
        return 0
    with shown() as watch:
        if is_saved(args.file):
            executable = compile_module(partial(load_given, args, args.file), options, watch)
        else:
            executable = compile_source(args.file, options, args=given_inputs(args), format=args.input_format, watch=watch)
    show_program = args.print_program or args.until is Level.PROGRAM
    sys.stdout.write(describe(executable, program=show_program, report=args.report))
    _print_seconds(args, executable.seconds)
    if args.output is not None:
        executable.save(args.output)
    return 0


def _print_seconds(args: Any, taken: Mapping[str, float]) -> None:
    """What each pass took, if that is asked for."""
    for name, seconds in taken.items() if args.time else ():
        print(f"{1e3 * seconds:10.3f} ms  {name}")
