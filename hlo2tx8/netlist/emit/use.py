"""An HLO instruction where it stands: its operands, its attributes, and the ops that elementwise instructions become."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Operation

from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.netlist.emit.build import Builder, Value
from hlo2tx8.netlist.emit.operands import Known, Operand, together
from hlo2tx8.netlist.emit.shaping import as_value
from hlo2tx8.netlist.formats import FORMATS


@dataclass(frozen=True)
class Occurrence:
    """An instruction where it stands, with its operands and the format of its result."""

    builder: Builder
    op: Operation
    operands: Sequence[Operand]
    df: str

    @property
    def attributes(self) -> Mapping[str, Any]:
        return attributes_of(self.op)

    @property
    def shape(self) -> tuple[int, ...]:
        return tensor_like(self.op.results[0].type).shape

    @property
    def value(self) -> Value:
        """The first operand, as something that ops read."""
        return as_value(self.builder, self.operands[0])

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
        if FORMATS[self.df].is_integer and (self.df != "Int32" or type not in ("add", "subtract", "multiply", "maximum")):
            raise self.builder.refuse(f"no {type} of {self.df}")
        return self.builder.elementwise(type, together(self.builder, operands), self.df, **attributes)


Rule: TypeAlias = Callable[[Occurrence], Operand]
"""What an instruction becomes."""


def minimum(use: Occurrence, x: Operand, y: Operand) -> Value:
    """The smaller of each two, by the larger of their negatives."""
    minus = use.splat(-1)
    return use.apply("multiply", use.apply("maximum", use.apply("multiply", x, minus), use.apply("multiply", y, minus)), minus)
