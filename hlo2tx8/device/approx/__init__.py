"""Transcendental functions as fixed sequences of individually rounded operations: equal bits on every host, in numpy and in C.

    evaluate("tanh", x, fmt_name="FP32")     the function on an array of the format's dtype, NaN canonical
    table("tanh", "BF16")                    all 65536 results of a 16-bit format, uint16 indexed by the argument's bits

f32: `exp log tanh logistic` are f32 programs (at most 2 ulp), the others the f64 program rounded once. 16-bit formats: the
f64 program rounded once, i.e. the correctly rounded function. TF32: the f32 result rounded to nearest even at bit 13.
"""

from functools import cache
from typing import Any

import numpy as np

from hlo2tx8.device.approx import binary, functions
from hlo2tx8.device.approx.evaluate import run
from hlo2tx8.device.approx.program import Builder, FunctionProgram
from hlo2tx8.device.approx.rounding import canonical, round_to_half, round_to_tf32, to_odd, widen_half

Array = np.ndarray[Any, np.dtype[Any]]

UNARY = ("log2", "log", "exp", "exp2", "sin", "cos", "tanh", "logistic", "tan", "cbrt", "expm1", "log1p", "softplus", "rsqrt")
BINARY = ("atan2", "pow")
SINGLE = ("exp", "log", "tanh", "logistic")  # those with a program of their own in f32
HALF = ("tanh_bf16",)  # short f32 programs that are right after rounding to one 16-bit format
ANGLES = ("sin", "cos", "tan")  # those with a cheaper program for small arguments
FORMATS = ("FP16", "BF16", "FP32", "TF32", "FP64")


@cache
def program(name: str, type_: str, *, only_small: bool = False) -> FunctionProgram:
    """The program of `name` in f32 (only SINGLE) or f64; `only_small` (only ANGLES): right up to `reduction.SMALL_ANGLE`."""
    if name in BINARY:
        builder = Builder("f64", "f64")
        return builder.finish(f"{name}_f64", getattr(binary, name)(*builder.inputs))
    if name not in UNARY + HALF:
        raise ValueError(f"no function {name}")
    if type_ == "f32" and name not in SINGLE + HALF:
        raise ValueError(f"{name} has no f32 program")
    builder = Builder(type_)
    function = getattr(functions, name)
    if only_small:
        return builder.finish(f"{name}_small_{type_}", function(builder.inputs[0], only_small=True))
    return builder.finish(f"{name}_{type_}", function(builder.inputs[0]))


def ulp_bound(name: str, fmt_name: str) -> float:
    """Largest error of `evaluate` in units of the last place of the exact value; 0.5 is correct rounding."""
    match fmt_name:
        case "FP16" | "BF16":
            return 0.5
        case "FP64":
            return 2
        case "FP32" if name in SINGLE:
            return 2
        case _:
            return 0.51


@cache
def table(name: str, fmt_name: str) -> Array:
    """uint16[65536]: entry i is the bits of the correctly rounded function of the FP16 or BF16 number with bits i."""
    arguments = widen_half(np.arange(65536, dtype=np.uint16), fmt_name)
    result = round_to_half(run(program(name, "f64"), arguments), fmt_name)
    result.setflags(write=False)
    return result


def evaluate(name: str, *operands: Array, fmt_name: str) -> Array:
    """`name` of one operand (two for BINARY), arrays of the dtype of format `fmt_name`, any shape; NaN is canonical."""
    if fmt_name not in FORMATS:
        raise ValueError(f"{name} has no format {fmt_name}")
    if fmt_name in ("FP16", "BF16"):
        return _evaluate_half(name, operands, fmt_name)
    if fmt_name == "FP64":
        return canonical(run(program(name, "f64"), *operands))
    if name in SINGLE:
        result = run(program(name, "f32"), *operands)
        return canonical(round_to_tf32(result) if fmt_name == "TF32" else result)
    with np.errstate(all="ignore"):
        wide = run(program(name, "f64"), *(a.astype(np.float64) for a in operands))
        return canonical(round_to_tf32(to_odd(wide)) if fmt_name == "TF32" else wide.astype(np.float32))


def _evaluate_half(name: str, operands: tuple[Array, ...], fmt_name: str) -> Array:
    bits = [np.ascontiguousarray(a).view(np.uint16) for a in operands]
    if len(bits) == 1:
        return table(name, fmt_name)[bits[0]].view(operands[0].dtype)
    wide = run(program(name, "f64"), *(widen_half(b, fmt_name) for b in bits))
    return round_to_half(wide, fmt_name).view(operands[0].dtype)
