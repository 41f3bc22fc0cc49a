"""From a source to a program: load, run the pipeline stage by stage, encode, link.

`lower` is the whole compiler down to any level; `program_stages` adds encoding and linking. Both are generators at heart
(`lower_stages`), for a caller that wants to look at the IR between stages. A failing pass names itself and the
kernel it was working on, and everything unsupported in a module is reported at once.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from hlo2tx8.compiler.dump import Dumper
from hlo2tx8.compiler.garbage_collection import no_garbage_collection
from hlo2tx8.compiler.pipeline import LAST_STAGES, PIPELINE, Stage, verify_level
from hlo2tx8.compiler.refusals import is_refusal, unsupported_ops
from hlo2tx8.device.chip import Chip, ChipError, load_chip
from hlo2tx8.device.program import Program
from hlo2tx8.dialects.launch import kernels
from hlo2tx8.errors import CompileError, Hlo2tx8Error, InputError, LevelError, UnsupportedError, UnsupportedOp
from hlo2tx8.hlo.module import module_name
from hlo2tx8.hlo.signature import Signature, signature_of
from hlo2tx8.link import link
from hlo2tx8.link.listing import listing
from hlo2tx8.lower.dma.allocate_spm import SpmOverflowError
from hlo2tx8.lower.encode.encode import encode
from hlo2tx8.lower.select.channel_blocks import EngineOrderError
from hlo2tx8.notes import take_notes
from hlo2tx8.options import Level, Options
from hlo2tx8.schedule.work_split import DEFAULT_STEP_ELEMENTS

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
    decisions.
    """

    module: ModuleOp
    level: Level
    seconds: tuple[tuple[str, float], ...]
    dumps: tuple[Path, ...]
    explanation: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compiled:
    """A linked program, the arrays it takes and gives, the chip and options it was compiled with.

    `text_at(level)` prints the module at a level; `seconds` is what loading, each pass and encoding took; `explanation` has a line
    per decision if the options ask for it.
    """

    name: str
    program: Program
    signature: Signature
    chip: Chip
    options: Options
    text_at: Callable[[Level], str]
    seconds: Mapping[str, float]
    explanation: tuple[str, ...]


def lower(load: Callable[[], ModuleOp], options: Options, watch: Watch | None = None) -> Lowered:
    """Lower what `load` gives to `options.until`; UnsupportedError names everything that is not supported."""
    with _refusals_listed(load, options, watch):
        return drain(_stages_to_fit(load, load(), options, watch))


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


