"""Operations with regions: values that a region uses from outside, and inlining of a region."""

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hlo2tx8.dialects.nested import nested_ops, ops_of

CONTROL = ("stablehlo.while", "stablehlo.if", "stablehlo.case")
"""Ops whose regions are programs of their own; other regions say how elements are combined."""

CALL = "func.call"
"""The op that runs another function."""

UPDATE = "stablehlo.dynamic_update_slice"
"""The op that the program does itself, in place."""


def terminator_of(block: Block) -> Operation:
    """The op that ends a block."""
    last = block.last_op
    assert last is not None
    return last


def captured(op: Operation) -> list[SSAValue]:
    """The values of enclosing blocks that the op's regions use, in order of first use."""
    if not op.regions:
        return []
    inside: dict[SSAValue, None] = {}
    found: dict[SSAValue, None] = {}
    for inner in nested_ops(op):
        for region in inner.regions:
            for block in region.blocks:
                inside.update(dict.fromkeys(block.args))
        if inner is not op:
            inside.update(dict.fromkeys(inner.results))
            found.update(dict.fromkeys(inner.operands))
    return [value for value in found if value not in inside]


def inline_region(op: Operation, body: Block, arguments: Sequence[SSAValue]) -> None:
    """Replace an op by the ops of one of its regions; the region's results become the op's."""
    terminator = terminator_of(body)
    renamed: dict[SSAValue, SSAValue] = dict(zip(body.args, arguments, strict=True))
    results = [renamed.get(value, value) for value in terminator.operands]
    Rewriter.erase_op(terminator)
    Rewriter.inline_block(body, InsertPoint.before(op), arguments)
    Rewriter.replace_op(op, [], results)


def put_in_order(block: Block) -> None:
    """Moves operations of a block behind those whose results they read; others stay in order."""
    ops = ops_of(block)
    placed: dict[Operation, None] = {}
    for op in ops:
        stack = [op]
        while stack:
            top = stack[-1]
            operands = (*top.operands, *(captured(top) if top.regions else ()))
            owners = [value.owner for value in operands]
            waits = [o for o in owners if isinstance(o, Operation) and o.parent is block and o not in placed]
            if not waits:
                placed[top] = None
                stack.pop()
            else:
                stack += [owner for owner in waits if owner is not top]
    if list(placed) == ops:
        return
    for op in ops:
        op.detach()
    block.add_ops(placed)
