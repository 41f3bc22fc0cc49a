"""dynamic_slice and gather at every level: dtypes of elements and indices, clamping, rows and elements, empties."""

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax_programs import CPU, FAST, check, check_text

from hlo2tx8.hlo import spec_of

DTYPES = (np.float32, ml_dtypes.bfloat16, np.float16, np.float64, np.int8, np.bool_, np.int64, np.uint16, np.complex64)
INDICES: tuple[tuple[Any, list[int]], ...] = (
    (np.int8, [-3, 2, 127, 5]),
    (np.uint8, [0, 255, 3, 4]),
    (np.int32, [-(2**31), 2**31 - 1, 3, 5]),
    (np.int64, [-(2**62), 2**40, 1, 3]),
    (np.uint64, [2**64 - 1, 2**33, 1, 2]),
    (np.uint32, [2**32 - 1, 2, 3, 4]),
)


def values(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    return (np.random.default_rng(1).normal(size=shape) * 4).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_elements_of_any_dtype(dtype: Any) -> None:
    x, i = values((6, 130), dtype), np.array([-3, 2, 127, 5], np.int8)
    check(lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (4, 65)), x, i)
    check(lambda x, i: jnp.take(x, i, axis=0, mode="clip"), x, i)


@pytest.mark.parametrize(("dtype", "numbers"), INDICES, ids=lambda d: np.dtype(d).name if isinstance(d, type) else "")
def test_indices_of_any_dtype_are_clamped(dtype: Any, numbers: list[int]) -> None:
    x, i = values((6, 130)), np.array(numbers, dtype)
    check(lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (4, 65)), x, i)
    check(lambda x, i: jnp.take(x, i, axis=1, mode="clip"), x, i)


LARGE = values((600, 1000))
"""More than what the kernel core gathers from."""
ROWS = np.random.default_rng(2).integers(-5, 700, 37).astype(np.int32)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: jnp.take(x, i, axis=0, mode="clip") * 2,
        lambda x, i: jnp.take(x[:, :200], i, axis=1, mode="clip"),
        lambda x, i: x.at[i].get(mode="fill", fill_value=7),
        lambda x, i: x[i, i[::-1]],
        lambda x, i: jnp.pad(x[i][:, :50], ((1, 2), (3, 0))),
        lambda x, i: lax.dynamic_slice(x, (i[0] + 20, i[1]), (300, 400))[:, ::-1].T,
    ],
)
def test_large_tensors(function: Any) -> None:
    check(function, LARGE, ROWS, levels=())


def test_elements_of_a_large_tensor() -> None:
    check(lambda x, i: jnp.take(x, i, axis=1, mode="clip"), LARGE, ROWS, levels=(), modes=FAST)


def test_in_fusions() -> None:
    y, i = values((33, 9)), np.random.default_rng(3).integers(0, 9, (33, 4)).astype(np.int32)
    check(lambda y, i: jnp.take_along_axis(y, i, axis=1), y, i)
    check(lambda y, i: jnp.pad(jnp.exp2(y[i[:, 0]]) * 0 + y[i[:, 1], :], ((1, 2), (3, 0))), y, i)
    check(lambda y, i: lax.dynamic_slice(y * 2, (i[0, 0], i[0, 1]), (4, 5))[:, ::-1].T + 1, y, i)
    check(lambda y, i: lax.dynamic_slice(jnp.zeros_like(y), (i[0, 0], i[0, 1]), (4, 5)), y, i)


def test_empties() -> None:
    y = values((33, 9))
    check(lambda y, i: lax.dynamic_slice(y, (i, i), (0, 9)), y, np.int32(7))
    check(lambda y, i: y[i], y, np.zeros((0,), np.int32))
    check(lambda y, i: lax.dynamic_slice(y, (i, i), (33, 9)), y, np.int32(7))


GATHERS = [
    # operand, indices, result, slice sizes, attributes
    ((3, 5, 7), (2, 3), (3, 2, 4), (1, 2, 4), "offset_dims = [1, 2], operand_batching_dims = [0], start_indices_batching_dims = [1], start_index_map = [2, 1], index_vector_dim = 0"),  # noqa: E501
    ((5, 7), (4, 2), (4, 2, 3), (2, 3), "offset_dims = [1, 2], start_index_map = [1, 0], index_vector_dim = 1"),
    ((5, 7), (4,), (7, 4), (1, 7), "offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1"),
    ((5, 7, 2), (2, 2, 4), (2, 3, 2, 4), (3, 1, 2), "offset_dims = [1, 2], collapsed_slice_dims = [1], start_index_map = [1, 0], index_vector_dim = 1"),  # noqa: E501
    ((4, 6), (0, 1), (0, 2), (1, 2), "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1"),
]  # fmt: skip


