"""Where a module can run: the chip, our own evaluator, XLA:CPU; and how far results may differ.

A platform gets the loaded source anew each time, because compiling consumes a module.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation

from hlo2tx8.errors import InputError
from hlo2tx8.options import Options
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.levels import run_level
from hlo2tx8.tools.compare import Bounds, epsilon

Array = npt.NDArray[Any]

PLATFORMS = ("tx8", "interpreter", "cpu")
ALIASES = {"default": "interpreter", "reference": "interpreter", "host": "cpu"}


@dataclass(frozen=True)
class Source:
    """A module that can be loaded as often as needed."""

    name: str
    load: Callable[[], ModuleOp]


def platform_of(name: str) -> str:
    """The platform with that name, in any case; InputError lists them."""
    word = ALIASES.get(name.lower(), name.lower())
    if word not in PLATFORMS:
        raise InputError("E1004", f"unknown platform {name!r}; there are {', '.join(PLATFORMS)}")
    return word


def execute(
    platform: str, source: Source, arrays: Sequence[Array], options: Options, executable: Executable | None = None
) -> list[Array]:
    """The module's outputs on a platform; on tx8 a level above PROGRAM runs in that level's interpreter."""
    match platform:
        case "interpreter":
            from hlo2tx8.hlo import evaluate

            return list(evaluate(source.load(), *arrays))
        case "cpu":
            from hlo2tx8.frontend import to_mlir_text
            from hlo2tx8.tools.xla_cpu import run_on_cpu

            return run_on_cpu(to_mlir_text(source.load()), arrays)
        case _ if executable is not None:
            return executable.execute(*arrays)
        case _:
            return run_level(source.load, options, arrays)


def bounds_of(module: ModuleOp) -> Bounds:
    """relative = sum over all ops of ulp(op) * eps(dtype), reductions and dots n * eps for n summed elements."""
    return Bounds(relative=sum(_rounding(op) for op in module.walk()))


def _rounding(op: Operation) -> float:
    from hlo2tx8.hlo import all_specs, numpy_dtype

    spec = {s.name: s for s in all_specs()}.get(op.name)
    if spec is None:
        return 0.0
    types = [cast(TensorType[Attribute], t) for t in op.result_types if isinstance(t, TensorType)]
    eps = max((epsilon(numpy_dtype(t.get_element_type())) for t in types), default=0.0)
    return float(spec.ulp) * eps * _summed(op)


def _summed(op: Operation) -> int:
    """How many elements go into one result: 1 for elementwise ops, the reduced or contracted extent otherwise."""
    if op.name.partition(".")[2] not in ("reduce", "dot", "dot_general", "convolution", "reduce_window"):
        return 1
    sizes = [prod(t.get_shape()) for v in op.operands if isinstance(t := v.type, TensorType)]
    out = [prod(t.get_shape()) for t in op.result_types if isinstance(t, TensorType)]
    return max(1, int(np.ceil(max(sizes, default=1) / max(out[0] if out else 1, 1))))
