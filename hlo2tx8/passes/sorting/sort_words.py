"""Sorts by key, with the stages of the network kept in the scratchpad: key and number of an element as words of f32.

    %words   = the key and the element's number, as numbers of f32 in the same order, [before, runs, 1, run, after]
    %sorted  = hlo.sort_words %words along the run, every other run from the largest to the smallest
    for two runs, then four ... :
        %a = hlo.sort_words, bitonic, of every 2^low-th element of them
        %b = hlo.sort_words, bitonic, of 2^low neighbours
    %numbers = the elements' numbers out of the words

How key and number are words: `key_words`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType, i1, i32
from xdsl.ir import Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.formula import Term
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.hlo_lines import SortWordsOp
from hlo2tx8.hlo.lookup import tensor_like
from hlo2tx8.hlo.types import DType, is_float, mantissa_bits
from hlo2tx8.ir import i64_attr
from hlo2tx8.passes.sorting.key_words import NUMBER_BITS, KeyWords
from hlo2tx8.passes.sorting.sort_key import KEY_BITS, SortKey, own_key_bits
from hlo2tx8.schedule.sort_lines import LinePlan, least_low, plan_lines

Shape = tuple[int, ...]
RUNS, PAIRS, RUN = 1, 2, 3
"""Dimensions of the words: runs that are merged, or pairs of them; every so many elements of those; neighbours."""


def width_of_key(dtype: DType) -> int:
    """Bits that the ordered keys of elements of a dtype differ in, sign included; the others, below, are equal in all of them."""
    if is_float(dtype):
        return KEY_BITS - zeros_of_key(dtype)
    return own_key_bits(dtype)


def zeros_of_key(dtype: DType) -> int:
    """Low bits of the key of a float that widening it to f32 leaves alike."""
    return mantissa_bits(np.dtype(np.float32)) - mantissa_bits(dtype) if is_float(dtype) else 0


@dataclass(frozen=True)
class WordSort:
    """Sorts lines [before, n, after] along n by a key."""

    e: Expansion
    key: SortKey
    rows: Shape
    rates: Rates

    @property
    def words(self) -> KeyWords:
        """How keys and numbers are words."""
        return KeyWords(width_of_key(self.key.dtype), (self.rows[1] - 1).bit_length())

    @property
    def network(self) -> "WordNetwork":
        """What sorts the words."""
        return WordNetwork(self.e, self.rows, self.words.num_words, self.rates)

    def plan(self) -> LinePlan | None:
        """How the lines are sorted; None if no plan fits."""
        return self.network.plan()

    def numbers(self, plan: LinePlan) -> Term:
        """The numbers of the elements in the order of their keys, i32 [before, n, after]."""
        mark = self.e.op.prev_op
        return self.words.number(self.network.sorted(plan, self._made(self.network.shape(plan)), mark))

    def _made(self, shape: Shape) -> list[Term]:
        """Key and number of each element as words; those beyond the dimension are behind all."""
        e = self.e
        flat = e.reshaped(self.key.ordered(e).value, self.rows)
        high = tuple(n - m for n, m in zip(shape, self.rows, strict=True))
        zeros = zeros_of_key(self.key.dtype)
        last = ((1 << (width_of_key(self.key.dtype) - 1)) - 1) << zeros
        key = Term(e, e.pad(flat, e.splat(last, e.like(flat, ())), (0, 0, 0), high, (0, 0, 0)))
        number = Term(e, e.emit("iota", [], TensorType(i32, shape), iota_dimension=i64_attr(1)))
        return self.words.of(key.call("shift_right_arithmetic", zeros) if self.words.num_words == 1 else key, number)


@dataclass(frozen=True)
class WordNetwork:
    """Sorts lines [before, n, after] of words along n; the tuples of a line differ."""

    e: Expansion
    rows: Shape
    num_words: int
    rates: Rates

    @property
    def bits(self) -> int:
        return (self.rows[1] - 1).bit_length()

    def plan(self) -> LinePlan | None:
        """How the lines are sorted; None if no plan fits."""
        if self.bits > NUMBER_BITS:
            return None
        return plan_lines(self.rows[0] * self.rows[2], self.bits, self.rows[2], self.num_words, self.rates)

    def sorted(self, plan: LinePlan, words: Sequence[Term], mark: Operation | None) -> list[Term]:
        """The words [before, n, after], with the smallest first, of those of the whole `shape`; what has been built since the mark
        is one kernel, that makes them."""
        e, shape = self.e, self.shape(plan)
        cut = self._cut(shape, plan.run_bits, plan.run_bits)
        values: Sequence[SSAValue] = e.fuse_since(mark, [e.reshaped(word.value, cut) for word in words])
        values = self._sorted(values, RUN, plan.run_bits < plan.bits, is_bitonic=False)
        for bits, low in plan.merges(least_low(shape[2], self.rates)):
            values = [e.reshaped(value, self._cut(shape, bits, low)) for value in values]
            values = self._sorted(values, PAIRS, bits < plan.bits, is_bitonic=True)
            values = self._sorted(values, RUN, bits < plan.bits, is_bitonic=True)
        return [Term(e, self._sliced(e.reshaped(value, shape))) for value in values]

    def shape(self, plan: LinePlan) -> Shape:
        """Lines of 2^bits elements, as many as steps of full lines have."""
        before, _, after = self.rows
        if after > 1:
            least = 1 << least_low(1, self.rates)
            return (before, 1 << self.bits, -(-after // least) * least if after > least else after)
        share = max(1, -(-before // self.rates.tiles)) if plan.run_bits == plan.bits else 1
        together = 1 << (share - 1).bit_length()
        return (-(-before // together) * together, 1 << self.bits, 1)

    def _cut(self, shape: Shape, bits: int, low: int) -> Shape:
        """Blocks of 2^bits elements as [every 2^low-th, neighbours]."""
        return (shape[0], shape[1] >> bits, 1 << (bits - low), 1 << low, shape[2])

    def _sorted(self, words: Sequence[SSAValue], dimension: int, is_alternating: bool, *, is_bitonic: bool) -> list[SSAValue]:
        """The words sorted along a dimension, by a kernel of its own."""
        if tensor_like(words[0].type).shape[dimension] == 1:
            return list(words)
        alternating = RUNS if is_alternating else -1
        properties = {
            "dimension": i64_attr(dimension),
            "alternating": i64_attr(alternating),
            "is_bitonic": IntegerAttr(is_bitonic, i1),
        }
        mark = self.e.op.prev_op
        new = self.e.insert(SortWordsOp(words, [word.type for word in words], properties))
        return list(self.e.fuse_since(mark, new.results))

    def _sliced(self, value: SSAValue) -> SSAValue:
        """The elements that are none of those beyond the lines."""
        bounds = {"start_indices": (0, 0, 0), "limit_indices": self.rows, "strides": (1, 1, 1)}
        return self.e.emit("slice", [value], self.e.like(value, self.rows), **{k: int_array(v) for k, v in bounds.items()})
