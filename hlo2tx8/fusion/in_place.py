"""Which operands a fusion's result may overwrite: those of which element i is read for element i of the result only.

%r = hlo.fusion "add_fusion"(%sum, %x, %y) { %sum + dot_general %x, %y }        %sum, if nobody reads it afterwards

A kernel writes each element of its result once, after it has read all that this element depends on, so %r and %sum may be one.
"""

from xdsl.ir import BlockArgument, Operation, SSAValue

from hlo2tx8.dialects.hlo_lines import JoinAtOp
from hlo2tx8.dialects.stablehlo import ReturnOp
from hlo2tx8.partitioner.instruction import is_elementwise, shape_of


def replaceable(fusion: Operation) -> list[int]:
    """The numbers of the operands, of the result's type, whose buffer the result may take; () if there are several results."""
    if len(fusion.results) != 1:
        return []
    (result,) = fusion.results
    body = fusion.regions[0].block
    return [
        number
        for number, (operand, arg) in enumerate(zip(fusion.operands, body.args, strict=True))
        if operand.type == result.type and list(fusion.operands).count(operand) == 1 and _stays_in_place(arg)
    ]


def _stays_in_place(value: BlockArgument) -> bool:
    """Is all that depends on a value of its shape, and depends on it element by element?"""
    shape = shape_of(value)
    seen: set[SSAValue] = {value}
    waiting: list[SSAValue] = [value]
    while waiting:
        for use in waiting.pop().uses:
            op = use.operation
            if isinstance(op, ReturnOp) and op.parent is value.block:
                continue
            is_own = is_elementwise(op) or (isinstance(op, JoinAtOp) and use.index == 0)
            if op.parent is not value.block or not is_own or any(shape_of(r) != shape for r in op.results):
                return False
            new = [result for result in op.results if result not in seen]
            seen.update(new)
            waiting += new
    return True
