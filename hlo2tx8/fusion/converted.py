"""What a product reads of memory as it loads it: parts of weights, and weights of another type there, as of quantized models.

    %w = convert %q              [2048, 8192] i8 -> bf16
    %y = dot_general %x, %w      one fusion: each panel of %q is converted in the scratchpad

By itself the conversion would write %w, and the product would read that: five bytes for each that is needed. What is narrowed is
written if rows of the product and its result are more than that: those may stay with the tiles of a group, whose weights are in
memory as they are sent.
"""

from collections.abc import Sequence

from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from hlo2tx8.dialects.vector_instructions import unconverted
from hlo2tx8.fusion.candidate import CandidateUse
from hlo2tx8.fusion.views import keeps_order, shows_elements
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.hlo.types import bit_width, is_float, is_integer, is_unsigned, numpy_dtype
from hlo2tx8.partitioner.contraction import is_contraction, is_dot, why_not_on_engine
from hlo2tx8.partitioner.instruction import tensor_type
from hlo2tx8.schedule.costs import is_in_vectors, size_bytes

INTEGER_BITS, FLOAT_BITS = (8, 16), (16, 32)
"""Of what is converted."""
MOVED = 2
"""Times that what is converted would be written and read."""


def is_converted_as_loaded(op: Operation, found: Sequence[CandidateUse]) -> bool:
    """Does an instruction convert what one product reads, which does that as it loads it?"""
    if unconverted(op.results[0]) is op.results[0] or len(found) != 1 or not op.results[0].has_one_use():
        return False
    (use,) = op.results[0].uses
    dot = use.operation
    return dot in found[0].candidate.members and is_contraction(dot) and dot.operands[use.index] in converted_operands(dot)


def is_read_by_product(op: Operation, found: Sequence[CandidateUse]) -> bool:
    """Is an instruction a part of what is in memory that one product reads, which can load it from there?"""
    if len(found) != 1 or not op.results[0].has_one_use():
        return False
    (use,) = op.results[0].uses
    dot = use.operation
    return dot in found[0].candidate.members and is_dot(dot) and _is_in_memory(op.operands[0])


def are_converted_alike(dot: Operation, other: Operation) -> bool:
    """May two products read the same rows in one loop, as far as they convert what they load? What is narrowed is so before tiles
    send it to each other, for one product; what is widened is so by each tile."""
    types: list[list[Attribute]] = []
    for op in (dot, other):
        converted = converted_operands(op)
        if any(map(_narrows, converted)):
            return False
        types.append([tensor_type(unconverted(value) if value in converted else value).element_type for value in op.operands])
    return types[0] == types[1]


def _narrows(value: SSAValue) -> bool:
    """Is a conversion one to fewer bytes?"""
    return size_bytes(unconverted(value)) > size_bytes(value)


def converted_operands(dot: Operation) -> list[SSAValue]:
    """What of its operands a product converts as it loads them: what is in memory in another type, and what nobody else reads."""
    if not is_dot(dot) or why_not_on_engine(dot) or num_parts(dot) > 1:
        return []
    moved = sum(map(size_bytes, (*dot.operands, *dot.results)))
    return [
        value
        for value in dot.operands
        if (source := unconverted(value)) is not value
        and value.has_one_use()
        and (not _narrows(value) or (MOVED + 1) * size_bytes(value) > moved)
        and _is_converted_by_vectors(source)
        and is_in_vectors(value)
        and _is_in_memory(source)
    ]


def _is_converted_by_vectors(value: SSAValue) -> bool:
    """Are elements of a type that the vector engine makes floats of?"""
    dtype = numpy_dtype(tensor_type(value).element_type)
    if is_integer(dtype):
        return bit_width(dtype) in INTEGER_BITS and not is_unsigned(dtype)
    return is_float(dtype) and bit_width(dtype) in FLOAT_BITS


def _is_in_memory(value: SSAValue) -> bool:
    """Is a tensor there when the block begins, maybe in another shape?"""
    while isinstance(owner := value.owner, Operation) and (keeps_order(owner) or shows_elements(owner)):
        value = owner.operands[0]
    return isinstance(value, BlockArgument)
