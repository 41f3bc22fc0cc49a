"""Dynamic shapes that constants or given inputs bind, and what is said where nothing does."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import hlo2tx8
from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.frontend import load, to_mlir_text
from hlo2tx8.runtime.tensors import write_tensors
from hlo2tx8.tools.main import main

VALUES = """
module @values {
  func.func public @main(%n: tensor<i64>, %x: tensor<?x5xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
    %c = stablehlo.constant dense<5> : tensor<i64>
    %0 = stablehlo.multiply %n, %c : tensor<i64>
    %1 = stablehlo.reshape %0 : (tensor<i64>) -> tensor<1xi64>
    %2 = func.call @twice(%x, %1) : (tensor<?x5xf32>, tensor<1xi64>) -> tensor<?xf32>
    %3 = stablehlo.reshape %n : (tensor<i64>) -> tensor<1xi64>
    %4 = stablehlo.dynamic_iota %3, dim = 0 : (tensor<1xi64>) -> tensor<?xf32>
    %5 = stablehlo.reshape %n : (tensor<i64>) -> tensor<1xi64>
    %6 = func.call @flat(%4, %5) : (tensor<?xf32>, tensor<1xi64>) -> tensor<?xf32>
    return %2, %6 : tensor<?xf32>, tensor<?xf32>
  }
  func.func private @twice(%x: tensor<?x5xf32>, %shape: tensor<1xi64>) -> tensor<?xf32> {
    %0 = stablehlo.dynamic_reshape %x, %shape : (tensor<?x5xf32>, tensor<1xi64>) -> tensor<?xf32>
    %1 = func.call @flat(%0, %shape) : (tensor<?xf32>, tensor<1xi64>) -> tensor<?xf32>
    return %1 : tensor<?xf32>
  }
  func.func private @flat(%x: tensor<?xf32>, %shape: tensor<1xi64>) -> tensor<?xf32> {
    %0 = stablehlo.add %x, %x : tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}
"""
RESIZED = """
func.func @main(%x: tensor<5x3xf32>{more}) -> tensor<3xf32> {{
  %n = {size}
  %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<5x3xf32>, tensor<i32>) -> tensor<?x3xf32, #stablehlo.bounds<5, ?>>
  %1 = stablehlo.negate %0 : tensor<?x3xf32, #stablehlo.bounds<5, ?>>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<?x3xf32, #stablehlo.bounds<5, ?>>, tensor<f32>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
}}
"""
X = np.arange(15, dtype=np.float32).reshape(3, 5)


def test_inputs_bind_shapes_and_the_values_that_shapes_depend_on() -> None:
    executable = hlo2tx8.compile(VALUES, args=(np.int64(3), X))
    flat, iota = executable.execute(np.int64(3), X)
    np.testing.assert_array_equal(flat, 2 * X.ravel())
    np.testing.assert_array_equal(iota, [0, 2, 4])


def test_a_bound_value_is_checked_also_in_a_saved_program(tmp_path: Path) -> None:
    hlo2tx8.compile(VALUES, args=(np.int64(3), X)).save(str(tmp_path / "bound.tx8x"))
    loaded = hlo2tx8.load(str(tmp_path / "bound.tx8x"))
    assert len(loaded.execute(np.int64(3), X)) == 2
    with pytest.raises(Hlo2tx8Error, match=r"input 0 should be \[3\], which shapes depend on, got 4"):
        loaded.execute(np.int64(4), X)
    assert "hlo.value" not in to_mlir_text(load(VALUES, args=(np.int64(3), X)))


def test_symbolic_dimensions_of_an_exported_function() -> None:
    rows, columns = export.symbolic_shape("rows, columns")

    def function(x: jax.Array, y: jax.Array) -> jax.Array:
        joined = jnp.concatenate([x, jnp.ones((x.shape[0], 1))], 1) * x.shape[1]
        return joined.reshape(-1) + jnp.arange(x.shape[0] * (x.shape[1] + 1)) + y.sum()

    shapes = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((rows, columns), (columns, 4))]
    exported = export.export(jax.jit(function))(*shapes)
    y = np.ones((5, 4), np.float32)
    (actual,) = hlo2tx8.compile(exported, args=(X, y)).execute(X, y)
    np.testing.assert_allclose(actual, function(jnp.asarray(X), jnp.asarray(y)))
    with pytest.raises(Hlo2tx8Error, match="E1002"):
        hlo2tx8.compile(exported, args=(X, y[:3]))


def test_without_inputs_the_unknown_sizes_are_named() -> None:
    with pytest.raises(Hlo2tx8Error, match=r"unknown sizes: input 1 is tensor<\?x5xf32>(\n|.)*--input_literals_file"):
        load(VALUES)
    with pytest.raises(Hlo2tx8Error, match=r"input 1 should be tensor<\?x5xf32>, got shape \(5, 3\)"):
        load(VALUES, args=(np.int64(3), X.T.copy()))
    with pytest.raises(Hlo2tx8Error, match="takes 2 inputs, got 1"):
        load(VALUES, args=(X,))


def test_a_dimension_set_to_a_known_size_is_a_slice() -> None:
    x = X.T.copy()
    (actual,) = hlo2tx8.compile(RESIZED.format(more="", size="stablehlo.constant dense<2> : tensor<i32>")).execute(x)
    np.testing.assert_array_equal(actual, -x[:2].sum(0))
    text = RESIZED.format(more=", %m: tensor<i32>", size="stablehlo.add %m, %m : tensor<i32>")
    (actual,) = hlo2tx8.compile(text, args=(x, np.int32(2))).execute(x, np.int32(2))
    np.testing.assert_array_equal(actual, -x[:4].sum(0))
    with pytest.raises(Hlo2tx8Error, match=r"1 x stablehlo.set_dimension_size: .* depends on values that are not known at .*:4:"):
        load(text)


def test_a_size_that_is_computed_from_data_is_refused_with_its_op() -> None:
    text = """
    func.func @main(%x: tensor<5xf32>) -> tensor<?xi32> {
      %0 = stablehlo.convert %x : (tensor<5xf32>) -> tensor<5xi32>
      %1 = stablehlo.slice %0 [0:1] : (tensor<5xi32>) -> tensor<1xi32>
      %2 = stablehlo.dynamic_iota %1, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
      return %2 : tensor<?xi32>
    }"""
    with pytest.raises(Hlo2tx8Error, match=r"1 x stablehlo.dynamic_iota: .* depends on what is computed at .*:5:"):
        load(text, args=(X[0],))


def test_command_line_inputs_bind_shapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "values.mlir").write_text(VALUES)
    write_tensors(tmp_path / "in.safetensors", {"input0": np.array(3), "input1": X})
    given = [f"--input_literals_file={tmp_path / 'in.safetensors'}", str(tmp_path / "values.mlir")]
    assert main(["run", "--level=all", *given]) == 0
    assert main(["compile", "--report", *given]) == 0
    assert main(["profile", *given]) == 0
    assert main(["compile", given[1]]) == 1
    assert "unknown sizes: input 1 is tensor<?x5xf32>" in capsys.readouterr().err
