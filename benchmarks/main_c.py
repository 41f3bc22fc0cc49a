"""main.c on the C model or RISC-V against the emulator: are results equal bit for bit, and modelled cycles equal?

    python -m benchmarks.main_c [FILE ...] [--models] [--seeds A:B] [--platform Cmodel|riscv] [--every N]
    python -m benchmarks.main_c --launches N      warm launches of gelu bf16[6,512,4096] beside Executable.execute

Without FILE all samples of hlo_samples/ are taken. --models adds the small models of benchmarks.models, forward and training,
--seeds random graphs of the fuzzer, with loops and branches too. A line for each program: lines of main.c, seconds of the compiler
and of the run, cycles; then counts by cause. Exit code 1 if a result or a cycle differs.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import jax
import numpy as np

import hlo2tx8
from benchmarks.models import zoo
from hlo2tx8.dev.fuzz.text import module_text
from hlo2tx8.dev.fuzz.worker import case_of
from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.frontend import load
from hlo2tx8.hlo.signature import signature_of
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.tools.arguments import random_arguments, seeded
from hlo2tx8.vendor.platforms import DATA, MAIN, Platform, build, platform_named, run, run_program, write_main

SAMPLES = Path(__file__).parents[1] / "hlo_samples"
GELU = SAMPLES / "elementwise" / "gelu_bf16.hlo"
SUFFIXES = (".hlo", ".mlir", ".mlirbc", ".pb")
SAME_CYCLES = 0.01
"""What is printed of a float of a thousand million cycles is that exact."""

Program = tuple[Executable, Sequence[Any]]


class Outcome(NamedTuple):
    """`cause` is "" if everything is equal."""

    cause: str
    note: str


def of_file(path: Path) -> Program:
    """A module's program, and inputs that are drawn."""
    executable = hlo2tx8.compile(path)
    signature = signature_of(module := load(path))
    return executable, random_arguments(module, signature, seeded(0, different_seeds=False), large_floats=False)


def of_model(model: zoo.Model, is_training: bool) -> Program:
    """A model's program and arguments."""
    function = model.training_step() if is_training else model.forward
    arguments = model.training_arguments() if is_training else (model.parameters, *model.inputs)
    executable = hlo2tx8.compile(jax.jit(function, keep_unused=True).lower(*arguments).as_text())
    return executable, [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)]


def of_seed(seed: int) -> Program:
    """A random graph's."""
    case = case_of(seed, control=seed % 2 == 1)
    return hlo2tx8.compile(module_text(case.graph)), list(case.arrays)


def check(program: Callable[[], Program], platform: Platform, limit: float) -> Outcome:
    """Compile, run on both sides, compare."""
    try:
        executable, arrays = program()
        expected = executable.execute(*arrays)
    except Hlo2tx8Error as error:
        return Outcome("not compiled", str(error).splitlines()[0])
    started = time.perf_counter()
    try:
        results, cycles = run_program(executable, arrays, platform, limit)
    except Hlo2tx8Error as error:
        return Outcome("refused", str(error).splitlines()[0])
    seconds = time.perf_counter() - started
    wrong = [k for k, (a, b) in enumerate(zip(results, expected, strict=True)) if a.tobytes() != np.ascontiguousarray(b).tobytes()]
    with TemporaryDirectory() as place:
        write_main(Path(place), executable.program, executable.chip, "program")
        lines = len((Path(place) / MAIN).read_text().splitlines())
    report = executable.report
    note = f"{lines} lines, {seconds:.1f} s, {cycles:,.3f} cycles"
    if wrong:
        return Outcome("results", f"{note}; results {wrong} differ")
    if abs(cycles - report.cycles) > SAME_CYCLES:
        return Outcome("cycles" if report.trip_counts != "assumed" else "assumed", f"{note}, and the emulator {report.cycles:,.3f}")
    return Outcome("", note)


def programs(args: Any) -> Iterator[tuple[str, Callable[[], Program]]]:
    """Those that the flags ask for, by name."""
    files = [Path(file) for file in args.files]
    if not files and not args.models and not args.seeds:
        files = [path for path in sorted(SAMPLES.glob("*/*")) if path.suffix in SUFFIXES]
    for path in files[:: args.every]:
        yield str(path.relative_to(SAMPLES) if path.is_relative_to(SAMPLES) else path), partial(of_file, path)
    for make in zoo.MODELS if args.models else ():
        model = make(False)
        for is_training in (False, True)[: 1 + (model.loss is not None)]:
            yield f"{make.__name__} {'training' if is_training else 'forward'}", partial(of_model, model, is_training)
    first, _, end = args.seeds.partition(":")
    for seed in range(int(first), int(end)) if args.seeds else ():
        yield f"seed {seed}", partial(of_seed, seed)


def gelu(launches: int) -> int:
    """Warm launches of both sides, in turns."""
    executable, arrays = of_file(GELU)
    outputs = executable.execute(*arrays)
    platform = platform_named("Cmodel")
    with TemporaryDirectory() as place:
        write_main(folder := Path(place), executable.program, executable.chip, "gelu")
        (folder / DATA / "in0.bin").write_bytes(np.asarray(arrays[0]).tobytes())
        build(folder, platform)
        ratios: list[float] = []
        for _ in range(5):
            model = float(run(folder, platform, launches=launches + 1).text.splitlines()[1].split(":")[1].split()[0])
            times: list[float] = []
            for _ in range(launches):
                started = time.perf_counter()
                executable.launch_on(arrays, outputs)
                times.append(1e3 * (time.perf_counter() - started))
            ratios.append(model / min(times))
            print(f"gelu bf16[6,512,4096]: C model {model:.1f} ms, Executable.execute {min(times):.1f} ms, ratio {ratios[-1]:.2f}")
    print(f"median ratio {median(ratios):.2f}")
    return int(median(ratios) > 1.2)


def main() -> int:
    """Check all programs, or time one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--models", action="store_true")
    parser.add_argument("--seeds", default="")
    parser.add_argument("--platform", type=platform_named, default=platform_named("Cmodel"))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of a run")
    parser.add_argument("--launches", type=int, default=0)
    args = parser.parse_args()
    if args.launches:
        return gelu(args.launches)
    causes: Counter[str] = Counter()
    for name, program in programs(args):
        outcome = check(program, args.platform, args.limit)
        causes[outcome.cause or "equal"] += 1
        print(f"{name}: {outcome.cause or 'equal'}: {outcome.note}", flush=True)
    print(", ".join(f"{count} {cause}" for cause, count in causes.most_common()))
    return int(bool(causes["results"] or causes["cycles"] or causes["refused"]))


if __name__ == "__main__":
    sys.exit(main())
