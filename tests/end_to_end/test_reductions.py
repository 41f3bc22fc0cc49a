"""reduce and dot_general on the emulator against float64: every dtype, ranks, dimensions; integers and max exactly."""

import string
from math import prod

import ml_dtypes
import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.device.emulator import Emulator, Mode
from hlo2tx8.hlo.types import dtype, is_float, mlir_name

FLOATS = ("float32", "bfloat16", "float16", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FAST: tuple[Mode, ...] = ("fast",)
ALL: tuple[Mode, ...] = ("fast", "strict", "definition")
COMBINERS = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
SHAPES = [
    ((33, 129), (1,)),
    ((33, 129), (0,)),
    ((3, 7, 11), (0, 2)),
    ((2, 3, 4, 5), (1, 3)),
    ((2, 3, 4, 5), (0, 1, 2, 3)),
    ((1000,), (0,)),
    ((4, 5), ()),
    ((), ()),
    ((0, 3), (0,)),
    ((3, 0), (0,)),
]


def tensor(shape: tuple[int, ...], name: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{mlir_name(dtype(name))}>"


def values(shape: tuple[int, ...], name: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if is_float(dtype(name)):
        return rng.standard_normal(shape).astype(dtype(name))
    return rng.integers(0, 2 if name == "bool" else 100, shape).astype(dtype(name))


def run(text: str, inputs: list[np.ndarray], modes: tuple[Mode, ...]) -> list[np.ndarray]:
    """The first mode's results; all modes give the same bits."""
    executable = hlo2tx8.compile(text)
    found = [Emulator(executable.chip, mode).run(executable.program, inputs) for mode in modes]
    for other in found[1:]:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(found[0], other, strict=True))
    return list(found[0])


def assert_added_up(actual: np.ndarray, exact: np.ndarray, magnitude: np.ndarray, count: int) -> None:
    """Within n * eps of what was added up in f32 (f64), and half an ulp of the result's own dtype."""
    eps = float(ml_dtypes.finfo(actual.dtype).eps)
    bound = eps / 2 * np.abs(exact) + (count + 1) * min(eps, 2.0**-23) * magnitude
    assert np.all(np.abs(actual.astype(np.float64) - exact) <= bound * (1 + 2.0**-20))


def reduce_text(shape: tuple[int, ...], dims: tuple[int, ...], name: str, combiner: str) -> str:
    scalar, kept = tensor((), name), tuple(n for i, n in enumerate(shape) if i not in dims)
    listed = f": {', '.join(map(str, dims))}" if dims else ""
    return f"""func.func @main(%x: {tensor(shape, name)}, %init: {scalar}) -> {tensor(kept, name)} {{
      %r = "stablehlo.reduce"(%x, %init) ({{
      ^bb0(%a: {scalar}, %b: {scalar}):
        %c = stablehlo.{combiner} %a, %b : {scalar}
        stablehlo.return %c : {scalar}
      }}) {{dimensions = array<i64{listed}>}} : ({tensor(shape, name)}, {scalar}) -> {tensor(kept, name)}
      return %r : {tensor(kept, name)}
    }}"""


def check_reduce(shape: tuple[int, ...], dims: tuple[int, ...], name: str, combiner: str, modes: tuple[Mode, ...]) -> None:
    x, init = values(shape, name), np.asarray(1).astype(dtype(name))
    (actual,) = run(reduce_text(shape, dims, name, combiner), [x, init], modes)
    if combiner == "add" and is_float(x.dtype):
        wide = x.astype(np.float64)
        exact = np.add.reduce(wide, axis=dims, initial=1.0)
        magnitude = np.add.reduce(np.abs(wide), axis=dims, initial=1.0)
        assert_added_up(actual, np.asarray(exact), np.asarray(magnitude), prod(shape[d] for d in dims))
        return
    expected = np.asarray(COMBINERS[combiner].reduce(x, axis=dims, dtype=x.dtype, initial=init[()]))
    assert actual.tobytes() == expected.astype(x.dtype).tobytes()


@pytest.mark.parametrize(("shape", "dims"), SHAPES)
def test_reduce_of_any_dimensions(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    modes = ALL if prod(shape) < 500 else FAST
    for name, combiner in (("float32", "add"), ("bfloat16", "add"), ("int32", "add"), ("float32", "maximum"), ("bool", "or")):
        check_reduce(shape, dims, name, combiner, modes)


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS, "bool"])
def test_reduce_of_any_dtype(name: str) -> None:
    combiners = ("add", "maximum", "minimum") if name in FLOATS else ("and", "or", "xor") if name == "bool" else tuple(COMBINERS)
    for combiner in combiners:
        check_reduce((5, 9), (1,), name, combiner, ALL)


ARGMAX = """func.func @main(%x: tensor<7x33xT>) -> (tensor<7xT>, tensor<7xi32>) {
  %i = stablehlo.iota dim = 1 : tensor<7x33xi32>
  %low = stablehlo.constant dense<LOW> : tensor<T>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1]
      : (tensor<7x33xT>, tensor<7x33xi32>, tensor<T>, tensor<i32>) -> (tensor<7xT>, tensor<7xi32>)
    reducer(%a: tensor<T>, %b: tensor<T>) (%i0: tensor<i32>, %i1: tensor<i32>) {
      %gt = stablehlo.compare GT, %a, %b : (tensor<T>, tensor<T>) -> tensor<i1>
      %nan = stablehlo.compare NE, %a, %a : (tensor<T>, tensor<T>) -> tensor<i1>
      %first = stablehlo.or %gt, %nan : tensor<i1>
      %eq = stablehlo.compare EQ, %a, %b : (tensor<T>, tensor<T>) -> tensor<i1>
      %before = stablehlo.compare LT, %i0, %i1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %tie = stablehlo.and %eq, %before : tensor<i1>
      %take = stablehlo.or %first, %tie : tensor<i1>
      %v = stablehlo.select %first, %a, %b : tensor<i1>, tensor<T>
      %n = stablehlo.select %take, %i0, %i1 : tensor<i1>, tensor<i32>
      stablehlo.return %v, %n : tensor<T>, tensor<i32>
    }
  return %r#0, %r#1 : tensor<7xT>, tensor<7xi32>
}"""


@pytest.mark.parametrize(("name", "low"), [("float32", "0xFF800000"), ("bfloat16", "0xFF80"), ("int32", "-2147483648")])
def test_argmax(name: str, low: str) -> None:
    x = values((7, 33), name)
    x[2, 5] = x[2, 9] = 120
    if name in FLOATS:
        x[3, 7] = x[4, 3] = x[4, 30] = np.nan
    text = ARGMAX.replace("xT>", f"x{mlir_name(dtype(name))}>").replace("<T>", f"<{mlir_name(dtype(name))}>")
    found, index = run(text.replace("LOW", low), [x], ALL)
    expected = np.argmax(x.astype(np.float64), axis=1)
    assert np.array_equal(index, expected)
    assert np.array_equal(found.astype(np.float64), x[np.arange(7), expected].astype(np.float64), equal_nan=True)


CHOOSES = """func.func @main(%x: tensor<5x300xf32>, %i: tensor<5x300xi32>) -> (tensor<5xf32>, tensor<5xi32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = "stablehlo.reduce"(%x, %i, %low, %none) ({
  ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
    %keep = stablehlo.compare DIRECTION, %a, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %v = stablehlo.select %keep, %a, %c : tensor<i1>, tensor<f32>
    %n = stablehlo.select %keep, %b, %d : tensor<i1>, tensor<i32>
    stablehlo.return %v, %n : tensor<f32>, tensor<i32>
  }) {dimensions = array<i64: 1>}
    : (tensor<5x300xf32>, tensor<5x300xi32>, tensor<f32>, tensor<i32>) -> (tensor<5xf32>, tensor<5xi32>)
  return %r#0, %r#1 : tensor<5xf32>, tensor<5xi32>
}"""


@pytest.mark.parametrize("direction", ["GE", "GT"])
def test_combiners_that_choose_between_equals_go_in_order(direction: str) -> None:
    x = np.random.default_rng(3).integers(0, 4, (5, 300)).astype(np.float32)
    numbers = np.tile(np.arange(300, dtype=np.int32), (5, 1))
    found, index = run(CHOOSES.replace("DIRECTION", direction), [x, numbers], FAST)
    last = 299 - np.argmax(x[:, ::-1], axis=1)
    assert np.array_equal(found, x.max(axis=1))
    assert np.array_equal(index, np.argmax(x, axis=1) if direction == "GE" else last)


def test_iter_args_that_change_places() -> None:
    """(a, b) <- (b, a + x): both new values are made of the old ones."""
    text = """func.func @main(%x: tensor<3x4xi32>) -> (tensor<3xi32>, tensor<3xi32>) {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %r:2 = "stablehlo.reduce"(%x, %x, %zero, %one) ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
        %s = stablehlo.add %a, %c : tensor<i32>
        stablehlo.return %b, %s : tensor<i32>, tensor<i32>
      }) {dimensions = array<i64: 1>}
        : (tensor<3x4xi32>, tensor<3x4xi32>, tensor<i32>, tensor<i32>) -> (tensor<3xi32>, tensor<3xi32>)
      return %r#0, %r#1 : tensor<3xi32>, tensor<3xi32>
    }"""
    x = values((3, 4), "int32")
    a, b = np.zeros(3, np.int32), np.ones(3, np.int32)
    for k in range(4):
        a, b = b, a + x[:, k]
    found = run(text, [x], ALL)
    assert np.array_equal(found[0], a)
    assert np.array_equal(found[1], b)


# lhs shape, rhs shape, batch dimensions of each, contracting dimensions of each
DOTS = [
    ((17, 33), (33, 65), (), (), (1,), (0,)),
    ((5, 3), (2, 5), (), (), (0,), (1,)),
    ((2, 3, 5, 4), (4, 5, 2, 7), (0,), (2,), (2, 3), (1, 0)),
    ((9, 4, 8), (4, 8, 7), (1,), (0,), (2,), (1,)),
    ((5,), (5,), (), (), (0,), (0,)),
    ((3, 4), (2,), (), (), (), ()),
    ((3, 0), (0, 2), (), (), (1,), (0,)),
]
DOT_TYPES = [
    *((name, name, name) for name in (*FLOATS, *INTEGERS, "bool")),
    *(("bfloat16", "bfloat16", "float32"), ("float16", "float32", "float32"), ("int8", "bfloat16", "float32")),
    *(("int8", "int8", "int32"), ("uint8", "uint8", "uint32")),
]
Dims = tuple[int, ...]


def check_dot(case: tuple[Dims, Dims, Dims, Dims, Dims, Dims], types: tuple[str, str, str], modes: tuple[Mode, ...]) -> None:
    left, right, left_batch, right_batch, left_sum, right_sum = case
    names_a, names_b = list(string.ascii_lowercase[: len(left)]), list(string.ascii_uppercase[: len(right)])
    for i, j in zip((*left_batch, *left_sum), (*right_batch, *right_sum), strict=True):
        names_b[j] = names_a[i]
    free = [n for n in names_a if n not in names_b] + [n for n in names_b if n not in names_a]
    names = [names_a[i] for i in left_batch] + free
    sizes = dict(zip(names_a + names_b, left + right, strict=True))
    a, b = values(left, types[0]), values(right, types[1], seed=1)
    result = tensor(tuple(sizes[n] for n in names), types[2])
    batch = f"batching_dims = {list(left_batch)} x {list(right_batch)}, " if left_batch else ""
    precision = ", precision = [HIGHEST, HIGHEST]" if "float32" in types else ""
    numbers = f"{batch}contracting_dims = {list(left_sum)} x {list(right_sum)}{precision}"
    text = f"""func.func @main(%a: {tensor(left, types[0])}, %b: {tensor(right, types[1])}) -> {result} {{
      %r = stablehlo.dot_general %a, %b, {numbers} : ({tensor(left, types[0])}, {tensor(right, types[1])}) -> {result}
      return %r : {result}
    }}"""
    (actual,) = run(text, [a, b], modes)
    formula = f"{''.join(names_a)},{''.join(names_b)}->{''.join(names)}"
    if not is_float(actual.dtype):
        exact = np.einsum(formula, a.astype(np.int64), b.astype(np.int64))
        assert np.array_equal(actual, exact.astype(actual.dtype))
        return
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    magnitude = np.einsum(formula, np.abs(wide_a), np.abs(wide_b))
    assert_added_up(actual, np.einsum(formula, wide_a, wide_b), magnitude, prod(left[d] for d in left_sum))


@pytest.mark.parametrize("case", DOTS)
def test_dot_general_of_any_dimensions(case: tuple[Dims, Dims, Dims, Dims, Dims, Dims]) -> None:
    for types in (("bfloat16",) * 3, ("int8", "int8", "int32")):
        check_dot(case, types, ALL if prod(case[0]) < 300 else FAST)


@pytest.mark.parametrize("types", DOT_TYPES)
def test_dot_general_of_any_dtype(types: tuple[str, str, str]) -> None:
    check_dot(((3, 9), (9, 5), (), (), (1,), (0,)), types, ALL)


def test_code_does_not_grow_with_the_reduced_extent() -> None:
    small, large = (hlo2tx8.compile(reduce_text((64, n), (1,), "float32", "add")).program for n in (32768, 1 << 20))
    assert len(small.code) == len(large.code)


@pytest.mark.parametrize("over", [(2, 3), (1, 2), (0, 3)])
def test_of_a_large_transposed_array(over: tuple[int, ...]) -> None:
    """Neighbours in the operand are none in memory, and the array is larger than a scratchpad."""
    x = np.random.default_rng(5).integers(0, 9, (32, 64, 8, 80)).astype(np.float32)
    kept = [n for d, n in enumerate((32, 80, 8, 64)) if d not in over]
    moved, result = tensor((32, 80, 8, 64), "float32"), tensor(tuple(kept), "float32")
    whole = tensor(x.shape, "float32")
    text = f"""func.func @main(%x: {whole}) -> {result} {{
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %t = stablehlo.transpose %x, dims = [0, 3, 2, 1] : ({whole}) -> {moved}
      %r = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = {list(over)}
        : ({moved}, tensor<f32>) -> {result}
      return %r : {result}
    }}"""
    np.testing.assert_array_equal(run(text, [x], FAST)[0], x.transpose(0, 3, 2, 1).sum(over))
