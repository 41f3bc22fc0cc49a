"""From a source to a program: load, run the pipeline stage by stage, encode, link.

`lower` is the whole compiler down to any level; `program_stages` adds encoding and linking. Both are generators at heart
(`lower_stages`), for a caller that wants to look at the IR between stages. A failing pass names itself and the
kernel it was working on, and everything unsupported in a module is reported at once.
"""

import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from hlo2tx8.compiler.apply import apply, configure, for_kernel
from hlo2tx8.compiler.dump import Dumper
from hlo2tx8.compiler.found_plans import Remembered, plans_of
from hlo2tx8.compiler.garbage_collection import no_garbage_collection
from hlo2tx8.compiler.pipeline import Stage, last_stages, stages_of, verify_level
from hlo2tx8.compiler.refusals import is_refusal, unsupported_ops
from hlo2tx8.compiler.trial import KernelTrial, Show
from hlo2tx8.device.chip import Chip, ChipError, load_chip
from hlo2tx8.device.program import Program
from hlo2tx8.dialects.launch import kernels
from hlo2tx8.emitters.search_kernels import KernelSearch
from hlo2tx8.errors import CompileError, InputError, LevelError, UnsupportedError, UnsupportedOp
from hlo2tx8.frontend.chip_folder import is_chip_folder
from hlo2tx8.frontend.tensorflow.package import is_saved
from hlo2tx8.hlo.least_work import LeastWork, least_work
from hlo2tx8.hlo.module import module_name
from hlo2tx8.hlo.signature import Signature, signature_of
from hlo2tx8.link import link
from hlo2tx8.link.library import encode_all
from hlo2tx8.link.listing import listing
from hlo2tx8.lower.encode.encode import EncodedKernel
from hlo2tx8.notes import take_notes
from hlo2tx8.options import Filling, Level, Options
from hlo2tx8.passes.raise_precision import raise_precision

Result = TypeVar("Result")
Stages = Generator[tuple[Stage, ModuleOp], None, Result]
"""A generator of the IR after each stage, which the caller may print, or clone and change; it returns the result of all stages."""
Watch = Callable[[float, str], None]
"""Called before each pass, and before each kernel of a pass, with the share done so far (0 to 1) and the pass's name.

An exception that it raises ends the compilation.
"""


@dataclass(frozen=True)
class Lowered:
    """A module lowered to some level, with the seconds each pass took, the dump files that were written, and the notes that explain
    decisions; the records of some kernels, if they are at PROGRAM.
    """

    module: ModuleOp
    level: Level
    seconds: tuple[tuple[str, float], ...]
    dumps: tuple[Path, ...]
    explanation: tuple[str, ...] = ()
    encoded: Mapping[ModuleOp, EncodedKernel] = field(default_factory=dict[ModuleOp, EncodedKernel])


@dataclass(frozen=True)
class CompiledProgram:
    """A linked program, the arrays it takes and gives, the chip and options it was compiled with.

    `text_at(level)` prints the module at a level; `seconds` is what loading, each pass and encoding took; `explanation` has a line
    per decision if the options ask for it. `least_work()` is that of the module as it was given.
    """

    name: str
    program: Program
    signature: Signature
    chip: Chip
    options: Options
    text_at: Callable[[Level], str]
    seconds: Mapping[str, float]
    explanation: tuple[str, ...]
    least_work: Callable[[], LeastWork]


def lower(load: Callable[[], ModuleOp], options: Options, watch: Watch | None = None, plans: Remembered | None = None) -> Lowered:
    """Lower what `load` gives to `options.until`; UnsupportedError names everything that is not supported. `plans` were found by
    searches before."""
    with _refusals_listed(load, options, watch):
        return drain(lower_stages(load(), options, watch, plans=plans))


def lower_module(module: ModuleOp, options: Options, watch: Watch | None = None) -> Lowered:
    """Run the passes up to level `options.until` on the module, in place."""
    return drain(lower_stages(module, options, watch))


