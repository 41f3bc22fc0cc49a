"""Functions of complex numbers expressed by other functions of complex numbers.

power z, w      exp(w log z); 0 for z = 0, 1 where w = 0, too
rsqrt z         1 / sqrt z
atan2 y, x      -i log((x + iy) / sqrt(x² + y²))
"""

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import StringAttr, TensorType, i1
from xdsl.ir import Attribute, Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.types import numpy_dtype


class _Complex(Expansion):
    """Arithmetic on arrays of the type of the op's result."""

    def __call__(self, name: str, *operands: SSAValue) -> SSAValue:
        return self.emit(name, operands, self.type)

    @property
    def type(self) -> TensorType[Attribute]:
        return as_tensor(self.op.results[0].type)

    def number(self, value: complex) -> SSAValue:
        literal = LiteralAttr.from_array(np.array(value, numpy_dtype(self.type.element_type)))
        return self.emit("constant", [], self.type, value=literal)

    def is_zero(self, value: SSAValue) -> SSAValue:
        type_ = TensorType(i1, self.type.get_shape(), self.type.encoding)
        new = stablehlo.OPS["compare"]([value, self.number(0)], [type_], {"comparison_direction": StringAttr("EQ")})
        return self.insert(new).results[0]


def _power(op: Operation) -> None:
    e, (z, w) = _Complex(op), op.operands
    found = e("exponential", e("multiply", w, e("log", z)))
    found = e("select", e.is_zero(z), e.number(0), found)
    e.replace(e("select", e.is_zero(w), e.number(1), found))


def _rsqrt(op: Operation) -> None:
    e = _Complex(op)
    e.replace(e("divide", e.number(1), e("sqrt", op.operands[0])))


def _atan2(op: Operation) -> None:
    e, (y, x) = _Complex(op), op.operands
    radius = e("sqrt", e("add", e("multiply", x, x), e("multiply", y, y)))
    direction = e("divide", e("add", x, e("multiply", e.number(1j), y)), radius)
    e.replace(e("multiply", e.number(-1j), e("log", direction)))


COMPOSITIONS: dict[str, Callable[[Operation], None]] = {
    "stablehlo.power": _power,
    "stablehlo.rsqrt": _rsqrt,
    "stablehlo.atan2": _atan2,
}
