"""The instruction classes as C: the texts of `isa.h` and `functions.h`, which the build writes for the native core."""

import re
from collections.abc import Iterable
from dataclasses import fields
from functools import cache

from hlo2tx8.device.approx import ANGLES, SINGLE
from hlo2tx8.device.chip import MOST_DESTINATIONS, Beats
from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import INSTRUCTIONS, Engine, Field, Instruction
from hlo2tx8.device.isa.ct_pool import CtPoolForm
from hlo2tx8.device.isa.ct_reduce import CtReduce
from hlo2tx8.device.isa.declarations import expressions
from hlo2tx8.device.isa.encoding import HEADER_WORDS, RECORD_WORDS
from hlo2tx8.device.isa.expressions import Domain, Expression
from hlo2tx8.device.isa.lsu import MOST_ELEMENTS
from hlo2tx8.device.status import Status

Kinds = Iterable[type[Instruction]]
Names = dict[tuple[Expression, int], str]
"""Of an expression and its number of operands the name in C."""
FLOAT_DOMAINS = (Domain.NUMBER, Domain.DOUBLE, Domain.BITS, Domain.KERNELS, Domain.PACKED)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _upper(name: str) -> str:
    return _snake(name).upper()


def _enumeration(tag: str, prefix: str, names: Iterable[tuple[str, int]]) -> list[str]:
    return [f"enum {tag} {{", *(f"    {prefix}_{name} = {value}," for name, value in names), "};", ""]


@cache
def instructions_text() -> str:
    """`isa.h`: enumerations of opcodes, formats, roundings and engines, and each instruction's operand positions and bounds."""
    lines = ["/* Generated from the instruction classes. Do not edit. */", "#ifndef HLO2TX8_ISA_H", "#define HLO2TX8_ISA_H", ""]
    constants = {
        "RECORD_WORDS": RECORD_WORDS,
        "HEADER_WORDS": HEADER_WORDS,
        "MOST_ELEMENTS": MOST_ELEMENTS,
        "DTE_MOST_DESTINATIONS": MOST_DESTINATIONS,
        "NUM_FORMATS": len(Format),
        "NUM_BEATS": len(fields(Beats)),
        "NUM_OPCODES": max(cls.OPCODE for cls in INSTRUCTIONS) + 1,
    }
    lines += [*(f"#define {name} {value}" for name, value in constants.items()), ""]
    lines += _enumeration("format_code", "FORMAT", ((f.name, f.value) for f in Format))
    lines += _enumeration("round_code", "ROUND", ((r.name, r.value) for r in Rounding))
    lines += _enumeration("engine_code", "ENGINE", ((e.name, e.value) for e in Engine))
    lines += _enumeration("status_code", "STATUS", ((s.name or "", s.value) for s in Status))
    lines += _enumeration("op_code", "OP", ((_upper(c.__name__), c.OPCODE) for c in INSTRUCTIONS))
    for cls in INSTRUCTIONS:
        lines += [f"#define {_upper(cls.__name__)}__{f.name.upper()} {i}" for i, f in enumerate(cls.FIELDS)]
    for cls in INSTRUCTIONS:
        if cls.ENGINE is Engine.NE or issubclass(cls, (CtReduce, CtPoolForm)):
            lines += ["", f"#define {_upper(cls.__name__)}__BOUNDS \\", f"    {{ {', '.join(map(_bound, cls.FIELDS))} }}"]
    return "\n".join([*lines, "", "#endif", ""])


def _bound(f: Field) -> str:
    """Name, least and most of an operand; without limits for an address."""
    if f.least is None or f.most is None:
        return f'{{"{f.name}", INT64_MIN, INT64_MAX}}'
    return f'{{"{f.name}", {f.least}, {f.most}}}'


