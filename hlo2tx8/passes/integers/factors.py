"""A factor of an integer product as digits of 8 bits and an offset: sum of 2^(8 p) * digits[p], + offset, modulo 2^bits.

`bits` is the width of the product's result, 8, 16 or 32.
"""

from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.types import DType, bit_width, dtype, holds_all, integer_limits, is_integer, is_unsigned, numpy_dtype

SHAPING = ("stablehlo.transpose", "stablehlo.reshape")
SCALAR = TensorType(i32, [])
SIGN = 128
"""What the bit of the sign of an i8 counts, and the offset of bytes in which it is turned over."""


def kind_of(value: SSAValue) -> DType:
    """The dtype of a tensor's elements."""
    return numpy_dtype(as_tensor(value.type).element_type)


@dataclass(frozen=True)
class FactorSource:
    """What a factor is computed from: `value`, less its zero points, moved by `shaping`, the last op first."""

    value: SSAValue
    shaping: tuple[Operation, ...] = ()
    zeros: tuple[tuple[int, SSAValue | int], ...] = ()
    """Signs, and a scalar or number of rank 0 each, of which sign * number is added to each element."""
    bits: int = 32

    @property
    def num_digits(self) -> int:
        """How many digits it has."""
        return max(1, min(bit_width(kind_of(self.value)), self.bits) // 8)

    @property
    def has_offset(self) -> bool:
        """May it have an offset other than 0?"""
        kind = kind_of(self.value)
        return bool(self.zeros) or (bit_width(kind) < self.bits and not holds_all(dtype("int8"), kind))

    def fill(self, e: Expansion) -> SSAValue | None:
        """The element of `value` that stands for 0, of rank 0; None if that is not known to be an element."""
        kind, type_ = kind_of(self.value), e.like(self.value, ())
        numbers = [-sign * zero for sign, zero in self.zeros if isinstance(zero, int)]
        if len(numbers) == len(self.zeros):
            least, most = integer_limits(kind)
            return e.splat(sum(numbers), type_) if least <= sum(numbers) <= most else None
        ((sign, zero), *more) = self.zeros
        widening = zero.owner if isinstance(zero, SSAValue) else None
        if more or sign > 0 or not isinstance(widening, Operation) or widening.name != "stablehlo.convert":
            return None
        narrow = widening.operands[0]
        return e.converted(narrow, type_.element_type) if holds_all(kind, kind_of(narrow)) else None


def source_of(value: SSAValue, bits: int) -> FactorSource:
    """What an operand of a product of so many bits is converted from, and its zero points."""
    found = FactorSource(value, bits=bits)
    shaping: list[Operation] = []
    zeros: list[tuple[int, SSAValue | int]] = []
    while isinstance(op := value.owner, Operation):
        wraps = bit_width(kind_of(value)) >= bits
        if op.name == "stablehlo.convert" and is_integer(inner := kind_of(op.operands[0])):
            if not wraps and not holds_all(kind_of(value), inner):
                return found
        elif op.name in ("stablehlo.subtract", "stablehlo.add") and wraps and (zero := _splat(op.operands[1])) is not None:
            zeros += [(-1 if op.name == "stablehlo.subtract" else 1, zero)] if zero != 0 else []
        elif op.name in SHAPING:
            shaping.append(op)
        else:
            return found
        value = op.operands[0]
        if op.name not in SHAPING:
            found = FactorSource(value, tuple(shaping), tuple(zeros), bits)
    return found


def _splat(value: SSAValue) -> SSAValue | int | None:
    """The number that all elements of the value equal: of rank 0, or known; None if they may differ."""
    scalar = scalar_of(value)
    if scalar is not None:
        return int(scalar)
    while isinstance(value.owner, Operation) and value.owner.name == "stablehlo.broadcast_in_dim":
        value = value.owner.operands[0]
    return value if not as_tensor(value.type).get_shape() else None


@dataclass(frozen=True)
class Factor:
    """An operand of a product as digits, the lowest first, and the offset of all elements, an i32 of rank 0."""

    digits: tuple[SSAValue, ...]
    offset: SSAValue | None


def shaped(e: Expansion, source: FactorSource) -> SSAValue:
    """Its value with the shape of the factor."""
    value = source.value
    for op in reversed(source.shaping):
        shape = as_tensor(op.results[0].type).get_shape()
        value = e.emit(op.name.removeprefix("stablehlo."), [value], e.like(value, shape), **op.properties)
    return value


def factor_of(e: Expansion, source: FactorSource, value: SSAValue) -> Factor:
    """The digits and the offset of a source whose value has the shape of the factor."""
    digits, number = _digits(e, value, source.bits)
    offset = e.splat(number, SCALAR) if number else None
    for sign, zero in source.zeros:
        scalar = e.splat(zero, SCALAR) if isinstance(zero, int) else e.converted(zero, i32)
        before = e.splat(0, SCALAR) if offset is None else offset
        offset = e.emit("add" if sign > 0 else "subtract", [before, scalar], SCALAR)
    return Factor(tuple(digits), offset)


def _digits(e: Expansion, value: SSAValue, bits: int) -> tuple[list[SSAValue], int]:
    """Digits and their offset.

    A byte u counts 128 more than the i8 u ^ 128. Where an element has as many bits as the result, these 128 are added to it before,
    which may wrap; in an i16 of a wider result they are the offset, and its high byte is signed.
    """
    kind = kind_of(value)
    width = bit_width(kind)
    if (width <= 8 and (width < 8 or not is_unsigned(kind))) or bits == 8:
        return [e.converted(value, i8)], 0
    count, wide = min(width, bits) // 8, value
    every = sum(SIGN << 8 * place for place in range(count))
    if width >= bits:
        wide = e.converted(value, i32)
        wide = e.emit("add", [wide, e.splat(every - (1 << 32 if bits == 32 else 0), _like(wide))], wide.type)
    flipped = range(count if width >= bits or is_unsigned(kind) else count - 1)
    digits: list[SSAValue] = []
    for place in range(count):
        low = wide if not place else e.emit("shift_right_logical", [wide, e.splat(8 * place, _like(wide))], wide.type)
        byte = e.converted(low, i8)
        digits.append(e.emit("xor", [byte, e.splat(-SIGN, _like(byte))], byte.type) if place in flipped else byte)
    return digits, 0 if width >= bits else sum(SIGN << 8 * place for place in flipped)


def _like(value: SSAValue) -> TensorType[Attribute]:
    type_ = as_tensor(value.type)
    return TensorType(type_.element_type, type_.get_shape())
