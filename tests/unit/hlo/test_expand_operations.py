"""Passes over single ops: the expanded module means the same, and holds no operation that no emitter takes."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.compiler.pipeline import PIPELINE
from hlo2tx8.errors import CompileError
from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate

CASES = {
    "bitcast_convert": ("tensor<3xf32>", "tensor<3x2xi16>"),
    "bitcast_convert_join": ("tensor<3x4xi8>", "tensor<3xf32>"),
    "bitcast_convert_empty": ("tensor<0x4xi8>", "tensor<0xf32>"),
    "real": ("tensor<4xf32>", "tensor<4xf32>"),
    "imag": ("tensor<4xf32>", "tensor<4xf32>"),
}
DTYPES = {"f32": np.float32, "i8": np.int8}


def expand(module: ModuleOp) -> None:
    """The passes over single ops, in the order of the pipeline."""
    for stage in PIPELINE:
        if stage.step.name.startswith("expand-") and stage.step.name not in ("expand-chlo", "expand-complex"):
            stage.step.apply(Context(), module)


@pytest.mark.parametrize("case", CASES)
def test_expansion_keeps_every_bit(case: str) -> None:
    source, result = CASES[case]
    op = "bitcast_convert" if case.startswith("bitcast") else case
    text = f"module {{ func.func @main(%a: {source}) -> {result} {{\n"
    text += f"%0 = stablehlo.{op} %a : ({source}) -> {result}\nreturn %0 : {result} }} }}"
    *shape, element = source[7:-1].split("x")
    rng = np.random.default_rng(3)
    raw = rng.integers(0, 100, (*map(int, shape), np.dtype(DTYPES[element]).itemsize), np.uint8)
    array = raw.view(DTYPES[element])[..., 0]
    expected = evaluate(load(text), array)[0]
    module = load(text)
    expand(module)
    module.verify()
    actual = evaluate(module, array)[0]
    assert actual.dtype == expected.dtype
    assert actual.tobytes() == expected.tobytes()


def test_a_window_over_a_scalar() -> None:
    text = """module { func.func @main(%a: tensor<f32>) -> tensor<f32> {
      %start = stablehlo.constant dense<2.0> : tensor<f32>
      %0 = "stablehlo.reduce_window"(%a, %start) <{window_dimensions = array<i64>}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %1 = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %1 : tensor<f32> }) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32> } }"""
    module = load(text)
    expand(module)
    assert evaluate(module, np.float32(3)) == [5]


@pytest.mark.parametrize(
    ("algorithm", "state", "kept"),
    [("DEFAULT", "4xui32", "2 or 3"), ("PHILOX", "6xui32", "2 or 3"), ("THREE_FRY", "2xui32", "2"), ("THREE_FRY", "3xui64", "2")],
)
def test_a_state_that_no_algorithm_keeps_is_refused(algorithm: str, state: str, kept: str) -> None:
    types = f"(tensor<{state}>) -> (tensor<{state}>, tensor<4xui32>)"
    text = f"""func.func @main(%s: tensor<{state}>) -> tensor<4xui32> {{
        %0:2 = "stablehlo.rng_bit_generator"(%s) {{rng_algorithm = #stablehlo<rng_algorithm {algorithm}>}} : {types}
        return %0#1 : tensor<4xui32>
    }}"""
    with pytest.raises(CompileError, match=f"{algorithm} keeps its state in {kept} words of 64 bits, not in u"):
        expand(load(text))
