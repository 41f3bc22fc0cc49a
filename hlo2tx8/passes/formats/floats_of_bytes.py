"""Floats of eight bits as bf16 or f16, in arithmetic on floats: the vector engine converts bytes to floats, and those to integers.

f8E5M2 is the upper byte of an f16: the byte as a number, times 256, as an i16 is its bits. f8E4M3FN has the sign, four bits of the
exponent and three of the mantissa of a bf16 that is 2^120 times smaller, if its bits are moved by four: times 16, less the copies
of the sign. What would be 480 is NaN: times 2^119 and another eighth that is the only infinity, which times zero is NaN. That
is a positive one, as of all conversions of the vector engine.

    %b = convert (bitcast (to_bits %f8) : i8) : bf16            -128 .. 127
    %n = and (convert (multiply %b, 16) : i16), 0x87f0
    %x = multiply (bitcast %n : bf16), 2^120
    %y = add %x, multiply (multiply %x, 1.125 * 2^119), 0
"""

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, IntegerType, TensorType
from xdsl.ir import SSAValue

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.types import numpy_dtype
from hlo2tx8.passes.formats.narrow_floats import to_bits

SIGN_AND_MAGNITUDE = np.uint16(0x87F0).view(np.int16)
"""The bits of a bf16 that those of a byte moved by four are."""
SMALLER, LARGEST = 2.0**120, 1.125 * 2.0**119
"""By which such a bf16 is smaller, and with which 480 is too large and 448 is not."""


def as_half(e: Expansion, value: SSAValue) -> SSAValue | None:
    """The same numbers in 16 bits; None of formats of which it is not known how."""
    name = numpy_dtype(as_tensor(value.type).element_type).name
    if name not in ("float8_e5m2", "float8_e4m3fn"):
        return None
    shape = as_tensor(value.type).get_shape()
    bf16, i16 = TensorType(BFloat16Type(), shape), TensorType(IntegerType(16), shape)

    def times(number: SSAValue, factor: float) -> SSAValue:
        return e.emit("multiply", [number, e.splat(factor, bf16)], bf16)

    byte = e.emit("bitcast_convert", [to_bits(e, value)], TensorType(IntegerType(8), shape))
    number = e.emit("convert", [byte], bf16)
    if name == "float8_e5m2":
        return e.emit("bitcast_convert", [e.emit("convert", [times(number, 256)], i16)], TensorType(Float16Type(), shape))
    bits = e.emit("convert", [times(number, 16)], i16)
    kept = e.emit("and", [bits, e.splat(int(SIGN_AND_MAGNITUDE), i16)], i16)
    finite = times(e.emit("bitcast_convert", [kept], bf16), SMALLER)
    return e.emit("add", [finite, times(times(finite, LARGEST), 0)], bf16)
