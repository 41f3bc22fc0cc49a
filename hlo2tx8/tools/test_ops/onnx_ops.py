"""ONNX's own test cases, made or read by the package onnx: kind node has one for each way to use an op.

The other kinds (simple, pytorch-operator, pytorch-converted, real) have small graphs and whole networks. A case is compiled for its
first set of inputs, which also are what shapes depend on, and must give the stored results within the case's tolerance. Left out:
strings, sequences, optional inputs and maps as inputs or results, and what draws random numbers.
"""

import math
import re
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import hlo2tx8
from hlo2tx8.frontend.onnx import ModelFile, input_names
from hlo2tx8.tools.test_ops.cases import Outcome
from hlo2tx8.tools.test_ops.suites import Suite

onnx: Any = import_module("onnx")
onnx_arrays: Any = import_module("onnx.numpy_helper")
of_nodes: Any = import_module("onnx.backend.test.case.node")
loader: Any = import_module("onnx.backend.test.loader")

RANDOM = ("Bernoulli", "RandomUniformLike", "RandomNormalLike", "RandomUniform", "RandomNormal", "Multinomial")
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "real")


@cache
def all_cases(kind: str) -> dict[str, Any]:
    """Cases by kind and name."""
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    for name in (name for name in KINDS if re.fullmatch(kind, name)):
        cases = of_nodes.collect_testcases(None) if name == "node" else loader.load_model_tests(kind=name)
        found |= {f"{name}/{case.name}": case for case in cases}
    return found


def model_of(case: Any) -> Any:
    """The case's ModelProto."""
    if case.model is not None:
        return case.model
    return onnx.load(str(Path(case.model_dir) / "model.onnx" if case.model_dir else network(case)))


def network(case: Any) -> Path:
    """The file of a whole network; its weights are made by its nodes."""
    return Path(onnx.__file__).parents[1] / case.url


def op_of(case: Any) -> str:
    """The op that a case is about: its first, or `functions` where an op is replaced by its function."""
    if case.model is None or case.kind != "node":
        return case.kind
    return "functions" if "_expanded" in case.name else case.model.graph.node[0].op_type


def skip_cause(case: Any) -> str:
    """Why a case is not for this runner; empty if it is."""
    if case.model is None:
        return ""
    graph = case.model.graph
    kinds = {port.type.WhichOneof("value") for port in (*graph.input, *graph.output)}
    if kinds - {"tensor_type"}:
        return "sequences, optional inputs and maps"
    if any(port.type.tensor_type.elem_type == 8 for port in (*graph.input, *graph.output)):
        return "strings"
    nodes = list(graph.node)
    trains = any(node.op_type == "Dropout" and len(node.input) > 2 and "training" in case.name for node in nodes)
    if any(node.op_type in RANDOM for node in nodes) or (trains and "zero_ratio" not in case.name):
        return "draws random numbers"
    return ""


def requests(kind: str, _: int) -> Sequence[dict[str, Any]]:
    """Each case; its element type is that of its first input."""
    return [
        {"case": name, "op": op_of(case), "dtype": dtype_of(case), "kind": kind, "skip": skip_cause(case)}
        for name, case in all_cases(kind).items()
    ]


def dtype_of(case: Any) -> str:
    """The element type of the case's first input, or result where it has none."""
    ports = [] if case.model is None else [*case.model.graph.input, *case.model.graph.output]
    code = ports[0].type.tensor_type.elem_type if ports else 0
    return onnx.TensorProto.DataType.Name(code).lower() if code else "-"


def data_sets(case: Any, model: Any) -> list[tuple[list[Any], list[Any]]]:
    """Inputs and expected results of each set, as arrays."""
    if case.data_sets is not None:
        return [(list(inputs), list(outputs)) for inputs, outputs in case.data_sets]
    if case.model_dir is None:
        (port,) = (port for port in model.graph.input if port.name in input_names(ModelFile.of(model)))
        sizes = [dim.dim_value or 1 for dim in port.type.tensor_type.shape.dim]
        count = math.prod(sizes)
        image = (np.arange(count).reshape(sizes) / count).astype(np.float32)
        path = network(case)
        return [([image], [_array(path.with_name(f"{path.stem}_output_0.pb"))])]
    found: list[tuple[list[Any], list[Any]]] = []
    for folder in sorted(Path(case.model_dir).glob("test_data_set*")):
        arrays = ([_array(f) for f in sorted(folder.glob(f"{word}_*.pb"), key=_number)] for word in ("input", "output"))
        found.append((next(arrays), next(arrays)))
    return found


def _number(path: Any) -> int:
    return int(path.stem.rpartition("_")[2])


def _array(path: Any) -> Any:
    return onnx_arrays.to_array(onnx.TensorProto.FromString(path.read_bytes()))


def _plain(array: Any) -> Any:
    return onnx_arrays.to_array(array) if isinstance(array, onnx.TensorProto) else np.asarray(array)


def difference(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    """What is wrong with a result; empty if nothing is."""
    if actual.shape != expected.shape:
        return f"shape {actual.shape}, not {expected.shape}"
    if actual.dtype != expected.dtype:
        return f"dtype {actual.dtype}, not {expected.dtype}"
    kind = np.result_type(np.float32, np.float64) if actual.dtype.kind not in "iubc" else actual.dtype
    a, b = actual.astype(kind), expected.astype(kind)
    if np.allclose(a, b, rtol, atol, equal_nan=True):
        return ""
    worst = np.nanmax(np.abs(a.astype(np.complex128) - b)) if a.size else 0
    return f"values differ by {worst:.2g}"


def answer(request: dict[str, Any]) -> Outcome:
    """Passed if every result of every set is as stored."""
    case = all_cases(request["kind"])[request["case"]]
    model = model_of(case)
    takes = len(input_names(ModelFile.of(model)))
    executable: Any = None
    for inputs, outputs in data_sets(case, model):
        arrays = [_plain(array) for array in inputs[:takes]]
        if executable is None:
            executable = hlo2tx8.compile(model, args=arrays)
        for number, (actual, expected) in enumerate(zip(executable.execute(*arrays), map(_plain, outputs), strict=True)):
            if wrong := difference(actual, expected, case.rtol, case.atol):
                return {"outcome": "failed", "cause": f"output {number}: {wrong}"}
    return {"outcome": "passed", "cause": ""}


SUITE = Suite("node", requests, answer)
