"""Pass view-slices: what a block takes of a larger tensor in one piece is a fusion of its own, which is a view: no work at all.

    while (%i, %x) captures %w : [12,768,3072]          %1 = hlo.fusion "slice_view"(%w, %i) { read_at; reshape }
      %0 = hlo.read_at %w, %i     [1,768,3072]    ⟶     %2 = stablehlo.dot_general %x, %1
      %1 = stablehlo.reshape %0     [768,3072]
      %2 = stablehlo.dot_general %x, %1

The weights of one layer among those of all, mostly. Where elements follow each other in memory, begin at a place that is known or
a sum of run-time numbers, and nobody writes the tensor, the kernels that read them are those of a tensor of that shape. The tensor
is the function's, a constant, or of an enclosing block: one that is made beside its readers can be fused with them instead. Views
stand first in their block.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import fused
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.fusion.views import WRITE_AT, is_written, keeps_order, piece_of
from hlo2tx8.hlo.module import program_functions
from hlo2tx8.hlo.regions import CALL, CONTROL, UPDATE
from hlo2tx8.partitioner.instruction import CONSTANTS

_NOT_KERNELS = (UPDATE, WRITE_AT, CALL, *CONTROL)
"""Ops that need what they read in memory of its own, as what ends a block does."""


@dataclass(frozen=True)
class ViewSlicesPass(ModulePass):
    """Makes fusions of reads that can be views; see the module docstring."""

    name = "view-slices"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in program_functions(op):
            _apart(function.body.block)


def _apart(block: Block) -> None:
    for op in ops_of(block):
        if op.parent is not block:
            continue
        if op.name in CONTROL:
            for region in op.regions:
                _apart(region.block)
        elif piece_of(op) is not None and _stays(op.operands[0], block):
            members = [op]
            while (only := members[-1].results[0].get_user_of_unique_use()) and only.parent is block and keeps_order(only):
                members.append(only)
            result = members[-1].results[0]
            if all(use.operation.name not in _NOT_KERNELS and use.operation.next_op for use in result.uses):
                fusion = fused(members, [result], "slice_view", _earliest(op, block))
                fusion.attributes |= {k: v for k, v in op.attributes.items() if k == "loc"}


def _earliest(op: Operation, block: Block) -> Operation:
    """The first op of the block behind everything that an op reads."""
    made = {value.owner for value in op.operands if isinstance(value.owner, Operation) and value.owner.parent is block}
    last = next((other for other in reversed(ops_of(block)) if other in made), None) if made else None
    first = block.first_op if last is None else last.next_op
    assert first is not None
    return first


def _stays(value: SSAValue, block: Block) -> bool:
    """Is the value in memory whatever is fused in the block, and nobody's to write?"""
    owner = value.owner
    if isinstance(owner, Operation):
        is_there = owner.parent is not block or owner.name in CONSTANTS
    else:
        is_there = owner is not block or isinstance(block.parent_op(), FuncOp)
    return is_there and not is_written(value)
