"""Run a module at any level: every level gives the reference's answer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.dialects.launch import KernelOp, kernels
from hlo2tx8.driver import compile_module, lower
from hlo2tx8.errors import LevelError
from hlo2tx8.module import find_main, port_of
from hlo2tx8.options import Level, Options

Array = npt.NDArray[Any]


def run_level(module: ModuleOp, options: Options, arrays: Sequence[Array]) -> list[Array]:
    """Lower the module to `options.until`, in place, and run it there on the inputs."""
    level = options.until
    if level >= Level.SCHEDULED:
        return compile_module(lambda: module, options).execute(*arrays)
    lowered = lower(module, options).module
    if level <= Level.FUSED:
        from hlo2tx8.hlo import evaluate

        return list(evaluate(lowered, *arrays))
    return run_launches(lowered, arrays)


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
