"""Each kind of source gives the same module; sources that are none are refused in one clear line."""

from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from hlo2tx8.dialects.hlo import decode_attributes, name_of, origin
from hlo2tx8.errors import InputError
from hlo2tx8.frontend import load, shim
from hlo2tx8.hlo.module import find_main, module_name

TEXT = """module @scaled {
  func.func public @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %c = stablehlo.constant dense<2.0> : tensor<2x3xf32>
    %0 = stablehlo.multiply %x, %c : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}
"""
GELU = """HloModule m:

gelu {
  x = bf16[6,512,4096] parameter(0)
  half = bf16[] constant(0.5)
  halves = bf16[6,512,4096] broadcast(half), dimensions={}
  ROOT result = bf16[6,512,4096] multiply(x, halves)
}

ENTRY main {
  p = bf16[6,512,4096] parameter(0)
  ROOT fusion = bf16[6,512,4096] fusion(p), kind=kLoop, calls=gelu
}
"""


def ops_of(module: Any) -> list[str]:
    return [name_of(op) for op in module.walk() if not op.name.startswith(("builtin", "func."))]


@pytest.fixture
def mlir() -> Any:
    return shim.parse_module(TEXT, shim.make_context())


def test_stablehlo_text_pretty_and_generic(mlir: Any):
    generic = mlir.operation.get_asm(print_generic_op_form=True)
    assert '"stablehlo.multiply"' in generic
    for text in (TEXT, generic):
        assert ops_of(load(text)) == ["stablehlo.constant", "stablehlo.multiply"]
    assert module_name(load(TEXT)) == "scaled"


def test_bytecode_and_portable_artifact(mlir: Any, tmp_path: Path):
    from io import BytesIO

    stablehlo: Any = import_module("jaxlib.mlir.dialects.stablehlo")
    out = BytesIO()
    mlir.operation.write_bytecode(out)
    artifact = stablehlo.serialize_portable_artifact(mlir, stablehlo.get_minimum_version())
    for data in (out.getvalue(), artifact):
        assert ops_of(load(data)) == ["stablehlo.constant", "stablehlo.multiply"]
        path = tmp_path / "module.mlirbc"
        path.write_bytes(data)
        assert ops_of(load(path)) == ops_of(load(str(path))) == ["stablehlo.constant", "stablehlo.multiply"]


def test_jax_lowered_exported_and_function():
    import jax
    import jax.export

    def function(x: Any) -> Any:
        return jax.numpy.tanh(x) * 2

    x = np.ones((2, 3), np.float32)
    jitted = cast(Any, jax).jit(function)
    for source in (jitted.lower(x), jax.export.export(jitted)(x)):
        assert {"stablehlo.constant", "stablehlo.multiply", "stablehlo.tanh"} <= set(ops_of(load(source)))
    module = load(function, args=[x])
    (tanh,) = [op for op in module.walk() if op.name == "stablehlo.tanh"]
    assert "test_sources.py" in origin(tanh) and "tanh" in origin(tanh)


def test_hlo_text_keeps_fusions(tmp_path: Path):
    path = tmp_path / "gelu.hlo"
    path.write_text(GELU)
    for source in (path, str(path), GELU):
        module = load(source)
        (fusion,) = [op for op in module.walk() if op.name == "hlo.fusion"]
        assert decode_attributes(fusion)["kind"] == "kLoop"
        inner = [op.name for op in fusion.regions[0].block.ops]
        assert inner == ["stablehlo.constant", "stablehlo.broadcast_in_dim", "stablehlo.multiply", "stablehlo.return"]
    (product,) = [op for op in load(path).walk() if op.name == "stablehlo.multiply"]
    assert origin(product) == f"{path}:7 result"


def test_hlo_metadata_is_the_origin():
    text = GELU.replace(
        "multiply(x, halves)", 'multiply(x, halves), metadata={op_name="jit(f)/mul" source_file="f.py" source_line=12}'
    )
    (product,) = [op for op in load(text).walk() if op.name == "stablehlo.multiply"]
    assert origin(product) == "f.py:12 jit(f)/mul"


