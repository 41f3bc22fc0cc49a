"""Attention around a softmax that was recognised: softmax(scale * q k + mask) v, in whatever order products have their dimensions.

    the product in front    q, k          through scales, masks, conversions
    softmax
    the product behind      v             through what shapes the weights

Where a scale was put on the queries before, it is not in the op.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.passes.rules.row_values import ELEMENTWISE, MOVES

DOT = "stablehlo.dot_general"


@dataclass(frozen=True)
class RecognizedOp:
    """A coarse op: `root` is what it gives, `inputs` what it takes, in order; all instructions between are its own."""

    name: str
    root: SSAValue
    inputs: tuple[SSAValue, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])


def attention_of(softmax: RecognizedOp) -> RecognizedOp | None:
    """The two products around a softmax, with what scales and masks the first, and what shapes the weights for the second."""
    x, behind = softmax.inputs[0], _product_behind(softmax.root)
    before = next((v for v in values_before(x, 24, (*ELEMENTWISE, *MOVES, "stablehlo.transpose")) if _owner_name(v) == DOT), None)
    if behind is None or before is None:
        return None
    product, weights = behind
    dot = before.owner
    assert isinstance(dot, Operation)
    (v,) = [operand for operand in product.operands if operand is not weights]
    first = (*dot.operands, v)
    depends: dict[SSAValue, bool] = {before: True}
    masks = [value for value in _entering(product.results[0], depends) if value not in first]
    return RecognizedOp("sdpa", product.results[0], (*first, *masks), _scores(x, before, depends))


def _product_behind(value: SSAValue) -> tuple[Operation, SSAValue] | None:
    """The product that reads a softmax, and its operand that this became."""
    waiting = [value]
    for _ in range(8):
        if not waiting:
            return None
        value = waiting.pop(0)
        for use in value.uses:
            op = use.operation
            if op.name == DOT and op.operands[0] is not op.operands[1]:
                return op, value
            if op.name in ("stablehlo.convert", "stablehlo.select", "stablehlo.transpose", *MOVES):
                waiting.append(op.results[0])
    return None


def _depends_on(value: SSAValue, known: dict[SSAValue, bool], depth: int = 60) -> bool:
    if value not in known:
        known[value] = False
        owner = value.owner
        known[value] = isinstance(owner, Operation) and depth > 0 and any(_depends_on(o, known, depth - 1) for o in owner.operands)
    return known[value]


def _entering(root: SSAValue, depends: dict[SSAValue, bool]) -> list[SSAValue]:
    """What the instructions take, from the value on that `depends` begins with to the root, but constants."""
    found: dict[SSAValue, None] = {}
    seen, waiting = set(depends), [root]
    while waiting:
        value = waiting.pop()
        if value in seen and value is not root:
            continue
        seen.add(value)
        if _depends_on(value, depends):
            owner = value.owner
            waiting += owner.operands if isinstance(owner, Operation) else ()
        elif not is_made_of_constants(value):
            found[value] = None
    return list(found)


def _scores(value: SSAValue, scores: SSAValue, depends: dict[SSAValue, bool]) -> Mapping[str, Any]:
    """What scores are multiplied by on their way to the softmax, and whether something is added to them or put in their place."""
    scale, is_masked = 1.0, False
    while value is not scores and isinstance(owner := value.owner, Operation):
        numbers = [scalar_of(operand) for operand in owner.operands]
        constant = next((float(n) for n in numbers if n is not None and n.dtype.kind not in "bc"), None)
        if owner.name == "stablehlo.multiply" and constant is not None:
            scale *= constant
        elif owner.name == "stablehlo.divide" and constant is not None:
            scale /= constant
        is_masked |= owner.name == "stablehlo.select" or (owner.name == "stablehlo.add" and constant is None)
        value = next(operand for operand in owner.operands if _depends_on(operand, depends))
    return {"scale": float(f"{scale:.7g}"), "masked": is_masked}


def is_made_of_constants(value: SSAValue, depth: int = 12) -> bool:
    """Is it a constant whose elements are equal, an iota, or arithmetic on such?"""
    owner = value.owner
    if scalar_of(value) is not None or not isinstance(owner, Operation) or depth == 0:
        return scalar_of(value) is not None
    if owner.name == "stablehlo.iota":
        return True
    is_arithmetic = owner.name in (*ELEMENTWISE, *MOVES, "stablehlo.compare", "stablehlo.transpose")
    return is_arithmetic and all(is_made_of_constants(operand, depth - 1) for operand in owner.operands)


def _owner_name(value: SSAValue) -> str:
    return value.owner.name if isinstance(value.owner, Operation) else ""


def values_before(value: SSAValue, most: int, through: Sequence[str] = tuple(ELEMENTWISE)) -> list[SSAValue]:
    """A value, and what it is made of by instructions of some names, in the order of distance."""
    found = {value: None}
    waiting = [value]
    while waiting and len(found) <= most * 2:
        owner = waiting.pop(0).owner
        if isinstance(owner, Operation) and owner.name in through:
            new = [o for o in owner.operands if o not in found and scalar_of(o) is None and isinstance(o.type, TensorType)]
            found |= dict.fromkeys(new)
            waiting += new
    return list(found)[: most + 1]
