"""Pass expand-plus-one: log(1 + x) and exp(x) - 1 by the vector engine's logarithm and exponential.

    log_plus_one %x             ⟶    u = 1 + x             log(u) * (x / (u - 1))     x where u is 1
    exponential_minus_one %x    ⟶    u = exp(x)            (u - 1) * (x / log(u))     x where u is 1

What u is rounded by is in log(u) and in u - 1 alike: the one is divided by the other, which is what x is multiplied with. In f32
both are within 2.5 units of the last place; 3 are declared.

16 bits are computed in f32 and rounded once: log(u), or u - 1, and x where it is so small that x² does not count, but u still has
some bits of x more than the result. The kernel core, which has instructions for both, takes 16 cycles for 8 elements. It keeps what
is small, and f64.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, ModuleOp, f32
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.formula import Term
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.layout import as_tensor

LEAST_ELEMENTS = 4096
"""Below this twelve vector instructions take as long to start as the kernel core computes."""
LEAST_EXPONENT = -18.0
"""exp of it less one is -1, as of all below."""
LARGEST_LOGARITHM = 1000.0
"""Instead of infinity, which would be divided by itself."""
SMALL: dict[type[Attribute], float] = {BFloat16Type: 2.0**-10, Float16Type: 2.0**-12}
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class ExpandPlusOnePass(ModulePass):
    """Rewrites log_plus_one and exponential_minus_one of f32, bf16 and f16; see the module docstring."""

    name = "expand-plus-one"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.log_plus_one": _log_plus_one, "stablehlo.exponential_minus_one": _exponential_minus_one})


def _log_plus_one(op: Operation) -> None:
    if (x := _operand(op)) is None:
        return
    u = x + 1.0
    if (small := _small(op)) is not None:
        _replace(op, (abs(x) < small).choose(x, u.call("log")))
        return
    beyond = u - 1.0
    found = u.call("log") * (x / beyond.call("minimum", LARGEST))
    _replace(op, beyond.equals(0.0).choose(x, found))


def _exponential_minus_one(op: Operation) -> None:
    if (given := _operand(op)) is None:
        return
    if (small := _small(op)) is not None:
        _replace(op, (abs(given) < small).choose(given, given.call("exponential") - 1.0))
        return
    x = given.call("maximum", LEAST_EXPONENT)
    u = x.call("exponential")
    found = (u - 1.0) * (x / u.call("log").call("minimum", LARGEST_LOGARITHM))
    _replace(op, u.equals(1.0).choose(x, found))


def _small(op: Operation) -> float | None:
    """Of 16 bits, below which absolute value both functions are x."""
    return SMALL.get(type(as_tensor(op.operands[0].type).element_type))


def _operand(op: Operation) -> Term | None:
    """What the function is of, in f32; None if the kernel core computes it."""
    type_ = as_tensor(op.operands[0].type)
    is_known = isinstance(type_.element_type, Float32Type | BFloat16Type | Float16Type)
    if not is_known or prod(type_.get_shape()) < LEAST_ELEMENTS or "result_accuracy" in op.properties:
        return None
    x = Term(Expansion(op), op.operands[0])
    return x if type_.element_type == f32 else x.converted(f32)


def _replace(op: Operation, found: Term) -> None:
    element = as_tensor(op.results[0].type).element_type
    found.e.replace((found if element == f32 else found.converted(element)).value)
