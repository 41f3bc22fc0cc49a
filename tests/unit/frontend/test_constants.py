"""Constants of every dtype arrive bit for bit, small and large, splat or not, and go back to text unchanged."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hlo2tx8.dialects.hlo import LiteralAttr, decode_attributes
from hlo2tx8.frontend import load, to_mlir_text
from hlo2tx8.frontend.literals import literal_to_text
from hlo2tx8.hlo.types import bit_width, element_type, is_integer, mlir_name

WIDE = (
    *(
        [
            "bool",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "float16",
            "bfloat16",
            "float32",
            "float64",
            "complex64",
            "complex128",
        ]
    ),
    *(["float8_e3m4", "float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2", "float8_e5m2fnuz"]),
    "float8_e8m0fnu",
)
NARROW = ("int2", "int4", "uint2", "uint4", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")


def dtype_of(name: str) -> Any:
    return np.dtype(getattr(ml_dtypes, name, name))


def every_kind_of(name: str, count: int) -> np.ndarray:
    """`count` elements from all bit patterns: NaN payloads, infinities, subnormals, negative zero."""
    dtype = dtype_of(name)
    rng = np.random.default_rng(count)
    if name == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if bit_width(dtype) >= 8:
        raw = rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
        return raw.view(dtype)
    codes = rng.integers(0, 1 << bit_width(dtype), count).astype(np.uint8)
    if not is_integer(dtype):
        return codes.view(dtype)
    signed = codes.astype(np.int8) - (1 << (bit_width(dtype) - 1) if name.startswith("int") else 0)
    return signed.astype(dtype)


def constant_module(array: np.ndarray, body: str) -> str:
    shape = "".join(f"{n}x" for n in array.shape)
    type_ = f"tensor<{shape}{mlir_name(array.dtype)}>"
    return f"func.func public @main() -> {type_} {{\n  %0 = stablehlo.constant {body}\n  return %0 : {type_}\n}}"


def text_of(array: np.ndarray) -> str:
    from xdsl.dialects.builtin import TensorType

    type_ = TensorType(element_type(array.dtype), array.shape)
    return constant_module(array, literal_to_text(LiteralAttr.from_array(array), type_))


def value_of(module: Any) -> Any:
    (op,) = [op for op in module.walk() if op.name == "stablehlo.constant"]
    return decode_attributes(op)["value"]


def assert_same_bits(actual: np.ndarray, wanted: np.ndarray) -> None:
    assert actual.dtype == wanted.dtype
    assert np.broadcast_to(actual, wanted.shape).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 2), (0, 4), (17, 23)], ids=str)
@pytest.mark.parametrize("name", [*WIDE, *NARROW])
def test_bits(name: str, shape: tuple[int, ...]):
    array = every_kind_of(name, int(np.prod(shape, dtype=int))).reshape(shape)
    module = load(text_of(array))
    assert_same_bits(value_of(module), array)
    assert_same_bits(value_of(load(to_mlir_text(module))), array)


@pytest.mark.parametrize("name", [*WIDE, *NARROW])
def test_splats_stay_small(name: str):
    array = np.broadcast_to(every_kind_of(name, 1)[0], (4096, 4096))
    element = np.array(array[0, 0])
    text = text_of(element).replace("tensor<", "tensor<4096x4096x")
    value = value_of(load(text))
    assert value.shape == ()
    assert_same_bits(value, element)
    assert len(to_mlir_text(load(text))) < 400


def test_decimal_text():
    assert value_of(load(constant_module(np.zeros(3, np.float32), "dense<[0.1, -0.0, 1.5e-45]> : tensor<3xf32>"))).tolist() == (
        np.array([0.1, -0.0, 1.5e-45], np.float32).tolist()
    )
    eight = constant_module(np.zeros(2, ml_dtypes.float8_e5m2), "dense<[0.1, 0x7D]> : tensor<2xf8E5M2>")
    assert value_of(load(eight)).view(np.uint8).tolist() == [0x2E, 0x7D]
    pair = constant_module(np.zeros(2, np.complex64), "dense<[(0.1, -0.0), (0x7FC00001, 1.0)]> : tensor<2xcomplex<f32>>")
    assert value_of(load(pair)).view(np.uint32).tolist() == [0x3DCCCCCD, 0x80000000, 0x7FC00001, 0x3F800000]


def test_hlo_constants():
    text = """HloModule c
ENTRY e {
  a = f32[3] constant({nan, -inf, 1e-40})
  b = pred[2,2] constant({{true,false},{false,false}})
  c = s4[3] constant({-8, 7, 0})
  d = bf16[2] constant({0.1, -nan})
  f = f8e4m3fn[2] constant({448, nan})
  ROOT t = (f32[3], pred[2,2], s4[3], bf16[2], f8e4m3fn[2]) tuple(a, b, c, d, f)
}"""
    values = [decode_attributes(op)["value"] for op in load(text).walk() if op.name == "stablehlo.constant"]
    by_dtype = {value.dtype.name: value for value in values}
    assert by_dtype["float32"].view(np.uint32).tolist() == [0x7FC00000, 0xFF800000, np.array(1e-40, np.float32).view(np.uint32)]
    assert by_dtype["bool"].tolist() == [[True, False], [False, False]]
    assert by_dtype["int4"].astype(int).tolist() == [-8, 7, 0]
    assert by_dtype["bfloat16"].view(np.uint16).tolist() == [0x3DCD, 0xFFC0]
    assert by_dtype["float8_e4m3fn"].view(np.uint8).tolist() == [0x7E, 0x7F]


RESOURCES = """module {
  func.func @main() -> (tensor<2xf32>, tensor<3xi8>, tensor<9xi1>, tensor<2xbf16>) {
    %0 = stablehlo.constant dense_resource<x> : tensor<2xf32>
    %1 = arith.constant dense_resource<y.z> : tensor<3xi8>
    %2 = stablehlo.constant dense_resource<p> : tensor<9xi1>
    %3 = stablehlo.constant dense_resource<b> : tensor<2xbf16>
    return %0, %1, %2, %3 : tensor<2xf32>, tensor<3xi8>, tensor<9xi1>, tensor<2xbf16>
  }
}
{-# dialect_resources: { builtin: {
  x: "0x040000000000803F00000040", y.z: "0x01000000010203", p: "0x01000000010001000101000101", b: "0x02000000803F0040"
} } #-}"""


def test_resources():
    values = [decode_attributes(op)["value"] for op in load(RESOURCES).walk() if op.name == "stablehlo.constant"]
    by_dtype = {value.dtype.name: value for value in values}
    assert by_dtype["float32"].tolist() == [1.0, 2.0]
    assert by_dtype["int8"].tolist() == [1, 2, 3]
    assert by_dtype["bool"].tolist() == [True, False, True, False, True, True, False, True, True]
    assert by_dtype["bfloat16"].astype(float).tolist() == [1.0, 2.0]


def test_equal_constants_are_equal_attributes():
    nan = np.array([np.nan, 1.0])
    assert LiteralAttr.from_array(nan) == LiteralAttr.from_array(nan.copy())
    assert LiteralAttr.from_array(np.array([0.0, 1.0])) != LiteralAttr.from_array(np.array([-0.0, 1.0]))
    assert LiteralAttr.from_array(np.zeros(4, np.float32)) != LiteralAttr.from_array(np.zeros(4, np.int32))
