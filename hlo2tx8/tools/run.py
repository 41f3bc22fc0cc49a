"""`hlo2tx8 run FILES`: run_hlo_module for TX8.

Each module runs on the test platform and on the reference platform with the same random inputs, and the results are
compared. Flags, messages and exit codes are those of run_hlo_module; without --abs_error_bound or --rel_error_bound each element
may be off by the errors that the module's ops declare, carried through the module.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy.typing as npt

from hlo2tx8.errors import Hlo2tx8Error, InputError
from hlo2tx8.options import Level, Options
from hlo2tx8.tools.before_run import at_most, check_folder, check_writable
from hlo2tx8.tools.chip_data import ChipData
from hlo2tx8.tools.combinations import check_flags, rules_of_run
from hlo2tx8.tools.flags import (
    add_compiler_flags,
    add_dump_flags,
    add_print_flags,
    add_switch,
    bound,
    given_inputs,
    level,
    load_given,
    options_of,
    pattern,
    whole,
)
from hlo2tx8.tools.literals import numbered, print_literals, write_literals
from hlo2tx8.tools.run_chips import add_flags, run_if_for_chips

if TYPE_CHECKING:
    from hlo2tx8.runtime.executable import Executable
    from hlo2tx8.tools.platforms import Source
    from hlo2tx8.tools.reference import Reference

Array = npt.NDArray[Any]


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `run`."""
    parser.set_defaults(function=run)
    parser.add_argument("files", nargs="*", metavar="FILE", help=".hlo, .mlir, .mlirbc or .pb modules, .tx8x programs, - for stdin")
    parser.add_argument("--input_module", action="append", default=[], metavar="FILE", help="same as FILE")
    parser.add_argument("--platform", default="tx8", help="where the module is tested: tx8, Cmodel, riscv, interpreter, cpu (tx8)")
    parser.add_argument("--reference_platform", default="default", help='default (interpreter), cpu, tx8, or "" for no comparison')
    parser.add_argument("--level", type=run_level_named, default=Level.PROGRAM, help="run the IR of this level (program), or all")
    parser.add_argument("--abs_error_bound", type=bound, metavar="X", help="pass elements off by at most X")
    parser.add_argument("--rel_error_bound", type=bound, metavar="X", help="pass elements off by at most X of expected")
    parser.add_argument("--iterations", type=whole(1), default=1, metavar="N", help="runs per module, each on new inputs")
    parser.add_argument("--output_literals_file", type=Path, metavar="FILE", help="write inputs and results there")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write the modelled run there, for Perfetto (.json)")
    parser.add_argument("--timeout", type=float, default=0.0, metavar="S", help="end each run, also the reference, after S seconds")
    parser.add_argument("--max_steps", type=int, default=0, metavar="N", help="end each run after N turns of loops (0: never)")
    add_switch(parser, "print_literals", "print inputs and results")
    add_switch(parser, "random_init_input_literals", "random inputs; zeros if false", default=True)
    add_switch(parser, "use_large_float_range", "floats over the dtype's whole range, log-uniform")
    add_switch(parser, "different_random_seeds", "a seed of its own for each iteration")
    add_switch(parser, "isolate_instructions", "run and compare each instruction of the entry computation alone")
    add_switch(parser, "compare_each", "compare the value of every instruction, and list the worst")
    add_switch(parser, "check_values", "stop at the first instruction that makes a NaN or an infinity of other numbers")
    parser.add_argument("--dump_results", type=Path, metavar="DIR", help="write the value of every instruction there (.npy)")
    parser.add_argument("--filter", type=pattern, default="", metavar="RE", help="which instructions those two take")
    add_switch(parser, "run_test_hlo_passes", "run passes that only make programs faster on the test platform", default=True)
    add_switch(parser, "run_reference_hlo_passes", "run them on the reference platform, if that is tx8", default=True)
    add_flags(parser, feeds=True)
    add_compiler_flags(parser)
    add_dump_flags(parser)
    add_print_flags(parser)


def run_level_named(text: str) -> Level | None:
    """A level's name; None for "all", which runs every level, the program in every mode, and counts what kernels write."""
    return None if text.lower() == "all" else level(text)


def run(args: Any) -> int:
    """Run every module, every iteration; 1 if any failed."""
    files = [*args.files, *args.input_module]
    if not files:
        raise InputError("E1004", "no module to run", hint="hlo2tx8 run FILE...")
    check_flags(args, rules_of_run(args))
    for path in (args.trace, args.output_literals_file):
        check_writable(path)
    check_folder(args.dump_results)
    options = options_of(args)
    failures, runs = 0, 0
    for number, file in enumerate(files):
        if len(files) > 1:
            print(f"\n ** Running {file} **", file=sys.stderr)
        failed, total = _run_file(file, replace(options, dump_number=number), args, runs)
        failures, runs = failures + failed, runs + total
    if args.until is None or failures:
        print(f"{failures}/{runs} runs failed.", file=sys.stderr)
    return int(failures > 0)


