"""Numbers cut to whole ones, and divisions of whole numbers: what is added to 2^23 and taken from it again is whole."""

import numpy as np

from hlo2tx8.hlo.lookup import tensor_like
from hlo2tx8.netlist.emit.build import Value
from hlo2tx8.netlist.emit.operands import Known, Operand
from hlo2tx8.netlist.emit.truth import chosen, equals, exceeds, inverted, sign
from hlo2tx8.netlist.emit.use import Occurrence, Rule
from hlo2tx8.netlist.formats import FORMATS

BITS = 24
"""Of a float that has room for that sum; from 2^23 on all are whole."""


def _in_float32(use: Occurrence) -> Occurrence:
    df = use.df if use.df != "Int32" else "Float32"
    if df != "Float32" or use.builder.limit(df) < 1 << BITS:
        raise use.builder.refuse(f"numbers are cut to whole ones in Float32 of {BITS} bits, not in {df} of {use.builder.arch}")
    return use.of(use.shape, df)


def _size_cut(use: Occurrence, size: Value, *, is_down: bool) -> Operand:
    """Of numbers that are not negative the nearest whole ones, of two the even one, or those below."""
    shift = use.splat(2.0 ** (BITS - 1))
    made = use.apply("subtract", use.apply("add", size, shift), shift)
    if is_down:
        made = use.apply("subtract", made, exceeds(use, made, size))
    return chosen(use, exceeds(use, shift, size), made, size)


def truncated(use: Occurrence, x: Operand) -> Value:
    """Cut towards 0."""
    use = _in_float32(use)
    return use.apply("multiply", _size_cut(use, use.apply("abs", x), is_down=True), sign(use, x))


def _nearest(use: Occurrence, x: Operand) -> Value:
    return use.apply("multiply", _size_cut(use, use.apply("abs", x), is_down=False), sign(use, x))


def rounded(kind: str) -> Rule:
    """The rule of floor, ceil, and of the two ways to round halves."""

    def emit(use: Occurrence) -> Operand:
        use, (x,) = _in_float32(use), use.operands
        if kind == "away":
            size = use.apply("abs", x)
            below = _size_cut(use, size, is_down=True)
            is_less = exceeds(use, use.splat(0.5), use.apply("subtract", size, below))
            return use.apply("multiply", use.apply("add", below, inverted(use, is_less)), sign(use, x))
        made = _nearest(use, x)
        if kind == "down":
            return use.apply("subtract", made, exceeds(use, made, x))
        return use.apply("add", made, exceeds(use, x, made)) if kind == "up" else made

    return emit


def quotient(use: Occurrence) -> Value:
    """Of whole numbers, cut towards 0; what is divided by 0 is -1."""
    x, y = use.operands
    use = _in_float32(use)
    sizes = [use.apply("abs", use.number(operand)) for operand in (x, y)]
    found = use.apply("multiply", sizes[0], use.apply("reciprocal", sizes[1]))
    near = _size_cut(use, found, is_down=False)
    rest = use.apply("subtract", sizes[0], use.apply("multiply", near, sizes[1]))
    # The product with the reciprocal may be beside a whole number by less than one.
    near = use.apply("subtract", near, exceeds(use, use.splat(0), rest))
    rest = use.apply("subtract", sizes[0], use.apply("multiply", near, sizes[1]))
    near = use.apply("add", near, inverted(use, exceeds(use, sizes[1], rest)))
    made = use.apply("multiply", near, use.apply("multiply", sign(use, x), sign(use, y)))
    if isinstance(y, Known) and bool(np.asarray(y.array).all()):
        return made
    is_zero, other = equals(use, y, use.splat(0)), use.splat(-1)
    return use.apply("add", use.apply("multiply", is_zero, other), use.apply("multiply", made, inverted(use, is_zero)))


def remainder(use: Occurrence) -> Operand:
    """Of whole numbers, with the sign of what is divided."""
    if use.kind(0) not in "iu":
        raise use.builder.refuse("a netlist has remainders of whole numbers only")
    x, y = use.operands
    made, use = quotient(use), _in_float32(use)
    return use.apply("subtract", x, use.apply("multiply", made, y))


def convert(use: Occurrence) -> Operand:
    """Between floats, of whole numbers and truth values to what has them, and of floats cut to whole ones."""
    target, source = tensor_like(use.op.results[0].type).dtype.kind, use.kind(0)
    x = use.operands[0]
    if target == "b":
        return x if source == "b" else inverted(use, equals(use, x, use.splat(0)))
    if target in "iu" and source not in "iub":
        kind = tensor_like(use.op.results[0].type).dtype
        if kind.name not in ("int32", "int64"):
            raise use.builder.refuse(f"numbers are cut to whole ones of s32 and s64, not of {kind}")
        return truncated(use, x)
    if isinstance(x, Value) and FORMATS[use.df].is_integer and x.df != use.df:
        raise use.builder.refuse(f"no conversion of {x.df} to {use.df}")
    return use.number(x)
