"""Random uses of each op of StableHLO and chlo, as `hlo2tx8 opcase` draws them, against XLA:CPU."""

import re
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from hlo2tx8.compiler.driver import load_source
from hlo2tx8.errors import OracleError
from hlo2tx8.frontend.export import to_mlir_text
from hlo2tx8.hlo.signature import signature_of
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_module
from hlo2tx8.tools.arguments import random_arguments
from hlo2tx8.tools.reference import Reference
from hlo2tx8.tools.test_ops.cases import Outcome
from hlo2tx8.tools.test_ops.suites import Suite
from hlo2tx8.tools.xla_cpu import CpuServer
from hlo2tx8.vendor.op_cases import case_names, draw_case, dtypes_of


@cache
def cpu() -> CpuServer:
    """This process's XLA:CPU."""
    return CpuServer()


def requests(kind: str, samples: int) -> Sequence[dict[str, Any]]:
    """Each op in each element type that it takes; kinds are the dialects."""
    return [
        {"case": f"{op}/{dtype}", "op": op, "dtype": dtype, "samples": samples}
        for op in case_names()
        if re.fullmatch(kind, op.partition(".")[0])
        for dtype in dtypes_of(op)
    ]


def answer(request: dict[str, Any]) -> Outcome:
    """Passed if every sample is as XLA:CPU's within the error that the ops declare."""
    count = unknown = 0
    for number in range(request["samples"]):
        case = draw_case(request["op"], 0, number, request["dtype"])
        load = partial(load_source, case.text, format="stablehlo")
        module = load()
        arrays = random_arguments(module, signature_of(module), np.random.default_rng(number))
        try:
            expected = cpu().run(to_mlir_text(module), arrays)
        except OracleError:
            unknown += 1
            continue
        actual = compile_module(load, Options()).execute(*arrays)
        if wrong := Reference.of_cpu(module, arrays, expected).mismatches(actual):
            if not Reference.of(module, arrays).mismatches(actual):
                return {
                    "outcome": "skipped",
                    "cause": "XLA:CPU does not follow the op's definition",
                    "samples": count,
                }
            return {"outcome": "failed", "cause": f"sample {number}: {wrong[0].line}", "samples": count}
        count += 1
    return {"outcome": "passed" if count else "skipped", "cause": "" if count else "XLA:CPU does not run it", "samples": count}


SUITE = Suite("stablehlo|chlo", requests, answer)
