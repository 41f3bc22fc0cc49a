"""A scatter of a few updates into each line of equal elements, as a choice between what they make and those elements."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import TensorType, f32, i1, i32
from xdsl.ir import SSAValue

from hlo2tx8.builders.expansion import int_array
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.constants import Array
from hlo2tx8.hlo.lookup import tensor_like
from hlo2tx8.ir import i64_attr
from hlo2tx8.passes.updates.build import Updates
from hlo2tx8.schedule.join_lines import INDEX_BYTES

MOST_CHOICES = 4
"""Updates of a line: each is compared with all places of it."""
EXACT_NUMBERS = 1 << 24
"""f32 has all integers up to here; larger ones, and what is no place, stay larger or negative in it."""
PASSES = 3
"""Of vectors of numbers for a choice: to compare, to choose, and to join."""


def choice_cycles(shape: Sequence[int], num_updates: int, rates: Rates) -> float:
    """The estimate of what is computed for choices in lines of that shape; infinite if they are too many. Whoever reads the result
    makes it itself."""
    vectors = prod(shape) * INDEX_BYTES / (rates.vector * rates.tiles)
    return num_updates * PASSES * vectors if num_updates <= MOST_CHOICES else float("inf")


@dataclass
class Choices(Updates):
    """Builds such a choice: which place an element has, and what is at the places of the updates."""

    def among(self, start: Array) -> SSAValue:
        """Elements that are `start`, but for those that have updates, which are joined in order."""
        first, _, behind = self.walk.sizes
        type_ = self.like(self.op.results[0], tensor_like(self.op.results[0].type).shape)
        shape, count = type_.get_shape(), self.walk.num_updates
        lines, columns = range(len(first)), range(len(shape) - len(behind), len(shape))
        index, updates, number = self.places(), self.updates(count), self._numbers(shape)
        index = self.converted(index, as_tensor(number.type).element_type)
        found = self.constant(start, shape)
        for update in range(count):
            place = self._spread(self._picked(self.reshaped(index, (*first, count)), len(first), update), lines, shape)
            if isinstance(updates, SSAValue):
                new = self._picked(self.reshaped(updates, (*first, count, *behind)), len(first), update)
            else:
                new = self.constant(updates, (*first, *behind))
            if update == 0:
                new = self._spread(self._joined(self.constant(start, (*first, *behind)), new), (*lines, *columns), shape)
            else:
                new = self._joined(found, self._spread(new, (*lines, *columns), shape))
            is_there = self.compared("EQ", number, place, TensorType(i1, shape))
            found = self.emit("select", [is_there, new, found], type_)
        return found

    def _numbers(self, shape: Sequence[int]) -> SSAValue:
        """Of each element the number of its place in its line, in f32 where that has them all: the vector engine compares that."""
        first, places, _ = self.walk.sizes
        element = f32 if prod(places) < EXACT_NUMBERS else i32
        if len(places) == 1:
            return self.emit("iota", [], TensorType(element, shape), iota_dimension=i64_attr(len(first)))
        counted = self.emit("iota", [], TensorType(element, (prod(places),)), iota_dimension=i64_attr(0))
        return self._spread(self.reshaped(counted, places), range(len(first), len(first) + len(places)), shape)

    def _joined(self, old: SSAValue, new: SSAValue) -> SSAValue:
        """What the scatter makes of elements and updates."""
        combiner = self.op.regions[0].block.first_op if self.op.regions else None
        return new if combiner is None else self.emit(combiner.name.rpartition(".")[2], [old, new], old.type)

    def _picked(self, value: SSAValue, dim: int, at: int) -> SSAValue:
        """One of what is along a dimension, without that dimension."""
        shape = tensor_like(value.type).shape
        return self.reshaped(self.sliced(value, dim, at, at + 1), (*shape[:dim], *shape[dim + 1 :]))

    def _spread(self, value: SSAValue, dims: Sequence[int], shape: Sequence[int]) -> SSAValue:
        """The value over a larger shape, of which it has these dimensions."""
        return self.emit("broadcast_in_dim", [value], self.like(value, shape), broadcast_dimensions=int_array(list(dims)))
