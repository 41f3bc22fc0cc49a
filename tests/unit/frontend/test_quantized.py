"""Quantised types become integers: what is expanded here against the specification's formulas in numpy."""

import ml_dtypes
import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.frontend import load
from hlo2tx8.frontend.quantized_type import QuantizedType, quantized_types, storage_text

FLOATS = np.linspace(-30, 30, 14, dtype=np.float32).reshape(2, 7)
U8, PER_AXIS = "!quant.uniform<u8:f32, 0.25:100>", "!quant.uniform<u8<1:200>:f32:1, {0.5:3,0.25:4,1.0:5,2.0:6,0.1:7,0.3:80,0.7:90}>"
SCALES, POINTS = np.array([0.5, 0.25, 1, 2, 0.1, 0.3, 0.7], np.float32), np.array([3, 4, 5, 6, 7, 80, 90])


def run(body: str, *inputs: np.ndarray) -> list[np.ndarray]:
    assert "!quant" not in str(load(body))
    return hlo2tx8.compile(body).execute(*inputs)


def quantize(x: np.ndarray, scale: object, point: object, low: int = 0, high: int = 255) -> np.ndarray:
    return np.rint(np.clip(x / np.asarray(scale, x.dtype) + np.asarray(point, x.dtype), low, high)).astype(np.int64)


def test_a_type_is_read_and_replaced_by_its_storage_type() -> None:
    text = "tensor<2x4x!quant.uniform<i8<-127:127>:bf16:1, {1.000000e-01:3,2.5,3.0,4.0}>>"
    read = QuantizedType("i8", -127, 127, "bf16", 1, (0.1, 2.5, 3.0, 4.0), (3, 0, 0, 0))
    assert quantized_types(text) == (read,)
    assert storage_text(text) == "tensor<2x4xi8>"
    assert quantized_types("tensor<!quant.uniform<u16:f32, 1.0>>")[0].high == 65535


def test_unsigned_integers_are_not_taken_for_signed_ones() -> None:
    (actual,) = run(
        f"""func.func @main(%x: tensor<2x7xf32>) -> tensor<2x7x{U8}> {{
        %0 = stablehlo.uniform_quantize %x : (tensor<2x7xf32>) -> tensor<2x7x{U8}>
        return %0 : tensor<2x7x{U8}>
    }}""",
        FLOATS,
    )
    assert actual.dtype == np.uint8
    np.testing.assert_array_equal(actual, quantize(FLOATS, 0.25, 100))


def test_scales_along_an_axis_and_from_one_axis_to_another() -> None:
    other = "!quant.uniform<i8:f32:0, {0.5:3,0.25:-4}>"
    stored = np.arange(1, 15, dtype=np.uint8).reshape(2, 7) * 14
    floats, moved = run(
        f"""func.func @main(%x: tensor<2x7x{PER_AXIS}>) -> (tensor<2x7xf32>, tensor<2x7x{other}>) {{
        %0 = stablehlo.uniform_dequantize %x : (tensor<2x7x{PER_AXIS}>) -> tensor<2x7xf32>
        %1 = stablehlo.uniform_quantize %x : (tensor<2x7x{PER_AXIS}>) -> tensor<2x7x{other}>
        return %0, %1 : tensor<2x7xf32>, tensor<2x7x{other}>
    }}""",
        stored,
    )
    expected = ((stored.astype(np.int32) - POINTS).astype(np.float32) * SCALES).astype(np.float32)
    np.testing.assert_array_equal(floats, expected)
    np.testing.assert_array_equal(moved, quantize(expected, [[0.5], [0.25]], [[3], [-4]], -128, 127))


def test_arithmetic_is_in_the_expressed_type() -> None:
    kind = "!quant.uniform<i8:bf16, 0.3:5>"
    x = FLOATS.astype(ml_dtypes.bfloat16)
    (actual,) = run(
        f"""func.func @main(%x: tensor<2x7xbf16>) -> tensor<2x7xbf16> {{
        %0 = stablehlo.uniform_quantize %x : (tensor<2x7xbf16>) -> tensor<2x7x{kind}>
        %1 = stablehlo.negate %0 : tensor<2x7x{kind}>
        %2 = stablehlo.uniform_dequantize %1 : (tensor<2x7x{kind}>) -> tensor<2x7xbf16>
        return %2 : tensor<2x7xbf16>
    }}""",
        x,
    )
    scale = ml_dtypes.bfloat16(0.3)
    value = (quantize(x, scale, 5, -128, 127) - 5).astype(x.dtype) * scale
    np.testing.assert_array_equal(actual, (quantize(-value, scale, 5, -128, 127) - 5).astype(x.dtype) * scale)


