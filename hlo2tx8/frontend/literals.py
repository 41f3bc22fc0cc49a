"""Constants: the elements of MLIR's dense attributes bit for bit, and back to text."""

import re
from collections.abc import Sequence
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from hlo2tx8.dialects.literal import Array, LiteralAttr
from hlo2tx8.errors import CompileError
from hlo2tx8.frontend.types import type_to_text
from hlo2tx8.hlo.types import bit_width, is_integer, is_pred, is_unsigned, numpy_dtype

DType = np.dtype[Any]

_HEX = re.compile(r'dense<"0x([0-9A-Fa-f]*)">')
_TOKEN = re.compile(r"\([^)]*\)|[^\[\],\s]+")
_BUFFERS = ("i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f16", "f32", "f64")
"""Element types the bindings hand out as a buffer."""


def literal_of(attribute: Any, type_: TensorType[Attribute], text: str | None = None) -> LiteralAttr:
    """The literal of a dense elements attribute, or of its text where the bindings cannot hold it (complex)."""
    dtype, shape = dtype_of(type_), tuple(type_.get_shape())
    if prod(shape) == 0:
        return LiteralAttr.from_array(np.zeros(shape, dtype))
    element = type_to_text(type_.get_element_type())
    if attribute is not None and element in _BUFFERS and not attribute.is_splat:
        return LiteralAttr.from_array(np.array(attribute, dtype, copy=True).reshape(shape))
    return LiteralAttr.from_array(_from_text(str(attribute) if text is None else text, dtype, shape))


def literal_of_bytes(data: bytes, type_: TensorType[Attribute]) -> LiteralAttr:
    """The literal of the elements in memory order, one after another; sub-byte elements take a byte or are packed."""
    return LiteralAttr.from_array(_from_bytes(np.frombuffer(data, np.uint8), dtype_of(type_), tuple(type_.get_shape())))


def dtype_of(type_: TensorType[Attribute]) -> DType:
    """The dtype of a tensor's elements; CompileError where there is none."""
    return numpy_dtype(type_.get_element_type())


def _from_text(text: str, dtype: DType, shape: tuple[int, ...]) -> Array:
    match = _HEX.search(text)
    if match is not None:
        raw = np.frombuffer(bytes.fromhex(match.group(1)), np.uint8)
        return _from_bytes(raw, dtype, shape)
    body = text[text.index("<") + 1 : text.rindex("> :")]
    is_splat = "[" not in body
    values = [_element(token, dtype) for token in _TOKEN.findall(body)]
    return np.array(values, dtype).reshape(() if is_splat else shape)


def _from_bytes(raw: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    count, bits = prod(shape), bit_width(dtype)
    if bits >= 8:
        is_splat = raw.size == dtype.itemsize and count > 1
        return raw.view(dtype).reshape(() if is_splat else shape)
    if raw.size != count:
        width = 1 << (bits - 1).bit_length()
        unpacked = np.unpackbits(raw, bitorder="little").reshape(-1, width)[:count]
        raw = np.packbits(unpacked, axis=1, bitorder="little").reshape(-1)
    if raw.size != count:
        raise CompileError("E1003", f"{raw.size} bytes for {count} constants of {dtype.name}")
    return _from_codes(raw, dtype, bits).reshape(shape)


def _from_codes(codes: Array, dtype: DType, bits: int) -> Array:
    """Elements of less than a byte from their bits, one byte each; bits above the element's are ignored."""
    if is_pred(dtype):
        return codes != 0
    if not is_integer(dtype):
        return (codes & ((1 << bits) - 1)).astype(np.uint8).view(dtype)
    moved = (codes << (8 - bits)).astype(np.uint8)
    signed = moved if is_unsigned(dtype) else moved.view(np.int8)
    return (signed >> (8 - bits)).astype(dtype)


def _element(token: str, dtype: DType) -> Any:
    """One element from its text: decimal, hexadecimal bits, true or false, a pair."""
    if token.startswith("("):
        part: DType = np.dtype(f"float{4 * dtype.itemsize}")
        parts = [_element(piece.strip(), part) for piece in token[1:-1].split(",")]
        return np.array(parts, part).view(dtype)[0]
    if token in ("true", "false"):
        return token == "true"
    if token.startswith(("0x", "0X")):
        code = int(token, 16)
        return np.frombuffer(code.to_bytes(dtype.itemsize, "little"), dtype)[0]
    if is_integer(dtype):
        return int(token)
    return np.array(np.float64(token)).astype(dtype)[()]


def literal_to_text(literal: LiteralAttr, type_: Attribute) -> str:
    """`dense<...> : tensor<...>` with the same bits; a splat stays short."""
    tensor = cast("TensorType[Attribute]", type_)
    text, shape, array = type_to_text(tensor), tuple(tensor.get_shape()), literal.array
    if prod(shape) == 0:
        return f"dense<> : {text}"
    if array.ndim == 0:
        return f"dense<{_token(array)}> : {text}"
    if bit_width(array.dtype) < 8:
        return f"dense<{_nested([_token(v) for v in array.reshape(-1)], shape)}> : {text}"
    return f'dense<"0x{array.tobytes().hex().upper()}"> : {text}'


def _token(value: Any) -> str:
    """One element as text: integers in decimal, floats as their bits."""
    dtype: DType = value.dtype
    if is_pred(dtype):
        return "true" if value else "false"
    if is_integer(dtype):
        return str(int(value))
    if dtype.kind == "c":
        return f"({_token(value.real)}, {_token(value.imag)})"
    code = int.from_bytes(value.tobytes(), "little")
    return f"0x{code:0{(bit_width(dtype) + 3) // 4}X}"


def _nested(tokens: Sequence[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return tokens[0]
    step = len(tokens) // shape[0]
    parts = [_nested(tokens[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]
    return f"[{', '.join(parts)}]"
