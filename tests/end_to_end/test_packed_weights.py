"""Weights packed in bytes and words, times the identity: the numbers that they stand for, bit for bit."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

import hlo2tx8

DTYPES = {"bf16": np.dtype(bfloat16), "f16": np.dtype(np.float16), "f32": np.dtype(np.float32)}


def _module(name: str, body: str, q: str, rows: int, columns: int) -> str:
    numbers = f"tensor<{rows}x{columns}x{name}>"
    x = f"tensor<{rows}x{rows}x{name}>"
    groups, factors = (f"tensor<{rows // 32}x{more}{columns}x{name}>" for more in ("32x", ""))
    return f"""func.func @main(%x: {x}, %q: {q}, %s: {factors}) -> {numbers} {{
{body}
  %f = stablehlo.convert %n : (tensor<{rows}x{columns}xi32>) -> {numbers}
  %g = stablehlo.reshape %f : ({numbers}) -> {groups}
  %r = stablehlo.broadcast_in_dim %s, dims = [0, 2] : ({factors}) -> {groups}
  %m = stablehlo.multiply %g, %r : {groups}
  %w = stablehlo.reshape %m : ({groups}) -> {numbers}
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({x}, {numbers}) -> {numbers}
  return %y : {numbers}
}}"""


def _shifted(count: int, dim: int, shape: tuple[int, int], element: str, zero: int) -> str:
    """Elements of `count` times as many rows (0) or columns (1), of four bits each, less a zero point."""
    rows, columns = shape
    spread = (rows, count, columns) if dim == 0 else (rows, columns, count)
    wide = f"tensor<{'x'.join(map(str, spread))}x{element}>"
    dims, place = ("[0, 2]", 1) if dim == 0 else ("[0, 1]", 2)
    result = f"tensor<{rows * count if dim == 0 else rows}x{columns * count if dim else columns}x"
    return f"""  %a = stablehlo.broadcast_in_dim %q, dims = {dims} : (tensor<{rows}x{columns}x{element}>) -> {wide}
  %i = stablehlo.iota dim = {place} : {wide}
  %four = stablehlo.constant dense<4> : {wide}
  %by = stablehlo.multiply %i, %four : {wide}
  %b = stablehlo.shift_right_logical %a, %by : {wide}
  %mask = stablehlo.constant dense<15> : {wide}
  %c = stablehlo.and %b, %mask : {wide}
  %d = stablehlo.reshape %c : ({wide}) -> {result}{element}>
  %e = stablehlo.convert %d : ({result}{element}>) -> {result}i32>
  %zero = stablehlo.constant dense<{zero}> : {result}i32>
  %n = stablehlo.subtract %e, %zero : {result}i32>"""


def _unpacked(q: np.ndarray, count: int, dim: int) -> np.ndarray:
    parts = [(q.astype(np.int64) >> 4 * number) & 15 for number in range(count)]
    rows, columns = q.shape
    return np.stack(parts, dim + 1).reshape(rows * count if dim == 0 else rows, columns * count if dim else columns)


@pytest.mark.parametrize(("count", "dim", "zero"), [(2, 0, 8), (2, 1, 7), (8, 0, 8), (8, 1, 0)])
@pytest.mark.parametrize("name", DTYPES)
def test_packed_weights_times_the_identity(name: str, count: int, dim: int, zero: int) -> None:
    rng = np.random.default_rng(count + dim)
    rows, columns = 128, 192
    shape = (rows // count, columns) if dim == 0 else (rows, columns // count)
    element, kind = ("ui8", np.uint8) if count == 2 else ("i32", np.int32)
    q = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, endpoint=True).astype(kind)
    scales = (rng.integers(1, 64, (rows // 32, columns)) * 2.0**-8).astype(DTYPES[name])
    text = _module(name, _shifted(count, dim, shape, element, zero), f"tensor<{shape[0]}x{shape[1]}x{element}>", rows, columns)
    weights = (_unpacked(q, count, dim) - zero).astype(DTYPES[name]) * np.repeat(scales, 32, 0)
    executable = hlo2tx8.compile(text)
    (found,) = executable.execute(np.eye(rows, dtype=DTYPES[name]), q, scales)
    assert np.array_equal(np.asarray(found).astype(np.float64), weights.astype(np.float64))
