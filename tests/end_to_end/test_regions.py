"""Regions on scalars hold any elementwise ops: constants, broadcasts of rank 0, conversions of pred, calls; at every level."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_programs import check_text

S, V, P = "tensor<f32>", "tensor<8xf32>", "tensor<i1>"
LARGER = f"""%k = stablehlo.constant dense<0.0> : {S}
    %w = stablehlo.broadcast_in_dim %k, dims = [] : ({S}) -> {S}
    %q = stablehlo.add %b, %w : {S}
    %p = stablehlo.compare GT, %q, %a : ({S}, {S}) -> {P}
    %n = stablehlo.convert %p : ({P}) -> tensor<i32>
    %t = stablehlo.convert %n : (tensor<i32>) -> {P}
    %s = func.call @chosen(%t, %q, %a) : ({P}, {S}, {S}) -> {S}"""
COMBINE = f"({{\n  ^bb0(%a: {S}, %b: {S}):\n    {LARGER}\n    stablehlo.return %s : {S}\n  }}"
MODULE = f"""func.func private @chosen(%p: {P}, %a: {S}, %b: {S}) -> {S} {{
  %0 = stablehlo.select %p, %a, %b : {P}, {S}
  return %0 : {S}
}}
func.func @main(%x: {V}, %y: {V}, %u: tensor<3xf32>, %v: tensor<4xf32>) -> RESULT {{
  %z = stablehlo.constant dense<0.0> : {S}
  %i = stablehlo.constant dense<[[1], [2], [1]]> : tensor<3x1xi32>
  %r = OP
  return %r : RESULT
}}"""
X = np.array([3, 1, 4, 1, 5, -9, 2, 6], np.float32)
Y, U, W = X[::-1].copy(), X[:3], X[:4]
OPS: dict[str, tuple[str, Any]] = {
    "reduce": (f'"stablehlo.reduce"(%x, %z) {COMBINE}) {{dimensions = array<i64: 0>}} : ({V}, {S}) -> {S}', 6),
    "reduce_window": (
        f"""\"stablehlo.reduce_window"(%x, %z) {COMBINE})
    {{window_dimensions = array<i64: 3>, padding = dense<[[1, 1]]> : tensor<1x2xi64>}} : ({V}, {S}) -> {V}""",
        [3, 4, 4, 5, 5, 5, 6, 6],
    ),
    "scatter": (
        f"""\"stablehlo.scatter"(%x, %i, %u) {COMBINE}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}} : ({V}, tensor<3x1xi32>, tensor<3xf32>) -> {V}""",
        [3, 4, 4, 1, 5, -9, 2, 6],
    ),
    "sort": (
        f"""\"stablehlo.sort"(%x) ({{\n  ^bb0(%a: {S}, %b: {S}):\n    {LARGER}
    %l = stablehlo.compare GT, %s, %a : ({S}, {S}) -> {P}\n    stablehlo.return %l : {P}
  }}) {{dimension = 0 : i64, is_stable = true}} : ({V}) -> {V}""",
        np.sort(X),
    ),
    "select_and_scatter": (
        f"""\"stablehlo.select_and_scatter"(%x, %v, %z) ({{\n  ^bb0(%c: {S}, %d: {S}):
    %l = stablehlo.compare GE, %c, %d : ({S}, {S}) -> {P}\n    stablehlo.return %l : {P}
  }}, {COMBINE[1:]}) {{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}} : ({V}, tensor<4xf32>, {S}) -> {V}""",
        [3, 0, 1, 0, 4, 0, 0, 1],
    ),
    "map": (f'"stablehlo.map"(%x, %y) {COMBINE}) {{dimensions = array<i64: 0>}} : ({V}, {V}) -> {V}', np.maximum(X, Y)),
}


@pytest.mark.parametrize("op", OPS)
def test_a_maximum_in_many_ops(op: str) -> None:
    body, expected = OPS[op]
    text = MODULE.replace("OP", body).replace("RESULT", S if op == "reduce" else V)
    check_text(text, [X, Y, U, W], [np.asarray(expected, np.float32)])


def test_the_larger_value_then_the_smaller_index_from_a_python_number() -> None:
    def better(a: Any, b: Any) -> Any:
        first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return lax.select(first, a[0], b[0]), lax.select(first, a[1], b[1])

    def function(x: Any) -> Any:
        return lax.reduce((x, lax.broadcasted_iota(jnp.int32, x.shape, 2)), (-jnp.inf, jnp.int32(0)), better, (2,))

    x = np.array([[[3, 1, 3, 2]], [[1, 5, 5, 5]]], np.float32)
    values, places = np.array([[3], [5]], np.float32), np.array([[0], [1]], np.int32)
    check_text(jax.jit(function).lower(x).as_text(), [x], [values, places])
