"""Slices that the turns of a loop take of tensors from outside: one whole element along the first dimension."""

from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.indexing import IndexingMap
from hlo2tx8.partitioner.instruction import shape_of

DOTS = ("stablehlo.dot", "stablehlo.dot_general")
"""What multiplies them."""


def slice_of(value: SSAValue, body: Block) -> Operation | None:
    """What reads a value if it is such a slice, without its first dimension; the tensor is not made in the loop's body."""
    reshape = value.owner
    read = reshape.operands[0].owner if isinstance(reshape, Operation) and reshape.name == "stablehlo.reshape" else None
    if not isinstance(read, Operation) or read.name != "hlo.read_at" or is_inside(read.operands[0], body):
        return None
    shape, fields = shape_of(read.operands[0]), attributes_of(read)
    is_whole = shape_of(read.results[0]) == (1, *shape[1:]) and shape_of(value) == shape[1:]
    is_along_first = list(fields["dims"]) == [0] and list(fields["rooms"]) == [shape[0] - 1]
    is_in_place = not fields["index_maps"][0].results and fields["map"] == IndexingMap.identity((1, *shape[1:]))
    return read if is_whole and is_along_first and is_in_place else None


def is_inside(value: SSAValue, body: Block) -> bool:
    """Is a value made in a loop's body, or one of its variables?"""
    owner = value.owner
    return owner is body or (isinstance(owner, Operation) and owner.parent is body)
