"""How far a correct result may be from the reference's: an error bound carried through the graph.

Every node has, per element, a bound on the distance between a value computed elsewhere and the reference's value. An op
adds its own ULP to what its operands' bounds can do to it: the largest change of its reference over the corners of the
box value ± bound, and at 0 where it lies inside. That is sound for ops that are monotone in each operand; the others are
listed. Infinity means that nothing is known: an integer op on an uncertain integer, a comparison that either way may go.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np

from hlo2tx8.dev.fuzz.graph import PARAMETER, Array, Graph, Node
from hlo2tx8.hlo import Kind, spec_of
from hlo2tx8.hlo.spec import TensorLike
from hlo2tx8.hlo.types import is_float
from hlo2tx8.tools.compare import float_info

SLOPE_ONE = ("stablehlo.sine", "stablehlo.cosine")
UNBOUNDED = ("stablehlo.remainder", "stablehlo.tan", "stablehlo.bitcast_convert")
"""Not monotone: their result is unknown where an operand is uncertain."""
POLES: dict[str, tuple[int, ...]] = {
    "stablehlo.divide": (1,),
    "stablehlo.power": (0,),
    "stablehlo.rsqrt": (0,),
    "stablehlo.log": (0,),
    "stablehlo.atan2": (0, 1),
}
"""Operands about whose 0 nothing is known of the result."""
SIGN_OF_ZERO = 1e-300
"""The bound of a 0 whose sign is not known."""
FLUSHED = ("float32", "bfloat16")
"""Dtypes whose subnormal numbers XLA:CPU may take for 0."""


def bounds_of(graph: Graph, values: Sequence[Array], *, is_xla: bool) -> list[Array]:
    """A bound per element (float64) for each node. `is_xla`: XLA:CPU's approximations, and subnormals flushed."""
    found: list[Array] = []
    with np.errstate(all="ignore"):
        for node, value in zip(graph.nodes, values, strict=True):
            if node.name == PARAMETER or spec_of(node.name).kind is Kind.CONSTANT:
                bound = np.zeros(value.shape)
            elif spec_of(node.name).kind is Kind.SHAPING:
                parts = [found[o] for o in node.operands]
                wide = TensorLike(node.result.shape, np.dtype(np.float64))
                bound = Node(node.name, wide, (), node.attributes).evaluate(parts) if parts else np.zeros(value.shape)
            else:
                operands = [values[o] for o in node.operands]
                bound = carried(node, operands, [found[o] for o in node.operands], value)
                bound = bound + own_error(node, value, bound, is_xla)
                if node.attributes.get("compare_type") == "TOTALORDER":
                    # Nothing says which sign a computed NaN has.
                    unclear = [np.isnan(o.astype(np.float64)) for o in operands]
                    bound = np.where(np.any(unclear, axis=0), np.inf, bound)
                if is_xla and not is_float(value.dtype):
                    bound = np.where(_xla_is_wrong(graph, node, operands), np.inf, bound)
                if is_xla:
                    bound = np.where(_xla_takes_freedom(graph, node, operands, value), np.inf, bound)
                if is_xla and node.name == "stablehlo.divide" and _is_exponential(graph, node.operands[1]):
                    bound = bound + _exponent_error(value, operands)
            if is_xla and node.name == "stablehlo.logistic" and value.dtype == np.float16:
                # XLA:CPU's exp(-x) in f16 overflows.
                bound = np.maximum(bound, 2.0**-16)
            if is_xla and value.dtype.name in FLUSHED:
                tiny = float(float_info(value.dtype).smallest_normal)
                subnormal = (np.abs(value.astype(np.float64)) < tiny) & (value.astype(np.float64) != 0)
                bound = np.where(subnormal, np.maximum(bound, tiny), bound)
            found.append(bound)
    return found


