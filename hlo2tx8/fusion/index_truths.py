"""Truths that the index alone decides, a causal mask say: a step has them as bounds of its lanes, and computes nothing."""

from xdsl.dialects.builtin import i1
from xdsl.ir import Operation

from hlo2tx8.partitioner.instruction import CONSTANTS, is_free, tensor_type

MADE_OF = ("compare", "and", "or", "not", "select", "add", "subtract", "multiply", "convert")
MOST_INSTRUCTIONS = 16
"""That are looked at: longer ones are not worth it."""


def is_of_index(op: Operation) -> bool:
    """Is an instruction a truth, made by comparing sums of indices and constants?"""
    if tensor_type(op.results[0]).element_type != i1:
        return False
    left, seen = [op], 0
    while left:
        made = left.pop()
        seen += 1
        if made.name in CONSTANTS:
            continue
        if seen > MOST_INSTRUCTIONS or not (made.name.partition(".")[2] in MADE_OF or is_free(made)):
            return False
        owners = [value.owner for value in made.operands]
        if not all(isinstance(owner, Operation) for owner in owners):
            return False
        left += [owner for owner in owners if isinstance(owner, Operation)]
    return True
