"""Pass widen-narrow-types: every f8, f6, f4, i4, i2 converted both ways bit for bit, arithmetic, moves, reductions."""

from functools import partial

import numpy as np
import pytest

from hlo2tx8.compiler.driver import load_source
from hlo2tx8.hlo import evaluate
from hlo2tx8.hlo.types import bit_width, dtype, is_float, mlir_name
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.runtime.levels import RUNS, each_run

FLOATS = (
    *("float8_e3m4", "float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    *("float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
)
ARITHMETIC = (
    *("add", "subtract", "multiply", "divide", "remainder", "maximum", "and", "xor"),
    *("shift_left", "shift_right_logical", "shift_right_arithmetic"),
)
INTEGERS = ("int4", "uint4", "int2", "uint2")


def every_value(name: str) -> np.ndarray:
    """All bit patterns of a narrow dtype."""
    return np.arange(1 << bit_width(dtype(name)), dtype=np.uint8).view(dtype(name))


def between(name: str, wide: type) -> np.ndarray:
    """Numbers of the wide dtype around all narrow ones and around the middles of neighbours, and what is beyond."""
    values = every_value(name).astype(np.float64)
    finite = np.unique(values[np.isfinite(values)])
    points = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2, 2 * finite[-1:], 1.01 * finite[-1:], [1e-45, 1e-40, 1e30]])
    points = points[np.abs(points) < np.finfo(wide).max].astype(wide)
    around = np.concatenate([points, np.nextafter(points, wide(np.inf)), np.nextafter(points, wide(-np.inf))])
    return np.concatenate([around, -around, np.array([0, -0.0, np.inf, -np.inf, np.nan], wide)])


def unary(op: str, source: str, result: str, count: int) -> str:
    """@main of one op on a vector."""
    types = [f"tensor<{count}x{mlir_name(dtype(name))}>" for name in (source, result)]
    return f"func.func @main(%x: {types[0]}) -> {types[1]} {{ %0 = {op} %x : ({types[0]}) -> {types[1]} return %0 : {types[1]} }}\n"


def same_bits(found: np.ndarray, wanted: np.ndarray) -> None:
    """Equal bit for bit, but for which NaN it is."""
    nan = np.isnan(wanted.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float64)), nan)
    np.testing.assert_array_equal(found[~nan].view(np.uint8), wanted[~nan].view(np.uint8))


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", FLOATS)
def test_every_float_becomes_the_half_it_is(name: str, half: str) -> None:
    x = every_value(name)
    with np.errstate(over="ignore"):
        wanted = x.astype(np.float32).astype(dtype(half))
    same_bits(compile_source(unary("stablehlo.convert", name, half, x.size)).run(x), wanted)


