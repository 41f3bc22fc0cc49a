"""Pass hoist-invariants: what every turn of a loop computes from the same values is computed once, before the loop.

    while (%i = 0, %s = %a)                            %2 = reduce add %x
      do %1 = reduce add %x                      ⟶    while (%i = 0, %s = %a)
         return %i + 1, %s + %1                          do return %i + 1, %s + %2

Hoisted are reduces, products, fusions and other ops with an emitter of their own, reads at run-time places, and elementwise ops
whose result is no larger than what they read; also what these need. Moves, broadcasts and numbers alone cost nothing where they
are read, so they stay. An inner loop hands what it need not do on to the outer one. Nothing that is hoisted has an effect, so
that it does no harm if the loop makes no turn.
"""

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.dialects.layout import is_tensor
from hlo2tx8.hlo.lookup import has_spec, spec_of, tensor_like
from hlo2tx8.hlo.regions import CONTROL, UPDATE, captured
from hlo2tx8.hlo.spec import Kind

PURE = (Kind.ELEMENTWISE, Kind.SHAPING, Kind.INDEXED, Kind.REDUCE, Kind.DOT, Kind.CONSTANT, Kind.HERO)
CHEAP = (Kind.SHAPING, Kind.CONSTANT)
"""Kinds of ops that are computed where they are read."""
WITH_EFFECT = (UPDATE, "hlo.write_at", "stablehlo.rng")
"""Ops that write into an operand, or give other values each time."""


@dataclass(frozen=True)
class HoistInvariantsPass(ModulePass):
    """Moves ops out of the bodies of while loops; see the module docstring."""

    name = "hoist-invariants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for loop in reversed(ops_named(op, ("stablehlo.while",))):
            _hoist(loop, loop.regions[1].block)


def _hoist(loop: Operation, body: Block) -> None:
    invariant: dict[Operation, None] = {}
    for op in body.ops:
        if _is_pure(op) and all(_is_outside(value, body, invariant) for value in (*op.operands, *captured(op))):
            invariant[op] = None
    worth = [op for op in invariant if _is_worth(op)]
    needed = _with_operands(worth, invariant)
    mapping: dict[SSAValue, SSAValue] = {}
    for op in invariant:
        if op in needed:
            copy = op.clone(mapping)
            assert loop.parent is not None
            loop.parent.insert_op_before(copy, loop)
            mapping.update(zip(op.results, copy.results, strict=True))
    for op in worth:
        for result in op.results:
            result.replace_all_uses_with(mapping[result])
    for op in reversed(needed):
        if all(result.first_use is None for result in op.results):
            Rewriter.erase_op(op)


def _is_pure(op: Operation) -> bool:
    if isinstance(op, FusionOp):
        return all(_is_pure(inner) for inner in op.body.block.ops if inner is not op.body.block.last_op)
    if not all(is_tensor(value.type) for value in (*op.operands, *op.results)):
        return False
    return has_spec(op.name) and spec_of(op).kind in PURE and op.name not in (*CONTROL, *WITH_EFFECT)


def _is_outside(value: SSAValue, body: Block, invariant: dict[Operation, None]) -> bool:
    """True if a value is the same in each turn: computed outside of the body or by an invariant op."""
    owner = value.owner
    return owner in invariant if isinstance(owner, Operation) and owner.parent is body else owner is not body


def _is_worth(op: Operation) -> bool:
    if isinstance(op, FusionOp):
        return True
    kind = spec_of(op).kind
    if kind is not Kind.ELEMENTWISE:
        return kind not in CHEAP
    read = sum(_num_bytes(value) for value in op.operands if not _is_made_where_read(value))
    return sum(_num_bytes(result) for result in op.results) <= read


def _num_bytes(value: SSAValue) -> int:
    type_ = tensor_like(value.type)
    return prod(type_.shape) * type_.dtype.itemsize


def _is_made_where_read(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, Operation) and has_spec(owner.name) and spec_of(owner).kind in CHEAP


def _with_operands(ops: list[Operation], among: dict[Operation, None]) -> list[Operation]:
    """The ops and those of `among` that they need, in the order of `among`."""
    needed: dict[Operation, None] = {}
    stack = list(ops)
    while stack:
        op = stack.pop()
        if op not in needed:
            needed[op] = None
            owners = [value.owner for value in (*op.operands, *captured(op))]
            stack += [owner for owner in owners if isinstance(owner, Operation) and owner in among]
    return [op for op in among if op in needed]
