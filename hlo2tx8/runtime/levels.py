"""Run a module at any level: every level gives the reference's answer."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, SSAValue

from hlo2tx8.compiler.driver import Stages, chip_of, drain, lower
from hlo2tx8.compiler.garbage_collection import no_garbage_collection
from hlo2tx8.compiler.pipeline import Stage, last_stages
from hlo2tx8.device.emulator import Emulator, Mode
from hlo2tx8.dialects.hlo import decode_attributes, origin
from hlo2tx8.dialects.launch import (
    CaseOp,
    KernelOp,
    LaunchYieldOp,
    LibraryKernelOp,
    RepeatOp,
    UpdateOp,
    ViewOp,
    WhileOp,
    kernels,
    library_kernels,
)
from hlo2tx8.errors import LevelError
from hlo2tx8.hlo.module import find_main, program_functions
from hlo2tx8.hlo.signature import port_of, signature_of
from hlo2tx8.hlo.turns import Turns
from hlo2tx8.link import link
from hlo2tx8.link.library import encode_all
from hlo2tx8.lower.dma.allocate_spm import AllocateSpmPass
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.compile import compile_module, compile_stages
from hlo2tx8.runtime.executable import Executable

Array = npt.NDArray[Any]

ROOM = 1 << 28
"""Bytes of SPM per tile of a chip on which every program fits."""


@dataclass(frozen=True)
class LevelRun:
    """A way to run a module: the IR at a level above PROGRAM, or the program in one of the emulator's modes."""

    name: str
    level: Level
    mode: Mode = "definition"


RUNS: tuple[LevelRun, ...] = (
    *(LevelRun(level.name.lower(), level) for level in Level if level < Level.PROGRAM),
    LevelRun("program", Level.PROGRAM),
    LevelRun("native core", Level.PROGRAM, "fast"),
    LevelRun("strict mode", Level.PROGRAM, "strict"),
)
"""In the order of lowering: the first that gives a wrong answer shows the stage that broke it."""


def each_run(
    load: Callable[[], ModuleOp],
    options: Options,
    arrays: Sequence[Array],
    runs: Sequence[LevelRun] = RUNS,
    look: Callable[[Level, ModuleOp], None] | None = None,
) -> Generator[list[Array]]:
    """The outputs of each of `runs`, which are in the order of RUNS. The module is lowered once, stage by stage, and no further
    than needed; `look` is given it at each level above PROGRAM that it comes to.
    """
    waiting = iter(runs)
    run = next(waiting, None)
    last = last_stages(replace(options, until=Level.PROGRAM))
    stages = _looked_at(compile_stages(load, options), last, look)
    while run is not None:
        if run.level is Level.PROGRAM:
            executable = drain(stages)
            for mode in (run.mode, *(later.mode for later in waiting)):
                yield replace(executable, options=replace(options, mode=mode)).execute(*arrays)
            return
        stage, module = next(stages)
        if stage is last[run.level]:
            yield run_lowered(module.clone() if run.level is Level.SCHEDULED else module, run.level, options, arrays)
            run = next(waiting, None)


def _looked_at(
    stages: Stages[Executable], last: Mapping[Level, Stage], look: Callable[[Level, ModuleOp], None] | None
) -> Stages[Executable]:
    while True:
        try:
            with no_garbage_collection():
                stage, module = next(stages)
        except StopIteration as end:
            return end.value
        if look is not None and stage is last[stage.after]:
            look(stage.after, module)
        yield stage, module


def run_level(load: Callable[[], ModuleOp], options: Options, arrays: Sequence[Array]) -> list[Array]:
    """Lower what `load` gives to `options.until` and run it there on the inputs."""
    if options.until is Level.PROGRAM:
        return compile_module(load, options).execute(*arrays)
    return run_lowered(lower(load, options).module, options.until, options, arrays)


def run_lowered(module: ModuleOp, level: Level, options: Options, arrays: Sequence[Array]) -> list[Array]:
    """Run a module that was lowered to a level above PROGRAM; at SCHEDULED this changes its kernels."""
    if level is Level.SCHEDULED:
        return run_unbounded(module, options, arrays)
    signature = signature_of(module)
    inputs = [port.taken_apart(np.asarray(array)) for port, array in zip(signature.inputs, arrays, strict=True)]
    if level <= Level.FUSED:
        from hlo2tx8.hlo import evaluate

        results = evaluate(module, *inputs, max_steps=options.max_steps)
    else:
        results = run_launches(module, inputs, options.max_steps)
    return [port.put_together(array) for port, array in zip(signature.outputs, results, strict=True)]


