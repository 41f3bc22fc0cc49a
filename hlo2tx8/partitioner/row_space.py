"""Row space of a fusion: the index space whose rows its reductions join, each row held whole by one step.

softmax of [4096, 1024] over dimension 1:

    shape (4096, 1024), joined (1,)          x, exp(x - max) at (d0, d1); the maximum and the sum at (d0)

Whatever the fusion computes is at one place of the space, so a row is read once, and no intermediate leaves the scratchpad.
"""

from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.hlo import Kind
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap
from hlo2tx8.partitioner.instruction import compose, kind_of, shape_of, tensor_type
from hlo2tx8.partitioner.reduction_order import is_small_window, reduced_dimensions, why_in_order
from hlo2tx8.partitioner.reduction_paths import is_reduction, loop_operand_map, num_loop_operands


@dataclass(frozen=True)
class RowSpace:
    """The index space of a fusion of row reductions, in which each step holds whole rows.

    `shape` is that of the tensors that are reduced, `joined` the dimensions that `reductions` go over, and `order` a type with the
    space's layout.
    """

    joined: tuple[int, ...]
    reductions: frozenset[Operation]
    order: TensorType[Attribute]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.order.get_shape()

    @property
    def kept(self) -> tuple[int, ...]:
        """The dimensions that tell rows apart."""
        return tuple(dim for dim in range(len(self.shape)) if dim not in self.joined)

    @property
    def width(self) -> int:
        """The number of elements in a row."""
        return prod(self.shape[dim] for dim in self.joined)

    def has_root(self, root: SSAValue) -> bool:
        """True if the value has either an element per point of the space, or one per row."""
        return shape_of(root) in (self.shape, self._row_shape, self._row_shape_kept)

    def map_of_root(self, root: SSAValue) -> IndexingMap:
        """The map from the space's index to the root's index."""
        identity, shape = IndexingMap.identity(self.shape), shape_of(root)
        if shape == self.shape:
            return identity
        if shape == self._row_shape:
            return self.map_of_kept()
        results: list[Expr] = [Const(0) if dim in self.joined else Dim(dim) for dim in range(len(self.shape))]
        return identity.with_results(tuple(results))

    def map_of_kept(self) -> IndexingMap:
        """The map from the space's index to the row's index."""
        return IndexingMap.identity(self.shape).with_results(tuple(Dim(dim) for dim in self.kept))

    def operand_maps(self, op: Operation, map: IndexingMap) -> dict[int, IndexingMap]:
        """The maps to the operands of a reduction computed at `map`: an input is read in the whole row, an initial value at any
        index.
        """
        inputs, identity = num_loop_operands(op), IndexingMap.identity(self.shape)
        dims: list[Expr] = [Dim(dim) for dim in (*range(len(self.shape)), *self.joined)]
        whole = identity.with_results(tuple(dims))
        read = {number: compose(loop_operand_map(op, number, map), whole) for number in range(inputs)}
        return read | {number: map.with_results(()) for number in range(inputs, len(op.operands))}

    def is_of_row(self, map: IndexingMap) -> bool:
        """True if the map gives the same result everywhere in a row."""
        return not map.constraints and not any(Dim(dim) in result.leaves() for dim in self.joined for result in map.results)

    @property
    def _row_shape(self) -> tuple[int, ...]:
        return tuple(self.shape[dim] for dim in self.kept)

    @property
    def _row_shape_kept(self) -> tuple[int, ...]:
        return tuple(1 if dim in self.joined else size for dim, size in enumerate(self.shape))


def row_space(block: Block) -> RowSpace | str:
    """The row space of a fusion's computation; a sentence that says why, if there is none."""
    reductions = [op for op in block.ops if is_reduction(op)]
    if not reductions:
        return "there is no reduce"
    terminator = block.last_op
    assert terminator is not None
    first, roots = reductions[0], list(dict.fromkeys(terminator.operands))
    shape = shape_of(first.operands[0])
    if any(kind_of(op) is not Kind.REDUCE or shape_of(op.operands[0]) != shape for op in reductions):
        return "its reductions are not over one shape"
    for op in reductions:
        if reason := why_in_order(op):
            return reason
        if is_small_window(op):
            return "its rows are small windows, which overlap or are no rows in memory"
    joined = tuple(reduced_dimensions(first))
    if any(sorted(reduced_dimensions(op)) != sorted(joined) for op in reductions):
        return "its reductions go over different dimensions"
    if 0 in shape or prod(shape[dim] for dim in joined) == 1:
        return "its rows have no elements to join"
    full = [root for root in roots if shape_of(root) == shape]
    space = RowSpace(joined, frozenset(reductions), tensor_type(full[0] if full else first.operands[0]))
    if not all(map(space.has_root, roots)):
        return "it has a root that is no part of its rows"
    if not full and len(reductions) == 1 and not _reads_rows_again(block, space):
        return "it reads each row once"
    return space


def _reads_rows_again(block: Block, space: RowSpace) -> bool:
    """Does something as large as the space depend on a reduction of its rows?"""
    behind: dict[SSAValue, None] = {}
    for op in block.ops:
        if any(operand in behind for operand in op.operands):
            if any(operand in behind and shape_of(operand) == space.shape for operand in op.operands):
                return True
            behind.update(dict.fromkeys(op.results))
        elif op in space.reductions:
            behind.update(dict.fromkeys(op.results))
    return False
