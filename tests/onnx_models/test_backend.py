"""The backend: models prepared once, nodes, ONNX's own tests of backends."""

import unittest
from pathlib import Path

import numpy as np
import pytest

from hlo2tx8.errors import InputError

onnx = pytest.importorskip("onnx", reason="the extra hlo2tx8[onnx] is not installed")
suites = pytest.importorskip("onnx.backend.test")
make = onnx.helper

from hlo2tx8 import onnx_backend  # noqa: E402


def adder() -> onnx.ModelProto:
    """reshape(x + y, n), x and y of any size."""
    nodes = [make.make_node("Add", ["x", "y"], ["s"]), make.make_node("Reshape", ["s", "n"], ["z"])]
    types = [make.make_tensor_value_info(name, 1, ["size"]) for name in "xy"]
    types.append(make.make_tensor_value_info("n", 7, [2]))
    graph = make.make_graph(nodes, "g", types, [make.make_empty_tensor_value_info("z")])
    return make.make_model(graph, opset_imports=[make.make_opsetid("", 21)])


def test_a_prepared_model_is_compiled_once_for_what_it_depends_on(tmp_path: Path):
    onnx.save(adder(), str(tmp_path / "m.onnx"))
    prepared = onnx_backend.prepare(str(tmp_path / "m.onnx"))
    x = np.arange(6, dtype=np.float32)
    for shape, programs in (((2, 3), 1), ((2, 3), 1), ((3, 2), 2), ((2, 3), 2)):
        found = prepared.run({"x": x, "y": 2 * x, "n": np.array(shape)})
        np.testing.assert_array_equal(found.z, 3 * x.reshape(shape))
        assert len(prepared.compiled) == programs
    prepared.run([x[:4], x[:4], np.array([2, 2])])
    assert len(prepared.compiled) == 3
    with pytest.raises(InputError, match=r"takes 3 inputs \(x, y, n\), got 1"):
        prepared.run(x)


def test_nodes_run_by_themselves():
    x = np.array([-1, 0, 2], np.float32)
    (y,) = onnx_backend.run_node(make.make_node("Relu", ["a"], ["b"]), [x])
    np.testing.assert_array_equal(y, [0, 0, 2])
    assert onnx_backend.run_node(make.make_node("Neg", ["a"], ["b"]), {"a": x}).b[2] == -2


def test_what_it_is_compatible_with():
    assert onnx_backend.is_compatible(adder())
    graph = make.make_graph(
        [make.make_node("NonZero", ["x"], ["y"])],
        "g",
        [make.make_tensor_value_info("x", 1, [3])],
        [make.make_tensor_value_info("y", 7, None)],
    )
    assert not onnx_backend.is_compatible(make.make_model(graph))
    assert onnx_backend.supports_device("CPU") and not onnx_backend.supports_device("CUDA")


@pytest.mark.filterwarnings("ignore")
def test_onnx_tests_it_as_it_is():
    tests = suites.BackendTest(onnx_backend, __name__).include(
        r"^test_(relu|reshape_extended_dims|resize_downsample_sizes_cubic)_cpu$"
    )
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(case) for case in tests.test_cases.values())
    result = unittest.TestResult()
    suite.run(result)
    assert not result.failures and not result.errors
    assert result.testsRun - len(result.skipped) == 3
