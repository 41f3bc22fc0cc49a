"""An HLO instruction where it stands: its operands, its attributes, and the ops that elementwise instructions become."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Operation

from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.netlist.emit.build import Builder, Value
from hlo2tx8.netlist.emit.operands import Known, Operand, together
from hlo2tx8.netlist.emit.shaping import as_value
from hlo2tx8.netlist.formats import FORMATS

OF_WHOLE = ("add", "subtract", "multiply", "maximum", "abs")
"""Op types that make whole numbers of whole numbers."""


@dataclass(frozen=True)
class Occurrence:
    """An instruction where it stands, with its operands, and shape and format of its result, or of a part of what it becomes."""

    builder: Builder
    op: Operation
    operands: Sequence[Operand]
    df: str
    shape: tuple[int, ...]
    is_part: bool = False

    @property
    def attributes(self) -> Mapping[str, Any]:
        return attributes_of(self.op)

    @property
    def value(self) -> Value:
        """The first operand, as something that ops read, in the result's format."""
        return as_value(self.builder, self.number(self.operands[0]))

    def of(self, shape: Sequence[int], df: str) -> "Occurrence":
        """For a part of what the instruction becomes, of another shape or format."""
        return replace(self, shape=tuple(shape), df=df, is_part=True)

    def kind(self, number: int) -> str:
        """Of an operand's element type, as numpy has it."""
        return tensor_like(self.op.operands[number].type).dtype.kind

    def number(self, operand: Operand) -> Operand:
        """In the result's format; what is true is 1, and else 0."""
        if isinstance(operand, Value):
            return operand if FORMATS[self.df].is_integer else self.builder.as_float(operand, self.df)
        if operand.df == self.df:
            return operand
        is_float = self.df and not FORMATS[self.df].is_integer
        if operand.array.dtype.kind in "iu" and is_float and operand.array.size:
            most = max(abs(int(operand.array.max())), abs(int(operand.array.min())))
            if most > self.builder.limit(self.df):
                raise self.builder.refuse(f"{self.df} has no whole numbers as large as {most}")
        return operand.as_float(self.df)

    def scalar(self, number: int) -> float:
        """An operand that is a known scalar."""
        operand = self.operands[number]
        if not isinstance(operand, Known) or operand.array.size != 1:
            raise self.builder.refuse(f"operand {number} is no constant")
        return float(operand.array.reshape(-1)[0])

    def splat(self, number: float) -> Known:
        """A number as an array of the result's shape."""
        return Known(np.broadcast_to(np.float32(number), self.shape), self.df)

    def apply(self, type: str, *operands: Operand, **attributes: Any) -> Value:
        """An op of arrays of the result's shape."""
        is_whole = not self.is_part and tensor_like(self.op.results[0].type).dtype.kind in "iu"
        if (is_whole or FORMATS[self.df].is_integer) and type not in OF_WHOLE:
            raise self.builder.refuse(f"no {type} of whole numbers")
        if FORMATS[self.df].is_integer and (self.df != "Int32" or type == "abs"):
            raise self.builder.refuse(f"no {type} of {self.df}")
        values = together(self.builder, [self.number(operand) for operand in operands])
        return self.builder.elementwise(type, values, self.df, **attributes)


Rule: TypeAlias = Callable[[Occurrence], Operand]
"""What an instruction becomes."""


def minimum(use: Occurrence, x: Operand, y: Operand) -> Value:
    """The smaller of each two, by the larger of their negatives."""
    minus = use.splat(-1)
    return use.apply("multiply", use.apply("maximum", use.apply("multiply", x, minus), use.apply("multiply", y, minus)), minus)
