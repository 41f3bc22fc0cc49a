"""Run a module at any level: every level gives the reference's answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, SSAValue

from hlo2tx8.device.emulator import Emulator
from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.dialects.launch import CaseOp, KernelOp, RepeatOp, UpdateOp, WhileOp, YieldOp, kernels
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
    if options.until is Level.SCHEDULED:
        return run_unbounded(lowered, options, arrays)
    signature = signature_of(lowered)
    inputs = [port.taken_apart(np.asarray(array)) for port, array in zip(signature.inputs, arrays, strict=True)]
    if options.until <= Level.FUSED:
        from hlo2tx8.hlo import evaluate

        results = evaluate(lowered, *inputs)
    else:
        results = run_launches(lowered, inputs)
    return [port.put_together(array) for port, array in zip(signature.outputs, results, strict=True)]


def run_unbounded(module: ModuleOp, options: Options, arrays: Sequence[Array]) -> list[Array]:
    """Run a module at SCHEDULED on a chip whose SPM has room for every buffer: what differs at PROGRAM is the allocator's."""
    for kernel in kernels(module).values():
        AllocateSpmPass(chip=str(options.chip or ""), limit=ROOM).apply(Context(), kernel)
    chip = chip_of(options)
    roomy = replace(chip, spm_bytes=ROOM, spm_limit=ROOM)
    program = link(module, {name: encode(kernel) for name, kernel in kernels(module).items()}, roomy)
    signature = signature_of(module)
    inputs = [port.to_device(np.asarray(array)) for port, array in zip(signature.inputs, arrays, strict=True)]
    results = Emulator(roomy, mode="definition").run(program, inputs)
    return [port.from_device(array) for port, array in zip(signature.outputs, results, strict=True)]


def run_launches(module: ModuleOp, arrays: Sequence[Array]) -> list[Array]:
    """Run @main of a module at LOOPS, FLAT or VECTOR: each launch through the interpreter."""
    values: dict[SSAValue, Array] = {}
    return _run_block(find_main(module).body.block, list(map(np.asarray, arrays)), values, kernels(module))


def _run_block(
    block: Block, arguments: Sequence[Array], values: dict[SSAValue, Array], nested: Mapping[str, ModuleOp]
) -> list[Array]:
    """What the block's terminator hands on; `values` has what enclosing blocks define."""
    from hlo2tx8.hlo.ops.dynamic import dynamic_update_slice
    from hlo2tx8.interpreter import interpret

    values.update(zip(block.args, arguments, strict=True))
    for op in block.ops:
        operands = [values[v] for v in op.operands]
        match op:
            case ReturnOp() | YieldOp():
                return operands
            case KernelOp():
                results = interpret(nested[op.callee.string_value()], operands)
            case WhileOp():
                results = operands
                while bool(_run_block(op.condition.block, results, values, nested)[0]):
                    results = _run_block(op.body.block, results, values, nested)
            case RepeatOp():
                results = operands
                for _ in range(op.count.value.data):
                    results = _run_block(op.body.block, results, values, nested)
            case CaseOp():
                chosen = int(operands[0])
                number = chosen if 0 <= chosen < len(op.branches) else -1
                results = _run_block(op.branches[number].block, [], values, nested)
            case UpdateOp():
                results = [dynamic_update_slice({}, (), *operands)]
            case _ if op.name == "stablehlo.constant":
                port = port_of(op.results[0].type)
                results = [np.broadcast_to(np.asarray(decode_attributes(op)["value"]), port.shape)]
            case _:
                raise LevelError("E1006", f"{op.name} in @main below FUSED")
        values.update(zip(op.results, results, strict=True))
    raise LevelError("E1006", "a block of @main does not return")
