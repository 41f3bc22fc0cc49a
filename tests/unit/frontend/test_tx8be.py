"""Modules in tx8be: what their ops compute, and what is refused, with the place and the op."""

import ml_dtypes
import numpy as np
import pytest

from hlo2tx8.dialects.tx8be import OPS, ROWS
from hlo2tx8.dialects.tx8be_attributes import DevAttr, MemScopeAttr
from hlo2tx8.dialects.tx8be_rows import BY_HLO
from hlo2tx8.dialects.tx8be_shapes import inferred_layout
from hlo2tx8.errors import Hlo2tx8Error, InputError
from hlo2tx8.frontend import load
from hlo2tx8.frontend.tx8be_forms import FORMS
from hlo2tx8.frontend.tx8be_text import read_tx8be
from hlo2tx8.hlo import evaluate
from hlo2tx8.hlo.lookup import has_spec

BF16 = np.dtype(ml_dtypes.bfloat16)


def module_of(body: str, takes: str, gives: str, result: str = "%0") -> str:
    """A module whose @main has that body; %n is a None."""
    arguments = ", ".join(f"%arg{k}: {type_}" for k, type_ in enumerate(takes.split(";")))
    none = '%n = "tx8be.None"() : () -> none'
    return f"module {{\n func.func @main({arguments}) -> {gives} {{\n {none}\n {body}\n return {result} : {gives}\n }}\n}}\n"


GEMM = '%0 = "tx8be.Gemm"(%arg0, %arg1, %n, %n) {{{0}}} : (tensor<{1}>, tensor<{2}>, none, none) -> tensor<{3}>'


def run(text: str, *arrays: np.ndarray) -> np.ndarray:
    return evaluate(load(text), *arrays)[0]


def test_an_int8_gemm_saturates():
    text = module_of(GEMM.format("", "1x2x64xi8", "64x3xi8", "1x2x3xi8"), "tensor<1x2x64xi8>;tensor<64x3xi8>", "tensor<1x2x3xi8>")
    left, right = np.full((1, 2, 64), 7, np.int8), np.stack([np.full(64, n, np.int8) for n in (1, -9, 0)], 1)
    assert run(text, left, right).tolist() == [[[127, -128, 0]] * 2]


