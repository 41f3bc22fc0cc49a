"""How far a correct result may be from the reference's in a drawn graph: the bounds of `hlo.error_bounds` node by node, and what is
known of XLA:CPU's own ways.
"""

from collections.abc import Sequence

import numpy as np

from hlo2tx8.dev.fuzz.graph import PARAMETER, Array, Graph, Node
from hlo2tx8.hlo import Kind, spec_of
from hlo2tx8.hlo.error_bounds.elementwise import elementwise_bound, flushed
from hlo2tx8.hlo.spec import TensorLike
from hlo2tx8.hlo.types import float_info, is_float


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
                limits = [found[o] for o in node.operands]
                bound = elementwise_bound(spec_of(node.name), node.attributes, node.result, operands, limits, value, is_xla=is_xla)
                if is_xla and not is_float(value.dtype):
                    bound = np.where(_xla_is_wrong(graph, node, operands), np.inf, bound)
                if is_xla:
                    bound = np.where(_xla_takes_freedom(graph, node, operands, value), np.inf, bound)
                if is_xla and node.name == "stablehlo.divide" and _is_exponential(graph, node.operands[1]):
                    bound = bound + _exponent_error(value, operands)
            if is_xla and node.name == "stablehlo.logistic" and value.dtype == np.float16:
                # XLA:CPU's exp(-x) in f16 overflows.
                bound = np.maximum(bound, 2.0**-16)
            found.append(flushed(value, bound) if is_xla else bound)
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
