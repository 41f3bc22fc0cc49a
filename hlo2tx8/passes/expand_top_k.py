"""Pass expand-top-k: the few largest of many elements are found block by block, without a sort of all.

    %v, %i = chlo.top_k %x, k    ⟶    %keys   = the elements as integers of the same order, [rows, blocks, columns]
                                      %most   = reduce maximum %keys over columns
                                      %places = k times: the largest of %most that comes behind the one before
                                      %found  = the blocks at these places, each key with its element's number
                                      k times: the largest of %found that comes behind the one before

The k largest lie in the k blocks whose largest elements are largest: any other block has k elements before all of its own. Of
equal elements the first comes first, and floats are in the total order, as chlo.top_k says. Short rows, large k and elements of
64 bits are left to expand-chlo.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.body_builder import BodyBuilder
from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.formula import Term
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import StructAttr
from hlo2tx8.dialects.layout import as_tensor, is_row_major
from hlo2tx8.dialects.struct_text import parse_struct
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.types import bit_width, is_complex
from hlo2tx8.ir import i64_attr
from hlo2tx8.passes.sorting.sort_key import KEY_BITS, element_of_key, ordered_key

MOST_FOUND = 64
"""Elements that are found one after the other; more are sorted for."""
LEAST_SHARE = 64
"""Elements of a row for each of them; in shorter rows a sort takes less time."""
LARGEST = (1 << 63) - 1
TOGETHER = 8
"""Columns that one kernel writes side by side."""


@dataclass(frozen=True)
class ExpandTopKPass(ModulePass):
    """Rewrites chlo.top_k of few among many; see the module docstring."""

    name = "expand-top-k"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"chlo.top_k": _top_k})


def _top_k(op: Operation) -> None:
    source, k = tensor_like(op.operands[0].type), int(attributes_of(op)["k"])
    n, rows = source.shape[-1], prod(source.shape[:-1])
    has_key = 8 <= bit_width(source.dtype) <= KEY_BITS and not is_complex(source.dtype)
    if not has_key or not is_row_major(as_tensor(op.operands[0].type)):
        return
    if not 0 < k <= MOST_FOUND or n < LEAST_SHARE * k or rows == 0:
        return
    e = _Search(op)
    columns = 1 << (isqrt(n // k).bit_length() - 1)
    blocks = -(-n // columns)
    mark = op.prev_op
    flat = e.reshaped(op.operands[0], (rows, n))
    keys = ordered_key(Term(e, flat), is_total=True).value
    keys = e.pad(keys, e.splat(-(1 << 31), e.like(keys, ())), (0, 0), (0, blocks * columns - n), (0, 0))
    keys = e.reshaped(keys if keys is flat else e.fuse_since(mark, [keys])[0], (rows * blocks, columns))
    most = e.reshaped(e.reduced("maximum", keys, -(1 << 31)), (rows, blocks))
    places = e.numbers(e.firsts(e.packed(most, e.iota((rows, blocks), 1)), k))
    first = e.iota((rows, k), 0) * blocks
    found = e.blocks_at(keys, (places + first).value)
    numbers = e.spread(places * columns, (rows, k, columns)) + e.iota((rows, k, columns), 2)
    packed = e.packed(e.reshaped(found, (rows, k * columns)), Term(e, e.reshaped(numbers.value, (rows, k * columns))))
    best = e.firsts(packed, k)
    results = [e.elements(best, as_tensor(op.operands[0].type).element_type), e.numbers(best)]
    shape = (*source.shape[:-1], k)
    e.replace(*(e.reshaped(found.value, shape) for found in results))


class _Search(Expansion):
    """Searches in rows of integers, in front of a top_k."""

    def packed(self, keys: SSAValue, numbers: Term) -> Term:
        """Key and number in one integer: the largest key, and of equal ones the smallest number, is the smallest."""
        return ((Term(self, keys) ^ -1).converted(i64) << KEY_BITS) | numbers.converted(i64)

    def firsts(self, packed: Term, count: int) -> Term:
        """The `count` smallest of each row, in order; they all differ."""
        rows = packed.type.get_shape()[0]
        found = [self.reduced("minimum", packed.value, LARGEST)]
        for _ in range(count - 1):
            last = Term(self, self.emit("broadcast_in_dim", [found[-1]], packed.type, broadcast_dimensions=int_array((0,))))
            rest = (packed > last).choose(packed, packed.number(LARGEST))
            found.append(self.reduced("minimum", rest.value, LARGEST))
        columns = [self.reshaped(value, (rows, 1)) for value in found]
        while len(columns) > 1:
            columns = [self._side_by_side(columns[k : k + TOGETHER]) for k in range(0, len(columns), TOGETHER)]
        return Term(self, columns[0])

    def _side_by_side(self, columns: Sequence[SSAValue]) -> SSAValue:
        """Columns one behind the other, by a kernel of its own: it has a few operands to load, and nothing else."""
        mark = self.op.prev_op
        rows, count = tensor_like(columns[0].type).shape[0], sum(tensor_like(value.type).shape[1] for value in columns)
        whole = self.emit("concatenate", columns, self.like(columns[0], (rows, count)), dimension=i64_attr(1))
        return self.fuse_since(mark, [whole])[0]

    def numbers(self, packed: Term) -> Term:
        """The number in each packed integer."""
        return packed.converted(i32)

    def elements(self, packed: Term, element: Attribute) -> Term:
        """The element of the key in each packed integer."""
        key = packed.call("shift_right_arithmetic", KEY_BITS).converted(i32) ^ -1
        return element_of_key(key, element)

    def blocks_at(self, keys: SSAValue, places: SSAValue) -> SSAValue:
        """Rows of [blocks, columns] at run-time places."""
        count, columns = prod(tensor_like(places.type).shape), tensor_like(keys.type).shape[1]
        text = "#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>"
        properties = {"dimension_numbers": StructAttr(parse_struct(text)), "slice_sizes": int_array((1, columns))}
        return self.emit("gather", [keys, self.reshaped(places, (count, 1))], self.like(keys, (count, columns)), **properties)

    def reduced(self, name: str, value: SSAValue, start: int) -> SSAValue:
        """The maximum or minimum of each row."""
        type_ = as_tensor(value.type)
        element: Attribute = type_.element_type
        body = BodyBuilder([element, element])
        region = body.region(body.emit(name, body.args))
        operands = [value, self.splat(start, self.like(value, ()))]
        over = {"dimensions": int_array((1,))}
        return self.insert(stablehlo.OPS["reduce"](operands, [self.like(value, type_.get_shape()[:1])], over, [region])).results[0]

    def iota(self, shape: tuple[int, ...], dimension: int) -> Term:
        """Numbers of elements along a dimension."""
        return Term(self, self.emit("iota", [], TensorType(i32, shape), iota_dimension=i64_attr(dimension)))

    def spread(self, value: Term, shape: tuple[int, ...]) -> Term:
        """[rows, k] for each column."""
        over = {"broadcast_dimensions": int_array((0, 1))}
        return Term(self, self.emit("broadcast_in_dim", [value.value], self.like(value.value, shape), **over))
