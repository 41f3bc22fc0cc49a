"""What is the same in all turns of a loop: what an instruction of its body reads that is made outside, maybe moved or converted."""

from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.hlo.lookup import has_spec
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.partitioner.instruction import CONSTANTS, kind_of

WHILE, CONVERT, READ_AT = "stablehlo.while", "stablehlo.convert", "hlo.read_at"


def is_same_in_all_turns(op: Operation, number: int) -> bool:
    """Is the operand of an instruction in a loop's body one from outside of it, or a part of one, maybe of another type?"""
    block = op.parent
    around = block.parent_op() if block is not None else None
    if block is None or around is None or around.name != WHILE or block is not around.regions[-1].block:
        return False
    return _is_from_outside(op.operands[number], block)


def _is_from_outside(value: SSAValue, block: Block) -> bool:
    owner = value.owner
    if not isinstance(owner, Operation) or owner.parent is not block:
        return owner is not block
    members = ops_of(owner.body.block)[:-1] if isinstance(owner, FusionOp) else [owner]
    return all(map(_is_moved, members)) and all(_is_from_outside(operand, block) for operand in owner.operands)


def _is_moved(op: Operation) -> bool:
    if op.name in (CONVERT, READ_AT, *CONSTANTS):
        return True
    return has_spec(op.name) and kind_of(op) is Kind.SHAPING