def drain(stages: Stages[Result]) -> Result:
    """Run all remaining stages and return the generator's result; Python's garbage collector is off meanwhile."""
    with no_garbage_collection():
        while True:
            try:
                next(stages)
            except StopIteration as end:
                return end.value


def lower_stages(
    module: ModuleOp,
    options: Options,
    watch: Watch | None = None,
    *,
    is_looked_at: bool = True,
    plans: Remembered | None = None,
    show: Show | None = None,
) -> Stages[Lowered]:
    """Run the passes up to level `options.until` on the module, in place, and yield after each of them.

    `plans`: what searches have found before, and where what they find is kept. If nobody looks at
    the module between stages, kernels that were lowered to judge their plans are not lowered again. `show` is shown the module at
    every level, and each kernel from LOOPS to SCHEDULED.
    """
    told = watch or _no_watch
    dumper = Dumper.of(options, module_name(module))
    ctx = Context()
    level = Level.HLO
    seconds: list[tuple[str, float]] = []
    stages = stages_of(options)
    last = last_stages(options)
    is_for_good = not (is_looked_at or dumper.is_on or options.verify) and options.until is Level.PROGRAM
    emission = max(0, sum(not stage.per_kernel for stage in stages) - 1)
    chip = chip_of(options)
    trial = KernelTrial(options, chip, is_for_good, told, emission, max(1, len(stages)), show=show)
    known = plans_of(options.search_cache, chip) if plans is None else plans
    search = KernelSearch(trial.timed, known, trial.begin) if options.search == "full" else None
    for number, stage in enumerate(stages):
        searched = {"search": search, "is_searched": search is not None}
        step = configure(stage.step, options, judge=trial, time=trial.timed, watch=trial.at, hear=dumper.hear, **searched)
        dumper.before(number, step.name, module)
        started = time.perf_counter()
        told(number / len(stages), step.name)
        if stage.per_kernel:
            _apply_per_kernel(step, ctx, module, dumper, trial, lambda part, what, n=number: told((n + part) / len(stages), what))
        else:
            apply(step, ctx, module, module_name(module))
        seconds.append((step.name, time.perf_counter() - started))
        if options.verify:
            _verify(module, step.name)
        if stage is last[stage.after]:
            verify_level(module, stage.after, known=trial.lowered)
            if show is not None:
                _show(module, stage.after, trial, show)
        level = stage.after
        yield stage, module
    if stages:
        dumper.after(len(stages), stages[-1].step.name, module)
        for name, kernel in kernels(module).items() if dumper.is_on else ():
            dumper.log(name, f"After {stages[-1].step.name}", str(kernel))
    return Lowered(module, level, trial.seconds_with(seconds), tuple(dumper.written), take_notes(module), trial.encoded)


def load_source(
    source: object,
    *,
    args: Sequence[object] | None = None,
    format: str = "",
    clean_up: bool = True,
    filling: Filling = "random",
    is_sound: bool = False,
) -> ModuleOp:
    """The source at level HLO, "-" is what comes on stdin; InputError if it is a file that is not there. All else as of `load`."""
    from hlo2tx8.frontend import load

    source = resolved(source)
    return load(source, args=args, format=format or None, clean_up=clean_up, filling=filling, is_sound=is_sound)


def resolved(source: object) -> object:
    """The source: what comes on stdin for "-", the path of a file that is named; InputError if that is not there."""
    if source == "-":
        return _from_stdin()
    if not isinstance(source, Path) and (not isinstance(source, str) or "\n" in source or "(" in source):
        return source
    path = Path(source)
    if not path.is_file() and not is_chip_folder(path) and not is_saved(path):
        raise InputError("E1004", f"no file {path}" if not path.exists() else f"{path} is not a file")
    return path


@cache
def _from_stdin() -> bytes:
    """All of stdin, which can be read once and is loaded more often."""
    return sys.stdin.buffer.read()