def _run_file(file: str, options: Options, args: Any, first: int) -> tuple[int, int]:
    """How many runs of one file failed, and how many there were; `first` is the number of the first."""
    from hlo2tx8.tools.isolate import isolate
    from hlo2tx8.tools.platforms import Source

    whole = Source(file, partial(load_given, args, file))
    if args.until is not None:
        return int(not _guarded(args, lambda: _print_level(whole, options)).agreed), 1
    try:
        sources = isolate(whole) if args.isolate_instructions else (whole,)
    except Hlo2tx8Error as error:
        print(error, file=sys.stderr)
        return 1, 1
    outcomes: list[tuple[str, Outcome]] = []
    for source in sources:
        for iteration in range(args.iterations):
            if args.isolate_instructions:
                print(f"\n--- {source.name}", file=sys.stderr)
            if args.iterations != 1:
                print(f"\n=== Iteration {iteration + 1}", file=sys.stderr)
            work = partial(_run_once, source, options, args, iteration, first + len(outcomes))
            outcomes.append((source.name, _guarded(args, work)))
    if args.isolate_instructions:
        _print_outcomes(outcomes)
    return sum(not outcome.agreed for _, outcome in outcomes), len(outcomes)


def _print_outcomes(outcomes: Sequence[tuple[str, "Outcome"]]) -> None:
    """One row per instruction that ran alone."""
    from hlo2tx8.tools.table import Table

    rows = [(name, "agrees" if found.agreed else "FAILED", found.note) for name, found in outcomes]
    print("\n" + Table(("instruction", "alone", "difference"), rows).text(is_terminal=sys.stdout.isatty()), end="")


class Outcome(NamedTuple):
    """The outcome of one run: whether it did what was expected, and a line that says how close it came or what went wrong."""

    agreed: bool
    note: str = ""


def _guarded(args: argparse.Namespace, work: Callable[[], Outcome]) -> Outcome:
    """What the work gives; its error printed as lines."""
    try:
        return work()
    except Hlo2tx8Error as error:
        if args.traceback:
            raise
        print(error, file=sys.stderr)
        return Outcome(agreed=False, note=str(error).partition("\n")[0])


def _print_level(source: "Source", options: Options) -> Outcome:
    from hlo2tx8.compiler.driver import lower
    from hlo2tx8.runtime.compile import compile_module
    from hlo2tx8.tools.report import describe_lowered, explain

    if options.until is Level.PROGRAM:
        executable = compile_module(source.load, options)
        print(executable.as_text(Level.PROGRAM), *explain(executable.explanation, is_asked=options.explain), sep="\n", end="")
    else:
        sys.stdout.write(describe_lowered(lower(source.load, options), explains=options.explain))
    return Outcome(agreed=True)


def _run_once(source: "Source", options: Options, args: Any, iteration: int, number: int) -> Outcome:
    """The run of that number: what it writes has it in the names of its files."""
    from hlo2tx8.hlo.signature import signature_of
    from hlo2tx8.tools.platforms import execute, platform_of
    from hlo2tx8.tools.report import describe

    module = source.load()
    folder = ChipData.of(source.name, args.given)
    if (wrong := run_if_for_chips(source.name, module, options, args, iteration, number)) is not None:
        return Outcome(not wrong, "".join(wrong[:1]))
    if args.level is None:
        return _run_every_level(source, options, args, inputs_of(module, signature_of(module), args, iteration, folder))
    test = platform_of(args.platform)
    if args.compare_each or args.dump_results is not None:
        from hlo2tx8.tools.each_instruction import run_each

        arrays = inputs_of(module, signature_of(module), args, iteration, folder)
        folder = None if args.dump_results is None else numbered(args.dump_results, number)
        with at_most(args.timeout, test):
            return Outcome(*run_each(module, arrays, test, replace(options, until=args.level), args, folder))
    on_chip = test == "tx8" and args.level is Level.PROGRAM
    # Compiled before inputs are made: what the chip cannot hold would not fit here either.
    executable = _executable(source, options) if on_chip else None
    arrays = inputs_of(module, signature_of(module), args, iteration, folder)
    if args.check_values:
        assert executable is not None
        with at_most(args.timeout, "the check of values"):
            executable.check_values(*arrays)
    actual = _timed(args, test, lambda: execute(test, source, arrays, replace(options, until=args.level), executable))
    if args.print_literals:
        print_literals("Argument", arrays)
        print_literals(f"Result with test runner {test}", actual)
    expected: list[Array] = []
    outcome = Outcome(agreed=True)
    if args.reference_platform:
        reference = platform_of(args.reference_platform)
        plain = replace(options, hlo_passes=args.run_reference_hlo_passes and not args.xla_disable_all_hlo_passes)
        expected = _timed(args, reference, lambda: execute(reference, source, arrays, plain))
        if args.print_literals:
            print_literals(f"Result with reference runner {reference}", expected)
        outcome = _judge(actual, _reference(args, reference, module, arrays, expected), test, reference)
    else:
        print("Skipping reference runner", file=sys.stderr)
    if folder is not None:
        wrong = folder.worst(actual, partial(_reference, args, "interpreter", module, arrays))
        outcome = Outcome(agreed=False, note=wrong[0]) if wrong and outcome.agreed else outcome
    if args.output_literals_file is not None:
        write_literals(numbered(args.output_literals_file, number), arrays, actual, expected)
    if executable is not None:
        sys.stdout.write(describe(executable, program=args.print_program, report=args.report))
        if args.trace is not None and not iteration:
            executable.trace(trace := numbered(args.trace, options.dump_number))
            print(f"Trace: {trace}", file=sys.stderr)
    if options.dump_dir is not None:
        print(f"IR dumps: {options.dump_dir}", file=sys.stderr)
    return outcome


