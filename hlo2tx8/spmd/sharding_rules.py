"""Along which dimensions an operation can be cut, so that each device does its part of it."""
# pyright: basic

from typing import Any

from hlo2tx8.frontend import shim
from hlo2tx8.hlo.lookup import has_spec, spec_of
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.spmd import contraction_rules, shaping_rules
from hlo2tx8.spmd.sharding_rule import ADD, Rule, shape

_RULES = shaping_rules.RULES | contraction_rules.RULES
LINEAR: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("add", "subtract", "dynamic_update_slice"), (0, 1)),
    **dict.fromkeys(("negate", "transpose", "reshape", "broadcast_in_dim", "slice", "reverse", "dynamic_slice", "gather"), (0,)),
    "select": (1, 2),
    "concatenate": (),
}
"""Operations of StableHLO on sums of parts that are the sum of what they make of the parts, and operands that may be; all if empty.

So are conversions between floats, but for rounding, and sums.
"""
BILINEAR = ("multiply", "dot_general")
"""The same in each operand."""


def rule_of(op: Any) -> Rule:
    """The rule of an operation on arrays that are whole; without any factor, where nothing is known of it."""
    shapes = [shape(v) for v in op.operands], [shape(v) for v in op.results]
    rule = Rule(operands=[[None] * len(s) for s in shapes[0]], results=[[None] * len(s) for s in shapes[1]])
    if not shapes[1] or any(0 in shape for shape in (*shapes[0], *shapes[1])):
        return rule
    dialect, _, name = op.name.partition(".")
    if dialect == "stablehlo" and name in _RULES:
        _RULES[name](op, rule, *shapes)
    elif dialect in ("stablehlo", "chlo") and has_spec(op.name) and spec_of(op.name).kind is Kind.ELEMENTWISE:
        shaping_rules.elementwise(op, rule, *shapes)
    if dialect == "stablehlo" and name in LINEAR:
        rule.linear = LINEAR[name] or tuple(range(len(shapes[0])))
    elif _is_rounding(op) or (name == "reduce" and rule.combiner == ADD):
        rule.linear = (0,)
    elif dialect == "stablehlo" and name in BILINEAR:
        rule.linear, rule.is_bilinear = (0, 1), True
    return rule


def _is_rounding(op: Any) -> bool:
    """Is it a conversion between floats?"""
    values = (*op.operands, *op.results)
    return op.name == "stablehlo.convert" and all(isinstance(v.type.element_type, shim.ir().FloatType) for v in values)
