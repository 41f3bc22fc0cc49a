"""Pass expand-top-k: the few largest of many elements are found block by block, without a sort of all.

    %v, %i = chlo.top_k %x, k    ⟶    %most   = the largest key of each block of columns of %x, [rows, blocks]
                                      ...     = the largest of blocks of these, until there are few
                                      %places = the k largest of the last ones
                                      %found  = the blocks of what they were the largest of; of these the k largest
                                      ...     = and so on, at last of %x with each element's number

The k largest lie in the k blocks whose largest elements are largest: any other block has k elements before all of its own. A key is
an integer in the order of the elements. Of equal elements the first comes first, and floats are in the total order, as chlo.top_k
says. Short rows, large k and elements of 64 bits are left to expand-chlo.
"""

from dataclasses import dataclass
from math import isqrt, prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.formula import Term
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.hlo import StructAttr
from hlo2tx8.dialects.layout import as_tensor, is_row_major
from hlo2tx8.dialects.struct_text import parse_struct
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.types import bit_width, is_complex
from hlo2tx8.ir import i64_attr
from hlo2tx8.passes.sorting.first_keys import FirstKeys, Keyed
from hlo2tx8.passes.sorting.sort_key import KEY_BITS, element_of_own_key, own_key, own_key_bits

MOST_FOUND = 128
"""Elements that are found; more are sorted for."""
LEAST_SHARE = 48
"""Elements of a row for each of them; in shorter rows a sort takes less time."""
MOST_ELEMENTS = 1 << 29
"""Of all rows: more have no number."""
CANDIDATES = 256
"""Elements of a row, in the blocks that are looked at, that are still fast to search."""
LEAST_COLUMNS = 4
MOST_SEARCHED = 4096
"""Elements of a row that are searched as often as elements are found, before another step pays."""


@dataclass(frozen=True)
class ExpandTopKPass(ModulePass):
    """Rewrites chlo.top_k of few among many; see the module docstring. chip: file of the description, "" for the built-in one."""

    name = "expand-top-k"
    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rates = Rates.of(load_chip(self.chip))
        rewrite_named(op, {"chlo.top_k": lambda top_k: _top_k(top_k, rates)})


def _top_k(op: Operation, rates: Rates) -> None:
    source, k = tensor_like(op.operands[0].type), int(attributes_of(op)["k"])
    n, rows = source.shape[-1], prod(source.shape[:-1])
    has_key = 8 <= bit_width(source.dtype) <= KEY_BITS and not is_complex(source.dtype)
    if not has_key or not is_row_major(as_tensor(op.operands[0].type)):
        return
    if not 0 < k <= MOST_FOUND or n < LEAST_SHARE * k or rows == 0 or rows * n >= MOST_ELEMENTS:
        return
    e = Expansion(op)
    found = _Blocks(e, FirstKeys(e, rates), rows, k, own_key_bits(source.dtype)).found(e.reshaped(op.operands[0], (rows, n)))
    results = (element_of_own_key(found.key, as_tensor(op.operands[0].type).element_type), found.number)
    shape = (*source.shape[:-1], k)
    e.replace(*(e.reshaped(value.value, shape) for value in results))


@dataclass(frozen=True)
class _Blocks:
    """The k largest elements of each row, in front of a top_k."""

    e: Expansion
    first: FirstKeys
    rows: int
    k: int
    key_bits: int

    def found(self, values: SSAValue) -> Keyed:
        """Their keys and numbers, in order, [rows, k]; of values [rows, n]."""
        n = tensor_like(values.type).shape[1]
        if n <= max(CANDIDATES, MOST_SEARCHED // self.k, LEAST_COLUMNS * self.k):
            return self.first.of(self._keyed(_key_of(Term(self.e, values)), self.first.numbers((self.rows, n), 1), values), self.k)
        columns = self._columns_of_block(n)
        places = self.found(self._largest(values, columns)).number * columns
        return self.first.of(self._elements_at(places, values, columns), self.k)

    def _columns_of_block(self, n: int) -> int:
        """As many as make the elements of k blocks fast to search, or a fourth more or less, if that divides the row."""
        wanted = 1 << (max(LEAST_COLUMNS, min(CANDIDATES // self.k, isqrt(n // self.k))).bit_length() - 1)
        near = range(wanted * 3 // 4, wanted * 5 // 4 + 1)
        return next((columns for columns in reversed(near) if n % columns == 0), wanted)

    def _largest(self, values: SSAValue, columns: int) -> SSAValue:
        """The largest key of each block, [rows, blocks]; the last block may have fewer columns."""
        e, (rows, n) = self.e, tensor_like(values.type).shape
        blocks, rest = divmod(n, columns)
        whole = self._largest_of(e.sliced(values, 1, 0, n - rest), (rows, blocks, columns))
        if rest == 0:
            return whole
        last = self._largest_of(e.sliced(values, 1, n - rest, n), (rows, 1, rest))
        mark = e.op.prev_op
        both = e.emit("concatenate", [whole, last], e.like(whole, (rows, blocks + 1)), dimension=i64_attr(1))
        return e.fuse_since(mark, [both])[0]

    def _largest_of(self, values: SSAValue, shape: tuple[int, int, int]) -> SSAValue:
        """The largest keys along the last dimension, i32."""
        key = own_key(Term(self.e, self.e.reshaped(values, shape)))
        lowest = -(1 << (bit_width(tensor_like(key.value.type).dtype) - 1))
        return Term(self.e, self.first.reduced("maximum", key.value, lowest)).converted(i32).value

    def _elements_at(self, places: Term, values: SSAValue, columns: int) -> Keyed:
        """The blocks whose first columns are at `places` [rows, k], [rows, k * columns]."""
        e, (rows, n), shape = self.e, tensor_like(values.type).shape, (self.rows, self.k, columns)
        starts, is_short = places, n % columns != 0
        if is_short:
            starts = (places > n - columns).choose(n - columns, places)
        row = self.first.numbers((rows, self.k), 0)
        found = self._windows(e.reshaped(values, (rows * n,)), (row * n + starts).value, columns)
        number = self.first.spread(starts.value, shape, 1) + self.first.numbers(shape, 2)
        key = _key_of(Term(e, e.reshaped(found, shape)))
        if is_short:
            key = (number < self.first.spread(places.value, shape, 1)).choose(-(1 << (self.key_bits - 1)), key)
        flat = (rows, self.k * columns)
        return self._keyed(Term(e, e.reshaped(key.value, flat)), Term(e, e.reshaped(number.value, flat)), values)

    def _keyed(self, key: Term, number: Term, values: SSAValue) -> Keyed:
        """Elements of the values: as many bits of numbers as those, or the elements, need."""
        most = max(tensor_like(values.type).shape[1], key.type.get_shape()[1])
        return Keyed(key, number, self.key_bits, (most - 1).bit_length())

    def _windows(self, values: SSAValue, starts: SSAValue, columns: int) -> SSAValue:
        """So many neighbours each, at places known at run time."""
        e, count = self.e, prod(tensor_like(starts.type).shape)
        text = "#stablehlo.gather<offset_dims = [1], start_index_map = [0], index_vector_dim = 1>"
        properties = {"dimension_numbers": StructAttr(parse_struct(text)), "slice_sizes": int_array((columns,))}
        return e.emit("gather", [values, e.reshaped(starts, (count, 1))], e.like(values, (count, columns)), **properties)


def _key_of(values: Term) -> Term:
    return own_key(values).converted(i32)
