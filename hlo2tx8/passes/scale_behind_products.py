"""Pass scale-behind-products: weights that are numbers of few bytes times a factor are multiplied as they are.

    %w = multiply (convert %q), broadcast %s       a factor per column     ⟶    %p = dot_general(%x, convert %q) -> f32
    %y = dot_general(%x, %w)                                                     %y = convert (multiply %p, broadcast %s)

    %w = multiply (convert %q), broadcast %s       one per row             ⟶    %z = multiply %x, broadcast %s
    %y = dot_general(%x, %w)                                                     %y = dot_general(%z, convert %q)

So a product reads quantized weights as they are in memory. Rounding differs from the order that was written, but none is added: the
weights, which were rounded, are the numbers that they were quantized to. Factors of rows are rounded with the other operand.

`Options(reassociate=False)` leaves the pass out, and every rounding stays where the module has it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import Float16Type, ModuleOp, TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.dialects.vector_instructions import unconverted
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.dot import numbers_of, places_in_result
from hlo2tx8.hlo.types import DType, bit_width, is_float, is_integer
from hlo2tx8.notes import add_notes
from hlo2tx8.partitioner.equal_ops import erase_unread_of_functions
from hlo2tx8.partitioner.instruction import shape_of, tensor_type
from hlo2tx8.passes.integers.exact_floats import exact_number, in_type
from hlo2tx8.passes.integers.factors import kind_of

_SINGLE: DType = np.dtype(np.float32)
EXACT_BITS = 8
"""Of integers that are the same numbers in every float type that is multiplied."""


@dataclass(frozen=True)
class ScaleBehindProductsPass(ModulePass):
    """Multiplies by factors of weights behind products, or before; see the module docstring."""

    name = "scale-behind-products"

    explain: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        notes: list[str] = []
        for dot in ops_named(op, ("stablehlo.dot_general",)):
            for side in (0, 1):
                if (halved := _halved(dot.operands[side])) is not None and is_float(kind_of(dot.results[0])):
                    dot = _halve_behind(dot, halved)
                    notes.append("dot_general: reassociated, a power of two by which bits of bytes are multiplied comes behind it")
                if (weights := _QuantizedWeights.of(dot, side)) is not None and (where := weights.multiply_apart()):
                    notes.append(f"dot_general multiplies weights as they were quantized: reassociated, their factors {where}")
                    break
        if notes:
            erase_unread_of_functions(op)
        if self.explain:
            add_notes(op, notes)


@dataclass(frozen=True)
class _QuantizedWeights:
    """Operand `side` of a dot: `numbers` of few bytes times `factors`, whose dimensions are those dimensions of the operand."""

    dot: Operation
    side: int
    numbers: SSAValue
    factors: SSAValue
    dimensions: tuple[int, ...]
    made: Callable[[Expansion], SSAValue] | None = None
    """Makes the numbers in the type in which they are multiplied, if they are differences of integers."""

    @staticmethod
    def of(dot: Operation, side: int) -> "_QuantizedWeights | None":
        """The weights that a dot has as this operand, and nobody else reads."""
        value = dot.operands[side]
        product = unconverted(value).owner
        if not isinstance(product, Operation) or product.name != "stablehlo.multiply" or not is_float(kind_of(value)):
            return None
        if not (value.has_one_use() and product.results[0].has_one_use()):
            return None
        for number in (0, 1):
            wide, spread = product.operands[number], unconverted(product.operands[1 - number])
            broadcast = spread.owner
            if not isinstance(broadcast, Operation) or broadcast.name != "stablehlo.broadcast_in_dim" or not wide.has_one_use():
                continue
            made, dims = None, tuple(attributes_of(broadcast)["broadcast_dimensions"])
            if not _is_exact(numbers := unconverted(wide), value):
                made = in_type(wide, tensor_type(value).element_type) if _is_of_bytes(wide) else None
                if made is None:
                    continue
            return _QuantizedWeights(dot, side, numbers, broadcast.operands[0], dims, made)
        return None

    def multiply_apart(self) -> str:
        """Replaces the dot by one of the numbers, if that can be; says what its factors do then, "" if nothing."""
        numbers = numbers_of(attributes_of(self.dot))
        batch, added, shape = numbers[self.side], numbers[2 + self.side], shape_of(self.factors)
        wide = {own for own, size in zip(self.dimensions, shape, strict=True) if size > 1}
        e, type_, other = Expansion(self.dot), tensor_type(self.dot.results[0]), self.dot.operands[1 - self.side]
        if not wide & set(added):
            result, ranks = TensorType(f32, type_.get_shape()), [len(shape_of(value)) for value in self.dot.operands]
            factors = self._spread(e, result, places_in_result(attributes_of(self.dot), ranks, self.side))
            scaled = e.emit("multiply", [self._product(e, other, result), factors], result)
            e.replace(e.converted(scaled, type_.element_type))
            return "come behind it"
        if wide <= {*added, *batch} and prod(shape_of(other)) < prod(shape_of(self.numbers)):
            places = dict(zip((*batch, *added), (*numbers[1 - self.side], *numbers[3 - self.side]), strict=True))
            of_rows = TensorType(f32, shape_of(other))
            scaled = e.emit("multiply", [e.converted(other, f32), self._spread(e, of_rows, places)], of_rows)
            e.replace(self._product(e, e.converted(scaled, tensor_type(other).element_type), type_))
            return "are the other operand's"
        return ""

    def _product(self, e: Expansion, other: SSAValue, type_: TensorType[Attribute]) -> SSAValue:
        """That of the numbers and the other operand."""
        operands = [other, other]
        element = tensor_type(self.dot.operands[self.side]).element_type
        operands[self.side] = self.made(e) if self.made else e.converted(self.numbers, element)
        return e.same(self.dot, operands, type_)

    def _spread(self, e: Expansion, type_: TensorType[Attribute], places: dict[int, int]) -> SSAValue:
        """The factors as large as a tensor in which dimensions of the operand have these places."""
        kept = [(size, dim) for size, dim in zip(shape_of(self.factors), self.dimensions, strict=True) if size > 1]
        factors = e.reshaped(e.converted(self.factors, f32), [size for size, _ in kept])
        order = sorted(range(len(kept)), key=lambda number: places[kept[number][1]])
        dims = [places[kept[number][1]] for number in order]
        return e.emit("broadcast_in_dim", [e.transpose(factors, order)], type_, broadcast_dimensions=int_array(dims))


def _halved(value: SSAValue) -> Operation | None:
    """The product with a power of two that weights made of bytes are, times other factors, maybe in another shape. Not of f16,
    whose range they may leave without it."""
    if isinstance(tensor_type(value).element_type, Float16Type):
        return None
    while isinstance(op := value.owner, Operation) and value.has_one_use():
        if op.name == "stablehlo.multiply":
            scalar = scalar_of(op.operands[1])
            if scalar is not None:
                return op if np.frexp(float(scalar))[0] == 0.5 and _is_of_bytes(op.operands[0]) else None
        elif op.name != "stablehlo.reshape":
            return None
        value = op.operands[0]
    return None


def _is_of_bytes(value: SSAValue) -> bool:
    """Is it an integer, or the difference of two?"""
    number = exact_number(value, kind_of(value))
    return number is not None and number.build is not None


def _halve_behind(dot: Operation, halved: Operation) -> Operation:
    """Multiplies a product by what its weights are multiplied by; sums of f32 are as exact, if none is too large or too small."""
    e, type_ = Expansion(dot), tensor_type(dot.results[0])
    factor = scalar_of(halved.operands[1])
    assert factor is not None
    Rewriter.replace_op(halved, [], [halved.operands[0]])
    result = TensorType(f32, type_.get_shape())
    product = e.same(dot, dot.operands, result)
    e.replace(e.converted(e.emit("multiply", [product, e.splat(float(factor), result)], result), type_.element_type))
    new = product.owner
    assert isinstance(new, Operation)
    return new


def _is_exact(numbers: SSAValue, multiplied: SSAValue) -> bool:
    """Are numbers of fewer bytes the same in the type in which they are multiplied?"""
    own, wanted = kind_of(numbers), kind_of(multiplied)
    if is_integer(own):
        return bit_width(own) <= EXACT_BITS
    return is_float(own) and bit_width(own) < bit_width(wanted) and wanted == _SINGLE