@pytest.mark.parametrize("case", GATHERS)
def test_dimension_numbers(case: tuple[Any, ...]) -> None:
    operand, shape, result, sizes, numbers = case
    types = [f"tensor<{'x'.join(map(str, s))}x{e}>" for s, e in ((operand, "f32"), (shape, "i32"), (result, "f32"))]
    text = f"""func.func @main(%x: {types[0]}, %i: {types[1]}) -> {types[2]} {{
      %r = "stablehlo.gather"(%x, %i) {{dimension_numbers = #stablehlo.gather<{numbers}>,
        slice_sizes = array<i64: {", ".join(map(str, sizes))}>}} : ({types[0]}, {types[1]}) -> {types[2]}
      return %r : {types[2]}
    }}"""
    inputs = [values(operand), np.random.default_rng(4).integers(-3, 9, shape).astype(np.int32)]
    check_text(text, inputs, CPU.run(text, inputs))


SELECTED = [((5, 7), (2, 3), 1, 0), ((3, 5, 7), (3, 2), 1, 1), ((4, 3), (), 0, 0), ((3, 2, 6), (3, 2, 0), 2, 2)]


@pytest.mark.parametrize(("operand", "indices", "dim", "batch"), SELECTED)
def test_slices_at_the_indices_of_one_dimension(operand: tuple[int, ...], indices: tuple[int, ...], dim: int, batch: int) -> None:
    result = (*operand[:dim], *indices[batch:], *operand[dim + 1 :])
    types = ["x".join((*map(str, s), e)) for s, e in ((operand, "f32"), (indices, "i32"), (result, "f32"))]
    x_type, i_type, r_type = (f"tensor<{t}>" for t in types)
    text = f"""func.func @main(%x: {x_type}, %i: {i_type}) -> {r_type} {{
      %r = "stablehlo.torch_index_select"(%x, %i) {{dim = {dim} : i64, batch_dims = {batch} : i64}}
        : ({x_type}, {i_type}) -> {r_type}
      return %r : {r_type}
    }}"""
    x, i = values(operand), np.random.default_rng(4).integers(-2, operand[dim] + 2, indices).astype(np.int32)
    inside = np.clip(i, 0, operand[dim] - 1)
    expected = np.empty(result, np.float32)
    for at in np.ndindex(*operand[:batch]):
        expected[at] = np.take(x[at], inside[at], dim - batch)
    check_text(text, [x, i], [expected])


def test_samples_follow_the_maps() -> None:
    """The element the map of an operand says, with the clamped index as the runtime variable, is the reference's."""
    spec = spec_of("stablehlo.gather")
    for sample in spec.samples()[:1]:
        x, index = values((5, 7)), np.array([[[0], [4], [9]], [[-1], [2], [3]]], np.int32)
        (found,) = spec.evaluate(sample.attributes, sample.results, x, index)
        assert spec.indexing is not None
        (of_x,), (of_index,) = spec.indexing(sample.attributes, sample.results[0], sample.operands)
        grid = np.indices(found.shape)
        at, _ = of_index.evaluate(list(grid))
        start = np.clip(index[tuple(np.broadcast_to(a, found.shape) for a in at)], 0, 4)
        place, _ = of_x.evaluate(list(grid), [start])
        assert np.array_equal(x[tuple(place)], found)


def test_a_tensor_read_at_and_beside_its_elements() -> None:
    def interpolated(i: Any) -> Any:
        numbers = jnp.arange(9, dtype=np.float32)
        return numbers[i] * 2 + numbers

    check(interpolated, np.array([3, 1, 8, 0, 0, 5, 7, 2, 4], np.int32), levels=(), modes=FAST)


@pytest.mark.parametrize(("strides", "start"), [([2, 1], [0, 3]), ([1, 3], [1, 0])])
def test_slices_in_strides_from_known_and_unknown_places(strides: list[int], start: list[int]) -> None:
    result = [4, 2]
    limit = [s + (n - 1) * step + 1 for s, n, step in zip(start, result, strides, strict=True)]
    types = ["tensor<10x7xf32>", "tensor<2xi32>", f"tensor<{result[0]}x{result[1]}xf32>"]
    text = f"""func.func @main(%x: {types[0]}, %s: {types[1]}, %l: {types[1]}) -> {types[2]} {{
      %d = stablehlo.constant dense<{strides}> : {types[1]}
      %r = stablehlo.real_dynamic_slice %x, %s, %l, %d : ({types[0]}, {types[1]}, {types[1]}, {types[1]}) -> {types[2]}
      return %r : {types[2]}
    }}"""
    x = values((10, 7))
    expected = x[start[0] : limit[0] : strides[0], start[1] : limit[1] : strides[1]]
    check_text(text, [x, np.array(start, np.int32), np.array(limit, np.int32)], [expected], modes=FAST)