def functions_text(kinds: Kinds = INSTRUCTIONS) -> str:
    """`functions.h`: what instructions compute of an element, lists of these functions by kernel, and the facts of each opcode."""
    lines = [
        "/* Generated from the instruction classes. Do not edit. */",
        "#ifndef HLO2TX8_FUNCTIONS_H",
        "#define HLO2TX8_FUNCTIONS_H",
    ]
    names = _function_names(kinds)
    exact = _exact_numbers(kinds)
    for tag, prefix, domains in (
        ("float_function", "FN", FLOAT_DOMAINS),
        ("integer_function", "INT", (Domain.INTEGER, Domain.COMPARISON)),
    ):
        found = [name for (expression, _), name in names.items() if expression.domain in domains]
        lines += ["", f"enum {tag} {{ {prefix}_none, {', '.join(f'{prefix}_{name}' for name in found)}, NUM_{tag.upper()}S }};"]
    programs = list(dict.fromkeys(cls.FUNCTION for cls in kinds if cls.FUNCTION))
    lines += ["", f"enum program {{ PROGRAM_none, {', '.join(f'PROGRAM_{name}' for name in programs)}, NUM_PROGRAMS }};"]
    lines += [
        "",
        "/* X(name, NAME) of the functions of device/approx: those with an f32 program of their own, angles, the others. */",
    ]
    for macro, members in (
        ("SINGLE", [name for name in programs if name in SINGLE]),
        ("ANGLE", [name for name in programs if name in ANGLES]),
        ("DOUBLE", [name for name in programs if name not in SINGLE + ANGLES]),
    ):
        lines.append(f"#define {macro}_PROGRAMS(X) {' '.join(f'X({name}, {name.upper()})' for name in members)}")
    lines.append("")
    for (expression, arity), name in names.items():
        lines += _function(expression, arity, name)
    lines += [
        "",
        "/* X(name) of each function that there is a kernel of, by operands: one vector, two, one and a number, one and a unit. */",
    ]
    for macro, members in _lists(kinds, names).items():
        lines.append(f"#define {macro}(X) {' '.join(f'X({member})' for member in members)}")
    odds = {exact[cls.EXACT.expression]: cls.EXACT.odd_expression for cls in kinds if cls.EXACT.odd_expression}
    lines += ["", "#define ODD_RESULTS(X) \\", *(f"    X({number}, {text}) \\" for number, text in odds.items()), ""]
    lines += ["", "#define EXACTNESS(X) \\", *(f"    X({number}, {text}) \\" for text, number in exact.items() if text), ""]
    lines += [
        "/* Bit t of entry s: formats t of the result and s of the source go with an instruction. */",
        "#define FORMAT_MASKS { \\",
    ]
    masks = _masks(kinds)
    lines += [f"    {{{', '.join(f'{mask:#x}' for mask in row)}}}, \\" for row in masks]
    lines += [
        "}",
        "",
        "#define FACTS { \\",
        *(f"    {_facts(cls, names, exact, masks)}, \\" for cls in kinds),
        "}",
        "",
        "#endif",
        "",
    ]
    return "\n".join(lines)


def _function_names(kinds: Kinds) -> Names:
    """Every expression once, under the name of the first instruction that states it."""
    names: Names = {}
    for cls in kinds:
        for key in expressions(cls):
            names.setdefault(key, _snake(cls.__name__) + ("_pred" if key[0] is cls.PRED_EXPRESSION else ""))
    return names


def _exact_numbers(kinds: Kinds) -> dict[str, int]:
    """Numbers of the tests of exactness by their C text; 0 is SILENT."""
    texts = dict.fromkeys(["", *(cls.EXACT.expression for cls in kinds)])
    return {text: number for number, text in enumerate(texts)}


