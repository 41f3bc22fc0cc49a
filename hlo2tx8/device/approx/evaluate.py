"""Run a `FunctionProgram` with numpy: one array operation per step, any shape, the same bits as the generated C."""

from typing import Any

import numpy as np

from hlo2tx8.device.approx import coefficients
from hlo2tx8.device.approx.program import FunctionProgram, FunctionStep

Array = np.ndarray[Any, np.dtype[Any]]
DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "bool": np.bool_}
_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "shl": np.left_shift, "shr": np.right_shift,
    "lt": np.less, "le": np.less_equal, "eq": np.equal,
}  # fmt: skip
_UNARY = {"neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "not": np.invert}


def table_values(name: str) -> Array:
    """The constant table `name`: f64 values written in hex, or 32-bit words as int64."""
    values: tuple[Any, ...] = getattr(coefficients, name)
    if isinstance(values[0], str):
        return np.array([float.fromhex(v) for v in values])
    return np.array(values, np.int64)


def _power_of_two(n: Array, dtype: type[Any]) -> Array:
    bias, width = (127, 23) if dtype is np.float32 else (1023, 52)
    return ((n + n.dtype.type(bias)) << n.dtype.type(width)).view(dtype)


def _run_step(step: FunctionStep, args: list[Array]) -> Array:
    if step.op in _BINARY:
        return _BINARY[step.op](args[0], args[1])
    if step.op in _UNARY:
        return _UNARY[step.op](args[0])
    dtype = DTYPES[step.type]
    match step.op:
        case "const":
            return np.array([step.value], dtype)
        case "select":
            return np.where(args[0], args[1], args[2])
        case "bits":
            return args[0].view(dtype)
        case "convert":
            return args[0].astype(dtype)
        case "lookup":
            return table_values(str(step.value))[args[0]].astype(dtype)
        case "scale":
            half = args[1] >> 1
            return args[0] * _power_of_two(half, dtype) * _power_of_two(args[1] - half, dtype)
        case "lshr":
            unsigned = np.uint32 if step.type == "i32" else np.uint64
            return (args[0].view(unsigned) >> args[1].view(unsigned)).view(dtype)
        case _:
            raise ValueError(f"unknown step {step.op}")


def run(program: FunctionProgram, *inputs: Array) -> Array:
    """The program applied elementwise to `inputs` (one shape, the dtypes of `program.inputs`)."""
    shape = inputs[0].shape
    flat = [np.ascontiguousarray(x, DTYPES[t]).reshape(-1) for x, t in zip(inputs, program.inputs, strict=True)]
    values: list[Array] = []
    with np.errstate(all="ignore"):
        for step in program.steps:
            if step.op == "input":
                values.append(flat[int(step.value)])
            else:
                values.append(_run_step(step, [values[a] for a in step.args]))
    return np.broadcast_to(values[program.result], flat[0].shape).reshape(shape)
