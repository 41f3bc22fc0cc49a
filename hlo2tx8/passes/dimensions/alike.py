"""Tensors whose dimensions have to be in the same order: those that an op reads and writes at the same index, or along windows."""

from collections.abc import Container, Iterable

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.layout import as_tensor, is_tensor
from hlo2tx8.hlo.lookup import names_of
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.partitioner.instruction import shape_of

_ELEMENTWISE = names_of(Kind.ELEMENTWISE)
LEAST_RANK = 3
"""Of a tensor whose dimensions may be in another order: two are rows and columns."""
BY_DIMENSION = {
    "stablehlo.pad": ("edge_padding_low", "edge_padding_high", "interior_padding"),
    "stablehlo.slice": ("start_indices", "limit_indices", "strides"),
    "stablehlo.reduce_window": ("window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding"),
    "stablehlo.select_and_scatter": ("window_dimensions", "window_strides", "padding"),
}
"""Ops with a number, or a pair, for each dimension of their tensors: the properties that hold them."""
OF_DIMENSIONS = {
    "stablehlo.reverse": "dimensions",
    "stablehlo.concatenate": "dimension",
    "stablehlo.batch_norm_inference": "feature_index",
    "stablehlo.batch_norm_training": "feature_index",
    "stablehlo.batch_norm_grad": "feature_index",
}
"""Ops that name one dimension, or some: the property that does."""
MADE_IN_ANY_ORDER = (
    "stablehlo.broadcast_in_dim",
    "stablehlo.constant",
    "stablehlo.convolution",
    "stablehlo.iota",
    "stablehlo.reduce",
    "stablehlo.transpose",
)
READ_IN_ANY_ORDER = ("stablehlo.convolution", "stablehlo.reduce", "stablehlo.transpose")


def is_reordered(value: SSAValue) -> bool:
    """May a tensor have its dimensions in another order, as far as its type says?"""
    return is_tensor(value.type) and isinstance(as_tensor(value.type).encoding, NoneAttr) and len(shape_of(value)) >= LEAST_RANK


def alike(op: Operation) -> list[SSAValue]:
    """The tensors of an op, scalars and those of channels apart, if all of them have their dimensions in the same order; of a
    reduction those that it reads."""
    if op.name == "stablehlo.reduce":
        return [value for value in op.operands[: len(op.results)] if is_reordered(value)]
    if op.name not in BY_DIMENSION and op.name not in OF_DIMENSIONS and not is_elementwise(op):
        return []
    found = [value for value in (*op.operands, *op.results) if not is_tensor(value.type) or len(shape_of(value)) > 1]
    if not all(map(is_reordered, found)) or len({len(shape_of(value)) for value in found}) != 1:
        return []
    return found


def reads_in_order(op: Operation, block: Block, readers: Container[str] = READ_IN_ANY_ORDER) -> bool:
    """Does an op need what it reads in the order that the block has it? `readers` are the ops that read any order."""
    return op.parent is not block or (op.name not in readers and not alike(op))


def is_moved(
    value: SSAValue,
    block: Block,
    makers: Container[str] = MADE_IN_ANY_ORDER,
    readers: Container[str] = READ_IN_ANY_ORDER,
) -> bool:
    """Is a tensor made in the old order, or read in it, by what cannot have another one?"""
    owner = value.owner
    if isinstance(owner, Block) or (owner.name not in makers and not alike(owner)):
        return True
    return any(reads_in_order(use.operation, block, readers) for use in value.uses)


def is_elementwise(op: Operation) -> bool:
    """Does an op compute each element of the elements at the same index?"""
    return op.name in _ELEMENTWISE and bool(op.results)


def sets_alike(block: Block) -> list[list[SSAValue]]:
    """The tensors of a block in sets whose dimensions have to be in the same order; a tensor that is alone is one."""
    root: dict[SSAValue, SSAValue] = {}

    def find(value: SSAValue) -> SSAValue:
        while root.setdefault(value, value) is not value:
            root[value] = root[root[value]]
            value = root[value]
        return value

    for value in _values(block):
        find(value)
    for op in block.ops:
        values = alike(op)
        for other in values[1:]:
            root[find(other)] = find(values[0])
    found: dict[SSAValue, list[SSAValue]] = {}
    for value in list(root):
        found.setdefault(find(value), []).append(value)
    return list(found.values())


def _values(block: Block) -> Iterable[SSAValue]:
    """What a block is given and what its ops make."""
    yield from filter(is_reordered, block.args)
    for op in block.ops:
        yield from filter(is_reordered, op.results)