def _function(expression: Expression, arity: int, name: str) -> list[str]:
    operands = ("x", "y")[:arity]
    match expression.domain:
        case Domain.NUMBER:
            return [_inline(kind, f"{name}_{kind}", operands, expression.text) for kind in ("float", "double")]
        case Domain.DOUBLE:
            return [_inline("double", f"{name}_wide", operands, expression.text)]
        case Domain.PACKED:
            return [_inline("u8", f"{name}_u8", operands, f"(u8)({expression.text})")]
        case Domain.BITS:
            return [f"#define BITS_{name}(T, x, sign) ({expression.text})"]
        case Domain.INTEGER:
            return [f"#define INTEGER_{name}(T, U, S, {', '.join(operands)}) ({expression.text})"]
        case Domain.KERNELS:
            return [f"#define KERNELS_{name} {expression.text}"]
        case Domain.COMPARISON:
            return [f"#define COMPARE_{name} {expression.text}"]


def _inline(kind: str, name: str, operands: Iterable[str], text: str) -> str:
    return f"static inline {kind} {name}({', '.join(f'{kind} {o}' for o in operands)}) {{ return {text}; }}"


def _lists(kinds: Kinds, names: Names) -> dict[str, list[str]]:
    """The functions of each list; one that is used with a number or a unit is there with two vectors too."""
    lists: dict[str, dict[str, None]] = {f"{domain.name}_{shape}": {} for domain in Domain for shape in ("ONE", "TWO")}
    lists |= {f"{Domain.NUMBER.name}_{shape}": {} for shape in ("IMMEDIATE", "UNIT")}
    for cls in kinds:
        for expression, arity in expressions(cls):
            domain, name = expression.domain.name, names[expression, arity]
            lists[f"{domain}_{'ONE' if arity == 1 else 'TWO'}"][name] = None
            shape = cls.SHAPE.removesuffix("_LOOP")
            if expression.domain is Domain.NUMBER and shape in ("IMMEDIATE", "UNIT"):
                lists[f"{domain}_{shape}"][name] = None
    return {macro: list(members) for macro, members in lists.items()}


@cache
def _mask_rows(cls: type[Instruction]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The formats it takes, rounded to nearest even and in the other ways."""
    nearest, directed = (
        tuple(sum(cls.takes(t, s, rounding) << t for t in Format) for s in Format)
        for rounding in (Rounding.NEAREST_EVEN, Rounding.TOWARD_ZERO)
    )
    return nearest, directed


def _masks(kinds: Kinds) -> list[tuple[int, ...]]:
    return list(dict.fromkeys(row for cls in kinds for row in _mask_rows(cls)))


def _facts(cls: type[Instruction], names: Names, exact: dict[str, int], masks: list[tuple[int, ...]]) -> str:
    arity = 1 if cls.SHAPE == "ONE" else 2

    def name(prefix: str, expression: Expression | None) -> str:
        return f"{prefix}_{names[expression, arity]}" if expression is not None else ""

    compares = cls.EXPRESSION is not None and cls.EXPRESSION.domain is Domain.COMPARISON
    integers = cls.EXPRESSION if compares else cls.INTEGER_EXPRESSION
    nearest, directed = (masks.index(row) for row in _mask_rows(cls))
    facts = {
        "form": f"FORM_{cls.FORM}",
        "shape": f"SHAPE_{cls.SHAPE}",
        "function": name("FN", None if compares else cls.EXPRESSION),
        "integer": name("INT", integers),
        "pred": name("INT", cls.PRED_EXPRESSION or integers),
        "program": f"PROGRAM_{cls.FUNCTION}" if cls.FUNCTION else "",
        "exactness": str(exact[cls.EXACT.expression]),
        "has_poles": str(int(cls.HAS_POLES)),
        "is_low_precision": str(int(cls.IS_LOW_PRECISION)),
        "rounds": str(int(cls.ROUNDS and (cls.SHAPE == "NONE" or cls.EXACT.odd is not None or cls.FUNCTION != ""))),
        "join": f"JOIN_{cls.JOIN}",
        "averages": str(int(cls.AVERAGES)),
        "nearest": str(nearest),
        "directed": str(directed),
    }
    stated = ", ".join(f".{key} = {value}" for key, value in facts.items() if value not in ("", "0"))
    return f"[{cls.OPCODE}] = {{.is_known = 1, {stated}}}"