def _xla_is_wrong(graph: Graph, node: Node, operands: Sequence[Array]) -> Array | bool:
    """Where XLA:CPU's answer to an op on integers is known to be wrong."""
    match node.name:
        case "stablehlo.power":
            # It looks at six bits of the exponent, (-6)**1847079555094165380 gives 1296, and takes a / b**c for a * b**-c.
            return True
        case "stablehlo.clamp":
            # clamp(false, false, true) of constants gives true.
            return operands[1].dtype == np.bool_
        case "stablehlo.abs":
            # It takes the square of a wrapping integer for positive.
            return graph.nodes[node.operands[0]].name == "stablehlo.multiply"
        case "stablehlo.count_leading_zeros":
            # A negative constant of 16 bits has -48 of them.
            return operands[0] < 0
        case _:
            return False


def _xla_takes_freedom(graph: Graph, node: Node, operands: Sequence[Array], value: Array) -> Array | bool:
    """Where XLA:CPU rewrites what is equal on paper only."""
    match node.name:
        case "stablehlo.clamp":
            # It takes max(clamp(low, x, high), low) for the clamp, also where low > high.
            return np.broadcast_to(operands[0] > operands[2], value.shape)
        case "stablehlo.divide" if value.dtype == np.float16:
            # It takes logistic(x) / y for 1 / ((1 + exp(-x)) * y), whose divisor overflows.
            return graph.nodes[node.operands[0]].name == "stablehlo.logistic"
        case "stablehlo.atan2":
            # Of two constant zeros it gives NaN.
            return (operands[0] == 0) & (operands[1] == 0)
        case "stablehlo.sqrt" | "stablehlo.log" if is_float(value.dtype):
            # It takes |x| for sqrt(x * x) and x for log(exp(x)), which neither overflow nor vanish.
            source, size = graph.nodes[node.operands[0]], np.abs(operands[0].astype(np.float64))
            is_square = source.name == "stablehlo.multiply" and len(set(source.operands)) == 1
            is_undone = is_square if node.name == "stablehlo.sqrt" else source.name == "stablehlo.exponential"
            return is_undone & ~(np.isfinite(size) & (size >= float(float_info(value.dtype).smallest_normal)))
        case "stablehlo.ceil" | "stablehlo.round_nearest_afz" | "stablehlo.round_nearest_even" if value.dtype == np.float16:
            # Of a constant -0.1 it gives 0.
            return value == 0
        case _:
            return False


def _is_exponential(graph: Graph, number: int) -> bool:
    """Is it exp of something, perhaps with its elements moved?"""
    node = graph.nodes[number]
    if node.name == PARAMETER:
        return False
    is_moved = spec_of(node.name).kind is Kind.SHAPING and len(node.operands) == 1
    return _is_exponential(graph, node.operands[0]) if is_moved else node.name == "stablehlo.exponential"


def _exponent_error(value: Array, operands: Sequence[Array]) -> Array:
    """XLA takes a / exp(b) for a * exp(-b) and exp(a) / exp(b) for exp(a - b): exponents are rounded, and nothing overflows."""
    if not is_float(value.dtype):
        return np.zeros(value.shape)
    info = float_info(value.dtype)
    wide = [np.abs(o.astype(np.float64)) for o in operands]
    plain = np.all([np.isfinite(w) & (w >= float(info.smallest_normal)) for w in wide], axis=0)
    size = np.sum([np.abs(np.log(w)) for w in wide], axis=0) * float(info.eps) * np.abs(value.astype(np.float64))
    return np.where(plain, size, np.inf)


def own_error(node: Node, value: Array, moved: Array, is_xla: bool) -> Array:
    """The op's declared ULP at the farthest result, which the operands may have `moved`; XLA:CPU gets twice that and two more where
    the op rounds."""
    if not is_float(value.dtype):
        return np.zeros(value.shape)
    spec = spec_of(node.name)
    ulp = 2 * spec.ulp + 2 if is_xla and spec.ulp else spec.ulp
    wide = np.abs(value.astype(np.float64))
    info = float_info(value.dtype)
    farthest = wide + np.where(np.isfinite(moved), moved, 0.0)
    size = np.maximum(np.maximum(farthest, spec.ulp_floor), float(info.smallest_normal))
    spacing = np.exp2(np.floor(np.log2(size)) - int(info.nmant))
    near_overflow = wide >= float(info.max) * (1 - 2.0 ** -int(info.nmant) * ulp) if ulp else np.zeros(value.shape, bool)
    bound = np.where(np.isfinite(wide), ulp * spacing, 0.0)
    return np.where(near_overflow & np.isfinite(wide), np.inf, bound)


