"""Flags that more than one subcommand has, and the options they make."""

import argparse
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.errors import InputError
from hlo2tx8.frontend.content import FORMATS
from hlo2tx8.options import Filling, Level, Mode, Options, Precision, Search, check_pattern
from hlo2tx8.tools.before_run import check_folder

YES = ("true", "True", "TRUE", "yes", "t", "y", "1")
NO = ("false", "False", "FALSE", "no", "f", "n", "0")
"""What a switch may be set to, as XLA's flags."""
NO_PASSES = "xla_disable_all_hlo_passes"


def level(text: str) -> Level:
    """The `Level` of that name; argparse's error for another word."""
    try:
        return Level.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def whole(least: int) -> Callable[[str], int]:
    """A type of flags: an integer that is at least so large."""

    def number(text: str) -> int:
        if (value := int(text)) < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return value

    return number


def bound(text: str) -> float:
    """A type of flags: how much a number may be off, 0 or more."""
    if not (value := float(text)) >= 0:  # NaN neither
        raise argparse.ArgumentTypeError(f"{text} is no bound, which is 0 or more")
    return value


def pattern(text: str) -> str:
    """A type of flags: a regular expression; InputError if it is none."""
    check_pattern(text)
    return text


def add_switch(parser: Any, name: str, text: str, *, default: Any = False) -> None:
    """`--name`, `--noname` or `--name=true|false|1|0` of a parser or an argument group.

    The values are names of the flag: argparse would take the next argument for one that may be left out.
    """
    shown = text if default is argparse.SUPPRESS else f"{text} ({str(default).lower()})"
    parser.add_argument(f"--{name}", action="store_true", default=default, help=shown)
    yes, no = ([f"--{name}={value}" for value in values] for values in (YES, NO))
    parser.add_argument(*yes, action="store_true", dest=name, default=default, help=argparse.SUPPRESS)
    parser.add_argument(f"--no{name}", *no, action="store_false", dest=name, default=default, help=argparse.SUPPRESS)


def _xla_flags() -> Mapping[str, str]:
    """What XLA_FLAGS says by name, flags or the name of a file of them: defaults of flags that have those names here."""
    text = os.environ.get("XLA_FLAGS", "").strip()
    try:
        words = shlex.split(text if text[:1] in ("", "-") else Path(text).read_text())
    except ValueError as error:
        raise InputError("E1004", f"XLA_FLAGS: {error}") from None
    return {name.lstrip("-"): value if equals else "true" for name, equals, value in (word.partition("=") for word in words)}


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
    """Add the flags that all commands share."""
    parser.set_defaults(mode="fast", until=None, explain=False, timeout=0.0, max_steps=0)
    parser.set_defaults(xla_dump_to=None, xla_dump_hlo_pass_re="", xla_dump_emitter_re="")
    group = parser.add_argument_group("compiler")
    add_input_flags(group)
    group.add_argument("--chip", type=Path, help="chip description (YAML) instead of the built-in one")
    group.add_argument(
        "--matmul_precision",
        choices=get_args(Precision),
        default="default",
        help="of f32 dots and convolutions of which the module says DEFAULT or nothing (default)",
    )
    group.add_argument("--step_elements", type=int, default=0, help="output elements per tile and step (the schedule's choice)")
    group.add_argument(
        "--search", choices=get_args(Search), default="fast", help="full: lower and time many plans, take the fastest (fast)"
    )
    group.add_argument(
        "--search_cache", metavar="DIR", help="where what --search=full finds is kept, none for nowhere (~/.cache/hlo2tx8)"
    )
    text, is_off = "leave out passes before fusion that only make programs faster", _xla_flags().get(NO_PASSES) in YES
    add_switch(group, NO_PASSES, text, default=is_off)
    group.add_argument("--keep", default="", metavar="NAMES", help="coarse ops that stay one kernel each, such as softmax,gelu")
    add_switch(group, "reassociate", "round in another order where that is faster and no less precise", default=True)
    add_switch(group, "verify", "verify the IR after each pass")


def add_dump_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say what is dumped."""
    group = parser.add_argument_group("dumps")
    said = _xla_flags()
    folder = Path(said["xla_dump_to"]) if said.get("xla_dump_to") else None
    group.add_argument("--xla_dump_to", type=Path, default=folder, metavar="DIR", help="write the IR before each pass into DIR")
    for name, text in (
        ("xla_dump_hlo_pass_re", "which passes; fusion-emitter: also kernels' logs"),
        ("xla_dump_emitter_re", "also a log per kernel of the emitters whose names fit; mlir-fusion fits all"),
    ):
        group.add_argument(f"--{name}", type=pattern, default=said.get(name, ""), metavar="RE", help=text)


def add_print_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `run` and `compile` that say what is printed of a program, and how it runs."""
    group = parser.add_argument_group("program")
    group.add_argument("--mode", choices=get_args(Mode), default="fast", help="emulator mode (fast)")
    group.add_argument("--until", type=level, metavar="LEVEL", help="lower to this level, print it and stop")
    add_switch(group, "explain", "say why instructions were fused and lowered as they were")
    add_switch(group, "print_program", "print the tile program's listing")
    add_switch(group, "report", "print modelled cycles, what bounds them and memory use")


def _search_cache(given: str | None) -> Path | None:
    """The folder that is given, the user's folder for such files if none is, None for the word none."""
    if given is None:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hlo2tx8" / "plans"
    return None if given == "none" else Path(given)


def options_of(args: Any) -> Options:
    """The options that the flags ask for; InputError on a chip file that is not there."""
    chip: Path | None = args.chip
    if chip is not None and not chip.is_file():
        raise InputError("E1004", f"no chip description {chip}")
    if "xla_dump_emitter_re" in args.given:  # XLA_FLAGS may name emitters of other platforms
        _check_emitters(args.xla_dump_emitter_re)
    check_folder(args.xla_dump_to)
    return Options(
        chip=chip,
        mode=args.mode,
        step_elements=args.step_elements,
        search=args.search,
        search_cache=_search_cache(args.search_cache) if args.search == "full" else None,
        until=Level.PROGRAM if args.until is None else args.until,
        verify=args.verify,
        dump_dir=args.xla_dump_to,
        dump_pass_re=args.xla_dump_hlo_pass_re,
        dump_emitter_re=args.xla_dump_emitter_re,
        explain=args.explain,
        fill_elided_constants=args.fill_elided_constants,
        matmul_precision=args.matmul_precision,
        timeout=args.timeout,
        max_steps=args.max_steps,
        reassociate=args.reassociate,
        keep=args.keep,
        hlo_passes=getattr(args, "run_test_hlo_passes", True) and not args.xla_disable_all_hlo_passes,
    )


def _check_emitters(pattern: str) -> None:
    """InputError for a pattern that fits no emitter's name."""
    from hlo2tx8.compiler.dump import emitter_names

    if not any(re.search(pattern, name) for name in emitter_names()):
        raise InputError("E1004", f"no emitter's name has {pattern!r}", hint=", ".join(emitter_names()))
