"""ONNX's own test cases on the emulator: `python tests/corpora/onnx_nodes.py [--kind=RE] [--only=RE] [--log=FILE]`.

The cases are made or read by the package onnx (`hlo2tx8[onnx]`): kind node has one for each way to use an op, the others
(simple, pytorch-operator, pytorch-converted, real) have small graphs and whole networks. A case is compiled for its first
set of inputs, which also are what shapes depend on, and must give the stored results within the case's tolerance. Left out, with a
count: strings, sequences, optional inputs and maps as inputs or results, and what draws random numbers.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pool import add_farm_flags, report, run_and_tell

RANDOM = ("Bernoulli", "RandomUniformLike", "RandomNormalLike", "RandomUniform", "RandomNormal", "Multinomial")
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "real")


def all_cases(kind: str) -> dict[str, Any]:
    """Cases by kind and name."""
    import warnings

    from onnx.backend.test.case.node import collect_testcases
    from onnx.backend.test.loader import load_model_tests

    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    for name in (name for name in KINDS if re.fullmatch(kind, name)):
        cases = collect_testcases(None) if name == "node" else load_model_tests(kind=name)
        found |= {f"{name}/{case.name}": case for case in cases}
    return found


def model_of(case: Any) -> Any:
    """The case's ModelProto."""
    import onnx

    if case.model is not None:
        return case.model
    return onnx.load(str(Path(case.model_dir) / "model.onnx" if case.model_dir else network(case)))


def network(case: Any) -> Path:
    """The file of a whole network; its weights are made by its nodes."""
    import onnx

    return Path(onnx.__file__).parents[1] / case.url


def op_of(case: Any) -> str:
    """The op that a case is about: its first, or the one whose function it has been replaced by."""
    if case.model is None or case.kind != "node":
        return case.kind
    names = [node.op_type for node in case.model.graph.node]
    return names[0] + (" as its function" if "_expanded" in case.name else "") if "_expanded" not in case.name else "functions"


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


def judge(cases: dict[str, Any], requests: Sequence[dict[str, Any]], arguments: argparse.Namespace) -> int:
    """Runs what is not left out, prints the table; 1 if a case failed."""
    causes = {request["case"]: skip_cause(cases[request["case"]]) for request in requests}
    outcomes = [{**r, "outcome": "skipped", "cause": causes[r["case"]]} for r in requests if causes[r["case"]]]
    wanted = [r for r in requests if not causes[r["case"]]]
    outcomes += run_and_tell(Path(__file__).with_name("onnx_nodes_child.py"), wanted, arguments)
    print(report(outcomes, lambda outcome: op_of(cases[outcome["case"]])))
    return int(any(outcome["outcome"] == "failed" for outcome in outcomes))


def main() -> int:
    """Run the cases, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", default="node", help="a regular expression over kinds (node)")
    parser.add_argument("--only", default="", help="a regular expression over KIND/NAME")
    parser.add_argument("--log", type=Path, help="a JSON line per case goes there")
    parser.add_argument("--timeout", type=float, default=120, help="seconds per case")
    parser.add_argument("--every", type=int, default=1, help="each N-th case only")
    add_farm_flags(parser)
    arguments = parser.parse_args()
    cases = all_cases(arguments.kind)
    names = [name for name in cases if re.search(arguments.only, name)][:: arguments.every]
    if not names:
        parser.error("no such cases")
    return judge(cases, [{"case": name, "kind": arguments.kind} for name in names], arguments)


if __name__ == "__main__":
    sys.exit(main())
