"""Neighbours of powers of two take about as long as those: a row, a column or a product more or less costs no plan."""

from functools import cache, partial
from itertools import pairwise

import pytest

import hlo2tx8
from hlo2tx8.schedule.row_group import step_sizes

MOST = 1.1
WHOLE = 1024
"""Rows, columns and products that are not those of the sweep."""


@cache
def cycles(rows: int, columns: int, depth: int, element: str) -> float:
    left, right = f"tensor<{rows}x{depth}x{element}>", f"tensor<{depth}x{columns}x{element}>"
    result = f"tensor<{rows}x{columns}x{'i32' if element == 'i8' else element}>"
    text = f"""
func.func @main(%a: {left}, %b: {right}) -> {result} {{
  %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({left}, {right}) -> {result}
  return %r : {result}
}}"""
    return hlo2tx8.compile(text).report.cycles


CASES = [
    *((side, size, element) for side in ("rows", "columns", "depth") for size in (512, 1024) for element in ("bf16", "f32")),
    *(("all", 1024, element) for element in ("bf16", "f32", "i8")),
]


@pytest.mark.parametrize(("moving", "size", "element"), CASES)
def test_products_of_neighbouring_sizes_take_about_as_long(moving: str, size: int, element: str) -> None:
    found: list[float] = []
    for own in (size - 1, size, size + 1):
        rows, columns, depth = (own if moving in (side, "all") else WHOLE for side in ("rows", "columns", "depth"))
        found.append(cycles(rows, columns, depth, element))
    for one, other in pairwise(found):
        assert max(one, other) <= MOST * min(one, other), found


def convolution(filters: int) -> str:
    image, weights, result = (f"tensor<{shape}xbf16>" for shape in ("4x28x28x128", f"3x3x128x{filters}", f"4x28x28x{filters}"))
    return f"""
func.func @main(%a: {image}, %b: {weights}) -> {result} {{
  %r = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{pad = [[1, 1], [1, 1]]}}
    {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({image}, {weights}) -> {result}
  return %r : {result}
}}"""


def product(size: int, element: str, rows: int = 0, precision: str = "DEFAULT", batch: str = "") -> str:
    left, right = (f"tensor<{batch}{a}x{b}x{element}>" for a, b in ((rows or size, rows or size), (rows or size, size)))
    result = f"tensor<{batch}{rows or size}x{size}x{'i32' if element == 'i8' else element}>"
    dims = "batching_dims = [0] x [0], contracting_dims = [2] x [1]" if batch else "contracting_dims = [1] x [0]"
    return f"""
func.func @main(%a: {left}, %b: {right}) -> {result} {{
  %r = stablehlo.dot_general %a, %b, {dims}, precision = [{precision}, {precision}] : ({left}, {right}) -> {result}
  return %r : {result}
}}"""


def softmax(columns: int) -> str:
    whole, row = f"tensor<2048x{columns}xbf16>", "tensor<2048xbf16>"
    return f"""
func.func @main(%x: {whole}) -> {whole} {{
  %low = stablehlo.constant dense<0xFF80> : tensor<bf16>
  %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : ({whole}, tensor<bf16>) -> {row}
  %mb = stablehlo.broadcast_in_dim %m, dims = [0] : ({row}) -> {whole}
  %d = stablehlo.subtract %x, %mb : {whole}
  %e = stablehlo.exponential %d : {whole}
  %zero = stablehlo.constant dense<0.0> : tensor<bf16>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : ({whole}, tensor<bf16>) -> {row}
  %sb = stablehlo.broadcast_in_dim %s, dims = [0] : ({row}) -> {whole}
  %r = stablehlo.divide %e, %sb : {whole}
  return %r : {whole}
}}"""


def layer_norm(columns: int) -> str:
    """Less its mean, which is added up in f32."""
    whole, wide, row = (f"tensor<2048x{columns}xbf16>", f"tensor<2048x{columns}xf32>", "tensor<2048xf32>")
    return f"""
func.func @main(%x: {whole}) -> {whole} {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %w = stablehlo.convert %x : ({whole}) -> {wide}
  %s = stablehlo.reduce(%w init: %zero) applies stablehlo.add across dimensions = [1] : ({wide}, tensor<f32>) -> {row}
  %n = stablehlo.constant dense<{columns}.0> : {row}
  %m = stablehlo.divide %s, %n : {row}
  %c = stablehlo.convert %m : ({row}) -> tensor<2048xbf16>
  %b = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<2048xbf16>) -> {whole}
  %r = stablehlo.subtract %x, %b : {whole}
  return %r : {whole}
}}"""


NEIGHBOURS = {
    "softmax": (softmax, 4096, 4097, 1.02),
    "convolution with a column more": (convolution, 256, 257, 1.16),
    "convolution with a column less": (convolution, 256, 255, 1.5),
    "integers": (partial(product, element="i8", rows=1024), 256, 257, 1.05),
    "batches": (partial(product, element="bf16", batch="16x"), 256, 257, 1.08),
    "f32 in parts": (partial(product, element="f32", precision="HIGHEST"), 256, 255, 1.12),
    "few blocks of columns and a column less": (partial(product, element="bf16"), 256, 255, 1.09),
    "few blocks of columns and a column more": (partial(product, element="f32"), 256, 257, 1.08),
    "a tail instead of columns": (partial(product, element="i8"), 512, 511, 1.05),
    "rows whose width is odd": (layer_norm, 512, 511, 1.11),
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_a_neighbour_takes_little_longer(name: str) -> None:
    make, size, other, most = NEIGHBOURS[name]
    found = [hlo2tx8.compile(make(n)).report.cycles for n in (size, other)]
    assert found[1] <= most * found[0], found


def test_steps_of_a_few_rows_less_end_with_each_chunk() -> None:
    assert 14 in step_sizes(513, 2049)
    assert [-(-rows // 14) for rows in (513, 2049 - 3 * 513)] == [37, 37]
