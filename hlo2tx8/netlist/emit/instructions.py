"""HLO instructions as ops of a netlist: a row for each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hlo2tx8.hlo.ops import dot as dots
from hlo2tx8.netlist.emit.build import Value
from hlo2tx8.netlist.emit.contractions import dot, picked
from hlo2tx8.netlist.emit.layout import Axis
from hlo2tx8.netlist.emit.moves import reshaped
from hlo2tx8.netlist.emit.operands import Known, Operand, agreed, const, placed
from hlo2tx8.netlist.emit.shaping import concatenated, padded, reversed_, sliced
from hlo2tx8.netlist.emit.use import Occurrence, Rule, minimum
from hlo2tx8.netlist.emit.windows import convolution, reduce, reduce_window
from hlo2tx8.netlist.formats import FORMATS
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
    if isinstance(y, Known):
        with np.errstate(all="ignore"):
            inverse = const(np.asarray(1 / y.array.astype(np.float64), np.float32), use.df)
        return use.apply("multiply", x, inverse)
    inverse = use.apply("reciprocal", y)
    return inverse if isinstance(x, Known) and (x.array == 1).all() else use.apply("multiply", x, inverse)


def _clamp(use: Occurrence) -> Operand:
    low, x, high = (replace(o, array=np.broadcast_to(o.array, use.shape)) if isinstance(o, Known) else o for o in use.operands)
    return minimum(use, use.apply("maximum", x, low), high)


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
    if value is None or value != int(value) or not 0 <= value <= 1 << 16:
        raise use.builder.refuse("an exponent that is no constant whole number")
    return use.apply("power", use.operands[0], exp=int(value))


def _select(use: Occurrence) -> Operand:
    chosen, x, y = use.operands
    if not isinstance(chosen, Known):
        raise use.builder.refuse("which of two arrays is taken depends on data")
    chosen = np.broadcast_to(chosen.array, use.shape)
    parts = [use.apply("multiply", o, const(mask.astype(np.float32), use.df)) for o, mask in ((x, chosen), (y, ~chosen))]
    return use.apply("add", *parts)


def _convert(use: Occurrence) -> Operand:
    x = use.value
    if FORMATS[x.df].is_integer != FORMATS[use.df].is_integer or (FORMATS[x.df].is_integer and x.df != use.df):
        raise use.builder.refuse(f"no conversion of {x.df} to {use.df}")
    return x if x.df == use.df else use.builder.elementwise("nop", [x], use.df)


def _broadcast(use: Occurrence) -> Operand:
    return _repeated(use.operands[0], use.attributes["broadcast_dimensions"], use.shape)


def _repeated(operand: Operand, dims: Sequence[int], shape: Sequence[int]) -> Operand:
    """An array whose dimensions are these of a larger one, the same along the others."""
    if isinstance(operand, Known):
        index = tuple(slice(None) if dim in dims else None for dim in range(len(shape)))
        return Known(np.broadcast_to(operand.array.transpose(np.argsort(dims))[index], shape), operand.df)
    layout = operand.layout
    sizes: list[tuple[int, ...]] = [(size,) if size > 1 else () for size in shape]
    for at, dim in enumerate(dims):
        if layout.shape[at] == shape[dim]:
            sizes[dim] = layout.sizes[at]
    names = {(at, part): (dim, part) for at, dim in enumerate(dims) for part in range(len(layout.sizes[at]))}
    return replace(operand, layout=layout.renamed(tuple(sizes), names))


def _batch_norm(use: Occurrence) -> Operand:
    """Of given means and variances: a factor and an offset for each feature."""
    dim, epsilon = [int(use.attributes["feature_index"])], float(use.attributes["epsilon"])
    x, *others = use.operands
    if all(isinstance(other, Known) for other in others):
        scale, offset, mean, variance = (np.asarray(o.array, np.float64) for o in others if isinstance(o, Known))
        factor = scale / np.sqrt(variance + epsilon)
        parts = (const(np.asarray(a, np.float32), use.df) for a in (factor, offset - mean * factor))
        factor, offset = (_repeated(part, dim, use.shape) for part in parts)
        return use.apply("add", use.apply("multiply", x, factor), offset)
    scale, offset, mean, variance = (_repeated(other, dim, use.shape) for other in others)
    deviation = use.apply("sqrt", use.apply("add", variance, use.splat(epsilon)))
    factor = use.apply("multiply", use.apply("reciprocal", deviation), scale)
    return use.apply("add", use.apply("multiply", use.apply("subtract", x, mean), factor), offset)


def _slice(use: Occurrence) -> Operand:
    value, given = use.value, use.attributes
    for dim, (start, limit, step) in enumerate(zip(given["start_indices"], given["limit_indices"], given["strides"], strict=True)):
        value = sliced(use.builder, value, dim, start, step, -(-(limit - start) // step))
    return value


def _dynamic_slice(use: Occurrence) -> Operand:
    value, sizes = use.value, use.shape
    for dim, size in enumerate(sizes):
        start = int(min(max(use.scalar(dim + 1), 0), value.layout.shape[dim] - size))
        value = sliced(use.builder, value, dim, start, 1, size)
    return value


def _pad(use: Occurrence) -> Operand:
    given = use.attributes
    low, high, interior = (given[f"{name}"] for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    return padded(use.builder, use.value, low, high, interior, use.scalar(1))


def _dot_general(use: Occurrence) -> Operand:
    left, right, of_left, of_right = dots.numbers_of(use.attributes)
    x, y = use.operands
    return dot(use.builder, x, y, list(zip(left, right, strict=True)), list(zip(of_left, of_right, strict=True)), use.df)


def _dot(use: Occurrence) -> Operand:
    x, y = use.operands
    return dot(use.builder, x, y, [], [(len(x.layout.shape) - 1, 0)], use.df)


RULES: Mapping[str, Rule] = {
    "stablehlo.add": _add,
    **{f"stablehlo.{name}": _binary(name) for name in ("subtract", "multiply", "maximum")},
    "stablehlo.minimum": lambda use: minimum(use, *use.operands),
    "stablehlo.divide": _divide,
    "stablehlo.exponential": _chain("exp"),
    "stablehlo.log": _chain("log"),
    "stablehlo.logistic": _chain("sigmoid"),
    "stablehlo.rsqrt": _chain("sqrt", "reciprocal"),
    **{f"stablehlo.{name}": _chain(name) for name in ("sqrt", "tanh", "sine", "cosine", "abs")},
    "chlo.square": _chain("square"),
    "stablehlo.negate": lambda use: use.apply("multiply", use.operands[0], use.splat(-1)),
    "stablehlo.batch_norm_inference": _batch_norm,
    "stablehlo.power": _power,
    "stablehlo.clamp": _clamp,
    "stablehlo.select": _select,
    "stablehlo.convert": _convert,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.reshape": lambda use: reshaped(use.builder, use.value, use.shape),
    "stablehlo.transpose": lambda use: picked(use.value, use.attributes["permutation"]),
    "stablehlo.slice": _slice,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.reverse": lambda use: reversed_(use.builder, use.value, use.attributes["dimensions"]),
    "stablehlo.pad": _pad,
    "stablehlo.concatenate": lambda use: concatenated(use.builder, use.operands, use.attributes["dimension"]),
    "stablehlo.dot_general": _dot_general,
    "stablehlo.dot": _dot,
    "stablehlo.convolution": convolution,
    "stablehlo.reduce": reduce,
    "stablehlo.reduce_window": reduce_window,
    **{name: lambda use: use.operands[0] for name in ("stablehlo.optimization_barrier", "hlo.copy")},
}