def program_stages(
    load: Callable[[], ModuleOp],
    options: Options,
    watch: Watch | None = None,
    *,
    is_looked_at: bool = True,
    load_as_given: Callable[[], ModuleOp] | None = None,
    show: Show | None = None,
    rerolls: bool = True,
) -> Stages[CompiledProgram]:
    """Compile what `load` gives, a new module at level HLO on each call, one stage at a time.

    `is_looked_at` and `show` as in `lower_stages`; `load_as_given` gives the module with what loading removes from it; `rerolls` as
    in `link`.
    """
    started = time.perf_counter()
    module = load()
    loaded = time.perf_counter()
    chip = chip_of(options)
    signature = signature_of(module)
    signature.check_capacity(chip.ddr_bytes)
    options_to_program = replace(options, until=Level.PROGRAM)
    plans = plans_of(options.search_cache, chip)
    with _refusals_listed(load, options_to_program, watch):
        lowered = yield from lower_stages(module, options_to_program, watch, is_looked_at=is_looked_at, plans=plans, show=show)
    encoding = time.perf_counter()
    encoded = encode_all(lowered.module, lowered.encoded)
    program = link(lowered.module, encoded, chip, rerolls=rerolls)
    seconds = {"load": loaded - started, **dict(lowered.seconds), "encode": time.perf_counter() - encoding}
    text = partial(text_at, load, options, program, plans)
    return CompiledProgram(
        module_name(module),
        program,
        signature,
        chip,
        options,
        text,
        seconds,
        lowered.explanation,
        partial(_least_work, load_as_given or load, options),
    )


def _least_work(load: Callable[[], ModuleOp], options: Options) -> LeastWork:
    module = load()
    raise_precision(module, options.matmul_precision)
    return least_work(module)


def text_at(load: Callable[[], ModuleOp], options: Options, program: Program, plans: Remembered, level: Level) -> str:
    """The module printed at a level: IR above PROGRAM, the program's listing there."""
    if level is Level.PROGRAM:
        return listing(program)
    quiet = replace(options, until=level, dump_dir=None)
    return str(lower(load, quiet, plans=plans).module)


def chip_of(options: Options) -> Chip:
    """The chip to compile for; InputError if its description cannot be read."""
    try:
        return load_chip(options.chip or "")
    except ChipError as error:
        raise InputError("E1004", str(error)) from None


@contextmanager
def _refusals_listed(load: Callable[[], ModuleOp], options: Options, watch: Watch | None) -> Generator[None]:
    """Turns the first refusal of an op into the list of all refused ops of the module."""
    try:
        yield
    except CompileError as error:
        if not is_refusal(error):
            raise
        quiet = replace(options, dump_dir=None)
        refused = unsupported_ops(load(), lambda alone: lower_module(alone, quiet, watch))
        if not refused:
            raise
        raise UnsupportedError(refused) from None


def _show(module: ModuleOp, level: Level, trial: KernelTrial, show: Show) -> None:
    """Shows the module, and its kernels but those that were shown when they were lowered."""
    show(level, "", module)
    for name, kernel in kernels(module).items() if Level.LOOPS <= level < Level.PROGRAM else ():
        if kernel not in trial.lowered:
            show(level, name, kernel)


def _no_watch(part: float, what: str) -> None:
    pass


def _apply_per_kernel(step: ModulePass, ctx: Context, module: ModuleOp, dumper: Dumper, trial: KernelTrial, watch: Watch) -> None:
    """Applies a pass to each kernel, apart from those that are lowered."""
    unsupported: list[UnsupportedOp] = []
    found = {name: kernel for name, kernel in kernels(module).items() if kernel not in trial.lowered}
    for number, (name, kernel) in enumerate(found.items()):
        watch(number / len(found), step.name)
        if dumper.logs(name):
            dumper.log(name, f"Before {step.name}", str(kernel))
        try:
            apply(for_kernel(step, kernel), ctx, kernel, name)
        except UnsupportedError as error:
            unsupported.extend(error.ops)
    if unsupported:
        raise UnsupportedError(unsupported)


def _verify(module: ModuleOp, pass_name: str) -> None:
    try:
        module.verify()
    except VerifyException as error:
        raise LevelError("E1006", f"IR does not verify after {pass_name}: {error}") from error
