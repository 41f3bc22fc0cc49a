"""Constants: the elements of MLIR's dense attributes, bit for bit, and back to text."""

import re
from math import prod
from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.frontend.types import type_to_text

_DTYPES = {
    "i1": "bool", "i2": "int2", "i4": "int4", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "ui2": "uint2", "ui4": "uint4", "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
    "index": "int64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "complex<f32>": "complex64", "complex<f64>": "complex128",
    "f4E2M1FN": "float4_e2m1fn", "f6E2M3FN": "float6_e2m3fn", "f6E3M2FN": "float6_e3m2fn",
    "f8E3M4": "float8_e3m4", "f8E4M3": "float8_e4m3", "f8E4M3FN": "float8_e4m3fn",
    "f8E4M3FNUZ": "float8_e4m3fnuz", "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "f8E5M2": "float8_e5m2", "f8E5M2FNUZ": "float8_e5m2fnuz", "f8E8M0FNU": "float8_e8m0fnu",
}  # fmt: skip
_NUMPY = ("i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f16", "f32", "f64")
_SUB_BYTE = {"i2": 2, "i4": 4, "ui2": 2, "ui4": 4, "f4E2M1FN": 4, "f6E2M3FN": 6, "f6E3M2FN": 6}
_HEX = re.compile(r'dense<"0x([0-9A-Fa-f]*)">')


def dtype_of(element: str) -> np.dtype[Any]:
    """The dtype of an element type in MLIR's text; KeyError for one that has none."""
    name = _DTYPES[element]
    return np.dtype(getattr(ml_dtypes, name, name))


def literal_of(attribute: Any, type_: TensorType[Attribute], text: str | None = None) -> LiteralAttr:
    """The literal of a dense elements attribute, or of its text where the bindings cannot hold it (complex)."""
    element = type_to_text(type_.element_type)
    shape = type_.get_shape()
    dtype = dtype_of(element)
    if prod(shape) == 0:
        return LiteralAttr.from_array(np.zeros(shape, dtype))
    if attribute is not None and element in _NUMPY and not attribute.is_splat:
        return LiteralAttr.from_array(np.array(attribute, copy=True).reshape(shape))
    text = str(attribute) if text is None else text
    is_splat = _HEX.search(text) is None and "[" not in text[text.index("<") : text.rindex("> :")]
    return LiteralAttr.from_array(_from_text(text, element, dtype, () if is_splat else shape))


def _from_text(text: str, element: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    match = _HEX.search(text)
    if match is not None:
        raw = np.frombuffer(bytes.fromhex(match.group(1)), np.uint8)
        return _from_bytes(raw, element, dtype, shape)
    body = text[text.index("<") + 1 : text.rindex("> :")]
    tokens = re.findall(r"\([^)]*\)|[^\[\],\s]+", body)
    values = [_element(token, element, dtype) for token in tokens]
    return np.array(values, dtype).reshape(shape)


def _from_bytes(raw: np.ndarray, element: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    count = prod(shape)
    if element == "i1":
        if raw.size == count:
            return (raw != 0).reshape(shape)
        return np.unpackbits(raw, bitorder="little")[:count].astype(bool).reshape(shape)
    if element in _SUB_BYTE and raw.size != count:
        width = _SUB_BYTE[element]
        bits = np.unpackbits(raw, bitorder="little").reshape(-1, width)[:count]
        raw = np.packbits(bits, axis=1, bitorder="little").reshape(-1)
    return raw.view(dtype)[:count].reshape(shape).copy()


def _element(token: str, element: str, dtype: np.dtype[Any]) -> Any:
    """One element from its text: decimal, hexadecimal bits, true or false, a pair."""
    if token.startswith("("):
        part = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
        real, imag = (_element(t.strip(), "f32" if part.itemsize == 4 else "f64", part) for t in token[1:-1].split(","))
        return np.array([real, imag], part).view(dtype)[0]
    if token in ("true", "false"):
        return token == "true"
    if token.startswith(("0x", "0X")):
        return np.frombuffer(int(token, 16).to_bytes(dtype.itemsize, "little"), dtype)[0]
    if element[0] == "f" or element.startswith("bf"):
        return np.array(np.float64(token)).astype(dtype)[()]
    return int(token)


def literal_to_text(literal: LiteralAttr, type_: Attribute) -> str:
    """`dense<...> : tensor<...>` with the same bits."""
    assert isinstance(type_, TensorType)
    tensor = cast(TensorType[Attribute], type_)
    text = type_to_text(type_)
    array = literal.array
    if prod(tensor.get_shape()) == 0:
        return f"dense<> : {text}"
    if array.dtype == np.bool_:
        raw = array.astype(np.uint8)
        if array.ndim == 0:
            return f"dense<{'true' if array else 'false'}> : {text}"
        body = ", ".join("true" if v else "false" for v in raw.reshape(-1))
        return f"dense<{_nested(list(map(str, body.split(', '))), tensor.get_shape())}> : {text}"
    element = type_to_text(tensor.element_type)
    if element in _SUB_BYTE and not element.startswith("f"):
        if array.ndim == 0:
            return f"dense<{int(array)}> : {text}"
        return f"dense<{_nested([str(int(v)) for v in array.reshape(-1)], tensor.get_shape())}> : {text}"
    if element in _SUB_BYTE or (array.ndim == 0 and not np.iscomplexobj(array)):
        tokens = [hex(int.from_bytes(v.tobytes(), "little")) if element[0] in "fb" else str(int(v)) for v in array.reshape(-1)]
        digits = 2 * array.dtype.itemsize
        tokens = [f"0x{int(t, 16):0{digits}X}" if t.startswith("0x") else t for t in tokens]
        return f"dense<{tokens[0] if array.ndim == 0 else _nested(tokens, tensor.get_shape())}> : {text}"
    full = np.ascontiguousarray(literal.broadcast(tensor.get_shape()) if array.ndim == 0 else array)
    return f'dense<"0x{full.tobytes().hex().upper()}"> : {text}'


def _nested(tokens: list[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return tokens[0]
    step = len(tokens) // shape[0]
    parts = [_nested(tokens[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]
    return f"[{', '.join(parts)}]"
