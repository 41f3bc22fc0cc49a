"""Dots on the matrix engine: the same bits at every level below FUSED, and float64's answer within what the formats allow."""

from functools import partial
from math import prod

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import hlo2tx8
from hlo2tx8.compiler.driver import load_source
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.frontend.types import type_from_text
from hlo2tx8.hlo.types import integer_limits, is_integer, numpy_dtype
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.levels import RUNS, each_run

Array = npt.NDArray[np.generic]
Dims = tuple[int, ...]
DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i32": np.int32}
EPS = {"f32": 2.0**-10, "f16": 2.0**-11, "bf16": 2.0**-8}
"""Of the format in which elements are multiplied (f32: TF32, cut off), and in which a result is rounded."""
BELOW_FUSED = [run for run in RUNS if run.level > Level.FUSED]


def random(shape: Dims, dtype: str, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if dtype == "i8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    return rng.standard_normal(shape).astype(DTYPES[dtype])


def typed(shape: Dims, element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def main(types: list[str], result: str, *lines: str) -> str:
    """A function of %p0, %p1, ... that returns %r."""
    parameters = ", ".join(f"%p{i}: {type_}" for i, type_ in enumerate(types))
    return "\n".join([f"func.func @main({parameters}) -> {result} {{", *lines, f"return %r : {result}", "}"])


def check_levels(text: str, arrays: list[Array], expected: Array, bound: Array | float) -> None:
    """All levels give the same bits, which are as close to `expected` as `bound` says."""
    found = [outputs[0] for outputs in each_run(partial(load_source, text), Options(), arrays, BELOW_FUSED)]
    for run, value in zip(BELOW_FUSED, found, strict=True):
        assert value.tobytes() == found[-1].tobytes(), f"{run.name} differs from strict mode"
    assert np.all(np.abs(found[-1].astype(np.float64) - expected) <= bound)


def uses_engine(text: str) -> bool:
    return "NE_gemm" in hlo2tx8.compile(text, Options()).as_text(Level.SCHEDULED)


def bound_of(depth: int, left: Array, right: Array, dtype: str, result: str, expected: Array, subscripts: str) -> Array:
    """Each product is off by twice the format's eps, each sum of 16 by one of f32 toward zero, the result by its own."""
    total = np.einsum(subscripts, np.abs(left.astype(np.float64)), np.abs(right.astype(np.float64)))
    product = 2 * EPS["f32"] if dtype == "f32" else 0.0
    return total * (product + depth * 2.0**-23) + np.abs(expected) * EPS.get(result, 0.0)


DOTS = {
    "plain": ("mk,kn->mn", (64, 96), (96, 64), "[1] x [0]"),
    "both transposed": ("km,nk->mn", (70, 90), (40, 70), "[0] x [1]"),
    "rows by rows": ("mk,nk->mn", (33, 100), (130, 100), "[1] x [1]"),
    "columns of no whole block": ("mk,kn->mn", (20, 17), (17, 321), "[1] x [0]"),
    "vectors": ("k,k->", (77,), (77,), "[0] x [0]"),
    "matrix by vector": ("mk,k->m", (130, 50), (50,), "[1] x [0]"),
    "vector by matrix": ("k,kn->n", (50,), (50, 130), "[0] x [0]"),
    "batch of two dimensions": ("abmk,abkn->abmn", (2, 3, 9, 24), (2, 3, 24, 65), "[3] x [2] batch [0, 1] x [0, 1]"),
    "batch last": ("mkb,knb->bmn", (9, 24, 5), (24, 7, 5), "[1] x [0] batch [2] x [2]"),
    "two contracted": ("mkl,nlk->mn", (12, 3, 40), (21, 40, 3), "[2, 1] x [1, 2]"),
    "two of each": ("abkc,kde->abcde", (4, 3, 40, 2), (40, 2, 5), "[2] x [0]"),
    "deep": ("mk,kn->mn", (8, 1500), (1500, 16), "[1] x [0]"),
    "blocks and what is left over": ("mk,kn->mn", (12, 135), (135, 191), "[1] x [0]"),
    "blocks and a whole tail": ("mk,kn->mn", (12, 72), (72, 260), "[1] x [0]"),
}


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "i8"])
@pytest.mark.parametrize("name", DOTS)
def test_dots_of_any_dimensions(name: str, dtype: str):
    subscripts, left, right, numbers = DOTS[name]
    contracted, _, batch = numbers.partition(" batch ")
    fields = (f"batching_dims = {batch}, " if batch else "") + f"contracting_dims = {contracted}"
    arrays = [random(left, dtype, 1), random(right, dtype, 2)]
    expected = np.asarray(np.einsum(subscripts, *(a.astype(np.float64) for a in arrays)))
    result = "i32" if dtype == "i8" else dtype
    types = [typed(left, dtype), typed(right, dtype)]
    line = f"%r = stablehlo.dot_general %p0, %p1, {fields} : ({', '.join(types)}) -> {typed(expected.shape, result)}"
    text = main(types, typed(expected.shape, result), line)
    depth = max(1, prod(left) * prod(right) // max(1, expected.size))
    assert uses_engine(text)
    check_levels(text, arrays, expected, bound_of(min(depth, 2000), *arrays, dtype, result, expected, subscripts))


@pytest.mark.parametrize(
    ("subscripts", "left", "right", "permutation"),
    [
        ("mk,kn->mn", (9, 24), (24, 65), (1, 0)),
        ("abdk,abqk->abdq", (2, 3, 16, 17), (2, 3, 9, 17), (0, 3, 1, 2)),
        ("ack,kde->acde", (3, 4, 40), (40, 2, 5), (2, 0, 3, 1)),
    ],
)
def test_transposed_results(subscripts: str, left: Dims, right: Dims, permutation: Dims):
    """Rows of the first operand become innermost: it may as well be the second one."""
    arrays = [random(left, "f32", 1), random(right, "f32", 2)]
    expected = np.asarray(np.einsum(subscripts, *(a.astype(np.float64) for a in arrays)))
    batch = "batching_dims = [0, 1] x [0, 1], " if "ab" in subscripts else ""
    contracted = f"[{len(left) - 1}] x [{subscripts.split(',')[1].index('k')}]"
    types, of_dot = [typed(left, "f32"), typed(right, "f32")], typed(expected.shape, "f32")
    result = typed(tuple(expected.shape[dim] for dim in permutation), "f32")
    dot = f"%0 = stablehlo.dot_general %p0, %p1, {batch}contracting_dims = {contracted} : ({', '.join(types)}) -> {of_dot}"
    turn = f"%r = stablehlo.transpose %0, dims = {list(permutation)} : ({of_dot}) -> {result}"
    bound = bound_of(left[-1], *arrays, "f32", "f32", expected, subscripts)
    check_levels(main(types, result, dot, turn), arrays, expected.transpose(permutation), bound.transpose(permutation))


@pytest.mark.parametrize(("precision", "cut_off"), [("HIGH", 2.0**-14), ("HIGHEST", 2.0**-21)])
@pytest.mark.parametrize("name", ["plain", "columns of no whole block", "batch of two dimensions", "two contracted", "deep"])
def test_f32_in_parts(name: str, precision: str, cut_off: float):
    subscripts, left, right, numbers = DOTS[name]
    contracted, _, batch = numbers.partition(" batch ")
    fields = (f"batching_dims = {batch}, " if batch else "") + f"contracting_dims = {contracted}"
    arrays = [random(left, "f32", 3), random(right, "f32", 4)]
    wide = [a.astype(np.float64) for a in arrays]
    expected, total = np.einsum(subscripts, *wide), np.einsum(subscripts, *map(np.abs, wide))
    types = [typed(left, "f32"), typed(right, "f32")]
    asked = f"precision = [{precision}, {precision}] : ({', '.join(types)})"
    line = f"%r = stablehlo.dot_general %p0, %p1, {fields}, {asked} -> {typed(expected.shape, 'f32')}"
    check_levels(main(types, typed(expected.shape, "f32"), line), arrays, expected, total * (cut_off + 16 * 2.0**-23))


def test_infinite_and_nan_factors_in_parts():
    left = np.array([[np.inf, 1.0, 2.0], [np.nan, 1.0, 0.0], [3e38, -0.0, 1e-3], [-np.inf, np.inf, 0.0]], np.float32)
    right = np.array([[1.5, 0.0, -1e-3], [1.0, 1.0, 1.0], [0.5, 2.0, 4.0]], np.float32)
    text = main(
        ["tensor<4x3xf32>", "tensor<3x3xf32>"],
        "tensor<4x3xf32>",
        "%r = stablehlo.dot_general %p0, %p1, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST]"
        " : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>",
    )
    found = np.asarray(hlo2tx8.compile(text, Options()).run(left, right))
    with np.errstate(all="ignore"):
        expected = left.astype(np.float64) @ right.astype(np.float64)
    finite = np.isfinite(expected) & (np.abs(expected) < 3.4e38)
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    assert np.array_equal(found[np.isinf(expected)], expected[np.isinf(expected)].astype(np.float32))
    assert np.allclose(found[finite], expected[finite], rtol=2.0**-20)


MIXED = (
    *(("bf16", "i4", "bf16"), ("bf16", "i8", "f32"), ("f16", "bf16", "f32"), ("f32", "bf16", "f32"), ("i8", "i8", "f32")),
    *(("i16", "f16", "f32"), ("i1", "bf16", "f32"), ("f8E4M3FN", "f8E5M2", "f32"), ("i8", "i4", "i32")),
)


@pytest.mark.parametrize(("left", "right", "result"), MIXED)
def test_factors_of_two_types(left: str, right: str, result: str) -> None:
    """One type holds the values of both: integers of a few bits and short floats are multiplied exactly."""
    arrays = [few_bits(shape, element, seed) for seed, (shape, element) in enumerate((((5, 37), left), ((37, 19), right)))]
    types = [typed((5, 37), left), typed((37, 19), right)]
    text = main(types, typed((5, 19), result), f"%r = stablehlo.dot %p0, %p1 : ({', '.join(types)}) -> {typed((5, 19), result)}")
    expected = np.matmul(*(array.astype(np.float64) for array in arrays))
    bound = bound_of(37, *arrays, "f32" if "f32" in (left, right) else "", result, expected, "mk,kn->mn")
    check_levels(text, arrays, expected, bound if result.endswith("f32") or result == "bf16" else 0)
    assert uses_engine(text)


def few_bits(shape: Dims, element: str, seed: int) -> Array:
    """Numbers that an element may be."""
    dtype = numpy_dtype(as_tensor(type_from_text(typed((), element))).element_type)
    numbers = np.random.default_rng(seed).standard_normal(shape) * 3
    if not is_integer(dtype):
        return (numbers > 0 if element == "i1" else numbers).astype(dtype)
    return np.clip(np.round(numbers * 2000), *integer_limits(dtype)).astype(dtype)


def test_rows_of_groups_with_a_matrix_each() -> None:
    """ragged-dot of an HLO module, which XLA:CPU does not have."""
    text = """HloModule ragged

    ENTRY main {
      rows = f32[19,5] parameter(0)
      matrices = f32[3,5,7] parameter(1)
      sizes = s32[3] parameter(2)
      ROOT product = f32[19,7] ragged-dot(rows, matrices, sizes), lhs_contracting_dims={1}, rhs_contracting_dims={1},
        lhs_ragged_dims={0}, rhs_group_dims={0}
    }"""
    rows, matrices, sizes = few_bits((19, 5), "bf16", 0), few_bits((3, 5, 7), "bf16", 1), np.array([4, 0, 15], np.int32)
    wide = [array.astype(np.float64) for array in (rows, matrices)]
    expected = np.stack([row @ wide[1][group] for row, group in zip(wide[0], np.repeat(range(3), sizes), strict=True)])
    arrays = [rows.astype(np.float32), matrices.astype(np.float32), sizes]
    check_levels(text, arrays, expected, 2.0**-20 * np.abs(expected).max())


def test_a_few_short_steps_are_the_first_tiles() -> None:
    """No tile waits for what another one makes."""
    left, right, none = random((2, 1, 16), "f32", 1), random((2, 16, 16), "f32", 2), "precision = [DEFAULT, DEFAULT]"
    types = [typed(array.shape, "f32") for array in (left, right)]
    dot = f"batching_dims = [0] x [0], contracting_dims = [2] x [1], {none}"
    text = main(
        types,
        types[0],
        f"%a = stablehlo.dot_general %p0, %p1, {dot} : ({types[0]}, {types[1]}) -> {types[0]}",
        f"%r = stablehlo.dot_general %a, %p1, {dot} : ({types[0]}, {types[1]}) -> {types[0]}",
    )
    program = hlo2tx8.compile(text).as_text()
    assert program.count("NE_gemm") == 2
    assert "KC_barrier" not in program
    middle = left.astype(np.float64) @ right
    total = np.abs(left.astype(np.float64)) @ np.abs(right) @ np.abs(right)
    check_levels(text, [left, right], middle @ right, 8 * EPS["f32"] * total)