def run_unbounded(module: ModuleOp, options: Options, arrays: Sequence[Array]) -> list[Array]:
    """Run a module at SCHEDULED on a chip with SPM for every buffer. If only PROGRAM gives another answer, the allocation of SPM is
    wrong.
    """
    for kernel in kernels(module).values():
        AllocateSpmPass(chip=str(options.chip or ""), is_measuring=True).apply(Context(), kernel)
    chip = chip_of(options)
    roomy = replace(chip, spm_bytes=ROOM, spm_limit=ROOM)
    program = link(module, encode_all(module), roomy)
    signature = signature_of(module)
    inputs = [port.to_device(np.asarray(array)) for port, array in zip(signature.inputs, arrays, strict=True)]
    results = Emulator(roomy, mode="definition", max_steps=options.max_steps).run(program, inputs)
    return [port.from_device(array) for port, array in zip(signature.outputs, results, strict=True)]


def run_launches(module: ModuleOp, arrays: Sequence[Array], max_steps: int = 0) -> list[Array]:
    """Run @main of a module at LOOPS, FLAT or VECTOR: each launch through the interpreter; `max_steps` as of `evaluate`."""
    nested = {**kernels(module), **library_kernels(module), **{f.sym_name.data: f for f in program_functions(module)}}
    return _run_block(find_main(module).body.block, list(map(np.asarray, arrays)), {}, nested, Turns(max_steps))


def _run_block(
    block: Block,
    arguments: Sequence[Array],
    values: dict[SSAValue, Array],
    nested: Mapping[str, ModuleOp | LibraryKernelOp | FuncOp],
    turns: Turns,
) -> list[Array]:
    """What the block's terminator hands on; `values` has what enclosing blocks define, `nested` kernels and functions."""
    from hlo2tx8.hlo.evaluator import Evaluator
    from hlo2tx8.hlo.ops.dynamic import dynamic_update_slice
    from hlo2tx8.interpreter import interpret

    values.update(zip(block.args, arguments, strict=True))
    for op in block.ops:
        operands = [values[v] for v in op.operands]
        match op:
            case ReturnOp() | LaunchYieldOp():
                return operands
            case KernelOp() if isinstance(kernel := nested[op.callee.string_value()], ModuleOp):
                results = interpret(kernel, operands)
            case KernelOp():
                results = Evaluator({}, turns=turns).run(nested[op.callee.string_value()].body.block, operands, {})
            case CallOp():
                turns.take(origin(op))
                results = _run_block(nested[op.callee.string_value()].body.block, operands, {}, nested, turns)
            case WhileOp():
                results = operands
                while bool(_run_block(op.condition.block, results, values, nested, turns)[0]):
                    turns.take(origin(op))
                    results = _run_block(op.body.block, results, values, nested, turns)
            case RepeatOp():
                results = operands
                for _ in range(op.count.value.data):
                    turns.take(origin(op))
                    results = _run_block(op.body.block, results, values, nested, turns)
            case CaseOp():
                chosen = int(operands[0])
                number = chosen if 0 <= chosen < len(op.branches) else -1
                results = _run_block(op.branches[number].block, [], values, nested, turns)
            case UpdateOp():
                results = [dynamic_update_slice({}, (), *operands)]
            case ViewOp():
                results = [_shown(op, operands)]
            case _ if op.name == "stablehlo.constant":
                port = port_of(op.results[0].type)
                results = [np.broadcast_to(np.asarray(decode_attributes(op)["value"]), port.shape)]
            case _:
                raise LevelError("E1006", f"{op.name} in @main below FUSED")
        values.update(zip(op.results, results, strict=True))
    raise LevelError("E1006", "a block of @main does not return")


def _shown(op: ViewOp, operands: Sequence[Array]) -> Array:
    """The elements that a view shows."""
    from hlo2tx8.hlo.ops.indexed import clamped

    shape = port_of(op.result.type).shape
    starts = (clamped(np.asarray(start), room).item() * step for start, (_, step, room) in zip(operands[1:], op.terms, strict=True))
    first = op.first + sum(starts)
    return operands[0].reshape(-1)[first : first + prod(shape)].reshape(shape)