def carried(node: Node, operands: Sequence[Array], bounds: Sequence[Array], value: Array) -> Array:
    """What the operands' bounds do to the result."""
    spread = [np.broadcast_to(b, value.shape) if b.shape != value.shape else b for b in bounds]
    uncertain = np.any([b > 0 for b in spread], axis=0) if spread else np.zeros(value.shape, bool)
    if not uncertain.any():
        return np.zeros(value.shape)
    lost = np.any([_is_lost(o, b, value.shape) for o, b in zip(operands, spread, strict=True)], axis=0)
    for k in POLES.get(node.name, ()):
        lost = lost | ((spread[k] > 0) & (np.abs(operands[k].astype(np.float64)) <= spread[k]))
    if node.name == "stablehlo.power":
        # Of a negative number only integer powers exist.
        lost = lost | ((spread[1] > 0) & (operands[0].astype(np.float64) < 0))
    if node.name == "stablehlo.compare":
        # Numbers that may be equal: neither end of the box need be.
        a, b = (o.astype(np.float64) for o in operands)
        lost = lost | (uncertain & (np.abs(a - b) <= spread[0] + spread[1]))
    if node.name in UNBOUNDED:
        return np.where(uncertain, np.inf, 0.0)
    if node.name in SLOPE_ONE:
        return np.where(lost, np.inf, sum(spread, np.zeros(value.shape)))
    result = value.astype(np.float64)
    worst = np.zeros(value.shape)
    ranges = [_ends(o, b) for o, b in zip(operands, bounds, strict=True)]
    for corner in product(*ranges):
        other = node.evaluate(corner).astype(np.float64)
        same = (other == result) | (np.isnan(other) & np.isnan(result))
        flipped = (other == 0) & (result == 0) & (np.signbit(other) != np.signbit(result))
        change = np.where(same, np.where(flipped, SIGN_OF_ZERO, 0.0), np.abs(other - result))
        worst = np.maximum(worst, np.where(np.isnan(change), np.inf, change))
    return np.where(lost, np.inf, np.where(uncertain, worst, 0.0))


def _is_lost(operand: Array, bound: Array, shape: tuple[int, ...]) -> Array:
    """Where an operand is unknown, or uncertain without being a float."""
    limit = np.inf if is_float(operand.dtype) else 0.0
    return np.broadcast_to(bound >= limit if limit else bound > 0, shape)


def _ends(operand: Array, bound: Array) -> list[Array]:
    if not is_float(operand.dtype) or not bound.any():
        return [operand]
    wide = operand.astype(np.float64)
    nearest_zero = np.where(np.abs(wide) <= bound, 0.0, wide)
    return [np.asarray(end).astype(operand.dtype) for end in (wide - bound, nearest_zero, wide + bound)]


def disagreement(actual: Array, expected: Array, bound: Array) -> str:
    """Where they differ by more than the bound; empty if nowhere. Where the bound is 0 bits count, except NaN's."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"{actual.dtype}{list(actual.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if not is_float(expected.dtype):
        wrong = np.asarray(actual != expected) & (bound == 0)
        error = np.asarray(wrong, np.float64)
    else:
        a, e = actual.astype(np.float64), expected.astype(np.float64)
        with np.errstate(all="ignore"):
            error = np.where((a == e) | (np.isnan(a) & np.isnan(e)), 0.0, np.abs(a - e))
            error = np.where(np.isnan(error), np.inf, error)
            flipped = (bound == 0) & (np.signbit(a) != np.signbit(e)) & ~(np.isnan(a) & np.isnan(e))
            wrong = np.asarray(((error > bound) | flipped) & ~np.isinf(bound))
    if not wrong.any():
        return ""
    index = np.unravel_index(int(np.argmax(np.where(wrong, error + 1e-300, -1.0))), expected.shape)
    place = tuple(int(i) for i in index)
    share = f"{int(wrong.sum())} of {wrong.size}"
    return f"{share} differ, worst at {list(place)}: {actual[place]} instead of {expected[place]} ± {bound[place]:.3g}"
