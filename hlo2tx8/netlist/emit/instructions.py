"""HLO instructions as ops of a netlist: a row for each."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hlo2tx8.hlo.lookup import tensor_like
from hlo2tx8.hlo.ops import dot as dots
from hlo2tx8.hlo.ops import shaping
from hlo2tx8.netlist.emit.build import Value
from hlo2tx8.netlist.emit.contractions import dot, picked
from hlo2tx8.netlist.emit.layout import Axis
from hlo2tx8.netlist.emit.moves import reshaped
from hlo2tx8.netlist.emit.operands import Known, Operand, agreed, const, placed, repeated
from hlo2tx8.netlist.emit.picking import dynamic_slice, dynamic_update_slice, gather, sort
from hlo2tx8.netlist.emit.rounding import convert, quotient, remainder, rounded
from hlo2tx8.netlist.emit.shaping import concatenated, padded, reversed_, sliced
from hlo2tx8.netlist.emit.truth import clamp, compare, is_finite, logic, select, sign
from hlo2tx8.netlist.emit.use import Occurrence, Rule, minimum
from hlo2tx8.netlist.emit.windows import convolution, reduce, reduce_window
from hlo2tx8.netlist.formats import FORMATS
from hlo2tx8.netlist.ops import words
from hlo2tx8.netlist.shapes import TILE


def _chain(*types: str) -> Rule:
    """Ops of one input, one after the other."""

    def emit(use: Occurrence) -> Operand:
        made = use.operands[0]
        for type in types:
            made = use.apply(type, made)
        return made

    return emit


def _binary(type: str) -> Rule:
    return lambda use: use.apply(type, *use.operands)


def _add(use: Occurrence) -> Operand:
    for x, y in (use.operands, use.operands[::-1]):
        if isinstance(x, Value) and (made := _with_bias(use, x, y)) is not None:
            return made
    return use.apply("add", *use.operands)


def _with_bias(use: Occurrence, x: Value, y: Operand) -> Value | None:
    """A product with what is added to it, if that is the same in all rows; None if it is not so."""
    step, axes = use.builder.steps.get(x.source), y.layout
    lies_in_columns = axes.c.strides and not axes.r.strides and not axes.z.strides
    if step is None or step.type != "matmul" or x.tms or "bias" in step.attributes or not lies_in_columns or x.df != use.df:
        return None
    (again, y), (left, right) = agreed(use.builder, (x, y))
    if FORMATS[use.df].is_integer or not isinstance(again, Value) or again.source != x.source or again.tms:
        return None
    if any(key not in left.c.strides for key in right.placed):
        return None
    return use.builder.biased(again, placed(use.builder, y, right.on(c=left.c, r=Axis(TILE), z=Axis(1))))


def _divide(use: Occurrence) -> Operand:
    x, y = use.operands
    if use.kind(0) in "iu":
        return quotient(use)
    if isinstance(y, Known):
        with np.errstate(all="ignore"):
            inverse = const(np.asarray(1 / y.array.astype(np.float64), np.float32), use.df)
        return use.apply("multiply", x, inverse)
    inverse = use.apply("reciprocal", y)
    return inverse if isinstance(x, Known) and (x.array == 1).all() else use.apply("multiply", x, inverse)


def _abs(use: Occurrence) -> Operand:
    (x,) = use.operands
    return use.apply("abs", x) if use.df != "Int32" else use.apply("maximum", x, use.apply("multiply", x, use.splat(-1)))


def _cube_root(use: Occurrence) -> Operand:
    """By the logarithm, with the sign of the number."""
    third = use.apply("multiply", use.apply("log", use.apply("abs", use.operands[0])), use.splat(1 / 3))
    return use.apply("multiply", use.apply("exp", third), sign(use, use.operands[0]))


def _power(use: Occurrence) -> Operand:
    exponent = use.operands[1]
    value = (
        exponent.array.reshape(-1)[0].item()
        if isinstance(exponent, Known) and (exponent.array == exponent.array.flat[0]).all()
        else None
    )
    words = {0.5: ("sqrt",), -0.5: ("sqrt", "reciprocal"), -1: ("reciprocal",), 2: ("square",)}
    if value in words:
        return _chain(*words[value])(use)
    if value is None or value != int(value) or abs(value) > 1 << 16:
        raise use.builder.refuse("an exponent that is no constant whole number")
    made = use.apply("power", use.operands[0], exp=abs(int(value)))
    return made if value >= 0 else use.apply("reciprocal", made)


def _broadcast(use: Occurrence) -> Operand:
    return repeated(use.operands[0], use.attributes["broadcast_dimensions"], use.shape)


def _batch_norm(use: Occurrence) -> Operand:
    """Of given means and variances: a factor and an offset for each feature."""
    dim, epsilon = [int(use.attributes["feature_index"])], float(use.attributes["epsilon"])
    x, *others = use.operands
    if all(isinstance(other, Known) for other in others):
        scale, offset, mean, variance = (np.asarray(o.array, np.float64) for o in others if isinstance(o, Known))
        factor = scale / np.sqrt(variance + epsilon)
        parts = (const(np.asarray(a, np.float32), use.df) for a in (factor, offset - mean * factor))
        factor, offset = (repeated(part, dim, use.shape) for part in parts)
        return use.apply("add", use.apply("multiply", x, factor), offset)
    scale, offset, mean, variance = (repeated(other, dim, use.shape) for other in others)
    deviation = use.apply("sqrt", use.apply("add", variance, use.splat(epsilon)))
    factor = use.apply("multiply", use.apply("reciprocal", deviation), scale)
    return use.apply("add", use.apply("multiply", use.apply("subtract", x, mean), factor), offset)


def _slice(use: Occurrence) -> Operand:
    value, given = use.value, use.attributes
    for dim, (start, limit, step) in enumerate(zip(given["start_indices"], given["limit_indices"], given["strides"], strict=True)):
        value = sliced(use.builder, value, dim, start, step, -(-(limit - start) // step))
    return value


def _pad(use: Occurrence) -> Operand:
    given = use.attributes
    low, high, interior = (given[f"{name}"] for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    ones = np.ones(use.operands[0].layout.shape, np.float32)
    mask = shaping.pad(given, (tensor_like(use.op.results[0].type),), ones, np.zeros((), np.float32))
    if not mask.any():
        return repeated(use.operands[1], (), use.shape)
    if isinstance(use.operands[1], Known):
        return padded(use.builder, use.value, low, high, interior, use.scalar(1))
    inside = padded(use.builder, use.value, low, high, interior, 0)
    outside = const(1 - mask, use.df)
    return use.apply("add", inside, use.apply("multiply", outside, repeated(use.operands[1], (), use.shape)))


def _concatenate(use: Occurrence) -> Operand:
    return concatenated(use.builder, [use.number(operand) for operand in use.operands], use.attributes["dimension"])


def _dot_general(use: Occurrence) -> Operand:
    left, right, of_left, of_right = dots.numbers_of(use.attributes)
    x, y = use.operands
    return dot(use.builder, x, y, list(zip(left, right, strict=True)), list(zip(of_left, of_right, strict=True)), use.df)


def _dot(use: Occurrence) -> Operand:
    x, y = use.operands
    return dot(use.builder, x, y, [], [(len(x.layout.shape) - 1, 0)], use.df)


MANY: Mapping[str, Callable[[Occurrence], Sequence[Operand]]] = {"stablehlo.sort": sort, "stablehlo.reduce": reduce}
"""Instructions of several results."""
MISSING: Mapping[str, str] = {
    **dict.fromkeys(
        words("shift_left shift_right_arithmetic shift_right_logical popcnt count_leading_zeros bitcast_convert reduce_precision"),
        "a netlist has no ops on the bits of numbers",
    ),
    "atan2": "a netlist has no op for angles",
    "scatter": "a netlist has no op that writes to places, except of one part at once",
    "rng_bit_generator": "a netlist has no bits at random",
    **dict.fromkeys(words("complex real imag fft"), "a netlist has no complex numbers"),
}
"""What a netlist would need for an instruction."""
RULES: Mapping[str, Rule] = {
    "stablehlo.add": _add,
    **{f"stablehlo.{name}": _binary(name) for name in ("subtract", "multiply", "maximum")},
    "stablehlo.minimum": lambda use: minimum(use, *use.operands),
    "stablehlo.divide": _divide,
    "stablehlo.exponential": _chain("exp"),
    "stablehlo.exponential_minus_one": lambda use: use.apply("subtract", _chain("exp")(use), use.splat(1)),
    "stablehlo.log": _chain("log"),
    "stablehlo.log_plus_one": lambda use: use.apply("log", use.apply("add", use.operands[0], use.splat(1))),
    "stablehlo.tan": lambda use: use.apply(
        "multiply", _chain("sine")(use), use.apply("reciprocal", use.apply("cosine", use.operands[0]))
    ),
    "stablehlo.cbrt": _cube_root,
    "stablehlo.logistic": _chain("sigmoid"),
    "stablehlo.rsqrt": _chain("sqrt", "reciprocal"),
    **{f"stablehlo.{name}": _chain(name) for name in ("sqrt", "tanh", "sine", "cosine")},
    "stablehlo.abs": _abs,
    "chlo.square": _chain("square"),
    "stablehlo.negate": lambda use: use.apply("multiply", use.operands[0], use.splat(-1)),
    "stablehlo.batch_norm_inference": _batch_norm,
    "stablehlo.power": _power,
    "stablehlo.clamp": clamp,
    "stablehlo.compare": compare,
    "stablehlo.select": select,
    "stablehlo.and": logic("multiply"),
    "stablehlo.or": logic("maximum"),
    "stablehlo.xor": logic("xor"),
    "stablehlo.not": logic("not"),
    "stablehlo.sign": lambda use: sign(use, use.operands[0]),
    "stablehlo.floor": rounded("down"),
    "stablehlo.ceil": rounded("up"),
    "stablehlo.round_nearest_even": rounded("even"),
    "stablehlo.round_nearest_afz": rounded("away"),
    "stablehlo.remainder": remainder,
    "stablehlo.is_finite": is_finite,
    "stablehlo.convert": convert,
    "stablehlo.gather": gather,
    "stablehlo.dynamic_update_slice": dynamic_update_slice,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.reshape": lambda use: reshaped(use.builder, use.value, use.shape),
    "stablehlo.transpose": lambda use: picked(use.value, use.attributes["permutation"]),
    "stablehlo.slice": _slice,
    "stablehlo.dynamic_slice": dynamic_slice,
    "stablehlo.reverse": lambda use: reversed_(use.builder, use.value, use.attributes["dimensions"]),
    "stablehlo.pad": _pad,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.dot": _dot,
    "stablehlo.convolution": convolution,
    "stablehlo.reduce_window": reduce_window,
    **{name: lambda use: use.operands[0] for name in ("stablehlo.optimization_barrier", "hlo.copy")},
}
