"""Run a module at any level: every level gives the reference's answer."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from hlo2tx8.device.emulator import Emulator
from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.dialects.launch import KernelOp, kernels
from hlo2tx8.driver import chip_of, compile_module, lower
from hlo2tx8.errors import LevelError
from hlo2tx8.link import link
from hlo2tx8.lower.allocate_spm import AllocateSpmPass
from hlo2tx8.lower.encode import encode
from hlo2tx8.module import find_main, port_of, signature_of
from hlo2tx8.options import Level, Options

Array = npt.NDArray[Any]

ROOM = 1 << 28
"""Bytes of SPM per tile that are as good as no bound."""


def run_level(load: Callable[[], ModuleOp], options: Options, arrays: Sequence[Array]) -> list[Array]:
    """Lower what `load` gives to `options.until` and run it there on the inputs."""
    if options.until is Level.PROGRAM:
        return compile_module(load, options).execute(*arrays)
    lowered = lower(load, options).module
    match options.until:
        case Level.HLO | Level.FUSED:
            from hlo2tx8.hlo import evaluate

            return list(evaluate(lowered, *arrays))
        case Level.SCHEDULED:
            return run_unbounded(lowered, options, arrays)
        case _:
            return run_launches(lowered, arrays)


def run_unbounded(module: ModuleOp, options: Options, arrays: Sequence[Array]) -> list[Array]:
    """Run a module at SCHEDULED on a chip whose SPM has room for every buffer: what differs at PROGRAM is the allocator's."""
    for kernel in kernels(module).values():
        AllocateSpmPass(chip=str(options.chip or ""), limit=ROOM).apply(Context(), kernel)
    chip = chip_of(options)
    roomy = replace(chip, spm_bytes=ROOM, spm_limit=ROOM)
    program = link(module, {name: encode(kernel) for name, kernel in kernels(module).items()}, ROOM)
    signature = signature_of(module)
    inputs = [port.to_device(np.asarray(array)) for port, array in zip(signature.inputs, arrays, strict=True)]
    results = Emulator(roomy, mode="definition").run(program, inputs)
    return [port.from_device(array) for port, array in zip(signature.outputs, results, strict=True)]


def run_launches(module: ModuleOp, arrays: Sequence[Array]) -> list[Array]:
    """Run @main of a module at LOOPS, FLAT or VECTOR: each launch through the interpreter."""
    from hlo2tx8.interpreter import interpret

    main = find_main(module)
    nested = kernels(module)
    values: dict[SSAValue, Array] = dict(zip(main.body.block.args, map(np.asarray, arrays), strict=True))
    for op in main.body.block.ops:
        if isinstance(op, ReturnOp):
            return [values[v] for v in op.arguments]
        if op.name == "stablehlo.constant":
            port = port_of(op.results[0].type)
            values[op.results[0]] = np.broadcast_to(np.asarray(decode_attributes(op)["value"]), port.shape)
            continue
        if not isinstance(op, KernelOp):
            raise LevelError("E1006", f"{op.name} in @main below FUSED")
        results = interpret(nested[op.callee.string_value()], [values[v] for v in op.operands])
        values.update(zip(op.results, results, strict=True))
    raise LevelError("E1006", "@main does not return")
