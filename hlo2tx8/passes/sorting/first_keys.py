"""The few elements of a line with the largest keys, in order: of equal keys the one with the smallest number.

One after the other: key and number are an integer of 64 bits, and the smallest is taken of those behind the one before. The kernel
core looks at all elements each time, so this is for very few.

By ranks, where lines are few and short: key and number are words of f32; each is compared with all others, and as many as are in
front of it is its place. These are operations on vectors of all tiles.

By a sort of the words, see `sort_words`, where there are too many lines for that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from xdsl.dialects.builtin import TensorType, f32, i32
from xdsl.ir import Attribute, SSAValue

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.formula import Pred, Term
from hlo2tx8.device.rates import Rates
from hlo2tx8.hlo.lookup import tensor_like
from hlo2tx8.ir import i64_attr
from hlo2tx8.passes.sorting.key_words import KeyWords
from hlo2tx8.passes.sorting.sort_key import KEY_BITS, with_number
from hlo2tx8.passes.sorting.sort_words import WordNetwork
from hlo2tx8.passes.statistics.parts import reduced

MOST_ONE_BY_ONE = 8
"""Elements to be found, of lines that could be ranked."""
MOST_OF_MANY = 16
"""Elements to be found one by one where there are too many lines, or elements, to be ranked."""
MOST_RANKED = 1 << 18
"""Pairs of elements of all lines that are compared; a sort takes less time for more."""
LARGEST = (1 << 63) - 1
TOGETHER = 8
"""Columns that one kernel writes side by side."""


@dataclass(frozen=True)
class Keyed:
    """Elements [lines, n] by keys and numbers, both i32; keys differ in `key_bits` bits, sign included."""

    key: Term
    number: Term
    key_bits: int
    number_bits: int

    def with_values(self, key: Term, number: Term) -> "Keyed":
        """Other elements of such keys and numbers."""
        return replace(self, key=key, number=number)


@dataclass(frozen=True)
class FirstKeys:
    """Finds them, in front of an op."""

    e: Expansion
    rates: Rates

    def of(self, elements: Keyed, count: int) -> Keyed:
        """The `count` first ones of each line, [lines, count]."""
        lines, n = elements.key.type.get_shape()
        if count > MOST_ONE_BY_ONE and lines * n * n <= MOST_RANKED:
            return self._ranked(elements, count)
        return self._one_by_one(elements, count) if count <= MOST_OF_MANY else self._sorted(elements, count)

    def reduced(self, name: str, value: SSAValue, start: float) -> SSAValue:
        """The maximum, minimum or sum along the last dimension."""
        scalar = self.e.splat(start, self.e.like(value, ()))
        return reduced(self.e, value, (len(tensor_like(value.type).shape) - 1,), scalar, name)

    def spread(self, value: SSAValue, shape: tuple[int, ...], dim: int) -> Term:
        """[lines, n] along the first dimension and this one of a shape."""
        over = {"broadcast_dimensions": int_array((0, dim))}
        return Term(self.e, self.e.emit("broadcast_in_dim", [value], self.e.like(value, shape), **over))

    def numbers(self, shape: tuple[int, ...], dim: int, element: Attribute = i32) -> Term:
        """Numbers of elements along a dimension."""
        return Term(self.e, self.e.emit("iota", [], TensorType(element, shape), iota_dimension=i64_attr(dim)))

    def _one_by_one(self, elements: Keyed, count: int) -> Keyed:
        e, lines = self.e, elements.key.type.get_shape()[0]
        packed = with_number(elements.key ^ -1, elements.number)
        found = [self.reduced("minimum", packed.value, LARGEST)]
        for _ in range(count - 1):
            last = Term(e, e.emit("broadcast_in_dim", [found[-1]], packed.type, broadcast_dimensions=int_array((0,))))
            rest = (packed > last).choose(packed, packed.number(LARGEST))
            found.append(self.reduced("minimum", rest.value, LARGEST))
        columns = [e.reshaped(value, (lines, 1)) for value in found]
        while len(columns) > 1:
            columns = [self._side_by_side(columns[k : k + TOGETHER]) for k in range(0, len(columns), TOGETHER)]
        best = Term(e, columns[0])
        return elements.with_values(best.call("shift_right_arithmetic", KEY_BITS).converted(i32) ^ -1, best.converted(i32))

    def _side_by_side(self, columns: Sequence[SSAValue]) -> SSAValue:
        """Columns one behind the other, by a kernel of its own: it has a few operands to load, and nothing else."""
        mark = self.e.op.prev_op
        lines, count = tensor_like(columns[0].type).shape[0], sum(tensor_like(value.type).shape[1] for value in columns)
        whole = self.e.emit("concatenate", columns, self.e.like(columns[0], (lines, count)), dimension=i64_attr(1))
        return self.e.fuse_since(mark, [whole])[0]

    def _ranked(self, elements: Keyed, count: int) -> Keyed:
        e, mark = self.e, self.e.op.prev_op
        lines, n = elements.key.type.get_shape()
        form = KeyWords(elements.key_bits, elements.number_bits)
        made = form.of(elements.key ^ -1, elements.number)
        words = [Term(e, value) for value in e.fuse_since(mark, [word.value for word in made])]
        mark, pairs = e.op.prev_op, (lines, n, n)
        is_before = self._is_before(words, pairs)
        one = Term(e, e.splat(1.0, e.like(words[0].value, pairs)))
        rank = self.reduced("add", is_before.choose(one, 0.0).value, 0.0)
        rank = e.fuse_since(mark, [rank])[0]
        mark, picks = e.op.prev_op, (lines, count, n)
        is_hit = self.spread(rank, picks, 2).equals(self.numbers(picks, 1, f32))
        found = [self._picked(is_hit, word.value, picks) for word in words]
        return self._unpacked(elements, form, [Term(e, value) for value in e.fuse_since(mark, found)])

    def _is_before(self, words: Sequence[Term], shape: tuple[int, ...]) -> Pred:
        """Is the last dimension's element in front of that of the one before it?"""
        own, other = ([self.spread(word.value, shape, d) for word in words] for d in (1, 2))
        is_before = other[-1] < own[-1]
        for mine, others in zip(own[-2::-1], other[-2::-1], strict=True):
            is_before = (others < mine) | (others.equals(mine) & is_before)
        return is_before

    def _picked(self, is_hit: Pred, word: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        """The word that is hit, of each line and place."""
        values = self.spread(word, shape, 2)
        return self.reduced("maximum", is_hit.choose(values, -inf).value, -inf)

    def _sorted(self, elements: Keyed, count: int) -> Keyed:
        e, mark = self.e, self.e.op.prev_op
        lines, n = elements.key.type.get_shape()
        form = KeyWords(elements.key_bits, elements.number_bits + 1)
        network = WordNetwork(e, (lines, n, 1), form.num_words, self.rates)
        plan = network.plan()
        assert plan is not None, f"lines of {n} elements are short"
        shape = network.shape(plan)
        high = (shape[0] - lines, shape[1] - n)
        key, known = (
            Term(e, e.pad(own.value, e.splat(fill, e.like(own.value, ())), (0, 0), high, (0, 0)))
            for own, fill in ((elements.key, -(1 << (elements.key_bits - 1))), (elements.number, -1))
        )
        number = (known < 0).choose(self.numbers(shape[:2], 1) | (1 << elements.number_bits), known)
        words = [Term(e, e.reshaped(word.value, shape)) for word in form.of(key ^ -1, number)]
        found = [e.reshaped(word.value, (lines, n)) for word in network.sorted(plan, words, mark)]
        return self._unpacked(elements, form, [Term(e, e.sliced(value, 1, 0, count)) for value in found])

    def _unpacked(self, elements: Keyed, form: KeyWords, words: Sequence[Term]) -> Keyed:
        return elements.with_values(form.key(words) ^ -1, form.number(words))
