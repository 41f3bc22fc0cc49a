"""dynamic_update_slice and scatter at every level: dtypes, combiners, order, what lies outside, dimension numbers."""

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax_programs import CPU, FAST, check, check_text


def values(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    return (np.random.default_rng(1).normal(size=shape) * 4).astype(dtype)


@pytest.mark.parametrize(
    "dtype", [np.float32, ml_dtypes.bfloat16, np.float16, np.float64, np.int8, np.bool_, np.int64, np.uint16, np.complex64]
)
def test_elements_of_any_dtype(dtype: Any) -> None:
    x, u, i = values((6, 130), dtype), values((4, 65), dtype)[::-1], np.array([-3, 2, 127, 5], np.int32)
    check(lambda x, u, i: lax.dynamic_update_slice(x, u, (i[0], i[1])), x, u, i, levels=())
    check(lambda x, u, i: x.at[i, i].set(u[:, 0]), x, u, i, levels=())


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        (np.int8, [-3, 2, 127, 5]),
        (np.uint8, [0, 255, 3, 4]),
        (np.int64, [-(2**62), 2**40, 1, 3]),
        (np.uint64, [2**64 - 1, 2**33, 1, 2]),
        (np.uint32, [2**32 - 1, 2, 3, 4]),
    ],
)
def test_indices_of_any_dtype(dtype: Any, numbers: list[int]) -> None:
    x, u, i = values((6, 130)), values((4, 65)), np.array(numbers, dtype)
    check(lambda x, u, i: lax.dynamic_update_slice(x, u, (i[0], i[1])), x, u, i, levels=())
    check(lambda x, u, i: x.at[i].set(u[:, :1], mode="drop"), x, u, i, levels=())


def test_slices() -> None:
    x, i = values((33, 9)), np.array([3, -2, 40, 5], np.int32)
    check(lambda x, i: lax.dynamic_update_slice(x, x[:4, :5] * 2, (i[0], i[1])), x, i)
    check(lambda x, i: lax.dynamic_update_slice(x, x[:4] * 2, (i[2], jnp.int32(0))), x, i)
    check(lambda x, i: lax.dynamic_update_slice(jnp.zeros_like(x), jnp.ones((2, 2), x.dtype), (i[0], i[1])), x, i)
    check(lambda x, i: lax.dynamic_update_slice(x, -x, (i[0], i[1])), x, i)
    check(lambda x, i: lax.dynamic_update_slice(x, x[:0], (i[0], i[1])), x, i)


def test_combiners_see_what_came_before() -> None:
    x, u, i = values((33, 9)), values((5, 9)), np.array([3, 3, 40, 5, -1], np.int32)
    check(lambda x, u, i: x.at[i].set(u), x, u, i)
    check(lambda x, u, i: x.at[i].add(u), x, u, i)
    check(lambda x, u, i: (x.at[i].max(u), x.at[i].min(u)), x, u, i)
    check(lambda x, u, i: x.at[i].multiply(u), x, u, i, levels=())
    check(lambda x, u, i: x.at[i, i % 3].add(u[:, 0]), x, u, i)
    check(lambda x, i: x.at[i].add(1), np.zeros(7, np.int32), np.array([1, 5, 1, 1, 9, 0], np.int32))


def test_one_window_takes_the_place_of_what_is_there() -> None:
    x, u, i = values((33, 9, 5)), values((9, 5)), np.array([3, -40, 33, 8], np.int32)
    check(lambda x, u, i: tuple(x.at[i[k]].set(u) for k in range(3)), x, u, i)
    check(lambda x, u, i: x.at[i[0], i[3]].set(u[0], mode="drop"), x, u, i)
    check(lambda x, u: (x.at[4].set(u), x.at[4, 8, 2].set(u[0, 0]), x.at[40].set(u)), x, u)
    check(lambda x, u, i: x.at[:, i[2], 2].set(u[0, 0], mode="drop"), x, u, i.astype(np.int8))
    check(lambda x, u: lax.fori_loop(0, 4, lambda n, x: x.at[9 * n].set(x[n] + u), x), x, u)


def test_large_tensors() -> None:
    x, i = values((600, 1000)), np.random.default_rng(2).integers(-5, 700, 37).astype(np.int32)
    check(lambda x, u, i: x.at[i].add(u), x, values((37, 1000)), i, levels=(), modes=FAST)
    check(lambda x, u, i: lax.dynamic_update_slice(x, u, (i[0] + 20, i[1])), x, values((300, 700)), i, levels=())


SCATTERS = [
    # operand, indices, updates, attributes
    ((3, 5, 7), (2, 3), (3, 2, 4), "update_window_dims = [1, 2], input_batching_dims = [0], scatter_indices_batching_dims = [1], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 0"),  # noqa: E501
    ((5, 7), (4, 2), (4, 2, 3), "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 1"),
    ((5, 7), (4,), (7, 4), "update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"),  # noqa: E501
    ((5, 7, 2), (2, 2, 4), (2, 3, 2, 4), "update_window_dims = [1, 2], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 1"),  # noqa: E501
    ((4, 6), (0, 1), (0, 6), "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"),  # noqa: E501
    ((5, 7), (2,), (2, 3), "update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 0"),
    ((5, 7), (3, 0), (3, 5, 7), "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [], index_vector_dim = 1"),
]  # fmt: skip


@pytest.mark.parametrize("case", SCATTERS)
def test_dimension_numbers(case: tuple[Any, ...]) -> None:
    *shapes, numbers = case
    x, i, u = (f"tensor<{''.join(f'{n}x' for n in s)}{e}>" for s, e in zip(shapes, ("f32", "i32", "f32"), strict=True))
    text = f"""func.func @main(%x: {x}, %i: {i}, %u: {u}) -> {x} {{
      %r = "stablehlo.scatter"(%x, %i, %u) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %half = stablehlo.constant dense<0.5> : tensor<f32>
        %s = stablehlo.multiply %a, %half : tensor<f32>
        %t = stablehlo.add %s, %b : tensor<f32>
        stablehlo.return %t : tensor<f32>
      }}) {{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>}} : ({x}, {i}, {u}) -> {x}
      return %r : {x}
    }}"""
    index = np.random.default_rng(4).integers(-1, 6, shapes[1]).astype(np.int32)
    inputs = [values(shapes[0]), index, values(shapes[2])]
    check_text(text, inputs, CPU.run(text, inputs))


def test_several_operands() -> None:
    text = """func.func @main(%x: tensor<5xf32>, %y: tensor<5xi32>, %i: tensor<4x1xi32>, %u: tensor<4xf32>, %v: tensor<4xi32>)
        -> (tensor<5xf32>, tensor<5xi32>) {
      %r:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) ({
      ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
        %p = stablehlo.compare GT, %a, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %s = stablehlo.select %p, %a, %c : tensor<i1>, tensor<f32>
        %t = stablehlo.select %p, %b, %d : tensor<i1>, tensor<i32>
        stablehlo.return %s, %t : tensor<f32>, tensor<i32>
      }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
          index_vector_dim = 1>} : (tensor<5xf32>, tensor<5xi32>, tensor<4x1xi32>, tensor<4xf32>, tensor<4xi32>)
          -> (tensor<5xf32>, tensor<5xi32>)
      return %r#0, %r#1 : tensor<5xf32>, tensor<5xi32>
    }"""
    index = np.array([[1], [3], [1], [7]], np.int32)
    inputs = [values((5,)), np.arange(5, dtype=np.int32), index, values((4,)) + 1, np.arange(4, dtype=np.int32) * 10]
    check_text(text, inputs, CPU.run(text, inputs))
