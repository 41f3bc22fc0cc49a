"""cholesky and triangular_solve on the emulator and at every level against float64."""

import itertools

import numpy as np
import pytest
from jax_programs import FAST, LEVELS, check_text

A = np.random.default_rng(0).normal(size=(2, 5, 5))
POSITIVE = A @ A.transpose(0, 2, 1) + 5 * np.eye(5)
TRIANGLE = A + 4 * np.eye(5)
B = np.random.default_rng(1).normal(size=(2, 5, 3))
DTYPES = {"f32": np.float32, "f64": np.float64}


def near(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    assert np.max(np.abs(actual - expected)) <= 64 * np.finfo(actual.dtype).eps * np.max(np.abs(expected))


@pytest.mark.parametrize(("element", "lower"), [("f32", True), ("f32", False), ("f64", True)])
def test_cholesky(element: str, lower: bool) -> None:
    type_ = f"tensor<2x5x5x{element}>"
    text = f"""func.func @main(%a: {type_}) -> {type_} {{
      %r = "stablehlo.cholesky"(%a) {{lower = {str(lower).lower()}}} : ({type_}) -> {type_}
      return %r : {type_}
    }}"""
    a = POSITIVE.astype(DTYPES[element])
    factor = np.linalg.cholesky(a.astype(np.float64))
    expected = factor if lower else factor.transpose(0, 2, 1)
    levels = LEVELS if lower and element == "f32" else ()
    check_text(text, [np.tril(a) if lower else np.triu(a)], [expected], levels, FAST, near)


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky_of_a_matrix_that_is_not_positive_definite_is_nan(lower: bool) -> None:
    text = f"""func.func @main(%a: tensor<3x4x4xf32>) -> tensor<3x4x4xf32> {{
      %r = "stablehlo.cholesky"(%a) {{lower = {str(lower).lower()}}} : (tensor<3x4x4xf32>) -> tensor<3x4x4xf32>
      return %r : tensor<3x4x4xf32>
    }}"""
    a = np.stack([np.diag([4.0, 1, 9, 16]), np.diag([4.0, -1, 9, 16]), np.diag([4.0, 1, 9, 0])]).astype(np.float32)
    none = np.full((4, 4), np.nan)
    expected = np.stack([np.diag([2.0, 1, 3, 4]), none, none])
    check_text(text, [a], [expected], (), FAST, lambda actual, expected: np.testing.assert_array_equal(actual, expected))


@pytest.mark.parametrize(("left", "lower", "transpose"), list(itertools.product((True, False), repeat=3)))
def test_triangular_solve(left: bool, lower: bool, transpose: bool) -> None:
    b = B if left else B.transpose(0, 2, 1)
    unit = left and not lower
    types = ["tensor<2x5x5xf32>", f"tensor<{'x'.join(map(str, b.shape))}xf32>"]
    flags = {"left_side": left, "lower": lower, "unit_diagonal": unit}
    attributes = ", ".join(f"{name} = {str(value).lower()}" for name, value in flags.items())
    text = f"""func.func @main(%a: {types[0]}, %b: {types[1]}) -> {types[1]} {{
      %r = "stablehlo.triangular_solve"(%a, %b) {{{attributes}, transpose_a = #stablehlo<transpose
        {"TRANSPOSE" if transpose else "NO_TRANSPOSE"}>}} : ({types[0]}, {types[1]}) -> {types[1]}
      return %r : {types[1]}
    }}"""
    matrix = np.tril(TRIANGLE) if lower else np.triu(TRIANGLE)
    if unit:
        matrix[:, range(5), range(5)] = 1
    matrix = matrix.transpose(0, 2, 1) if transpose else matrix
    expected = np.linalg.solve(matrix, b) if left else np.linalg.solve(matrix.transpose(0, 2, 1), B).transpose(0, 2, 1)
    levels = LEVELS if left and lower and not transpose else ()
    check_text(text, [TRIANGLE.astype(np.float32), b.astype(np.float32)], [expected], levels, FAST, near)


COMPLEX = A + 1j * np.random.default_rng(2).normal(size=A.shape)
HERMITIAN = COMPLEX @ COMPLEX.conj().transpose(0, 2, 1) + 5 * np.eye(5)


@pytest.mark.parametrize("lower", [True, False])
def test_complex_cholesky(lower: bool) -> None:
    text = f"""func.func @main(%a: tensor<2x5x5xcomplex<f32>>) -> tensor<2x5x5xcomplex<f32>> {{
      %r = "stablehlo.cholesky"(%a) {{lower = {str(lower).lower()}}} : (tensor<2x5x5xcomplex<f32>>) -> tensor<2x5x5xcomplex<f32>>
      return %r : tensor<2x5x5xcomplex<f32>>
    }}"""
    factor = np.linalg.cholesky(HERMITIAN)
    expected = factor if lower else factor.conj().transpose(0, 2, 1)
    given = np.tril(HERMITIAN) if lower else np.triu(HERMITIAN)
    check_text(text, [given.astype(np.complex64)], [expected], (), FAST, near)


@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_complex_triangular_solve(transpose: str) -> None:
    types = ["tensor<2x5x5xcomplex<f32>>", "tensor<2x5x3xcomplex<f32>>"]
    text = f"""func.func @main(%a: {types[0]}, %b: {types[1]}) -> {types[1]} {{
      %r = "stablehlo.triangular_solve"(%a, %b) {{left_side = true, lower = true, unit_diagonal = false,
        transpose_a = #stablehlo<transpose {transpose}>}} : ({types[0]}, {types[1]}) -> {types[1]}
      return %r : {types[1]}
    }}"""
    a, b = COMPLEX + 4 * np.eye(5), B * (1 + 2j)
    matrix = np.tril(a)
    matrix = matrix.transpose(0, 2, 1) if transpose != "NO_TRANSPOSE" else matrix
    matrix = matrix.conj() if transpose == "ADJOINT" else matrix
    expected = np.linalg.solve(matrix, b)
    check_text(text, [a.astype(np.complex64), b.astype(np.complex64)], [expected], (), FAST, near)
