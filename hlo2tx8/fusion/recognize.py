"""The usual name of a fusion, such as softmax, layer_norm or gelu, found from its instructions.

A name is for reports alone; how a fusion is emitted does not depend on it.
"""

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.partitioner.reduction_order import joins_apart, reduced_dimensions

GELU_CUBE = 0.044715
_CARRIES = ("broadcast_in_dim", "reshape", "divide", "multiply", "convert")
"""What a mean is made of a sum by."""


def recognized(members: Sequence[Operation]) -> str:
    """The name of the computation that the instructions form, "" if it has none."""
    names = {_name(op) for op in members}
    reductions = [op for op in members if _name(op) == "reduce" and len(op.results) == 1]
    joins = [joins_apart(op, 0) for op in reductions]
    if "exponential" in names and {"maximum", "add"} <= set(joins):
        return "log_softmax" if "log" in names and "divide" not in names else "softmax"
    if reductions and set(joins) == {"add"} and names & {"rsqrt", "sqrt"} and any(map(_is_square, members)):
        return _norm(members, reductions)
    if (names & {"erf", "tanh"} and any(_is_near(op, GELU_CUBE) for op in members)) or "erf" in names:
        return "gelu"
    if any(map(_is_gelu_by_logistic, members)):
        return "gelu"
    return "silu" if any(map(_is_silu, members)) else ""


def _norm(members: Sequence[Operation], reductions: Sequence[Operation]) -> str:
    """By whether the mean is taken off, and whether it is one over a batch."""
    if not any(_name(op) == "subtract" and _is_of_sum(op.operands[1]) for op in members):
        return "rms_norm"
    return "batch_norm" if 0 in reduced_dimensions(reductions[0]) else "layer_norm"


def _name(op: Operation) -> str:
    return op.name.partition(".")[2]


def _is_square(op: Operation) -> bool:
    return _name(op) == "multiply" and op.operands[0] is op.operands[1]


def _is_of_sum(value: SSAValue) -> bool:
    """Is it a sum, or a sum times a constant, in every element of its row?"""
    owner = value.owner
    while isinstance(owner, Operation) and _name(owner) in _CARRIES:
        inner = [operand for operand in owner.operands if scalar_of(operand) is None]
        if len(inner) != 1:
            return False
        owner = inner[0].owner
    return isinstance(owner, Operation) and _name(owner) == "reduce"


def _is_near(op: Operation, number: float) -> bool:
    """Does an operand have that number, as its type has it, in all elements?"""
    scalars = [scalar for value in op.operands if (scalar := scalar_of(value)) is not None and scalar.dtype.kind not in "biuc"]
    return any(abs(float(scalar) - number) <= 0.01 * number for scalar in scalars)


def _is_silu(op: Operation) -> bool:
    """x * logistic(x)."""
    return any(x is value for x, value in _by_logistic(op))


def _is_gelu_by_logistic(op: Operation) -> bool:
    """x * logistic(x * (c + ...)), as `expand-gelu` makes it."""
    inner = ((x, value.owner) for x, value in _by_logistic(op) if isinstance(value.owner, Operation))
    factors = ((x, owner.operands) for x, owner in inner if _name(owner) == "multiply")
    return any(x in both and any(_operand(value, "add") is not None for value in both) for x, both in factors)


def _by_logistic(op: Operation) -> list[tuple[SSAValue, SSAValue]]:
    """The x and the y of which an op makes x * logistic(y); both ways round, if it can be read so."""
    pairs = (op.operands, op.operands[::-1]) if _name(op) == "multiply" else ()
    return [(x, y) for x, value in pairs if (y := _logistic_of(value)) is not None]


def _logistic_of(value: SSAValue) -> SSAValue | None:
    """The x of which a value is logistic(x), or 1 / (1 + exp(-x))."""
    if (plain := _operand(value, "logistic")) is not None:
        return plain
    for one in (0, 1):
        below = _operand(value, "divide", 1)
        raised = None if below is None else _operand(below, "add", one)
        negated = None if raised is None else _operand(raised, "exponential")
        if negated is not None:
            return _operand(negated, "negate")
    return None


def _operand(value: SSAValue, name: str, number: int = 0) -> SSAValue | None:
    """Operand `number` of the op that makes a value, if it is of that name."""
    owner = value.owner
    return owner.operands[number] if isinstance(owner, Operation) and _name(owner) == name else None
