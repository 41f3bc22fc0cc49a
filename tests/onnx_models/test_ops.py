"""Ops on shapes and dtypes beside those of ONNX's own cases, against ONNX's reference evaluator; control flow in both forms."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.errors import UnsupportedError

onnx = pytest.importorskip("onnx", reason="the extra hlo2tx8[onnx] is not installed")
reference = pytest.importorskip("onnx.reference")
make = onnx.helper
RNG = np.random.default_rng(7)
F32, I64 = 1, 7


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def wild(*shape: int) -> Any:
    """With NaN, infinities and zeros of both signs."""
    x = normal(*shape)
    x.reshape(-1)[:5] = [np.nan, np.inf, -np.inf, 0.0, -0.0]
    return x


def whole(high: int, *shape: int, dtype: Any = np.int64) -> Any:
    return RNG.integers(-high, high, shape).astype(dtype)


def graph_of(nodes: list[Any], inputs: list[Any], num_outputs: int = 1, opset: int = 22) -> Any:
    """A model of nodes that takes x0, x1, ... and gives y0, ..."""
    types = [make.make_tensor_value_info(f"x{k}", make.np_dtype_to_tensor_dtype(a.dtype), a.shape) for k, a in enumerate(inputs)]
    results = [make.make_empty_tensor_value_info(f"y{k}") for k in range(num_outputs)]
    return make.make_model(make.make_graph(nodes, "g", types, results), opset_imports=[make.make_opsetid("", opset)])


def check(model: Any, inputs: list[Any], tolerance: float = 2e-5) -> None:
    """The emulator gives what the reference evaluator does."""
    wanted = reference.ReferenceEvaluator(model).run(None, {f"x{k}": a for k, a in enumerate(inputs)})
    executable: Any = hlo2tx8.compile(model, args=inputs)
    for actual, expected in zip(executable.execute(*inputs), wanted, strict=True):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), tolerance, tolerance)


CASES: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "add f16": ("Add", [normal(3, 1, 5, dtype=np.float16), normal(7, 1, dtype=np.float16)], {}),
    "add of nothing": ("Add", [normal(0, 5), normal(5)], {}),
    "divide integers": ("Div", [whole(90, 4, 5, dtype=np.int32), np.array([-7, 3, 2, -1, 5], np.int32)], {}),
    "mod": ("Mod", [whole(90, 5, dtype=np.int16), np.array([-7, 3, 2, -4, 5], np.int16)], {}),
    "fmod": ("Mod", [normal(5), normal(5)], {"fmod": 1}),
    "relu of nan": ("Relu", [wild(13)], {}),
    "clip of nan": ("Clip", [wild(13), np.float32(-0.5), np.float32(0.5)], {}),
    "max of nan": ("Max", [wild(13), wild(13)[::-1].copy(), normal(1)], {}),
    "round": ("Round", [np.array([0.5, 1.5, -0.5, -2.5, 2.4999, np.nan], np.float32)], {}),
    "erf f64": ("Erf", [normal(11, dtype=np.float64)], {}),
    "cast to integers": ("Cast", [normal(3, 5) * 9], {"to": 6}),
    "softmax rank 1": ("Softmax", [normal(17)], {"axis": 0}),
    "logsoftmax inner": ("LogSoftmax", [normal(3, 7, 5)], {"axis": 1}),
    "reduce nothing": ("ReduceSum", [normal(3, 0, 5), np.array([1])], {"keepdims": 0}),
    "reduce mean of all": ("ReduceMean", [normal(3, 5, 7)], {"keepdims": 0}),
    "reduce max of nan": ("ReduceMax", [wild(3, 5), np.array([-1])], {}),
    "reduce prod i32": ("ReduceProd", [whole(4, 3, 5, dtype=np.int32), np.array([0])], {}),
    "gather negative": ("Gather", [normal(5, 3), np.array([[-1, 0], [4, -5]])], {"axis": 0}),
    "gather nd": ("GatherND", [normal(2, 3, 4), np.array([[[0], [-1]], [[2], [1]]])], {"batch_dims": 1}),
    "scatter add": ("ScatterElements", [normal(4, 5), whole(4, 2, 5), normal(2, 5)], {"axis": 0, "reduction": "add"}),
    "scatter nd max": ("ScatterND", [normal(6, 2), np.array([[1], [-1]]), normal(2, 2)], {"reduction": "max"}),
    "arg of equal ones": ("ArgMax", [np.array([[1, 3, 3], [2, 2, 1]], np.float32)], {"axis": 1, "select_last_index": 1}),
    "cumsum": ("CumSum", [normal(3, 7), np.array(1)], {"exclusive": 1, "reverse": 1}),
    "slice backward": ("Slice", [normal(5, 7), np.array([-1, 6]), np.array([-99, 0]), np.array([0, 1]), np.array([-2, -3])], {}),
    "reflect": ("Pad", [normal(4, 5), np.array([1, 2, 3, 4])], {"mode": "reflect"}),
    "expand": ("Expand", [normal(3, 1), np.array([2, 1, 6])], {}),
    "conv groups": (
        "Conv",
        [normal(2, 6, 7, 9), normal(4, 3, 3, 2), normal(4)],
        {"group": 2, "strides": [2, 1], "pads": [1, 0, 2, 1]},
    ),
    "conv 1d same": ("Conv", [normal(1, 3, 11), normal(5, 3, 4)], {"auto_pad": "SAME_UPPER", "strides": [2]}),
    "conv transpose": (
        "ConvTranspose",
        [normal(1, 4, 5, 4), normal(4, 3, 3, 2)],
        {"group": 1, "strides": [2, 3], "pads": [1, 0, 0, 1]},
    ),
    "average ceil": ("AveragePool", [normal(1, 2, 7, 8)], {"kernel_shape": [3, 2], "strides": [2, 3], "ceil_mode": 1}),
    "max pool dilated": ("MaxPool", [normal(1, 2, 9, 8)], {"kernel_shape": [3, 2], "dilations": [2, 3], "strides": [2, 1]}),
    "layer norm": ("LayerNormalization", [normal(3, 5, 7), normal(5, 7), normal(5, 7)], {"axis": 1}),
    "matmul broadcast": ("MatMul", [normal(2, 1, 3, 5), normal(4, 5, 6)], {}),
    "matvec f64": ("MatMul", [normal(3, 5, dtype=np.float64), normal(5, dtype=np.float64)], {}),
    "gemm transposed": ("Gemm", [normal(5, 3), normal(7, 5), normal(7)], {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}),
    "einsum": ("Einsum", [normal(2, 3, 4), normal(2, 4, 5)], {"equation": "bij, bjk -> bik"}),
    "top k": ("TopK", [normal(3, 9), np.array([4])], {"axis": 1}),
    "quantize axis": (
        "QuantizeLinear",
        [normal(3, 5) * 90, np.array([0.5, 1, 2], np.float32), np.array([0, 3, 9], np.uint8)],
        {"axis": 0},
    ),
    "dequantize i32": ("DequantizeLinear", [whole(1 << 20, 7, dtype=np.int32), np.float32(0.125)], {}),
    "integer product": ("MatMulInteger", [whole(128, 3, 5, dtype=np.int8), whole(128, 5, 4, dtype=np.int8), np.int8(-3)], {}),
    "resize cubic": (
        "Resize",
        [normal(1, 1, 4, 5), np.zeros(0, np.float32), np.array([1, 1, 1.7, 0.6], np.float32)],
        {"mode": "cubic"},
    ),
    "grid": ("GridSample", [normal(1, 2, 4, 5), np.tanh(normal(1, 3, 2, 2)) * 1.4], {"padding_mode": "border"}),
    "grid cubic": (
        "GridSample",
        [normal(1, 2, 4, 5), normal(1, 3, 2, 2) * 1.5],
        {"mode": "cubic", "padding_mode": "reflection"},
    ),
    "dft": ("DFT", [normal(1, 9, 2)], {}),
    "bf16": ("Mul", [normal(3, 5, dtype=ml_dtypes.bfloat16), normal(5, dtype=ml_dtypes.bfloat16)], {}),
}


@pytest.mark.parametrize("name", CASES)
def test_ops_agree_with_the_reference(name: str):
    op, inputs, attributes = CASES[name]
    inputs = [np.asarray(a) for a in inputs]
    outputs = [f"y{k}" for k in range(2 if op == "TopK" else 1)]
    names = ["" if a.size == 0 and op == "Resize" else f"x{k}" for k, a in enumerate(inputs)]
    check(graph_of([make.make_node(op, names, outputs, **attributes)], inputs, len(outputs)), inputs)


@pytest.mark.parametrize(
    ("start", "end", "step", "wanted"),
    [(-6, -9, -1, [0]), (9, -9, -1, [2, 1, 0]), (1, -9, -2, [1]), (0, 2, -1, []), (-9, 9, 2, [0, 2]), (2, 1, 1, []), (5, 9, 1, [])],
)
def test_starts_and_ends_of_slices_are_clamped(start: int, end: int, step: int, wanted: list[int]):
    """A start before the beginning is the beginning, also where a slice goes backward."""
    x = np.arange(3, dtype=np.float32)
    inputs = [x, *(np.array([n]) for n in (start, end, 0, step))]
    node = make.make_node("Slice", [f"x{k}" for k in range(5)], ["y0"])
    executable: Any = hlo2tx8.compile(graph_of([node], inputs), args=inputs)
    np.testing.assert_array_equal(executable(*inputs), wanted)


def test_negative_padding_cuts():
    x, pads = normal(4, 5), np.array([-1, 2, 3, -2])
    executable: Any = hlo2tx8.compile(graph_of([make.make_node("Pad", ["x0", "x1"], ["y0"])], [x, pads]), args=[x, pads])
    np.testing.assert_array_equal(executable(x, pads), np.pad(x[1:, :3], ((0, 3), (2, 0))))


def branch(op: str, value: float) -> Any:
    nodes = [make.make_node("Constant", [], ["c"], value_float=value), make.make_node(op, ["x1", "c"], ["r"])]
    return make.make_graph(nodes, op, [], [make.make_empty_tensor_value_info("r")])


@pytest.mark.parametrize("chosen", [True, False])
def test_both_branches_are_in_the_program(chosen: bool):
    node = make.make_node("If", ["x0"], ["y0"], then_branch=branch("Add", 1.0), else_branch=branch("Mul", 3.0))
    condition, x = np.array(chosen), normal(3, 5)
    executable: Any = hlo2tx8.compile(graph_of([node], [condition, x]))
    for given in (chosen, not chosen):
        np.testing.assert_array_equal(executable(np.array(given), x), x + 1 if given else x * 3)


def body(nodes: list[Any], inputs: list[Any], outputs: list[str]) -> Any:
    inputs = [make.make_tensor_value_info(name, *given) for name, *given in inputs]
    return make.make_graph(nodes, "body", inputs, [make.make_empty_tensor_value_info(name) for name in outputs])


def test_a_loop_while_a_condition_holds():
    """Doubles x until its sum is at least a limit; how often is not known before."""
    nodes = [
        make.make_node("Add", ["s", "s"], ["t"]),
        make.make_node("ReduceSum", ["t"], ["total"], keepdims=0),
        make.make_node("Less", ["total", "x1"], ["more"]),
    ]
    inner = body(nodes, [("i", I64, []), ("c", 9, []), ("s", F32, [3])], ["more", "t"])
    executable: Any = hlo2tx8.compile(graph_of([make.make_node("Loop", ["", "x2", "x0"], ["y0"], body=inner)], LOOP))
    for limit, turns in ((5, 2), (100, 6), (1000, 10)):
        np.testing.assert_array_equal(executable(LOOP[0], np.float32(limit), np.array(True)), LOOP[0] * 2**turns)


ALWAYS = make.make_node("Constant", [], ["yes"], value=make.make_tensor("yes", 9, [], [True]))
LOOP = [np.array([1, 0.5, 0.25], np.float32), np.array(0, np.float32), np.array(True)]


def test_a_loop_whose_turns_give_rows_has_a_known_trip_count():
    nodes = [
        make.make_node("Mul", ["s", "x1"], ["t"]),
        make.make_node("Identity", ["c"], ["d"]),
        make.make_node("Neg", ["t"], ["row"]),
    ]
    inner = body(nodes, [("i", I64, []), ("c", 9, []), ("s", F32, [3])], ["d", "t", "row"])
    inputs = [np.array(4), normal(3), normal(3)]
    model = graph_of([ALWAYS, make.make_node("Loop", ["x0", "yes", "x2"], ["y0", "y1"], body=inner)], inputs, 2)
    check(model, inputs)
    with pytest.raises(UnsupportedError, match="Loop: must be known at compile time and depends on the input 'x0'"):
        hlo2tx8.compile(model)


def test_a_loop_of_turns_of_several_shapes_is_traced_turn_by_turn():
    nodes = [make.make_node("Concat", ["s", "x1"], ["t"], axis=0), make.make_node("Identity", ["c"], ["d"])]
    inner = body(nodes, [("i", I64, []), ("c", 9, []), ("s", F32, None)], ["d", "t"])
    inputs = [np.array(3), normal(2), normal(1)]
    check(graph_of([ALWAYS, make.make_node("Loop", ["x0", "yes", "x2"], ["y0"], body=inner)], inputs), inputs)


def test_sequences_inside_of_a_model():
    inputs = [normal(7, 3)]
    nodes = [
        make.make_node("SplitToSequence", ["x0", "two"], ["parts"], axis=0),
        make.make_node("SequenceAt", ["parts", "last"], ["tail"]),
        make.make_node("SequenceInsert", ["parts", "tail"], ["more"]),
        make.make_node("SequenceLength", ["more"], ["y0"]),
        make.make_node("ConcatFromSequence", ["more"], ["y1"], axis=0),
    ]
    constants = [
        make.make_node("Constant", [], ["two"], value_int=2),
        make.make_node("Constant", [], ["last"], value_int=-1),
    ]
    check(graph_of([*constants, *nodes], inputs, 2), inputs)


def test_old_opsets_mean_what_they_meant():
    """Softmax of opset 11 is over all dimensions behind the axis; Add of opset 6 places its operand by an axis."""
    x = normal(2, 3, 4)
    flat = hlo2tx8.compile(graph_of([make.make_node("Softmax", ["x0"], ["y0"], axis=1)], [x], opset=11))(x)
    np.testing.assert_allclose(flat.sum((1, 2)), np.ones(2), rtol=1e-6)
    y = normal(3)
    node = make.make_node("Add", ["x0", "x1"], ["y0"], axis=1, broadcast=1)
    np.testing.assert_allclose(hlo2tx8.compile(graph_of([node], [x, y], opset=6))(x, y), x + y[:, None])


def test_a_recurrence_with_lengths():
    x, w, r, b = normal(5, 3, 4), normal(1, 24, 4), normal(1, 24, 6), normal(1, 48)
    inputs = [x, w, r, b, np.array([5, 2, 3], np.int32)]
    node = make.make_node("LSTM", ["x0", "x1", "x2", "x3", "x4"], ["y0", "y1"], hidden_size=6)
    rows, last = hlo2tx8.compile(graph_of([node], inputs, 2)).execute(*inputs)
    for k, length in enumerate((5, 2, 3)):
        short = [np.ascontiguousarray(x[:length, k : k + 1]), w, r, b]
        node = make.make_node("LSTM", ["x0", "x1", "x2", "x3"], ["y0", "y1"], hidden_size=6)
        own, end = hlo2tx8.compile(graph_of([node], short, 2)).execute(*short)
        np.testing.assert_allclose(rows[:length, :, k], own[:, :, 0], 1e-5, 1e-6)
        np.testing.assert_allclose(last[:, k], end[:, 0], 1e-5, 1e-6)
        assert not rows[length:, :, k].any()


@pytest.mark.parametrize("dtypes", [(np.uint8, np.int8), (np.int8, np.uint8), (np.uint8, np.uint8)])
def test_products_of_integers_take_zero_points_of_rows_and_columns(dtypes: tuple[Any, Any]):
    a, b = (
        RNG.integers(np.iinfo(d).min, np.iinfo(d).max + 1, s).astype(d) for d, s in zip(dtypes, ((2, 5, 7), (7, 6)), strict=True)
    )
    az, bz = a[0, :, 0].copy(), b[0].copy()
    node = make.make_node("MatMulInteger", ["x0", "x1", "x2", "x3"], ["y0"])
    inputs = [a, b, az, bz]
    wanted = (a.astype(int) - az.astype(int)[:, None]) @ (b.astype(int) - bz)
    np.testing.assert_array_equal(hlo2tx8.compile(graph_of([node], inputs))(*inputs), wanted)


def test_convolutions_of_integers_are_padded_by_the_zero_point():
    x, w = RNG.integers(0, 256, (1, 4, 6, 5)).astype(np.uint8), RNG.integers(-128, 128, (6, 2, 3, 2)).astype(np.int8)
    xz, wz = np.array(131, np.uint8), np.arange(-3, 3).astype(np.int8)
    spread = {"group": 2, "pads": [1, 0, 2, 1], "strides": [2, 1]}
    inputs = [x, w, xz, wz]
    node = make.make_node("ConvInteger", ["x0", "x1", "x2", "x3"], ["y0"], **spread)
    floats = [x.astype(np.float64) - xz, w.astype(np.float64) - wz[:, None, None, None]]
    wanted = hlo2tx8.compile(graph_of([make.make_node("Conv", ["x0", "x1"], ["y0"], **spread)], floats))(*floats)
    np.testing.assert_array_equal(hlo2tx8.compile(graph_of([node], inputs))(*inputs), wanted)


@pytest.mark.parametrize("kind", ["plain", "causal", "boolean mask", "blind row", "shared heads", "cache"])
def test_attention_agrees_with_its_function(kind: str):
    q, k, v = (
        normal(2, 4, 5, 8),
        normal(2, 2 if kind == "shared heads" else 4, 7, 8),
        normal(2, 2 if kind == "shared heads" else 4, 7, 3),
    )
    inputs, attributes, outputs = [q, k, v], {}, 1
    if kind == "causal":
        attributes = {"is_causal": 1, "softcap": 2.0}
    elif "mask" in kind or kind == "blind row":
        mask = RNG.integers(0, 2, (5, 7)).astype(bool)
        mask[0] = kind != "blind row"
        inputs.append(mask)
    elif kind == "cache":
        inputs += [normal(5, 10), normal(2, 4, 3, 8), normal(2, 4, 3, 3)]
        outputs = 3
    names = [f"x{n}" for n in range(len(inputs))]
    node = make.make_node("Attention", names, [f"y{n}" for n in range(outputs)], **attributes)
    check(graph_of([node], inputs, outputs, opset=23), inputs)
