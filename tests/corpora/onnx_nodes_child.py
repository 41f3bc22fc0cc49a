"""The child of onnx_nodes.py: one case compiled, run on the emulator and compared with its stored results."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper
from onnx_nodes import all_cases, model_of, network
from pool import Outcome, serve

import hlo2tx8
from hlo2tx8.frontend.onnx import ModelFile, input_names


@cache
def cases(kind: str) -> dict[str, Any]:
    """All cases of the kinds."""
    return all_cases(kind)


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
    return numpy_helper.to_array(TensorProto.FromString(path.read_bytes()))


def _plain(array: Any) -> Any:
    return numpy_helper.to_array(array) if isinstance(array, TensorProto) else np.asarray(array)


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
    case = cases(request["kind"])[request["case"]]
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
    return {"outcome": "passed"}


if __name__ == "__main__":
    serve(answer)
