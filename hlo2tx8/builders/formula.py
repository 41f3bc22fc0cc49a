"""Arithmetic on arrays written as formulas: each operator puts the StableHLO op that does it in front of an op."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union

import numpy as np
from xdsl.dialects.builtin import StringAttr, TensorType, i1
from xdsl.ir import Attribute, SSAValue

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.types import numpy_dtype

Operand: TypeAlias = Union["Term", float]


@dataclass(frozen=True)
class Term:
    """An array of floats or integers; numbers in a formula are splats of its type."""

    e: Expansion
    value: SSAValue

    @property
    def type(self) -> TensorType[Attribute]:
        return as_tensor(self.value.type)

    def number(self, value: float) -> "Term":
        """A splat of this array's type."""
        literal = LiteralAttr.from_array(np.array(value, numpy_dtype(self.type.element_type)))
        return Term(self.e, self.e.emit("constant", [], self.type, value=literal))

    def call(self, name: str, *others: Operand) -> "Term":
        """`stablehlo.<name>` of this and other arrays of its type."""
        operands = [self.value, *(self._of(other).value for other in others)]
        return Term(self.e, self.e.emit(name, operands, self.type))

    def _of(self, other: Operand) -> "Term":
        return other if isinstance(other, Term) else self.number(other)

    def __add__(self, other: Operand) -> "Term":
        return self.call("add", other)

    def __sub__(self, other: Operand) -> "Term":
        return self.call("subtract", other)

    def __mul__(self, other: Operand) -> "Term":
        return self.call("multiply", other)

    def __truediv__(self, other: Operand) -> "Term":
        return self.call("divide", other)

    def __xor__(self, other: Operand) -> "Term":
        return self.call("xor", other)

    def __or__(self, other: Operand) -> "Term":
        return self.call("or", other)

    def __and__(self, other: Operand) -> "Term":
        return self.call("and", other)

    def __lshift__(self, by: int) -> "Term":
        return self.call("shift_left", by)

    def __rshift__(self, by: int) -> "Term":
        """With zeros from above."""
        return self.call("shift_right_logical", by)

    def converted(self, element: Attribute) -> "Term":
        """The elements in another type."""
        return Term(self.e, self.e.emit("convert", [self.value], TensorType(element, self.type.get_shape(), self.type.encoding)))

    def bitcast(self, element: Attribute) -> "Term":
        """The bits as elements of another type of that width."""
        type_ = TensorType(element, self.type.get_shape(), self.type.encoding)
        return Term(self.e, self.e.emit("bitcast_convert", [self.value], type_))

    def __radd__(self, other: float) -> "Term":
        return self.number(other) + self

    def __rsub__(self, other: float) -> "Term":
        return self.number(other) - self

    def __rmul__(self, other: float) -> "Term":
        return self.number(other) * self

    def __rtruediv__(self, other: float) -> "Term":
        return self.number(other) / self

    def __neg__(self) -> "Term":
        return self.call("negate")

    def __abs__(self) -> "Term":
        return self.call("abs")

    def compare(self, direction: str, other: Operand) -> "Pred":
        """this EQ, LT, ... other."""
        operands, result = [self.value, self._of(other).value], TensorType(i1, self.type.get_shape(), self.type.encoding)
        new = stablehlo.OPS["compare"](operands, [result], {"comparison_direction": StringAttr(direction)})
        return Pred(self.e, self.e.insert(new).results[0])

    def __lt__(self, other: Operand) -> "Pred":
        return self.compare("LT", other)

    def __gt__(self, other: Operand) -> "Pred":
        return self.compare("GT", other)

    def __ge__(self, other: Operand) -> "Pred":
        return self.compare("GE", other)

    def equals(self, other: Operand) -> "Pred":
        return self.compare("EQ", other)

    def differs(self, other: Operand) -> "Pred":
        return self.compare("NE", other)

    def is_nan(self) -> "Pred":
        return self.differs(self)

    def is_infinite(self) -> "Pred":
        return abs(self).equals(float("inf"))

    def with_sign_of(self, other: "Term") -> "Term":
        """|this|, negative where the other is, -0 included."""
        size = abs(self)
        negative = (other < 0) | (other.equals(0) & ((1 / other) < 0))
        return negative.choose(-size, size)


@dataclass(frozen=True)
class Pred:
    """An array of truth values."""

    e: Expansion
    value: SSAValue

    def _call(self, name: str, operands: Sequence[SSAValue]) -> "Pred":
        return Pred(self.e, self.e.emit(name, operands, as_tensor(self.value.type)))

    def __and__(self, other: "Pred") -> "Pred":
        return self._call("and", [self.value, other.value])

    def __or__(self, other: "Pred") -> "Pred":
        return self._call("or", [self.value, other.value])

    def __invert__(self) -> "Pred":
        return self._call("not", [self.value])

    def choose(self, yes: Operand, no: Operand) -> Term:
        """yes where true, else no; at least one is an array."""
        array = yes if isinstance(yes, Term) else no
        assert isinstance(array, Term)
        a, b = (v if isinstance(v, Term) else array.number(v) for v in (yes, no))
        return Term(self.e, self.e.emit("select", [self.value, a.value, b.value], a.type))