@pytest.mark.parametrize("name", FLOATS)
def test_every_float_becomes_the_single_it_is(name: str) -> None:
    x = every_value(name)
    found = compile_source(unary("stablehlo.convert", name, "float32", x.size)).run(x)
    np.testing.assert_array_equal(found, x.astype(np.float32))
    assert np.array_equal(np.signbit(found), np.signbit(x.astype(np.float32))) or name.endswith("fnuz")


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("wide", [np.float32, np.float64])
def test_floats_are_rounded_once(name: str, wide: type) -> None:
    x = between(name, wide)
    text = unary("stablehlo.convert", np.dtype(wide).name, name, x.size)
    (wanted,) = evaluate(load_source(text), x)
    same_bits(np.asarray(compile_source(text).run(x)), wanted)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_convert_both_ways(name: str) -> None:
    x = every_value(name)
    for wide in ("int8", "uint16", "int32", "int64", "float32", "bfloat16", "bool"):
        text = unary("stablehlo.convert", name, wide, x.size)
        np.testing.assert_array_equal(compile_source(text).run(x), evaluate(load_source(text), x)[0], wide)
    for wide in ("int8", "uint32", "int64", "float32", "float64", "bool"):
        y = np.arange(-40, 41).astype(wide) * np.array(0.75 if wide.startswith("float") else 1).astype(wide)
        y = np.concatenate([y, [np.nan, np.inf]]).astype(wide) if wide.startswith("float") else y
        text = unary("stablehlo.convert", wide, name, y.size)
        found = compile_source(text).run(y)
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found.view(np.uint8), evaluate(load_source(text), y)[0].view(np.uint8), wide)


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("op", ARITHMETIC)
def test_integer_arithmetic_wraps_at_its_own_width(name: str, op: str) -> None:
    x, y = (a.ravel() for a in np.meshgrid(every_value(name), every_value(name)))
    if op in ("divide", "remainder"):
        x, y = x[y != 0], y[y != 0]
    type_ = f"tensor<{x.size}x{mlir_name(x.dtype)}>"
    text = f"func.func @main(%x: {type_}, %y: {type_}) -> {type_} {{ %0 = stablehlo.{op} %x, %y : {type_} return %0 : {type_} }}\n"
    found = compile_source(text).run(x, y)
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found.view(np.uint8), evaluate(load_source(text), x, y)[0].view(np.uint8))


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("op", ["not", "negate", "popcnt", "count_leading_zeros"])
def test_bits_of_integers_are_counted_in_their_own_width(name: str, op: str) -> None:
    x = every_value(name)
    text = unary(f'"stablehlo.{op}"', name, name, x.size).replace(" %x :", "(%x) :")
    found = compile_source(text).run(x)
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found.view(np.uint8), evaluate(load_source(text), x)[0].view(np.uint8))


PROGRAM = """
func.func @main(%x: tensor<6x8xELEMENT>, %y: tensor<6x8xELEMENT>)
    -> (tensor<6xELEMENT>, tensor<8x6xi1>, tensor<6x8xELEMENT>, tensor<6xELEMENT>, tensor<6x6xELEMENT>) {
  %zero = stablehlo.constant dense<0.0> : tensor<ELEMENT>
  %sums = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<6x8xELEMENT>, tensor<ELEMENT>) -> tensor<6xELEMENT>
  %less = stablehlo.compare LT, %x, %y : (tensor<6x8xELEMENT>, tensor<6x8xELEMENT>) -> tensor<6x8xi1>
  %turned = stablehlo.transpose %less, dims = [1, 0] : (tensor<6x8xi1>) -> tensor<8x6xi1>
  %least = stablehlo.select %less, %x, %y : tensor<6x8xi1>, tensor<6x8xELEMENT>
  %odd = stablehlo.reduce(%x init: %zero) across dimensions = [1] : (tensor<6x8xELEMENT>, tensor<ELEMENT>) -> tensor<6xELEMENT>
    reducer(%a: tensor<ELEMENT>, %b: tensor<ELEMENT>) {
      %0 = stablehlo.add %a, %a : tensor<ELEMENT>
      %1 = stablehlo.minimum %0, %b : tensor<ELEMENT>
      %2 = stablehlo.maximum %a, %1 : tensor<ELEMENT>
      stablehlo.return %2 : tensor<ELEMENT>
    }
  %product = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1]
    : (tensor<6x8xELEMENT>, tensor<6x8xELEMENT>) -> tensor<6x6xELEMENT>
  return %sums, %turned, %least, %odd, %product
    : tensor<6xELEMENT>, tensor<8x6xi1>, tensor<6x8xELEMENT>, tensor<6xELEMENT>, tensor<6x6xELEMENT>
}
"""


@pytest.mark.parametrize("name", ["int4", "uint2", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_reductions_products_and_moves_at_every_level(name: str) -> None:
    element = mlir_name(dtype(name))
    text = PROGRAM.replace("0.0", "0.0" if is_float(dtype(name)) else "0").replace("ELEMENT", element)
    rng = np.random.default_rng(7)
    x, y = (rng.integers(-2, 3, (6, 8)).astype(np.int8).astype(np.float32).astype(dtype(name)) for _ in range(2))
    load = partial(load_source, text)
    wanted = evaluate(load(), x, y)
    for run, results in zip(RUNS, each_run(load, Options(), [x, y]), strict=True):
        for found, expected in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32), f"{name} at {run.name}")
