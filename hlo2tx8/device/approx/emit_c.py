"""The programs as C: the text of `approx.h`, which the build writes for the native core.

One `static inline` function per program, one statement per step; the compiler must keep IEEE semantics. Programs in f32 are there
once more for some vectors of 16 at once where the host has AVX-512, which clamps and scales in one operation each.
FAST_<NAME>_<FORMAT> is 1 where rounding an f32 program, APPROX_<NAME>_<FORMAT>, gives the correctly rounded result for all
65536 arguments.
"""

import math
import re

import numpy as np

from hlo2tx8.device import approx
from hlo2tx8.device.approx.evaluate import run, table_values
from hlo2tx8.device.approx.program import FunctionProgram, FunctionStep
from hlo2tx8.device.approx.rounding import round_to_half, widen_half

_C_TYPES = {"f32": "float", "f64": "double", "i32": "int32_t", "i64": "int64_t", "bool": "_Bool"}
_UNSIGNED = {"i32": "uint32_t", "i64": "uint64_t"}
_WIDE_TYPES = {"f32": "__m512", "i32": "__m512i", "bool": "__mmask16"}
_WIDE_SHIFTS = {"shl": "sllv", "shr": "srav", "lshr": "srlv"}
_WIDE_SUFFIX = {"f32": "ps", "i32": "epi32"}
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


def _constant(step: FunctionStep) -> str:
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


def _expression(step: FunctionStep, program: FunctionProgram) -> str:
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
        case "scale":
            return f"scale_{step.type}({args[0]}, {args[1]})"
        case _:
            return f"{args[0]} {_INFIX[step.op]} {args[1]}"


def function_text(program: FunctionProgram) -> str:
    """The C function of one program."""
    parameters = ", ".join(f"{_C_TYPES[t]} x{i}" for i, t in enumerate(program.inputs))
    lines = [f"static inline {_C_TYPES[program.type]} approx_{program.name}({parameters}) {{"]
    lines += [f"    const {_C_TYPES[s.type]} v{i} = {_expression(s, program)};" for i, s in enumerate(program.steps)]
    return "\n".join([*lines, f"    return v{program.result};", "}", ""])


def _clamping(step: FunctionStep, program: FunctionProgram) -> str | None:
    """A minimum or maximum where a step chooses between the numbers it compares: both give the second where one is NaN."""
    condition, then, otherwise = step.args
    compare = program.steps[condition]
    if compare.op != "lt" or step.type != "f32" or {then, otherwise} != set(compare.args):
        return None
    return f"_mm512_{'min' if then == compare.args[0] else 'max'}_ps(v{then}, v{otherwise})"


def _wide_expression(step: FunctionStep, program: FunctionProgram) -> str:
    args = ", ".join(f"v{a}" for a in step.args)
    first = f"v{step.args[0]}" if step.args else ""
    operand_type = program.steps[step.args[0]].type if step.args else ""
    match step.op:
        case "const":
            return f"_mm512_set1_{'ps' if step.type == 'f32' else 'epi32'}({_constant(step)})"
        case "input":
            return f"x{step.value}"
        case "add" | "sub" | "mul" | "div":
            return f"_mm512_{step.op}{'lo' if step.op == 'mul' and step.type == 'i32' else ''}_{_WIDE_SUFFIX[step.type]}({args})"
        case "and" | "or" | "xor":
            return f"_mm512_{step.op}_si512({args})"
        case "shl" | "shr" | "lshr":
            return f"_mm512_{_WIDE_SHIFTS[step.op]}_epi32({args})"
        case "lt" | "le" | "eq" if operand_type == "f32":
            return f"_mm512_cmp_ps_mask({args}, _CMP_{step.op.upper()}_OQ)"
        case "lt" | "le" | "eq":
            return f"_mm512_cmp{step.op}_epi32_mask({args})"
        case "neg":
            return f"_mm512_xor_ps({first}, _mm512_set1_ps(-0.0f))"
        case "not":
            return f"(__mmask16)~{first}"
        case "abs" | "sqrt":
            return f"_mm512_{step.op}_ps({first})"
        case "select":
            blend = f"_mm512_mask_blend_{_WIDE_SUFFIX[step.type]}({first}, v{step.args[2]}, v{step.args[1]})"
            return _clamping(step, program) or blend
        case "bits":
            return f"_mm512_castps_si512({first})" if operand_type == "f32" else f"_mm512_castsi512_ps({first})"
        case "convert":
            return f"_mm512_cvtepi32_ps({first})" if step.type == "f32" else f"_mm512_cvttps_epi32({first})"
        case "scale":
            return f"_mm512_scalef_ps({first}, _mm512_cvtepi32_ps(v{step.args[1]}))"
        case _:
            raise ValueError(f"{program.name}: {step.op} has no form for many numbers")


def wide_text(program: FunctionProgram) -> str:
    """The C function of one f32 program for APPROX_PARTS vectors: each step for all of them, since one waits for another."""
    texts = [_wide_expression(s, program) for s in program.steps]
    constants = {f"v{i}" for i, step in enumerate(program.steps) if step.op == "const"}
    used = {program.result}
    for i in range(program.result, -1, -1):
        if i in used:  # a comparison whose choice is a minimum is not
            used.update(int(v) for v in re.findall(r"\bv(\d+)", texts[i]))
    lines = [f"static inline __attribute__((always_inline)) void wide_{program.name}(__m512 *y, const __m512 *x0) {{"]
    for i in sorted(used):
        kind = _WIDE_TYPES[program.steps[i].type]
        if program.steps[i].op == "const":
            lines.append(f"    const {kind} v{i} = {texts[i]};")
            continue
        each = re.sub(r"\b(v\d+|x0)\b", lambda m: m[1] if m[1] in constants else f"{m[1]}[k]", texts[i])
        target = "y" if i == program.result else f"v{i}"
        lines.append((f"    {kind} {target}[APPROX_PARTS];" if target != "y" else "   ") + f" APPROX_EACH {target}[k] = {each};")
    return "\n".join([*lines, "}", ""])


def _table_text(name: str) -> str:
    values = table_values(name)
    if values.dtype == np.float64:
        body, kind = ", ".join(float(v).hex() for v in values), "double"
    else:
        body, kind = ", ".join(f"0x{int(v):08X}" for v in values), "int64_t"
    return f"static const {kind} {name.lower()}[] = {{{body}}};\n"


def fast_program(name: str, fmt_name: str) -> FunctionProgram | None:
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
    for t, width, bias, shift in (("f32", "i32", 127, 23), ("f64", "i64", 1023, 52)):
        kind, unsigned = _C_TYPES[t], _UNSIGNED[width]
        power = f"bits_{width}_{t}((({_C_TYPES[width]})(({unsigned}){{}} + {bias}) << {shift}))"
        parts.append(
            f"static inline {kind} scale_{t}({kind} x, {_C_TYPES[width]} n) {{\n    const {_C_TYPES[width]} half = n >> 1;\n"
            f"    return x * {power.format('half')} * {power.format('(n - half)')};\n}}\n"
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
    parts += [
        "#if defined(__AVX512F__) && defined(__AVX512DQ__)\n#include <immintrin.h>\n\n"
        '#define APPROX_PARTS 4\n#define APPROX_EACH _Pragma("GCC unroll 4") for (int k = 0; k < APPROX_PARTS; k++)\n'
    ]
    parts += [wide_text(approx.program(name, "f32")) for name in approx.SINGLE + approx.HALF]
    return "\n".join([*parts, "#endif\n", "#endif\n"])
