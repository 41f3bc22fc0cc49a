"""Write the programs as C: `python -m hlo2tx8.device.approx.emit_c [--check]` makes `device/native/approx.h`.

One `static inline` function per program, one statement per step; the compiler must keep IEEE semantics. FAST_<NAME>_<FORMAT> is 1
where rounding an f32 program, APPROX_<NAME>_<FORMAT>, gives the correctly rounded result for all 65536 arguments.
"""

import math
import sys
from pathlib import Path

import numpy as np

from hlo2tx8.device import approx
from hlo2tx8.device.approx.evaluate import run, table_values
from hlo2tx8.device.approx.program import Program, Step
from hlo2tx8.device.approx.rounding import round_to_half, widen_half

PATH = Path(__file__).parents[1] / "native" / "approx.h"
_C_TYPES = {"f32": "float", "f64": "double", "i32": "int32_t", "i64": "int64_t", "bool": "_Bool"}
_UNSIGNED = {"i32": "uint32_t", "i64": "uint64_t"}
_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shr": ">>",
    "lt": "<",
    "le": "<=",
    "eq": "==",
}
_TABLES = ("TWO_OVER_PI_WORDS", "POW_INVERSE", "POW_LOG_HIGH", "POW_LOG_LOW")


def _constant(step: Step) -> str:
    if step.type not in ("f32", "f64"):
        value = int(step.value)
        return f"INT64_C({value})" if value != -(1 << 63) else "INT64_MIN"
    value = float(step.value)
    suffix = "f" if step.type == "f32" else ""
    if math.isnan(value):
        return f"APPROX_NAN{suffix}"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}APPROX_INF{suffix}"
    return f"{value.hex()}{suffix}"


def _expression(step: Step, program: Program) -> str:
    args = [f"v{a}" for a in step.args]
    kind = _C_TYPES[step.type]
    operand_type = program.steps[step.args[0]].type if step.args else ""
    match step.op:
        case "const":
            return _constant(step)
        case "input":
            return f"x{step.value}"
        case "add" | "sub" | "mul" if step.type in _UNSIGNED:
            unsigned = _UNSIGNED[step.type]
            return f"({kind})(({unsigned}){args[0]} {_INFIX[step.op]} ({unsigned}){args[1]})"
        case "shl" | "lshr":
            unsigned, sign = _UNSIGNED[step.type], "<<" if step.op == "shl" else ">>"
            return f"({kind})(({unsigned}){args[0]} {sign} {args[1]})"
        case "neg":
            return f"-{args[0]}"
        case "not":
            return f"!{args[0]}"
        case "abs":
            return f"{'fabsf' if step.type == 'f32' else 'fabs'}({args[0]})"
        case "sqrt":
            return f"{'sqrtf' if step.type == 'f32' else 'sqrt'}({args[0]})"
        case "select":
            return f"{args[0]} ? {args[1]} : {args[2]}"
        case "bits":
            return f"bits_{operand_type}_{step.type}({args[0]})"
        case "convert":
            return f"({kind}){args[0]}"
        case "lookup":
            return f"{str(step.value).lower()}[{args[0]}]"
        case _:
            return f"{args[0]} {_INFIX[step.op]} {args[1]}"


def function_text(program: Program) -> str:
    """The C function of one program."""
    parameters = ", ".join(f"{_C_TYPES[t]} x{i}" for i, t in enumerate(program.inputs))
    lines = [f"static inline {_C_TYPES[program.type]} approx_{program.name}({parameters}) {{"]
    lines += [f"    const {_C_TYPES[s.type]} v{i} = {_expression(s, program)};" for i, s in enumerate(program.steps)]
    return "\n".join([*lines, f"    return v{program.result};", "}", ""])


def _table_text(name: str) -> str:
    values = table_values(name)
    if values.dtype == np.float64:
        body, kind = ", ".join(float(v).hex() for v in values), "double"
    else:
        body, kind = ", ".join(f"0x{int(v):08X}" for v in values), "int64_t"
    return f"static const {kind} {name.lower()}[] = {{{body}}};\n"


def fast_program(name: str, fmt_name: str) -> Program | None:
    """The f32 program that, rounded, equals the table of a 16-bit format everywhere; the shortest, None if there is none."""
    with np.errstate(all="ignore"):
        arguments = widen_half(np.arange(65536, dtype=np.uint16), fmt_name).astype(np.float32)
    for candidate in (f"{name}_{fmt_name.lower()}", name):
        if candidate in approx.SINGLE + approx.HALF:
            program = approx.program(candidate, "f32")
            rounded = round_to_half(run(program, arguments).astype(np.float64), fmt_name)
            if np.array_equal(rounded, approx.table(name, fmt_name)):
                return program
    return None


def _half_text(name: str, fmt_name: str) -> str:
    program = fast_program(name, fmt_name)
    macro = f"{name.upper()}_{fmt_name}"
    if program is None:
        return f"#define FAST_{macro} 0\n" + (f"#define APPROX_{macro} approx_{name}_f32\n" if name in approx.SINGLE else "")
    return f"#define FAST_{macro} 1\n#define APPROX_{macro} approx_{program.name}\n"


def header_text() -> str:
    """The text of approx.h."""
    parts = [
        "/* Generated from device/approx by emit_c.py. Do not edit. */\n#ifndef HLO2TX8_APPROX_H\n#define HLO2TX8_APPROX_H\n\n"
        "#include <math.h>\n#include <stdint.h>\n\n#define APPROX_NAN ((double)NAN)\n#define APPROX_NANf ((float)NAN)\n"
        "#define APPROX_INF ((double)INFINITY)\n#define APPROX_INFf ((float)INFINITY)\n"
    ]
    for a, b in (("f32", "i32"), ("i32", "f32"), ("f64", "i64"), ("i64", "f64")):
        parts.append(
            f"static inline {_C_TYPES[b]} bits_{a}_{b}({_C_TYPES[a]} x) {{\n"
            f"    union {{ {_C_TYPES[a]} from; {_C_TYPES[b]} to; }} both = {{x}};\n    return both.to;\n}}\n"
        )
    parts += [_table_text(name) for name in _TABLES]
    for name in approx.UNARY:
        parts += [_half_text(name, fmt_name) for fmt_name in ("FP16", "BF16")]
        if name in approx.SINGLE:
            parts.append(function_text(approx.program(name, "f32")))
        if name in approx.ANGLES:
            parts.append(function_text(approx.program(name, "f64", only_small=True)))
        parts.append(function_text(approx.program(name, "f64")))
    parts += [function_text(approx.program(name, "f64")) for name in approx.BINARY]
    parts += [function_text(approx.program(name, "f32")) for name in approx.HALF]
    return "\n".join([*parts, "#endif\n"])


def main(arguments: list[str]) -> int:
    """0 if written or, with --check, up to date; 1 otherwise."""
    text = header_text()
    if "--check" in arguments:
        return 0 if PATH.exists() and PATH.read_text() == text else 1
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
