"""Neighbours of powers of two take about as long as those: a row, a column or a product more or less costs no plan."""

from functools import cache
from itertools import pairwise

import pytest

import hlo2tx8

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