def test_comments_and_format(tmp_path: Path):
    path = tmp_path / "gelu.txt"
    path.write_text("// a comment\n# RUN: nothing\n" + GELU)
    assert "hlo.fusion" in ops_of(load(path))
    path = tmp_path / "module.xyz"
    path.write_text(GELU)
    assert "hlo.fusion" in ops_of(load(path, format="hlo"))


def test_mlir_origin_is_the_file(tmp_path: Path):
    path = tmp_path / "scaled.mlir"
    path.write_text(TEXT)
    (product,) = [op for op in load(path).walk() if op.name == "stablehlo.multiply"]
    assert origin(product) == f"{path}:4:10"


def test_unknown_ops_are_kept_with_their_names():
    text = TEXT.replace("return", '%1 = "foo.bar"(%0) {n = 3 : i32} : (tensor<2x3xf32>) -> tensor<2x3xf32>\n    return', 1)
    assert ops_of(load(text))[-1] == "foo.bar"
    hlo = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  s = u32[4] parameter(1)
  ROOT r = bf16[4] stochastic-convert(p, s)
}"""
    assert ops_of(load(hlo)) == ["mhlo.stochastic_convert"]


def test_calls_and_dead_functions_go_and_composites_are_fusions():
    text = """func.func private @twice(%x: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.add %x, %x : tensor<f32>
      return %0 : tensor<f32>
    }
    func.func public @main(%x: tensor<f32>) -> tensor<f32> {
      %0 = call @twice(%x) : (tensor<f32>) -> tensor<f32>
      %1 = stablehlo.composite "my.twice" %0 {decomposition = @twice} : (tensor<f32>) -> tensor<f32>
      return %1 : tensor<f32>
    }"""
    module = load(text)
    assert set(ops_of(module)) == {"stablehlo.add", "hlo.fusion", "stablehlo.return"}
    assert len(module.body.block.ops) == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere.hlo", "nowhere.hlo: No such file or directory"),
        ("", "the source is empty"),
        (3, "no program in a int"),
        (len, "a Python function needs example arguments"),
    ],
)
def test_no_source(source: Any, message: str):
    with pytest.raises(InputError) as caught:
        load(source)
    assert caught.value.message == message and caught.value.code == "E1004"


def test_binary_file_is_no_module(tmp_path: Path):
    path = tmp_path / "image.hlo"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="neither text nor MLIR bytecode"):
        load(path)


def test_shapes_that_are_operands_become_static_where_they_are_known() -> None:
    text = """
    func.func @main(%a: tensor<2x3xf32>) -> tensor<?x?xf32> {
      %rows = stablehlo.get_dimension_size %a, dim = 0 : (tensor<2x3xf32>) -> tensor<i32>
      %0 = stablehlo.reshape %rows : (tensor<i32>) -> tensor<1xi32>
      %six = stablehlo.constant dense<6> : tensor<1xi32>
      %flat = stablehlo.dynamic_reshape %a, %six : (tensor<2x3xf32>, tensor<1xi32>) -> tensor<?xf32>
      %shape = stablehlo.concatenate %0, %six, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %1 = stablehlo.dynamic_broadcast_in_dim %flat, %shape, dims = [1] : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
      return %1 : tensor<?x?xf32>
    }
    """
    main = find_main(load(text))
    assert str(main.function_type.outputs.data[0]) == "tensor<2x6xf32>"
    assert [op.name for op in main.body.block.ops] == ["stablehlo.reshape", "stablehlo.broadcast_in_dim", "func.return"]


def test_a_module_may_hold_a_mesh_beside_its_functions():
    mesh = 'sdy.mesh @mesh = <["x"=1]>\n'
    module = load(f"{mesh}func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{ return %x : tensor<4xf32> }}")
    assert "func.func @main" in str(module)
