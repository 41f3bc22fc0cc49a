"""Floats of eight bits and fewer to f32 and back, in integer arithmetic on their bits.

A finite number of a format with m bits of significand and bias b is, by its magnitude bits u (all but the sign),
u * 2^(1 - b - m) below 2^m (subnormal), else the float whose bits are u shifted to the place of the f32 exponent, with the
difference of the biases added. The way back rounds once to nearest even, also from f64.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType, Signedness, StringAttr, TensorType, i1
from xdsl.ir import Attribute, SSAValue

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.dialects.hlo import FromBitsOp, LiteralAttr, ToBitsOp
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.types import DType, bit_width, numpy_dtype


class Special(Enum):
    """What a format has instead of its largest numbers."""

    IEEE = auto()
    """Infinities and NaNs where the exponent is all ones."""
    FINITE = auto()
    """The largest magnitude is NaN; what overflows becomes it."""
    UNSIGNED_ZERO = auto()
    """Minus zero is NaN; what overflows becomes it."""
    NONE = auto()
    """Only numbers: what overflows saturates, NaN becomes a zero of the other sign."""


@dataclass(frozen=True)
class NarrowFloat:
    """A float format of at most eight bits."""

    bits: int
    mantissa: int
    bias: int
    special: Special

    @staticmethod
    def of(dtype: DType) -> "NarrowFloat":
        """The format of an ml_dtypes dtype."""
        info: Any = cast(Any, ml_dtypes).finfo(dtype)
        name = dtype.name
        if name.endswith("fnuz"):
            special = Special.UNSIGNED_ZERO
        elif name == "float8_e4m3fn":
            special = Special.FINITE
        else:
            special = Special.IEEE if name.startswith("float8") else Special.NONE
        return NarrowFloat(bit_width(dtype), int(info.nmant), 1 - int(info.minexp), special)

    @property
    def infinity(self) -> int:
        """The first magnitude beyond the finite ones."""
        magnitudes = 1 << (self.bits - 1)
        match self.special:
            case Special.IEEE:
                return magnitudes - (1 << self.mantissa)
            case Special.FINITE:
                return magnitudes - 1
            case _:
                return magnitudes


class Bits:
    """Arithmetic on the bits of one tensor of floats, in unsigned integers as wide as `float_type`."""

    def __init__(self, e: Expansion, shape: Sequence[int], float_type: Float32Type | Float64Type) -> None:
        self.e, self.shape = e, shape
        self.float_type = TensorType(float_type, shape)
        self.dtype = numpy_dtype(float_type)
        self.width = bit_width(self.dtype)
        self.mantissa, self.bias = (23, 127) if self.width == 32 else (52, 1023)
        self.type = TensorType(IntegerType(self.width, Signedness.UNSIGNED), shape)

    def __call__(self, name: str, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """a op b; an integer is a constant."""
        return self.e.emit(name, [a, self.e.splat(b, self.type) if isinstance(b, int) else b], self.type)

    def compare(self, direction: str, a: SSAValue, b: int) -> SSAValue:
        """a EQ, GE, ... b."""
        pred = TensorType(i1, self.shape)
        return self.e.emit("compare", [a, self.e.splat(b, self.type)], pred, comparison_direction=StringAttr(direction))

    def select(self, pred: SSAValue, then: SSAValue | int, other: SSAValue | int) -> SSAValue:
        values = [self.e.splat(v, self.type) if isinstance(v, int) else v for v in (then, other)]
        return self.e.emit("select", [pred, *values], self.type)

    def scaled(self, value: SSAValue, exponent: int) -> SSAValue:
        """A float times a power of two."""
        literal = LiteralAttr.from_array(np.array(2.0**exponent, self.dtype))
        factor = self.e.emit("constant", [], self.float_type, value=literal)
        return self.e.emit("multiply", [value, factor], self.float_type)

    def as_float(self, value: SSAValue) -> SSAValue:
        return self.e.emit("bitcast_convert", [value], self.float_type)

    def as_bits(self, value: SSAValue) -> SSAValue:
        return self.e.emit("bitcast_convert", [value], self.type)


def to_bits(e: Expansion, value: SSAValue) -> SSAValue:
    """The bytes of a tensor of narrow elements, as ui8."""
    type_ = TensorType(IntegerType(8, Signedness.UNSIGNED), as_tensor(value.type).get_shape())
    return e.insert(ToBitsOp([value], [type_])).results[0]


def from_bits(e: Expansion, value: SSAValue, element: Attribute) -> SSAValue:
    """The tensor of narrow elements that are kept in these bytes."""
    return e.insert(FromBitsOp([value], [TensorType(element, as_tensor(value.type).get_shape())])).results[0]


def float_to_single(e: Expansion, value: SSAValue) -> SSAValue:
    """A tensor of narrow floats as f32; exact."""
    dtype = numpy_dtype(as_tensor(value.type).element_type)
    m = Bits(e, as_tensor(value.type).get_shape(), Float32Type())
    byte = e.emit("convert", [to_bits(e, value)], m.type)
    if dtype.name == "float8_e8m0fnu":
        return m.as_float(_scale_to_bits(m, byte))
    f = NarrowFloat.of(dtype)
    magnitude = m("and", byte, (1 << (f.bits - 1)) - 1)
    sign = m("shift_left", m("and", byte, 1 << (f.bits - 1)), 32 - f.bits)
    subnormal = m.as_bits(m.scaled(e.emit("convert", [magnitude], m.float_type), 1 - f.bias - f.mantissa))
    normal = m("add", m("shift_left", magnitude, 23 - f.mantissa), (127 - f.bias) << 23)
    found = m.select(m.compare("LT", magnitude, 1 << f.mantissa), subnormal, normal)
    match f.special:
        case Special.IEEE:
            beyond = m("or", m("shift_left", m("subtract", magnitude, f.infinity), 23 - f.mantissa), 0x7F800000)
            found = m.select(m.compare("GE", magnitude, f.infinity), beyond, found)
        case Special.FINITE:
            found = m.select(m.compare("EQ", magnitude, f.infinity), 0x7FC00000, found)
        case Special.UNSIGNED_ZERO:
            found = m.select(m.compare("EQ", byte, 0x80), 0x7FC00000, found)
        case Special.NONE:
            pass
    return m.as_float(m("or", found, sign))


def single_to_float(e: Expansion, value: SSAValue, element: Attribute) -> SSAValue:
    """A tensor of f32 or f64 as narrow floats, rounded to nearest even."""
    tensor, dtype = as_tensor(value.type), numpy_dtype(element)
    m = Bits(e, tensor.get_shape(), tensor.element_type if isinstance(tensor.element_type, Float64Type) else Float32Type())
    bits = m.as_bits(value)
    byte = _scale_from_bits(m, bits) if dtype.name == "float8_e8m0fnu" else _rounded(m, value, bits, NarrowFloat.of(dtype))
    narrow = e.emit("convert", [byte], TensorType(IntegerType(8, Signedness.UNSIGNED), tensor.get_shape()))
    return from_bits(e, narrow, element)


def _rounded(m: Bits, value: SSAValue, bits: SSAValue, f: NarrowFloat) -> SSAValue:
    """The byte of each element."""
    top = 1 << (m.width - 1)
    cut = m.mantissa - f.mantissa
    exact = m("and", bits, top - 1)
    sign = m("shift_right_logical", m("and", bits, top), m.width - f.bits)
    half_even = m("add", m("and", m("shift_right_logical", exact, cut), 1), (1 << (cut - 1)) - 1)
    rounded = m("shift_right_logical", m("add", exact, half_even), cut)
    normal = m("subtract", rounded, (m.bias - f.bias) << f.mantissa)
    size = m.scaled(m.e.emit("abs", [value], m.float_type), f.bias - 1 + f.mantissa)
    subnormal = m.e.emit("convert", [m.e.emit("round_nearest_even", [size], m.float_type)], m.type)
    is_small = m.compare("LT", exact, (m.bias - f.bias + 1) << m.mantissa)
    magnitude = m.select(is_small, subnormal, normal)
    is_nan = m.compare("GT", exact, ((2 << (m.width - 2 - m.mantissa)) - 1) << m.mantissa)
    match f.special:
        case Special.IEEE:
            magnitude = m("minimum", magnitude, f.infinity)
            return m("or", m.select(is_nan, f.infinity | 1 << (f.mantissa - 1), magnitude), sign)
        case Special.FINITE:
            return m("or", m.select(is_nan, f.infinity, m("minimum", magnitude, f.infinity)), sign)
        case Special.UNSIGNED_ZERO:
            signed = m.select(m.compare("EQ", magnitude, 0), 0, m("or", magnitude, sign))
            return m.select(is_nan, 0x80, m.select(m.compare("GE", magnitude, f.infinity), 0x80, signed))
        case Special.NONE:
            number = m("or", m("minimum", magnitude, f.infinity - 1), sign)
            return m.select(is_nan, m("xor", sign, 1 << (f.bits - 1)), number)


def _scale_to_bits(m: Bits, byte: SSAValue) -> SSAValue:
    """The f32 bits of f8E8M0FNU: 2^(byte - 127), 255 is NaN; the smallest is subnormal."""
    number = m.select(m.compare("EQ", byte, 0), 0x00400000, m("shift_left", byte, 23))
    return m.select(m.compare("EQ", byte, 255), 0x7FC00000, number)


def _scale_from_bits(m: Bits, bits: SSAValue) -> SSAValue:
    """The nearest power of two, ties up; what is between the two smallest is the greater one. Zero, less and no number are NaN."""
    least, second = (int(np.array(2.0**n, m.dtype).view(f"u{m.width // 8}")) for n in (-127, -126))
    exponent = m("shift_right_logical", m("add", bits, 1 << (m.mantissa - 1)), m.mantissa)
    number = m("minimum", m("subtract", exponent, m.bias - 127), 255)
    number = m.select(m.compare("LT", bits, second), m.select(m.compare("GT", bits, least), 1, 0), number)
    is_scale = m.compare("LT", m("subtract", bits, 1), (m.bias + 128) << m.mantissa)
    return m.select(is_scale, number, 255)
