"""Element types of the IR as formats of the machine, and constants as bits."""

from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute, SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.dialects import xla
from hlo2tx8.errors import CompileError


@dataclass(frozen=True)
class Splat:
    """The same element in every lane: its bits, and the format they are in."""

    bits: int
    fmt: Format


@dataclass(frozen=True)
class PerChannel:
    """An element per channel, the same at all points: a buffer that has each once, and the format they are in."""

    buffer: SSAValue
    fmt: Format


Vector: TypeAlias = SSAValue | Splat
Operand: TypeAlias = Vector | PerChannel

_FLOATS: dict[type[Attribute], Format] = {
    BFloat16Type: Format.BF16,
    Float16Type: Format.FP16,
    Float32Type: Format.FP32,
    Float64Type: Format.FP64,
}
_SIGNED = {8: Format.INT8, 16: Format.INT16, 32: Format.INT32, 64: Format.INT64}
_UNSIGNED = {8: Format.UINT8, 16: Format.UINT16, 32: Format.UINT32, 64: Format.UINT64}


def vector_type(value: SSAValue) -> VectorType[Attribute]:
    """The type of a vector value."""
    type_ = value.type
    assert isinstance(type_, VectorType)
    return cast("VectorType[Attribute]", type_)


def format_of(type_: Attribute) -> Format:
    """The format of a scalar, vector or tensor type; raises CompileError for a type no instruction computes with."""
    if (fmt := _FLOATS.get(type(type_))) is not None:
        return fmt
    if isinstance(type_, (VectorType, TensorType)):
        shaped = cast("VectorType[Attribute] | TensorType[Attribute]", type_)
        return format_of(shaped.get_element_type())
    if isinstance(type_, IndexType):
        return Format.INT64
    if isinstance(type_, IntegerType):
        integer = cast(IntegerType, type_)
        width = integer.width.data
        if width == 1:
            return Format.PRED
        table = _UNSIGNED if integer.signedness.data is Signedness.UNSIGNED else _SIGNED
        if width in table:
            return table[width]
    raise CompileError("E3205", f"no instruction computes with elements of type {type_}")


def storage_format(type_: Attribute) -> Format:
    """The format elements are moved in; those no instruction computes with are opaque bytes, sub-byte ones a byte each."""
    if isinstance(type_, (VectorType, TensorType)):
        shaped = cast("VectorType[Attribute] | TensorType[Attribute]", type_)
        return storage_format(shaped.get_element_type())
    if isinstance(type_, ComplexType):
        part = cast("ComplexType[Float32Type | Float64Type]", type_).element_type
        return Format.UINT64 if isinstance(part, Float32Type) else Format.RAW128
    try:
        return format_of(type_)
    except CompileError:
        return Format.RAW8


def tensor_type(value: SSAValue) -> TensorType[Attribute]:
    """The type of a value that is a tensor."""
    type_: Attribute = value.type
    assert isinstance(type_, TensorType)
    return cast("TensorType[Attribute]", type_)


def constant_bits(value: SSAValue) -> int:
    """The bits of a scalar constant, as an unsigned integer."""
    op = value.owner
    if isinstance(op, xla.ConstantOp):
        from hlo2tx8.dialects.hlo import LiteralAttr

        assert isinstance(op.value, LiteralAttr)
        return int.from_bytes(op.value.array.tobytes(), "little")
    if isinstance(op, arith.ConstantOp):
        match op.value:
            case IntegerAttr():
                fmt = storage_format(op.result.type)
                width = 1 if fmt is Format.PRED else 8 * fmt.bytes  # the attribute of true holds -1
                return op.value.value.data & ((1 << width) - 1)
            case FloatAttr():
                dtype = format_of(op.result.type).numpy_dtype
                return int.from_bytes(np.asarray(op.value.value.data, dtype).tobytes(), "little")
            case DenseIntOrFPElementsAttr():
                return int.from_bytes(op.value.data.data[: format_of(op.result.type).bytes], "little")
            case _:
                pass
    raise CompileError("E3206", "a splat is not a constant")
