"""Pass divide-behind-products: the product with a softmax divides by its sums afterwards.

Before:                                                          After:
    %e = exponential(%x - max %x)       [rows, 512]                  %e = exponential(%x - max %x)
    %t = reduce add %e over 1                                        %t = reduce add %e over 1
    %w = divide %e, broadcast %t                                     %p = dot_general(%e, %v) -> f32
    %r = dot_general(%w, %v)            [rows, 64]                   %r = convert(divide %p, broadcast convert %t)

Fewer elements are divided. Rounding differs from the order that was written, but none is added: the weights, which were rounded,
are not any more, and the sum is rounded as before. That the exponents have the maximum taken off bounds the products.

A product of f32 at DEFAULT precision drops the bits of its factors that TF32 has not. Exponentials that only such a product and
their own sum need are rounded to those bits (`reduce_precision`): to the nearest, not toward zero, and the sum is that of what is
multiplied. The vector engine computes such an exponential in half the time, and the matrix engine can add them up.

`Options(reassociate=False)` leaves the pass out, and every rounding stays where the module has it.
"""

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, IntegerAttr, ModuleOp, TensorType, f32, i32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.dialects.vector_instructions import TF32_BITS, unconverted
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.dot import numbers_of, places_in_result
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.notes import add_notes
from hlo2tx8.partitioner.instruction import shape_of, tensor_type
from hlo2tx8.partitioner.reduction_order import joins_apart
from hlo2tx8.passes.statistics.behind_rows import statistic

VECTORS = {Float32Type: 4, BFloat16Type: 2, Float16Type: 2}
"""Elements that the vector engine divides, and their bytes."""


@dataclass(frozen=True)
class DivideBehindProductsPass(ModulePass):
    """Divides behind products where that is less work; see the module docstring."""

    name = "divide-behind-products"

    explain: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        notes: list[str] = []
        for dot in ops_named(op, ("stablehlo.dot_general",)):
            for side in (0, 1):
                weights = _Weights.of(dot, side)
                if weights is not None:
                    how = "rounded to the bits of TF32" if weights.are_of_tf32() else "not rounded"
                    weights.divide_behind()
                    notes.append(f"dot_general is divided by a softmax's sums: reassociated, its weights are {how}")
                    break
        if self.explain:
            add_notes(op, notes)


@dataclass(frozen=True)
class _Weights:
    """A softmax over dimension `joined` that is operand `side` of a dot alone: its `numerators`, and the `total` of each row."""

    dot: Operation
    side: int
    joined: int
    numerators: SSAValue
    total: Operation

    @staticmethod
    def of(dot: Operation, side: int) -> "_Weights | None":
        """The weights that a dot has as this operand, if dividing its result is less work."""
        divide, numbers = dot.operands[side].owner, numbers_of(attributes_of(dot))
        contracted = numbers[2 + side]
        if not isinstance(divide, Operation) or divide.name != "stablehlo.divide" or len(contracted) != 1:
            return None
        if len(list(divide.results[0].uses)) != 1 or not _is_less_work(dot, side):
            return None
        numerators, (joined,) = divide.operands[0], contracted
        total = statistic(divide.operands[1], (joined,))
        exponential = numerators.owner
        if total is None or joins_apart(total, 0) != "add" or unconverted(total.operands[0]) is not numerators:
            return None
        if not isinstance(exponential, Operation) or exponential.name != "stablehlo.exponential":
            return None
        return _Weights(dot, side, joined, numerators, total) if is_from_maximum(exponential.operands[0], joined) else None

    def are_of_tf32(self) -> bool:
        """Does nobody need more bits of the numerators than TF32 has?"""
        is_multiplied_so = isinstance(tensor_type(self.numerators).element_type, Float32Type) and num_parts(self.dot) == 1
        readers = {use.operation for use in self.numerators.uses}
        return is_multiplied_so and readers == {self.dot.operands[self.side].owner, self.total}

    def divide_behind(self) -> None:
        """Replace the dot."""
        e, (result,) = Expansion(self.dot), self.dot.results
        own, type_ = tensor_type(self.numerators).element_type, tensor_type(result)
        operands = list(self.dot.operands)
        operands[self.side] = self._rounded() if self.are_of_tf32() else self.numerators
        wide = TensorType(f32, type_.get_shape())
        total = e.converted(e.converted(self.total.results[0], own), f32)
        spread = e.emit("broadcast_in_dim", [total], wide, broadcast_dimensions=int_array(self._places()))
        product = e.same(self.dot, operands, wide)
        e.replace(e.converted(e.emit("divide", [product, spread], wide), type_.element_type))

    def _rounded(self) -> SSAValue:
        """The numerators with the bits of TF32, which the sum has from now on too."""
        type_ = tensor_type(self.numerators)
        bits = {name: IntegerAttr(number, i32) for name, number in TF32_BITS.items()}
        rounded = Expansion(self.total).emit("reduce_precision", [self.numerators], type_, **bits)
        self.total.operands[0] = rounded
        return rounded

    def _places(self) -> list[int]:
        """The dimensions of the dot's result that are those of the rows."""
        ranks = [len(shape_of(value)) for value in self.dot.operands]
        places = places_in_result(attributes_of(self.dot), ranks, self.side)
        return [places[dim] for dim in sorted(places)]


def _is_less_work(dot: Operation, side: int) -> bool:
    """Are the elements of the result, in f32 and converted, fewer bytes than the weights?"""
    kinds = [type(tensor_type(value).element_type) for value in (*dot.operands, *dot.results)]
    if len(set(kinds)) != 1 or kinds[0] not in VECTORS:
        return False
    width = VECTORS[kinds[0]]
    passes = 4 if width == 4 else 8
    return prod(shape_of(dot.results[0])) * passes < prod(shape_of(dot.operands[side])) * width


def is_from_maximum(value: SSAValue, joined: int) -> bool:
    """Is a value something minus its maximum over that dimension, so that it is never positive?"""
    subtract = value.owner
    if not isinstance(subtract, Operation) or subtract.name != "stablehlo.subtract":
        return False
    maximum = statistic(subtract.operands[1], (joined,))
    return maximum is not None and joins_apart(maximum, 0) == "maximum" and maximum.operands[0] is subtract.operands[0]
