"""What a turn of a reduction's loop does to its accumulators, as scalar IR.

    reduce, scan  accumulators start at the initial values; a turn puts them and the inputs' elements through the combiner
    dot_general   the accumulator starts at 0; a turn adds the product of the two elements (pred: or of and)

A sum of floats narrower than f32 is kept in f32 and rounded once, behind the loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.dialects.xla import ElementwiseOp
from hlo2tx8.emitters.scalar import inline_body, location, scalar_constant, scalar_op_named
from hlo2tx8.hlo import Kind, numpy_dtype
from hlo2tx8.hlo.accumulation import joined_types, only_adds
from hlo2tx8.partitioner.instruction import kind_of, tensor_type


@dataclass(frozen=True)
class Accumulation:
    """The arithmetic of a reduction; each method adds ops to a block."""

    op: Operation
    loc: dict[str, Attribute] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "loc", location(self.op))

    @property
    def is_dot(self) -> bool:
        return kind_of(self.op) is Kind.DOT

    @property
    def types(self) -> list[Attribute]:
        """The accumulators' types."""
        return joined_types(self.op)

    def start(self, initial: Sequence[SSAValue], block: Block) -> list[SSAValue]:
        """The accumulators before the first turn, from the elements of the initial values."""
        if not self.is_dot:
            return [self._convert(value, type_, block) for value, type_ in zip(initial, self.types, strict=True)]
        (type_,) = self.types
        return [_add(block, scalar_constant(np.zeros((), numpy_dtype(type_)), type_))]

    def turn(self, accumulators: Sequence[SSAValue], elements: Sequence[SSAValue], block: Block) -> list[SSAValue]:
        """The accumulators after a turn that reads `elements`."""
        if self.is_dot:
            return self._add_product(accumulators[0], elements, block)
        return self.join(accumulators, self.widened(elements, block), block)

    def widened(self, elements: Sequence[SSAValue], block: Block) -> list[SSAValue]:
        """Elements that are read by a reduce, in the types of the accumulators."""
        return [self._convert(value, type_, block) for value, type_ in zip(elements, self.types, strict=True)]

    def join(self, first: Sequence[SSAValue], second: Sequence[SSAValue], block: Block) -> list[SSAValue]:
        """The combiner of a reduce on values of the accumulators' types."""
        if len(self.op.results) == 1 and only_adds(self.op.regions[0].block):
            return [self._named("add", [*first, *second], self.types[0], block)]
        return inline_body(self.op.regions[0].block, [*first, *second], block)

    def finish(self, accumulators: Sequence[SSAValue], block: Block) -> list[SSAValue]:
        """The results' elements."""
        types = [tensor_type(result).element_type for result in self.op.results]
        return [self._convert(value, type_, block) for value, type_ in zip(accumulators, types, strict=True)]

    def _add_product(self, accumulator: SSAValue, elements: Sequence[SSAValue], block: Block) -> list[SSAValue]:
        (type_,) = self.types
        multiply, add = ("and", "or") if type_ == IntegerType(1) else ("multiply", "add")
        factors = [self._convert(element, type_, block) for element in elements]
        product = self._named(multiply, factors, type_, block)
        return [self._named(add, [accumulator, product], type_, block)]

    def _named(self, name: str, operands: Sequence[SSAValue], type_: Attribute, block: Block) -> SSAValue:
        return _add(block, scalar_op_named(f"stablehlo.{name}", operands, type_, {}, self.loc))

    def _convert(self, value: SSAValue, type_: Attribute, block: Block) -> SSAValue:
        if value.type == type_:
            return value
        return _add(block, ElementwiseOp("stablehlo.convert", [value], type_, self.loc))


def _add(block: Block, op: Operation) -> SSAValue:
    block.add_op(op)
    return op.results[0]
