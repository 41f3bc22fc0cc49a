"""The platforms on which a module can run: the chip, our evaluator, XLA:CPU; and how far their results may differ.

A platform gets the loaded source anew each time, because compiling consumes a module.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from hlo2tx8.dialects.layout import as_tensor, is_tensor
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
    """The allowed difference: relative = sum over all ops of ulp(op) * eps(dtype), plus n * eps of the accumulator's dtype for
    reductions and dots over n elements, plus the error of multiplying in TF32.
    """
    return Bounds(relative=sum(_rounding(op) for op in module.walk()))


def _rounding(op: Operation) -> float:
    from hlo2tx8.hlo.accumulation import accumulated_types, is_exact, num_accumulated, num_convolved
    from hlo2tx8.hlo.lookup import has_spec, spec_of
    from hlo2tx8.hlo.precision import multiplied_epsilon

    if not has_spec(op.name) or is_exact(op):
        return 0.0
    rounded_once = float(spec_of(op).ulp) * max((_epsilon(t) for t in op.result_types), default=0.0)
    rounded_once += multiplied_epsilon(op)
    rounded_once += num_convolved(op) * min(_epsilon(op.results[0].type), epsilon(np.dtype(np.float32)))
    return rounded_once + num_accumulated(op) * max((_epsilon(t) for t in accumulated_types(op)), default=0.0)


def _epsilon(type_: Attribute) -> float:
    from hlo2tx8.hlo import numpy_dtype

    return epsilon(numpy_dtype(as_tensor(type_).element_type if is_tensor(type_) else type_))