def _executable(source: "Source", options: Options) -> "Executable":
    """What is in the file if that is a program, in the mode that is asked for; else what the module compiles to."""
    from hlo2tx8.runtime.compile import compile_module
    from hlo2tx8.runtime.executable import Executable
    from hlo2tx8.runtime.progress_bar import shown
    from hlo2tx8.tools.saved import is_saved

    if is_saved(source.name):
        loaded = Executable.load(source.name)
        limits = {"timeout": options.timeout, "max_steps": options.max_steps}
        return replace(loaded, options=replace(loaded.options, mode=options.mode, **limits))
    with shown() as watch:
        return compile_module(source.load, options, watch)


def _run_every_level(source: "Source", options: Options, args: Any, arrays: Sequence[Array]) -> Outcome:
    from hlo2tx8.hlo import evaluate
    from hlo2tx8.runtime.levels import RUNS
    from hlo2tx8.tools.every_level import first_difference

    module = source.load()
    with at_most(args.timeout, "every level"):
        reference = _reference(args, "interpreter", module, arrays, evaluate(module, *arrays, max_steps=args.max_steps))
        difference = first_difference(source, options, arrays, reference)
    if difference:
        print(difference, file=sys.stderr)
        return Outcome(agreed=False, note=difference)
    note = f"{', '.join(run.name for run in RUNS)}: close enough to the interpreter"
    print(f"\n** {note}; every element of every result is written once. **", file=sys.stderr)
    return Outcome(agreed=True, note=note)


def _reference(args: Any, platform: str, module: Any, arrays: Sequence[Array], expected: list[Array]) -> "Reference":
    """The expected results within the bounds that the flags name, else within the errors that the module's ops declare."""
    from hlo2tx8.hlo.error_bounds import evaluate_with_bounds
    from hlo2tx8.tools.reference import Reference

    if args.abs_error_bound is not None or args.rel_error_bound is not None:
        return Reference.within(expected, args.abs_error_bound, args.rel_error_bound)
    if platform == "cpu":
        return Reference.of_cpu(module, arrays, expected)
    return Reference(expected, lambda: evaluate_with_bounds(module, *arrays)[1])


def _judge(actual: Sequence[Array], reference: "Reference", test: str, name: str) -> Outcome:
    wrong = reference.mismatches(actual)
    for mismatch in wrong:
        print(mismatch, file=sys.stderr)
    if wrong:
        return Outcome(agreed=False, note=wrong[0].line)
    print(f"\n** Results on {test} and {name} are close enough. **", file=sys.stderr)
    note = reference.describe(actual)
    print(note, file=sys.stderr)
    return Outcome(agreed=True, note=note)


def _timed(args: Any, name: str, work: Any) -> list[Array]:
    print(f"Running HLO module with runner {name}...", file=sys.stderr)
    started = time.perf_counter()
    with at_most(args.timeout, name):
        results: list[Array] = work()
    print(f"... ran in {time.perf_counter() - started:.6g}s.", file=sys.stderr)
    return results


def inputs_of(module: Any, signature: Any, args: Any, iteration: int, folder: ChipData | None = None) -> tuple[Array, ...]:
    """The arrays that the flags ask for, else those of the chip folder that the module is from."""
    from hlo2tx8.tools.arguments import random_arguments, seeded, zeros

    if (given := given_inputs(args)) is not None:
        return tuple(signature.check(given))
    if folder is not None:
        return folder.arrays(signature)
    if not args.random_init_input_literals:
        return zeros(signature)
    rng = seeded(iteration, different_seeds=args.different_random_seeds)
    return random_arguments(module, signature, rng, large_floats=args.use_large_float_range)
