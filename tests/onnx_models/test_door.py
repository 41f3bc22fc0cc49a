"""ONNX models through every door: protos, bytes, files, commands; values that shapes depend on; what is refused, and how."""

import contextlib
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.errors import Hlo2tx8Error, InputError, ParseError, UnsupportedError
from hlo2tx8.frontend.content import Content
from hlo2tx8.tools.main import main

onnx = pytest.importorskip("onnx", reason="the extra hlo2tx8[onnx] is not installed")
make = onnx.helper
F32, I64 = 1, 7
X = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)


def model(
    nodes: list[Any], inputs: dict[str, Any], outputs: list[str], constants: dict[str, Any] | None = None, **more: Any
) -> Any:
    """A model of nodes; inputs are (element type, shape)."""
    graph = make.make_graph(
        nodes,
        "m",
        [make.make_tensor_value_info(name, *given) for name, given in inputs.items()],
        [make.make_empty_tensor_value_info(name) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return make.make_model(graph, opset_imports=[make.make_opsetid("", 21), make.make_opsetid("own", 1)], **more)


def reshaped() -> Any:
    """relu(reshape(x, n)), x of any batch."""
    nodes = [make.make_node("Reshape", ["x", "n"], ["y"], "r"), make.make_node("Relu", ["y"], ["z"])]
    return model(nodes, {"x": (F32, ["batch", 4]), "n": (I64, [2])}, ["z"])


def affine() -> Any:
    """relu(x @ w + 1)."""
    nodes = [make.make_node("Gemm", ["x", "w", "b"], ["y"]), make.make_node("Relu", ["y"], ["z"])]
    constants = {"w": np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5), "b": np.ones(5, np.float32)}
    return model(nodes, {"x": (F32, [3, 4])}, ["z"], constants)


def test_protos_bytes_and_files_are_one_model(tmp_path: Path):
    proto = affine()
    data = proto.SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data)
    (tmp_path / "m.onnx.gz").write_bytes(gzip.compress(data))
    (tmp_path / "m.bin").write_bytes(data)
    w, b = (onnx.numpy_helper.to_array(t) for t in proto.graph.initializer)
    wanted = np.maximum(X @ w + b, 0)
    for source in (proto, data, *map(str, sorted(tmp_path.iterdir())), tmp_path / "m.onnx"):
        np.testing.assert_allclose(hlo2tx8.compile(source)(X), wanted, rtol=1e-6, atol=1e-6)


def test_inputs_bind_shapes_and_values():
    shape = np.array([2, 6])
    executable = hlo2tx8.compile(reshaped(), args=[X, shape])
    np.testing.assert_array_equal(executable(X, shape), np.maximum(X.reshape(2, 6), 0))
    with pytest.raises(InputError, match=r"input 1 should be \[2, 6\]"):
        executable(X, np.array([6, 2]))
    by_name = hlo2tx8.compile(reshaped(), args={"n": shape, "x": X})
    np.testing.assert_array_equal(by_name(X, shape), executable(X, shape))


def test_values_of_floats_are_bound_too(tmp_path: Path):
    node = make.make_node("Resize", ["x", "", "scales"], ["y"], mode="nearest")
    resize = model([node], {"x": (F32, [3, 4]), "scales": (F32, [2])}, ["y"])
    scales = np.array([2, 1.5], np.float32)
    executable = hlo2tx8.compile(resize, args={"scales": scales})
    executable.save(str(tmp_path / "m.tx8x"))
    for each in (executable, hlo2tx8.load(str(tmp_path / "m.tx8x"))):
        assert each.execute(X, scales)[0].shape == (6, 6)
        with pytest.raises(InputError, match="which shapes depend on"):
            each.execute(X, scales * 2)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (None, r"unknown sizes: input 'x' is \[batch,4\]"),
        ([X], r"takes 2 inputs \(x, n\), got 1"),
        ({"y": X}, "there is no input 'y'"),
        ([X[0], np.array([2, 6])], r"input 'x' should be float32\[\?,4\], got f32\[4\]"),
        ([X.astype(np.float64), np.array([2, 6])], "input 'x' should be float32"),
    ],
)
def test_inputs_that_do_not_fit(args: Any, message: str):
    with pytest.raises(InputError, match=message):
        hlo2tx8.compile(reshaped(), args=args)


