"""Dots and convolutions as sums of products: the same of operands in i8, sums of one operand, and where those go in the result."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from xdsl.dialects.builtin import TensorType, i8, i32
from xdsl.ir import Attribute, SSAValue

from hlo2tx8.builders.expansion import Expansion, dot_numbers, int_array
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops import convolution
from hlo2tx8.partitioner.contraction import dot_dimensions

Dims = tuple[int, ...]


class IntegerProduct(Protocol):
    """A dot or a convolution."""

    @property
    def num_terms(self) -> int:
        """How many products an element of the result is the sum of."""
        ...

    def product(self, left: SSAValue, right: SSAValue) -> SSAValue:
        """The op on operands in i8, as i32."""
        ...

    def sums(self, side: int, operand: SSAValue) -> SSAValue:
        """The op with ones for the other operand: an i32 for each index of the result that this operand, in i8, knows of."""
        ...

    def spread(self, side: int, sums: SSAValue) -> SSAValue:
        """Such sums in the result's shape."""
        ...


@dataclass
class DotProduct:
    """dot or dot_general; results are [batch, free of left, free of right]."""

    e: Expansion
    batch: tuple[Dims, Dims]
    contracted: tuple[Dims, Dims]

    @staticmethod
    def of(e: Expansion) -> "DotProduct":
        """Of the op in front of which is built."""
        numbers = dot_dimensions(e.op)
        return DotProduct(e, numbers[:2], numbers[2:])

    @property
    def num_terms(self) -> int:
        return prod(_shape(self.e.op.operands[0])[d] for d in self.contracted[0])

    def product(self, left: SSAValue, right: SSAValue) -> SSAValue:
        return self._dot(left, right, (*self.batch, *self.contracted), _shape(self.e.op.results[0]))

    def sums(self, side: int, operand: SSAValue) -> SSAValue:
        shape, batch, over = _shape(operand), self.batch[side], self.contracted[side]
        sizes = [shape[d] for d in (*batch, *over)]
        ones = self.e.splat(1, TensorType(i8, sizes))
        own = (range(len(batch)), batch, range(len(batch), len(sizes)), over)
        return self._dot(ones, operand, own, [*(shape[d] for d in batch), *(shape[d] for d in self._free(side))])

    def spread(self, side: int, sums: SSAValue) -> SSAValue:
        rank, num_batch = len(_shape(sums)), len(self.batch[0])
        first = num_batch + (len(self._free(0)) if side else 0)
        return _broadcast(self.e, sums, [*range(num_batch), *range(first, first + rank - num_batch)], _shape(self.e.op.results[0]))

    def factors(self, operands: Sequence[SSAValue]) -> tuple[range, list[SSAValue]]:
        """The operands as [batch, free of left, contracted, free of right], and which dimensions of that are contracted."""
        free, batch = [self._free(side) for side in (0, 1)], self.batch
        first = len(batch[0]) + len(free[0])
        over = range(first, first + len(self.contracted[0]))
        own = (range(len(batch[0]), first), range(over.stop, over.stop + len(free[1])))
        left, right = (_shape(value) for value in operands)
        shape = [*(left[d] for d in (*batch[0], *free[0], *self.contracted[0])), *(right[d] for d in free[1])]
        found: list[SSAValue] = []
        for side, value in enumerate(operands):
            order = [*batch[side], *free[side], *self.contracted[side]]
            places = dict(zip(order, [*range(len(batch[0])), *own[side], *over], strict=True))
            type_ = self.e.like(value, shape)
            spread = int_array([places[d] for d in range(len(_shape(value)))])
            found.append(self.e.emit("broadcast_in_dim", [value], type_, broadcast_dimensions=spread))
        return over, found

    def _free(self, side: int) -> list[int]:
        taken = {*self.batch[side], *self.contracted[side]}
        return [d for d in range(len(_shape(self.e.op.operands[side]))) if d not in taken]

    def _dot(self, left: SSAValue, right: SSAValue, numbers: Sequence[Sequence[int]], shape: Sequence[int]) -> SSAValue:
        return self.e.emit("dot_general", [left, right], TensorType(i32, shape), dot_dimension_numbers=dot_numbers(*numbers))


@dataclass
class ConvolutionProduct:
    """A convolution; one that `is_padded` has the image with what is around its elements and between them."""

    e: Expansion
    is_padded: bool = False

    def __post_init__(self) -> None:
        self.numbers = convolution.numbers_of(attributes_of(self.e.op))

    @property
    def num_terms(self) -> int:
        kernel = _shape(self.e.op.operands[1])
        return prod(kernel) // max(1, kernel[self.numbers.kernel_output_feature_dimension])

    def padded(self, image: SSAValue, fill: SSAValue) -> SSAValue:
        """The image with `fill` where the convolution has zeros, which from now on is padded."""
        window = convolution.window_of(attributes_of(self.e.op), _shape(self.e.op.operands[1]))
        amounts = [[0] * len(_shape(image)) for _ in range(3)]
        for values, given in zip(amounts, (window.low, window.high, window.interior), strict=True):
            for d, value in zip(self.numbers.input_spatial_dimensions, given, strict=True):
                values[d] = value
        self.is_padded = True
        return self.e.pad(image, fill, *amounts)

    def product(self, left: SSAValue, right: SSAValue) -> SSAValue:
        return self._convolution(left, right, _shape(self.e.op.results[0]))

    def sums(self, side: int, operand: SSAValue) -> SSAValue:
        n, kernel = self.numbers, _shape(self.e.op.operands[1])
        if side == 0:
            groups = self._groups()
            sizes, shape = [*kernel], [*_shape(self.e.op.results[0])]
            sizes[n.kernel_output_feature_dimension] = shape[n.output_feature_dimension] = groups
            return self._convolution(operand, self.e.splat(1, TensorType(i8, sizes)), shape)
        over = [d for d in range(len(kernel)) if d != n.kernel_output_feature_dimension]
        ones = self.e.splat(1, TensorType(i8, [kernel[d] for d in over]))
        numbers = dot_numbers([], [], range(len(over)), over)
        type_ = TensorType(i32, [kernel[n.kernel_output_feature_dimension]])
        return self.e.emit("dot_general", [ones, operand], type_, dot_dimension_numbers=numbers)

    def spread(self, side: int, sums: SSAValue) -> SSAValue:
        shape, feature = _shape(self.e.op.results[0]), self.numbers.output_feature_dimension
        if side == 1:
            return _broadcast(self.e, sums, [feature], shape)
        groups = self._groups()
        apart = [*shape[:feature], groups, shape[feature] // groups, *shape[feature + 1 :]]
        spread = _broadcast(self.e, sums, [d + (d > feature) for d in range(len(shape))], apart)
        return self.e.emit("reshape", [spread], TensorType(i32, shape))

    def _groups(self) -> int:
        return int(attributes_of(self.e.op)["feature_group_count"])

    def _convolution(self, image: SSAValue, kernel: SSAValue, shape: Sequence[int]) -> SSAValue:
        properties: dict[str, Attribute] = {k: v for k, v in self.e.op.properties.items() if k != "precision_config"}
        if self.is_padded:
            properties = {k: v for k, v in properties.items() if k not in ("padding", "lhs_dilation")}
        return self.e.emit("convolution", [image, kernel], TensorType(i32, shape), **properties)


def _broadcast(e: Expansion, value: SSAValue, places: Sequence[int], shape: Sequence[int]) -> SSAValue:
    return e.emit("broadcast_in_dim", [value], TensorType(i32, shape), broadcast_dimensions=int_array(places))


def _shape(value: SSAValue) -> Dims:
    return tensor_like(value.type).shape