def _stages_to_fit(load: Callable[[], ModuleOp], module: ModuleOp, options: Options, watch: Watch | None = None) -> Stages[Lowered]:
    """`lower_stages`, again with smaller steps for each kernel whose buffers do not fit the scratchpad."""
    limits: dict[str, int] = {}
    off_engine: list[str] = []
    while True:
        try:
            limited = replace(options, step_limits=tuple(f"{k}={n}" for k, n in limits.items()), off_engine=tuple(off_engine))
            lowered = yield from lower_stages(module, limited, watch)
        except EngineOrderError as error:
            if error.kernel in off_engine:
                raise
            off_engine.append(error.kernel)
            module = load()
            continue
        except SpmOverflowError as error:
            elements = limits.get(error.kernel, options.step_elements or DEFAULT_STEP_ELEMENTS)
            if elements <= 1:
                raise
            limits[error.kernel] = max(1, min(elements // 2, int(elements / error.factor)))
            module = load()
            continue
        notes = (f"{kernel}: steps of {n} elements at most, more do not fit the scratchpad" for kernel, n in limits.items())
        return replace(lowered, explanation=(*lowered.explanation, *notes))


def lower_stages(module: ModuleOp, options: Options, watch: Watch | None = None) -> Stages[Lowered]:
    """Run the passes up to level `options.until` on the module, in place, and yield after each of them."""
    told = watch or _no_watch
    chip_of(options)
    dumper = Dumper.of(options, module_name(module))
    ctx = Context()
    level = Level.HLO
    seconds: list[tuple[str, float]] = []
    stages = tuple(stage for stage in PIPELINE if stage.after <= options.until)
    for number, stage in enumerate(stages):
        step = configure(stage.step, options)
        dumper.before(number, step.name, module)
        started = time.perf_counter()
        told(number / len(stages), step.name)
        if stage.per_kernel:
            _apply_per_kernel(step, ctx, module, dumper, lambda part, what, n=number: told((n + part) / len(stages), what))
        else:
            _apply(step, ctx, module, module_name(module))
        seconds.append((step.name, time.perf_counter() - started))
        if options.verify:
            _verify(module, step.name)
        if stage is LAST_STAGES[stage.after]:
            verify_level(module, stage.after)
        level = stage.after
        yield stage, module
    if stages:
        dumper.after(len(stages), stages[-1].step.name, module)
        for name, kernel in kernels(module).items() if dumper.is_on else ():
            dumper.log(name, f"After {stages[-1].step.name}", str(kernel))
    return Lowered(module, level, tuple(seconds), tuple(dumper.written), take_notes(module))




def load_source(source: object, *, args: Sequence[object] | None = None, format: str = "") -> ModuleOp:
    """The source at level HLO; InputError if it is a file that is not there."""
    from hlo2tx8.frontend import load

    if isinstance(source, Path) or (isinstance(source, str) and "\n" not in source and "(" not in source):
        path = Path(source)
        if not path.is_file():
            raise InputError("E1004", f"no file {path}" if not path.exists() else f"{path} is not a file")
        source = path
    return load(source, args=args, format=format or None)






def program_stages(load: Callable[[], ModuleOp], options: Options, watch: Watch | None = None) -> Stages[Compiled]:
    """Compile what `load` gives, a new module at level HLO on each call, one stage at a time.

    A kernel that does not fit the scratchpad begins anew with smaller steps.
    """
    started = time.perf_counter()
    module = load()
    loaded = time.perf_counter()
    chip = chip_of(options)
    signature = signature_of(module)
    signature.check_capacity(chip.ddr_bytes)
    options_to_program = replace(options, until=Level.PROGRAM)
    with _refusals_listed(load, options_to_program, watch):
        lowered = yield from _stages_to_fit(load, module, options_to_program, watch)
    encoding = time.perf_counter()
    encoded = {name: encode(kernel) for name, kernel in kernels(lowered.module).items()}
    program = link(lowered.module, encoded, chip)
    seconds = {"load": loaded - started, **dict(lowered.seconds), "encode": time.perf_counter() - encoding}
    text = partial(text_at, load, options, program)
    return Compiled(module_name(module), program, signature, chip, options, text, seconds, lowered.explanation)


def text_at(load: Callable[[], ModuleOp], options: Options, program: Program, level: Level) -> str:
    """The module printed at a level: IR above PROGRAM, the program's listing there."""
    if level is Level.PROGRAM:
        return listing(program)
    quiet = replace(options, until=level, dump_dir=None)
    return str(lower(load, quiet).module)


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


def configure(step: ModulePass, options: Options) -> ModulePass:
    """A copy of the pass in which every field with the name of an option has that option's value."""
    known = {f.name: getattr(options, f.name) for f in fields(options)} | {"chip": str(options.chip or "")}
    given = {f.name: known[f.name] for f in fields(step) if f.name in known}
    return replace(step, **given) if given else step


def _no_watch(part: float, what: str) -> None:
    pass


def _apply_per_kernel(step: ModulePass, ctx: Context, module: ModuleOp, dumper: Dumper, watch: Watch) -> None:
    unsupported: list[UnsupportedOp] = []
    found = kernels(module)
    for number, (name, kernel) in enumerate(found.items()):
        watch(number / len(found), step.name)
        if dumper.is_on:
            dumper.log(name, f"Before {step.name}", str(kernel))
        try:
            _apply(step, ctx, kernel, name)
        except UnsupportedError as error:
            unsupported.extend(error.ops)
        except EngineOrderError as error:
            error.kernel = name
            raise
    if unsupported:
        raise UnsupportedError(unsupported)


def _apply(step: ModulePass, ctx: Context, module: ModuleOp, where: str) -> None:
    try:
        step.apply(ctx, module)
    except Hlo2tx8Error:
        raise
    except Exception as error:
        raise CompileError(
            "E1006",
            f"pass {step.name} failed on {where}: {type(error).__name__}: {error}",
            hint="a defect of the compiler; --xla_dump_to=DIR shows the IR the pass was given",
        ) from error


def _verify(module: ModuleOp, pass_name: str) -> None:
    try:
        module.verify()
    except VerifyException as error:
        raise LevelError("E1006", f"IR does not verify after {pass_name}: {error}") from error
