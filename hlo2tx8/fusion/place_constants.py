"""Where constants of control flow belong: small or cheap ones beside their readers, tables at the start of @main.

%c = constant 2.0                            while(...) do
while(...) do                      ⟶           %c = constant 2.0
  %1 = multiply %x, %c                         %1 = multiply %x, %c
"""

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.hlo.regions import CONTROL
from hlo2tx8.partitioner.instruction import CONSTANTS, is_free, is_splat_constant


def place_constants(block: Block) -> None:
    """For the regions of control flow in @main's block: copies of what costs nothing move in, other constants move out."""
    for op in ops_of(block):
        if op.name not in CONTROL:
            continue
        for region in op.regions:
            _move_in(region.block)
            place_constants(region.block)
        for inner in tuple(op.walk()):
            if inner.name in CONSTANTS and not is_splat_constant(inner) and inner.parent_op() is not None:
                _move_out(inner, op)


def _move_out(constant: Operation, before: Operation) -> None:
    owner = constant.parent_op()
    if owner is not None and owner.name in CONTROL:
        constant.detach()
        block = before.parent
        assert block is not None
        block.insert_op_before(constant, before)


def _move_in(block: Block) -> None:
    """Copies of constants and of what is made of them alone, for the ops of a region and of those inside of it."""
    inside: dict[SSAValue, SSAValue] = {}
    here = {value: None for op in block.walk() for value in op.results}
    first = block.first_op
    assert first is not None

    def copy(value: SSAValue) -> SSAValue:
        if value not in inside:
            owner = value.owner
            assert isinstance(owner, Operation)
            operands = {operand: copy(operand) for operand in owner.operands}
            new = owner.clone(operands)
            Rewriter.insert_op(new, InsertPoint.before(first))
            inside[value] = new.results[0]
        return inside[value]

    for op in tuple(block.walk()):
        for number, operand in enumerate(op.operands):
            if operand not in here and is_made_of_constants(operand):
                op.operands[number] = copy(operand)


def is_made_of_constants(value: SSAValue) -> bool:
    """Is it a splat constant, an iota, or a broadcast of one?"""
    owner = value.owner
    if not isinstance(owner, Operation):
        return False
    return is_splat_constant(owner) or (is_free(owner) and all(map(is_made_of_constants, owner.operands)))
