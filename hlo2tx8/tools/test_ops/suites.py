"""The suites by name; a suite's module, and with it its framework, is loaded when it is asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hlo2tx8.errors import InputError
from hlo2tx8.tools.test_ops.cases import Outcome


@dataclass(frozen=True)
class Suite:
    """Cases of ops: `requests(kind, samples)` are requests with `case`, `op` and `dtype`, and a cause under `skip` where a case is
    not for this runner; `answer` is the outcome of one. `kinds` are those that are run if none is asked for.
    """

    kinds: str
    requests: Callable[[str, int], Sequence[dict[str, Any]]]
    answer: Callable[[dict[str, Any]], Outcome]


MODULES = {"hlo": ("hlo_ops", ""), "torch": ("torch_ops", "torch"), "onnx": ("onnx_ops", "onnx")}
"""The module that has a suite, and the package that it needs, which is an extra of that name."""


def suite_named(name: str) -> Suite:
    """The suite; InputError where its package is not installed."""
    module, package = MODULES[name]
    try:
        if package:
            import_module(package)
    except ImportError:
        raise InputError("E1004", f"this needs the package {package}", hint=f"pip install 'hlo2tx8[{package}]'") from None
    return import_module(f"hlo2tx8.tools.test_ops.{module}").SUITE