def test_what_must_be_known_is_named():
    with pytest.raises(
        UnsupportedError, match="1 x Reshape: must be known at compile time and depends on the input 'n' at r"
    ) as error:
        hlo2tx8.compile(reshaped(), args={"x": X})
    assert error.value.ops[0].origins == ("r",)


def test_all_unsupported_nodes_are_listed_at_once():
    nodes = [
        make.make_node("NonZero", ["x"], ["a"], "first"),
        make.make_node("Odd", ["x"], ["b"], "second", domain="own"),
        make.make_node("NonZero", ["b"], ["c"], "lost"),
        make.make_node("NonZero", ["x"], ["d"], "third"),
    ]
    with pytest.raises(UnsupportedError) as error:
        hlo2tx8.compile(model(nodes, {"x": (F32, [3, 4])}, ["a", "b", "c", "d"]))
    assert [(op.name, op.origins) for op in error.value.ops] == [("NonZero", ("first", "third")), ("own.Odd", ("second",))]


def test_functions_of_the_model_are_expanded():
    body = [make.make_node("Constant", [], ["two"], value_float=2.0), make.make_node("Mul", ["a", "two"], ["b"])]
    double = make.make_function("own", "Double", ["a"], ["b"], body, [make.make_opsetid("", 21)])
    nodes = [make.make_node("Double", ["x"], ["y"], domain="own")]
    executable = hlo2tx8.compile(model(nodes, {"x": (F32, [3, 4])}, ["y"], functions=[double]))
    np.testing.assert_array_equal(executable(X), 2 * X)


def test_external_data_are_read_from_the_models_folder_only(tmp_path: Path):
    folder = tmp_path / "models"
    folder.mkdir()
    onnx.save_model(affine(), str(folder / "m.onnx"), save_as_external_data=True, location="w.bin", size_threshold=0)
    wanted = hlo2tx8.compile(affine())(X)
    np.testing.assert_array_equal(hlo2tx8.compile(folder / "m.onnx")(X), wanted)
    proto = onnx.load(str(folder / "m.onnx"), load_external_data=False)
    (tmp_path / "w.bin").write_bytes((folder / "w.bin").read_bytes())
    for location in ("../w.bin", str(tmp_path / "w.bin"), "none.bin"):
        for tensor in proto.graph.initializer:
            tensor.external_data[0].value = location
        (folder / "bad.onnx").write_bytes(proto.SerializeToString())
        with pytest.raises(InputError, match="not in the model's folder" if location != "none.bin" else "No such file"):
            hlo2tx8.compile(folder / "bad.onnx")
    with pytest.raises(InputError, match="give the path of the model"):
        hlo2tx8.compile(proto)


def test_damaged_models_are_errors_of_ours():
    data = bytearray(affine().SerializeToString())
    rng = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(data)
        for place in rng.integers(0, len(data), 3):
            damaged[place] = rng.integers(0, 256)
        end = rng.integers(1, len(data) + 1) if rng.integers(2) else len(data)
        with contextlib.suppress(Hlo2tx8Error):
            hlo2tx8.compile(bytes(damaged[:end]), format="onnx")


@pytest.mark.parametrize("data", [b"", b"\x08", b"\x08\x07", b"\x08\x07:\x00", b"no model"])
def test_what_is_no_model_is_malformed(data: bytes):
    with pytest.raises(ParseError, match="no ONNX model"):
        hlo2tx8.compile(data, format="onnx")


def test_nodes_that_do_not_fit_name_themselves():
    nodes = [make.make_node("MatMul", ["x", "x"], ["y"], "product")]
    with pytest.raises(ParseError, match="MatMul 'product'"):
        hlo2tx8.compile(model(nodes, {"x": (F32, [3, 4])}, ["y"]))


def test_commands_take_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "m.onnx"
    path.write_bytes(affine().SerializeToString())
    assert main(["run", "--level=all", str(path)]) == 0
    assert main(["compile", "--explain", "--report", str(path)]) == 0
    assert main(["check", str(path)]) == 0
    assert main(["profile", str(path)]) == 0
    assert "gemm" in capsys.readouterr().out


def test_content_is_told_from_bytes():
    assert Content.of_bytes(affine().SerializeToString(), "m").format == "onnx"
    assert Content.of_bytes(affine().SerializeToString(), "m.pb", suffix=".pb").format == "onnx"
