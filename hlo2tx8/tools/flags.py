"""Flags that more than one subcommand has, and the options they make."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.errors import InputError
from hlo2tx8.frontend.content import FORMATS
from hlo2tx8.options import Filling, Level, Options, Precision, Search

YES = ("true", "True", "TRUE", "yes", "t", "y", "1")
NO = ("false", "False", "FALSE", "no", "f", "n", "0")
"""What a switch may be set to, as XLA's flags."""


def level(text: str) -> Level:
    """The `Level` of that name; argparse's error for another word."""
    try:
        return Level.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_switch(parser: Any, name: str, text: str, *, default: bool = False) -> None:
    """`--name`, `--noname` or `--name=true|false|1|0` of a parser or an argument group.

    The values are names of the flag: argparse would take the next argument for one that may be left out.
    """
    parser.add_argument(f"--{name}", action="store_true", default=default, help=f"{text} ({str(default).lower()})")
    yes, no = ([f"--{name}={value}" for value in values] for values in (YES, NO))
    parser.add_argument(*yes, action="store_true", dest=name, default=default, help=argparse.SUPPRESS)
    parser.add_argument(f"--no{name}", *no, action="store_false", dest=name, default=default, help=argparse.SUPPRESS)


def add_input_flags(parser: Any) -> None:
    """Add the flags that say how a file is read to a parser or an argument group."""
    parser.add_argument("--input_format", default="", help=f"{', '.join(FORMATS)}; by file name and content if not given")
    choices = get_args(Filling)
    text = "inputs 0, 1, ... (.safetensors), which also bind dynamic shapes"
    parser.add_argument("--input_literals_file", type=Path, metavar="FILE", help=text)
    parser.add_argument(
        "--fill_elided_constants", choices=choices, default="random", help="what constants that the text has as {...} hold (random)"
    )


def load_given(args: Any, file: str | Path) -> ModuleOp:
    """The module of a file that is read as the flags say; "-" is stdin."""
    from hlo2tx8.compiler.driver import load_source
    from hlo2tx8.tools.saved import is_saved, module_in

    if is_saved(file):
        return module_in(file)
    return load_source(file, args=given_inputs(args), format=args.input_format, filling=args.fill_elided_constants)


def given_inputs(args: Any) -> Sequence[Any] | None:
    """The arrays in the file that the flags name, input0 first; None without one."""
    if args.input_literals_file is None:
        return None
    from hlo2tx8.runtime.tensors import read_tensors

    stored = read_tensors(args.input_literals_file)
    return [stored[name] for number in range(len(stored)) if (name := f"input{number}") in stored]


def add_compiler_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that `run` and `compile` share."""
    group = parser.add_argument_group("compiler")
    add_input_flags(group)
    group.add_argument("--chip", type=Path, help="chip description (YAML) instead of the built-in one")
    group.add_argument("--mode", choices=("fast", "strict", "definition"), default="fast", help="emulator mode (fast)")
    group.add_argument(
        "--matmul_precision",
        choices=get_args(Precision),
        default="default",
        help="of f32 dots and convolutions of which the module says DEFAULT or nothing (default)",
    )
    group.add_argument("--until", type=level, metavar="LEVEL", help="lower to this level, print it and stop")
    group.add_argument("--step_elements", type=int, default=0, help="output elements per tile and step (the schedule's choice)")
    group.add_argument(
        "--search", choices=get_args(Search), default="fast", help="full: lower and time many plans, take the fastest (fast)"
    )
    group.add_argument(
        "--search_cache", metavar="DIR", help="where what --search=full finds is kept, none for nowhere (~/.cache/hlo2tx8)"
    )
    group.add_argument("--xla_dump_to", type=Path, metavar="DIR", help="write the IR before each pass into DIR")
    group.add_argument(
        "--xla_dump_hlo_pass_re", default="", metavar="RE", help="which passes; fusion-emitter adds one log per kernel"
    )
    group.add_argument("--xla_dump_emitter_re", default="", metavar="RE", help="as --xla_dump_hlo_pass_re=fusion-emitter")
    add_switch(group, "xla_disable_all_hlo_passes", "leave out passes before fusion that only make programs faster")
    add_switch(group, "explain", "say why instructions were fused and lowered as they were")
    add_switch(group, "verify", "verify the IR after each pass")
    add_switch(group, "print_program", "print the tile program's listing")
    add_switch(group, "report", "print modelled cycles, what bounds them and memory use")


def _search_cache(given: str | None) -> Path | None:
    """The folder that is given, the user's folder for such files if none is, None for the word none."""
    if given is None:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hlo2tx8" / "plans"
    return None if given == "none" else Path(given)


def options_of(args: Any, number: int = 0) -> Options:
    """The options that the flags ask for; InputError on a chip file that is not there."""
    chip: Path | None = args.chip
    if chip is not None and not chip.is_file():
        raise InputError("E1004", f"no chip description {chip}")
    pattern = args.xla_dump_hlo_pass_re or ("fusion-emitter" if args.xla_dump_emitter_re else "")
    return Options(
        chip=chip,
        mode=args.mode,
        step_elements=args.step_elements,
        search=args.search,
        search_cache=_search_cache(args.search_cache) if args.search == "full" else None,
        until=Level.PROGRAM if args.until is None else args.until,
        verify=args.verify,
        dump_dir=args.xla_dump_to,
        dump_pass_re=pattern,
        dump_number=number,
        explain=args.explain,
        fill_elided_constants=args.fill_elided_constants,
        matmul_precision=args.matmul_precision,
        hlo_passes=getattr(args, "run_test_hlo_passes", True) and not args.xla_disable_all_hlo_passes,
    )