@pytest.mark.parametrize(("left", "right"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_gemm_takes_either_factor_transposed(left: bool, right: bool):
    flags = f"transL = {str(left).lower()}, transR = {str(right).lower()}"
    a, b = ("2x5x3xf32" if left else "2x3x5xf32"), ("4x5xf32" if right else "5x4xf32")
    text = module_of(GEMM.format(flags, a, b, "2x3x4xf32"), f"tensor<{a}>;tensor<{b}>", "tensor<2x3x4xf32>")
    rng = np.random.default_rng(0)
    x, y = rng.integers(-4, 5, (2, 3, 5)).astype(np.float32), rng.integers(-4, 5, (5, 4)).astype(np.float32)
    given = np.ascontiguousarray(x.swapaxes(1, 2) if left else x), np.ascontiguousarray(y.T if right else y)
    np.testing.assert_array_equal(run(text, *given), x @ y)


def test_bias_and_scale_of_an_int8_gemm():
    body = '%0 = "tx8be.Gemm"(%arg0, %arg1, %arg2, %arg3) : (tensor<1x2xi8>, tensor<2x3xi8>, tensor<3xi32>, tensor<1xf32>)'
    types = "tensor<1x2xi8>;tensor<2x3xi8>;tensor<3xi32>;tensor<1xf32>"
    text = module_of(f"{body} -> tensor<1x3xi8>", types, "tensor<1x3xi8>")
    sums = [[100 + 1, 20 - 1, 2000]]
    right = np.array([[50, 10, 100], [50, 10, 100]], np.int8)
    found = run(text, np.ones((1, 2), np.int8), right, np.array([1, -1, 1800], np.int32), np.array([0.5], np.float32))
    assert found.tolist() == [[int(min(127, np.rint(n * 0.5))) for n in sums[0]]]


def test_a_batch_norm_is_computed_in_f32_and_rounded_once():
    params = "tensor<1x1x1x3xf32>"
    operands = f"tensor<2x3xbf16>, {params}, {params}, {params}, {params}"
    body = f'%0 = "tx8be.BatchNorm_Inference"(%arg0, %arg1, %arg2, %arg3, %arg4) : ({operands}) -> tensor<2x3xbf16>'
    text = module_of(body, operands.replace(", ", ";"), "tensor<2x3xbf16>")
    x = np.arange(6).reshape(2, 3).astype(BF16)
    scale, offset, mean, variance = (np.full((1, 1, 1, 3), v, np.float32) for v in (1.5, 0.25, 0.1, 2.0))
    wide = (x.astype(np.float64) - 0.1) / np.sqrt(2.0 + 1e-6) * 1.5 + 0.25
    np.testing.assert_array_equal(run(text, x, scale, offset, mean, variance), wide.astype(np.float32).astype(BF16))


@pytest.mark.parametrize("layouts", ["NHWC-HWOI-NHWC", "NCHW-OIHW-NHWC", "NHWC-HWIO-NCHW"])
def test_a_convolution_in_every_layout(layouts: str):
    rng = np.random.default_rng(1)
    x, w = rng.integers(-3, 4, (2, 5, 6, 4)), rng.integers(-3, 4, (3, 2, 8, 2))  # NHWC, HWOI
    x, w = x.astype(np.float32), w.astype(np.float32)
    padded = np.pad(x, ((0, 0), (1, 0), (0, 2), (0, 0)))
    wanted = np.zeros((2, 2, 7, 8), np.float32)
    for h in range(2):
        for v in range(7):
            window = padded[:, 2 * h : 2 * h + 3, v : v + 2, :]
            for out in range(8):
                part = window[..., :2] if out < 4 else window[..., 2:]
                wanted[:, h, v, out] = np.einsum("nhwi,hwi->n", part, w[:, :, out])
    first, second, third = layouts.split("-")
    given = np.ascontiguousarray(x.transpose(["NHWC".index(c) for c in first]))
    weight = np.ascontiguousarray(w.transpose(["HWOI".index(c) for c in second]))
    expected = wanted.transpose(["NHWC".index(c) for c in third])
    types = [f"tensor<{'x'.join(map(str, a.shape))}xf32>" for a in (given, weight, expected)]
    flags = "strides = array<i32: 2, 1>, pads = array<i32: 1, 0, 0, 2>, groups = 2 : i64"
    body = f'%0 = "tx8be.Conv"(%arg0, %arg1) {{layout_str = "{layouts}", {flags}}} : ({types[0]}, {types[1]}) -> {types[2]}'
    np.testing.assert_array_equal(run(module_of(body, ";".join(types[:2]), types[2]), given, weight), expected)


def test_layouts_follow_transposes():
    text = '%0 = "tx8be.Transpose"(%arg0) {permutation = array<i32: 0, 2, 3, 1>} : (tensor<3x4x5x6xf16>) -> tensor<3x5x6x4xf16>'
    module = read_tx8be(module_of(text, "tensor<3x4x5x6xf16>", "tensor<3x5x6x4xf16>"), "t")
    (op,) = (op for op in module.walk() if op.name == "tx8be.Transpose")
    assert inferred_layout(op, ["NCHW"]) == "NHWC"


def test_defaults_and_numbers():
    group = OPS["Group"]
    assert {name: row.default for name, row in group.ROW.properties.items() if name in ("need_barrier", "group_id")} == {
        "need_barrier": True,
        "group_id": -1,
    }
    assert [MemScopeAttr(word).number for word in ("DDR", "SPM", "3DDRAM")] == [0, 1, 2]
    assert DevAttr.of(imm_size=8)["multi_buf_num"] == 1


def test_every_op_that_computes_means_an_op_with_a_spec():
    unpublished = {row.name for row in ROWS.values() if not row.hlo and not row.is_value and row.results}
    assert unpublished == {"Tuple", "None", "LoadConst", "Unpack", "Group", "Call"}
    assert all(has_spec(ROWS[name].hlo) for name in FORMS)
    assert all(row.hlo == name for name, row in BY_HLO.items())


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            '%0 = "tx8be.Gemms"(%arg0) : (tensor<4x4xf32>) -> tensor<4x4xf32>',
            ": Operation tx8be.Gemms is not registered",
        ),
        ('%0 = "tx8be.Unpack"(%arg0) : (tensor<4x4xf32>) -> tensor<4x4xf32>', "tx8be.Unpack: what it computes is not published"),
        ('%0 = "tx8be.Reshape"(%arg0) : (tensor<4x4xf32>) -> tensor<4x5xf32>', "t.mlir:4:2: tx8be.Reshape: Reshape gives"),
        ('%0 = "tx8be.Abs"(%arg0) {fast = true} : (tensor<4x4xf32>) -> tensor<4x4xf32>', "the attribute fast means is not known"),
        ('%0 = "tx8be.Abs"(%arg0) : (tensor<4x4xf32>) -> tensor<4x5xf32>', "t.mlir:4:2: "),
        ('%0 = "tx8be.LoadConst"() {const_map_id = 0 : i64} : () -> tensor<4x4xf32>', "its data is in a folder's param.bin"),
        ('%0 = "tx8be.Abs(%arg0) : (tensor<4x4xf32>) -> tensor<4x4xf32>\n "tx8be.None"() : () -> none', "t.mlir:4:7: a string has"),
        ('%0 = "tx8be.Add"(%arg0, %n) : (tensor<4x4xf32>, none) -> tensor<4x4xf32>', "operand right of tx8be.Add is none"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(body: str, why: str, tmp_path):
    (path := tmp_path / "t.mlir").write_text(module_of(body, "tensor<4x4xf32>", "tensor<4x4xf32>", "%arg0"))
    with pytest.raises(Hlo2tx8Error) as error:
        load(path)
    assert why in str(error.value)


SUBGRAPH = """module {
  "tx8be.Subgraph"() ({
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    %2 = "tx8be.Sub"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "tx8be.Return"(%2) : (tensor<4xf32>) -> ()
  }) {sym_name = "s", function_type = (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>} : () -> ()
  func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %3 = "tx8be.Call"(%a, %b) {callee = @s} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %4 = "tx8be.Call"(%b, %3) {callee = @s} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    func.return %4 : tensor<4xf32>
  }
}"""


def test_a_subgraph_is_what_its_calls_compute():
    a, b = np.arange(4, dtype=np.float32), np.full(4, 5, np.float32)
    np.testing.assert_array_equal(evaluate(load(SUBGRAPH), a, b)[0], b - (a - b))


def test_a_call_that_does_not_fit_its_subgraph_is_refused():
    text = SUBGRAPH.replace("(%b, %3) {callee = @s} : (tensor<4xf32>, tensor<4xf32>)", "(%b) {callee = @s} : (tensor<4xf32>)")
    with pytest.raises(Hlo2tx8Error, match=r"tx8be\.Call has operands"):
        load(text)


def test_a_module_without_main():
    with pytest.raises(InputError, match="no function @main"):
        load(
            module_of('%0 = "tx8be.Abs"(%arg0) : (tensor<f32>) -> tensor<f32>', "tensor<f32>", "tensor<f32>").replace(
                "main", "other"
            )
        )
