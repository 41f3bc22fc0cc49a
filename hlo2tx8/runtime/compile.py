"""Sources to executables: the compiler's program, ready to run."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.compiler.driver import CompiledProgram, Stages, Watch, drain, load_source, program_stages
from hlo2tx8.compiler.trial import Show
from hlo2tx8.frontend.calling import calling_of
from hlo2tx8.frontend.sources import traced
from hlo2tx8.hlo.signature import Signature, signature_of
from hlo2tx8.options import Options
from hlo2tx8.runtime.executable import Executable


def compile_source(
    source: object,
    options: Options | None = None,
    *,
    args: Sequence[object] | None = None,
    format: str = "",
    watch: Watch | None = None,
    show: Show | None = None,
) -> Executable:
    """Compile a path, text, bytes, jax `Lowered`/`Exported`, or a function with example arguments.

    `show` is shown the IR of every level above PROGRAM, as by `lower_stages`.
    """
    options = options or Options()
    source = traced(source, args)
    load = partial(load_source, source, args=args, format=format, filling=options.fill_elided_constants)
    executable = compile_module(load, options, watch, load_as_given=partial(load, clean_up=False), show=show)
    return replace(executable, calling=calling_of(source))


def signature_of_source(
    source: object, options: Options | None = None, *, args: Sequence[object] | None = None, format: str = ""
) -> Signature:
    """The signature that `compile_source` would give its executable, without compiling."""
    filling = (options or Options()).fill_elided_constants
    return signature_of(load_source(traced(source, args), args=args, format=format, filling=filling))


def compile_module(
    load: Callable[[], ModuleOp],
    options: Options,
    watch: Watch | None = None,
    *,
    load_as_given: Callable[[], ModuleOp] | None = None,
    show: Show | None = None,
    rerolls: bool = True,
) -> Executable:
    """Compile the module that `load` returns; `load` is called again, and must return a new module at level HLO each time, when
    `as_text` is asked for IR. `load_as_given` gives the module with what loading removes from it, for its lower bound;
    `show` as of `compile_source`, `rerolls` as of `link`.
    """
    stages = program_stages(load, options, watch, is_looked_at=False, load_as_given=load_as_given, show=show, rerolls=rerolls)
    compiled = drain(stages)
    return _executable(compiled)


def compile_stages(load: Callable[[], ModuleOp], options: Options, watch: Watch | None = None) -> Stages[Executable]:
    """As `compile_module`, but yields the IR after each stage; the generator's result is the executable."""
    compiled = yield from program_stages(load, options, watch)
    return _executable(compiled)


def _executable(compiled: CompiledProgram) -> Executable:
    return Executable(**{f.name: getattr(compiled, f.name) for f in fields(CompiledProgram)})
