"""Which dots the matrix engine computes, and which dimensions of a loop are their rows, columns and batches.

    dot_general [B, M, K] x [B, K, N], loop over [B, M, N]     batch, row, column
    the same, its result transposed to [B, N, M]               batch, row, column: rows and columns are those of the other operand

Columns are next to each other in memory in what the loop writes: they are the channels of the engine's result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation

from hlo2tx8.dialects.xla_dot import WindowLine, sums_type
from hlo2tx8.hlo import Kind
from hlo2tx8.hlo.lookup import attributes_of, kept
from hlo2tx8.hlo.ops.dot import Dims, numbers_of
from hlo2tx8.hlo.types import bit_width, numpy_dtype
from hlo2tx8.indexing import Dim, Expr, Interval, simplify_expr
from hlo2tx8.partitioner.instruction import kind_of, shape_of, tensor_type
from hlo2tx8.partitioner.iteration_space import IterationSpace
from hlo2tx8.partitioner.reduction_paths import is_empty_loop, loop_counters

Role = Literal["batch", "row", "column"]
MOST_PRODUCTS = 4
"""Of one fusion, of the same rows: each has sums of its own in the scratchpad."""
EXACT_PARTS = 3
"""So many BF16 numbers have all bits of an f32 number."""
EXACT_DEPTH = 128
"""Products that one instruction adds up for a dot that is as precise as f32."""
SUM_BITS = 32
MOST_EXACT_DEPTH = 1 << 17
"""Products of two INT8 that these bits hold the sum of."""


@dataclass(frozen=True)
class Contraction:
    """How a dot is computed by the matrix engine.

    Operand number `rows` has the rows. Counters `loops`, outermost first, are plain loops; counter `block`, of `extent` turns, goes
    by `lanes` elements per instruction; `window_counters` are covered by one instruction, along the lines of `windows`.
    `is_per_channel`: every column has rows of its own (depthwise). `is_backward`: the last rows are channels of the image. An f32
    factor is split into `parts` narrower numbers.
    """

    rows: int
    loops: tuple[int, ...]
    block: int
    extent: int
    lanes: int
    window_counters: tuple[int, ...] = ()
    windows: tuple[WindowLine, ...] = ()
    is_per_channel: bool = False
    is_backward: bool = False
    parts: int = 1

    @property
    def is_one_loop(self) -> bool:
        """Does one loop go over blocks and all plain loops? Blocks are as large then."""
        return self.extent % self.lanes == 0 and not self.is_backward

    @property
    def is_added_to_nearest(self) -> bool:
        """True if the sums of blocks are added by CT, with f32's rounding to nearest. The engine itself rounds toward zero, which
        would show after many turns.
        """
        return self.parts == EXACT_PARTS


def why_not_on_engine(op: Operation) -> str:
    """Why the matrix engine cannot compute a dot, or "" if it can."""
    return kept(op, "why not on the engine", _why_not_on_engine)


def _why_not_on_engine(op: Operation) -> str:
    left, right = (tensor_type(operand).element_type for operand in op.operands)
    result = tensor_type(op.results[0]).element_type
    if is_empty_loop(op) or 0 in shape_of(op.results[0]):
        return "it multiplies nothing"
    if not loop_counters(op):
        return "it adds up nothing"
    sums = sums_type(left)
    if sums is None or left != right:
        return f"the matrix engine does not multiply {left} by {right}"
    if isinstance(sums, IntegerType):
        width = bit_width(numpy_dtype(result))
        if not isinstance(result, IntegerType):
            return f"the matrix engine does not add up {left} as {result}"
        if width > SUM_BITS and num_products(op) >= MOST_EXACT_DEPTH:
            return f"sums of {num_products(op)} products are too large for {sums}"
    return ""


def num_products(op: Operation) -> int:
    """The number of products that are summed for one element of a dot's result."""
    return prod(counter.hi + 1 for counter in loop_counters(op))


def is_contraction(op: Operation) -> bool:
    """True for a dot that the matrix engine can compute."""
    return kind_of(op) is Kind.DOT


def is_dot(op: Operation) -> bool:
    """True for a product of matrices, False for a convolution."""
    return op.name in ("stablehlo.dot_general", "stablehlo.dot")


def roles_of(
    op: Operation, results: Sequence[Expr], space: IterationSpace, columns: int | None = None
) -> tuple[tuple[Role, ...], int]:
    """The role (batch, row, column, depth) of each dimension of a loop's index space for a dot computed at the map `results`, and
    the number of the operand that has the rows.

    `columns` is the operand that has the columns, if that is decided. A dimension on which neither operand depends is a batch
    dimension.
    """
    bounds = [Interval(0, size - 1) for size in space.shape]
    placed = [simplify_expr(result.substitute(space.to_output, ()), bounds, ()) for result in results]
    left, right = _dependences(op, placed)
    if columns is None:
        own = (dim for dim in reversed(range(len(space.shape))) if (dim in left) != (dim in right))
        columns = next((1 if dim in right else 0 for dim in own), 1)
    of_rows, of_columns = (left, right) if columns else (right, left)

    def role(dim: int) -> Role:
        if (dim in of_rows) == (dim in of_columns):
            return "batch"
        return "row" if dim in of_rows else "column"

    return tuple(role(dim) for dim in range(len(space.shape))), 1 - columns


def _dependences(op: Operation, results: Sequence[Expr]) -> tuple[frozenset[int], frozenset[int]]:
    """The dimensions that each operand's elements depend on."""
    found: list[frozenset[int]] = []
    batch, free = num_batch_and_free(op)
    for own in (free[0], free[1]):
        exprs = [*results[:batch], *(results[d] for d in own)]
        found.append(frozenset(leaf.index for expr in exprs for leaf in expr.leaves() if isinstance(leaf, Dim)))
    return found[0], found[1]


def dot_dimensions(op: Operation) -> tuple[Dims, Dims, Dims, Dims]:
    """Of a dot or dot_general the batch dimensions of the first operand and of the second, then those of each that are added up."""
    return ((), (), (len(shape_of(op.operands[0])) - 1,), (0,)) if op.name == "stablehlo.dot" else numbers_of(attributes_of(op))


def added_dimensions(op: Operation) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dimensions of a dot's operands that are added up."""
    return dot_dimensions(op)[2:]


def num_batch_and_free(op: Operation) -> tuple[int, tuple[range, range]]:
    """The number of leading batch dimensions of a dot's result, the result dimensions of the left operand, and those of the right
    operand.
    """
    rank = len(shape_of(op.results[0]))
    batch, _, contracted, _ = dot_dimensions(op)
    own = len(shape_of(op.operands[0])) - len(batch) - len(contracted)
    return len(batch), (range(len(batch), len(batch) + own), range(len(batch) + own, rank))
