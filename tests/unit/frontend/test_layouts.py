"""Layouts of HLO text become encodings of tensor types, and export keeps the values."""

from typing import Any

import numpy as np
import pytest

from hlo2tx8.dialects.layout import minor_to_major
from hlo2tx8.frontend import load, to_mlir_text
from hlo2tx8.hlo import evaluate

TEXT = """HloModule m, entry_computation_layout={(f32[2,3]{0,1}, f32[3,2]{1,0})->(f32[3,2]{0,1}, f32[2,3]{0,1}, f32[])}
fused {
  p = f32[2,3]{0,1} parameter(0)
  q = f32[3,2]{1,0} parameter(1)
  t = f32[3,2]{1,0} transpose(p), dimensions={1,0}
  a = f32[3,2]{0,1} add(t, q)
  k = f32[3,2]{0,1} constant({{1,2},{3,4},{5,6}})
  s = f32[3,2]{0,1} add(a, k)
  c = f32[2,3]{0,1} copy(p)
  ROOT r = (f32[3,2]{0,1}, f32[2,3]{0,1}) tuple(s, c)
}
ENTRY main {
  x = f32[2,3]{0,1} parameter(0)
  y = f32[3,2]{1,0} parameter(1)
  f = (f32[3,2]{0,1}, f32[2,3]{0,1}) fusion(x, y), kind=kInput, calls=fused
  g = f32[3,2]{0,1} get-tuple-element(f), index=0
  h = f32[2,3]{0,1} get-tuple-element(f), index=1
  z = f32[] constant(1)
  ROOT o = (f32[3,2]{0,1}, f32[2,3]{0,1}, f32[]) tuple(g, h, z)
}"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = 10 * np.arange(6, dtype=np.float32).reshape(3, 2)


def orders(values: Any) -> list[tuple[int, ...]]:
    return [minor_to_major(value.type) for value in values]


def named(module: Any, name: str) -> Any:
    (op,) = [op for op in module.walk() if op.name == name]
    return op


def test_layouts_of_parameters_results_fusions_and_constants():
    module = load(TEXT)
    fusion = named(module, "hlo.fusion")
    body = fusion.regions[0].block
    assert orders(module.body.block.first_op.body.block.args) == [(0, 1), (1, 0)]
    assert orders(body.args) == orders(fusion.operands) == [(0, 1), (1, 0)]
    assert orders(fusion.results) == orders(body.last_op.operands) == [(0, 1), (0, 1)]
    assert orders(named(module, "hlo.copy").results) == [(0, 1)]
    (big,) = [op for op in body.ops if op.name == "stablehlo.constant"]
    assert orders(big.results) == [(0, 1)]
    assert orders(named(module, "stablehlo.transpose").results) == [(1, 0)]
    assert len(named(module, "hlo.fusion").results) == 2


def test_export_keeps_values():
    wanted = [X.T + Y + np.arange(1, 7, dtype=np.float32).reshape(3, 2), X, np.float32(1)]
    for module in (load(TEXT), load(to_mlir_text(load(TEXT)))):
        for actual, expected in zip(evaluate(module, X, Y), wanted, strict=True):
            np.testing.assert_array_equal(actual, expected)


def test_bitcast_reads_the_buffer():
    text = """HloModule m
ENTRY e {
  x = f32[2,3]{0,1} parameter(0)
  ROOT b = f32[6]{0} bitcast(x)
}"""
    for module in (load(text), load(to_mlir_text(load(text)))):
        np.testing.assert_array_equal(evaluate(module, X)[0], X.T.reshape(-1))


@pytest.mark.parametrize("promised", ["{1,0}", "{0,1}"])
def test_results_get_the_layout_the_entry_promises(promised: str):
    text = f"""HloModule m, entry_computation_layout={{(f32[2,3]{{0,1}})->f32[2,3]{promised}}}
ENTRY e {{
  x = f32[2,3]{{0,1}} parameter(0)
  ROOT b = f32[2,3]{{0,1}} negate(x)
}}"""
    main = load(text).body.block.first_op
    order = (1, 0) if promised == "{1,0}" else (0, 1)
    assert orders(main.body.block.last_op.operands) == [order]
    assert minor_to_major(main.function_type.outputs.data[0]) == order


def test_loops_carry_layouts():
    text = """HloModule m
cond {
  s = (s32[], f32[2,3]{0,1}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[2,3]{0,1}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[2,3]{0,1} get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  w = f32[2,3]{0,1} add(v, v)
  ROOT t = (s32[], f32[2,3]{0,1}) tuple(j, w)
}
ENTRY e {
  x = f32[2,3]{0,1} parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[2,3]{0,1}) tuple(zero, x)
  l = (s32[], f32[2,3]{0,1}) while(s), condition=cond, body=body
  ROOT r = f32[2,3]{0,1} get-tuple-element(l), index=1
}"""
    module = load(text)
    module.verify()
    loop = named(module, "stablehlo.while")
    assert orders(loop.results)[1] == orders(loop.regions[1].block.args)[1] == (0, 1)
    np.testing.assert_array_equal(evaluate(module, X)[0], 8 * X)