def test_elements_move_as_stored_integers_and_regions_get_them() -> None:
    stored = np.arange(14, dtype=np.uint8).reshape(2, 7) * 17
    kept, largest, taken = run(
        f"""func.func @main(%x: tensor<2x7x{U8}>, %i: tensor<i32>) -> (tensor<7x2x{U8}>, tensor<2x{U8}>, tensor<2x7x{U8}>) {{
        %low = stablehlo.constant() {{value = dense<40> : tensor<i8>}} : () -> tensor<{U8}>
        %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x7x{U8}>) -> tensor<7x2x{U8}>
        %1 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1]
            : (tensor<2x7x{U8}>, tensor<{U8}>) -> tensor<2x{U8}>
        %2 = "stablehlo.case"(%i) ({{
            %3 = stablehlo.reverse %x, dims = [1] : tensor<2x7x{U8}>
            stablehlo.return %3 : tensor<2x7x{U8}>
        }}, {{
            stablehlo.return %x : tensor<2x7x{U8}>
        }}) : (tensor<i32>) -> tensor<2x7x{U8}>
        return %0, %1, %2 : tensor<7x2x{U8}>, tensor<2x{U8}>, tensor<2x7x{U8}>
    }}""",
        stored,
        np.int32(0),
    )
    np.testing.assert_array_equal(kept, stored.T)
    np.testing.assert_array_equal(largest, np.maximum(stored.max(1), 40))
    np.testing.assert_array_equal(taken, stored[:, ::-1])


def test_sums_products_and_convolutions_are_those_of_the_numbers() -> None:
    x8, w8, x32 = "!quant.uniform<i8:f32, 0.25:10>", "!quant.uniform<i8:f32, 0.5>", "!quant.uniform<i32:f32, 0.125>"
    rng = np.random.default_rng(0)
    a, b, x, k = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((3, 4), (4, 5), (2, 6, 3), (3, 3, 4)))
    added, product, convolved = run(
        f"""func.func @main(%a: tensor<3x4x{x8}>, %b: tensor<4x5x{w8}>, %x: tensor<2x6x3x{x8}>, %k: tensor<3x3x4x{w8}>)
          -> (tensor<3x4x{x8}>, tensor<3x5x{x32}>, tensor<2x4x4x{x32}>) {{
        %0 = stablehlo.add %a, %a : tensor<3x4x{x8}>
        %1 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
            : (tensor<3x4x{x8}>, tensor<4x5x{w8}>) -> tensor<3x5x{x32}>
        %2 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{}}
            {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
            : (tensor<2x6x3x{x8}>, tensor<3x3x4x{w8}>) -> tensor<2x4x4x{x32}>
        return %0, %1, %2 : tensor<3x4x{x8}>, tensor<3x5x{x32}>, tensor<2x4x4x{x32}>
    }}""",
        *(a, b, x, k),
    )
    first, image = ((stored - np.float32(10)) * np.float32(0.25) for stored in (a, x))
    second, window = b * np.float32(0.5), k * np.float32(0.5)
    np.testing.assert_array_equal(added, quantize(first + first, 0.25, 10, -128, 127))
    np.testing.assert_array_equal(product, first @ second / 0.125)
    np.testing.assert_array_equal(convolved, sum(image[:, i : i + 4] @ window[i] for i in range(3)) / 0.125)


def test_what_is_quantised_differently_is_compared_as_numbers() -> None:
    coarse, fine = "!quant.uniform<i8:f32, 1.0:3>", "!quant.uniform<i8:f32, 0.25:-20>"
    x, y = np.arange(-7, 7, dtype=np.int8).reshape(2, 7), np.arange(14, dtype=np.int8).reshape(2, 7) * 9 - 60
    (larger,) = run(
        f"""func.func @main(%x: tensor<2x7x{coarse}>, %y: tensor<2x7x{fine}>) -> tensor<2x7x{fine}> {{
        %0 = "stablehlo.maximum"(%x, %y) : (tensor<2x7x{coarse}>, tensor<2x7x{fine}>) -> tensor<2x7x{fine}>
        return %0 : tensor<2x7x{fine}>
    }}""",
        x,
        y,
    )
    first, second = x - np.float32(3), (y + np.float32(20)) * np.float32(0.25)
    np.testing.assert_array_equal(larger, quantize(np.maximum(first, second), 0.25, -20, -128, 127))


def test_what_cannot_be_expanded_is_named_with_its_place() -> None:
    with pytest.raises(Hlo2tx8Error, match=r"1 x stablehlo\.outfeed: it cannot be expanded for quantised types at .*:2:"):
        load(f"""func.func @main(%x: tensor<2x{U8}>, %t: !stablehlo.token) -> !stablehlo.token {{
            %0 = "stablehlo.outfeed"(%x, %t) <{{outfeed_config = ""}}> : (tensor<2x{U8}>, !stablehlo.token) -> !stablehlo.token
            return %0 : !stablehlo.token
        }}""")


def test_a_form_of_the_type_that_is_not_known_is_named() -> None:
    blocks = "!quant.uniform<i8:f32:{0:1}, {{0.5}, {0.25}}>"
    with pytest.raises(Hlo2tx8Error, match=r"func\.func: the type tensor<2x!quant\.uniform<i8:f32:\{0:1\}.* at .*:1:"):
        load(f"""func.func @main(%x: tensor<2x{blocks}>) -> tensor<2x{blocks}> {{
            return %x : tensor<2x{blocks}>
        }}""")
