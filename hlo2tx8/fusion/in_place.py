"""Which operands a fusion's results may overwrite: those of which element i is read for element i of the results only.

%r = hlo.fusion "add_fusion"(%sum, %x, %y) { %sum + dot_general %x, %y }        %sum, if nobody reads it afterwards

A kernel writes each element of its results once, after it has read all that this element depends on, so %r and %sum may be one.
Where there are several results one loop must make them all.
"""

from collections.abc import Sequence

from xdsl.ir import BlockArgument, Operation, SSAValue

from hlo2tx8.dialects.hlo_lines import JoinAtOp
from hlo2tx8.dialects.stablehlo import ReturnOp
from hlo2tx8.fusion.views import keeps_order
from hlo2tx8.partitioner.computation import partition
from hlo2tx8.partitioner.instruction import is_elementwise, shape_of


def replaceable(fusion: Operation) -> list[int]:
    """The numbers of the operands, of a result's type, whose buffer that result may take if a fusion, or one that is equal, reads
    them as these alone."""
    body = fusion.regions[0].block
    found = [number for number, arg in enumerate(body.args) if arg.type in fusion.result_types and _stays_in_place(arg)]
    is_one = len(fusion.results) == 1 or not found or sum(f.is_entry_root for f in partition(body).functions) == 1
    return found if is_one else []


def read_once(fusion: Operation, numbers: Sequence[int]) -> list[int]:
    """Those of the numbers whose operands a fusion reads as these alone."""
    operands = tuple(fusion.operands)
    return [number for number in numbers if operands.count(operands[number]) == 1]


def _stays_in_place(value: BlockArgument) -> bool:
    """Is all that depends on a value of its shape, but for dimensions of size 1, and depends on it element by element?"""
    sizes = _without_ones(value)
    seen: set[SSAValue] = {value}
    waiting: list[SSAValue] = [value]
    while waiting:
        for use in waiting.pop().uses:
            op = use.operation
            if isinstance(op, ReturnOp) and op.parent is value.block:
                continue
            is_own = is_elementwise(op) or (isinstance(op, JoinAtOp) and use.index == 0) or keeps_order(op)
            if op.parent is not value.block or not is_own or any(_without_ones(r) != sizes for r in op.results):
                return False
            new = [result for result in op.results if result not in seen]
            seen.update(new)
            waiting += new
    return True


def _without_ones(value: SSAValue) -> list[int]:
    return [size for size in shape_of(value) if size != 1]
