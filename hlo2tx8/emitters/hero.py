"""Hero of a fusion: the instruction that decides how the whole fusion is emitted.

From each root climb through unary elementwise instructions and bitcasts; then, through at most three-operand
intermediates, look for a transpose, a concatenate, a reduce; else the root itself is the hero. Of several roots the
first in the order of `Hero kinds` wins: reduction, transpose, several roots, scatter, sort, concatenate, loop.
"""

from dataclasses import dataclass
from typing import Literal

from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.partitioner.instruction import is_elementwise
from hlo2tx8.schedule.concatenate_parts import MAX_CONCATENATE_OPERANDS

HeroKind = Literal["reduction", "transpose", "gemm", "scatter", "sort", "concatenate", "loop"]

_KIND_OF: tuple[tuple[str, HeroKind], ...] = (
    ("stablehlo.reduce", "reduction"),
    ("stablehlo.transpose", "transpose"),
    ("stablehlo.dot_general", "gemm"),
    ("stablehlo.dot", "gemm"),
    ("hlo.write_at", "scatter"),
    ("stablehlo.sort", "sort"),
    ("stablehlo.concatenate", "concatenate"),
)
"""In order of precedence among several roots."""

_LOOKED_FOR = ("stablehlo.transpose", "stablehlo.concatenate", "stablehlo.reduce")


@dataclass(frozen=True)
class Hero:
    """The hero instruction (None if a root is a parameter or constant), what kind of emitter it asks for, and why."""

    op: Operation | None
    kind: HeroKind
    reason: str


def hero(fusion: Operation) -> Hero:
    """The hero of an `hlo.fusion`."""
    body = fusion.regions[0].block
    terminator = body.last_op
    assert terminator is not None
    heroes = [_hero_of_root(root, body) for root in dict.fromkeys(terminator.operands)]
    order = [kind for _, kind in _KIND_OF]
    special = [found for found in heroes if found.kind in order]
    if special:
        return min(special, key=lambda found: order.index(found.kind))
    if len(heroes) == 1:
        return heroes[0]
    first = heroes[0].op if heroes else None
    return Hero(first, "loop", f"{len(heroes)} roots without a hero of their own")


def _hero_of_root(root: SSAValue, body: Block) -> Hero:
    op = root.owner
    if not isinstance(op, Operation):
        return Hero(None, "loop", "the root is a parameter")
    climbed = op
    while _is_unary(climbed) and isinstance(operand := climbed.operands[0].owner, Operation):
        climbed = operand
    kinds = dict(_KIND_OF)
    for name in _LOOKED_FOR:
        found = _reachable(climbed, name)
        if len(found) != 1 or not _is_worthwhile(found[0]):
            continue
        return Hero(found[0], kinds[name], f"{name} below the root {op.name}")
    if climbed.name in kinds and climbed.name not in _LOOKED_FOR:
        return Hero(climbed, kinds[climbed.name], f"the root is {climbed.name}")
    return Hero(op, "loop", "every instruction is elemental")


def _is_unary(op: Operation) -> bool:
    return len(op.operands) == 1 and is_elementwise(op)


def _is_worthwhile(op: Operation) -> bool:
    if op.name == "stablehlo.concatenate":
        return len(op.operands) <= MAX_CONCATENATE_OPERANDS
    return True


def _reachable(start: Operation, name: str) -> list[Operation]:
    """Instructions of that name below `start` through elementwise intermediates of at most three operands."""
    found: dict[Operation, None] = {}
    seen: dict[Operation, None] = {start: None}
    stack = [start]
    while stack:
        op = stack.pop()
        if op.name == name:
            found[op] = None
            continue
        if len(op.operands) > 3 or not is_elementwise(op):
            continue
        for operand in op.operands:
            owner = operand.owner
            if isinstance(owner, Operation) and owner not in seen:
                seen[owner] = None
                stack.append(owner)
    return list(found)
