"""Comparisons, choices and logic. What is true is 1 and what is not is 0, in the format of what is compared.

A difference that an op cuts to what lies from 0 to 1, and multiplies by so much that nothing stays between them, is a comparison.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hlo2tx8.netlist.emit.build import Value
from hlo2tx8.netlist.emit.operands import Known, Operand, const, repeated
from hlo2tx8.netlist.emit.use import Occurrence, Rule, minimum
from hlo2tx8.netlist.formats import FORMATS

CUT: Mapping[str, Any] = {"relu_en": True, "relu_mode": "max", "relu_threshold": 1.0}
"""What is less than 0 becomes 0, and what is more than 1 becomes 1; no number becomes 0."""
LARGE: Mapping[str, float] = {"Float16": 2.0**15}
"""The square of these is more than one over the smallest number of a format; 2^100 for others."""
LARGEST: Mapping[str, float] = {"Float32": float(np.finfo(np.float32).max), "Float16_b": 2.0**127 * (2 - 2.0**-7)}


def _flag(value: Value) -> Value:
    return replace(value, is_flag=True)


def _large(use: Occurrence, value: Value, **attributes: Any) -> Value:
    """Multiplied until what is not 0 is at least 1; that of whole numbers is."""
    for _ in range(0 if FORMATS[value.df].is_integer else 2):
        value = use.apply("multiply", value, use.splat(LARGE.get(use.df, 2.0**100)), **attributes)
    return value


def exceeds(use: Occurrence, x: Operand, y: Operand) -> Value:
    """Where x > y; of no numbers, not."""
    return _flag(_large(use, use.apply("subtract", x, y, **CUT), **CUT))


def equals(use: Occurrence, x: Operand, y: Operand) -> Value:
    """Where x = y; of no numbers, not."""
    for side, other in ((x, y), (y, x)):
        if isinstance(side, Known) and side.array.dtype.kind in "fV" and np.isinf(side.array.astype(np.float32)).all():
            sign = float(np.sign(side.array.astype(np.float32)).flat[0])
            if (side.array.astype(np.float32) == sign * np.inf).all() and use.df in LARGEST:
                most = use.splat(sign * LARGEST[use.df])
                return exceeds(use, other, most) if sign > 0 else exceeds(use, most, other)
    if FORMATS[use.df].is_integer:
        apart = use.apply("maximum", use.apply("subtract", x, y), use.apply("subtract", y, x))
    else:
        apart = use.apply("abs", use.apply("subtract", x, y))
    return _flag(use.apply("subtract", use.splat(1), _large(use, apart), **CUT))


def is_number(use: Occurrence, x: Operand) -> Value:
    """Where x is a number or infinite."""
    return _flag(use.apply("add", use.apply("abs", x), use.splat(1), **CUT))


def inverted(use: Occurrence, x: Operand) -> Operand:
    """1 where x is 0, 0 where it is 1."""
    if isinstance(x, Known):
        return const(1 - np.asarray(x.array, np.float32), use.df)
    return _flag(use.apply("subtract", use.splat(1), x))


def compare(use: Occurrence) -> Operand:
    """What is at least or at most something is not less or more, so no numbers are that, too."""
    x, y = use.operands
    if use.op.operands[0] == use.op.operands[1] and not FORMATS[use.df].is_integer:
        same = is_number(use, x)
        of_same: dict[str, Operand] = {"NE": inverted(use, same), "LT": use.splat(0), "GT": use.splat(0)}
        return of_same.get(str(use.attributes["comparison_direction"]), same)
    match str(use.attributes["comparison_direction"]):
        case "EQ":
            return equals(use, x, y)
        case "NE":
            return inverted(use, equals(use, x, y))
        case "GT":
            return exceeds(use, x, y)
        case "LT":
            return exceeds(use, y, x)
        case "GE":
            return inverted(use, exceeds(use, y, x))
        case _:
            return inverted(use, exceeds(use, x, y))


def chosen(use: Occurrence, mask: Operand, x: Operand, y: Operand) -> Operand:
    """x where the mask is 1, y where it is 0: products with 0 are 0 also of what is infinite or no number."""
    mask = use.number(mask)
    parts = [
        use.apply("multiply", operand, weight)
        for operand, weight in ((x, mask), (y, inverted(use, mask)))
        if not (isinstance(operand, Known) and not operand.array.any())
    ]
    if not parts:
        return use.splat(0)
    return parts[0] if len(parts) == 1 else use.apply("add", *parts)


def select(use: Occurrence) -> Operand:
    mask, x, y = use.operands
    if not mask.layout.shape and use.shape:
        mask = repeated(mask, (), use.shape)
    made = chosen(use, mask, x, y)
    return _flag(made) if isinstance(made, Value) and use.kind(1) == "b" else made


def logic(type: str) -> Rule:
    """Of truth values."""

    def emit(use: Occurrence) -> Operand:
        if use.kind(0) != "b":
            raise use.builder.refuse("a netlist has no ops on the bits of whole numbers")
        if type == "not":
            return inverted(use, use.number(use.operands[0]))
        if type == "xor":
            return inverted(use, equals(use, *use.operands))
        return _flag(use.apply(type, *use.operands))

    return emit


def sign(use: Occurrence, x: Operand) -> Value:
    """1, 0 or -1; of no number 0."""
    zero = use.splat(0)
    return use.apply("subtract", exceeds(use, x, zero), exceeds(use, zero, x))


def is_finite(use: Occurrence) -> Operand:
    """What is not infinite, and a number, less itself is 0."""
    (x,) = use.operands
    return equals(use, use.apply("subtract", x, x), use.splat(0))


def clamp(use: Occurrence) -> Operand:
    low, x, high = (o if o.layout.shape == use.shape else repeated(o, (), use.shape) for o in use.operands)
    return minimum(use, use.apply("maximum", x, low), high)
