"""Pass expand-error-functions: erf and erfc become few operations, as many as the precision of their result needs.

bf16, f16    erf x  = tanh(x p(x²))                  p approximates atanh(erf x) / x
             erfc x = 2 logistic(-x q(|x|))          q approximates log((2 - erfc x) / erfc x) / x: for bf16 by a / s + s + c with
                                                     s = |x| + b, for f16 by a polynomial
f32          erfc x = exp(-x²) t r(t)                for x >= 0, with t = 1 / (1 + x / 2); 2 - erfc(-x) for x < 0

All are computed in f32 and rounded once, but for a factor of 2 behind that. The polynomials have the least relative error of the
result: below 2^-11 for erf of bf16, 2^-14 of f16, 2^-13 for erfc of f16; erfc of bf16 is within 3.7 units of the last place. In f32
x² is the square of its upper half and a rest, so that erfc is within 8 units of the last place everywhere; with x² rounded it would
be 64 where erfc is small. erf of f32 and everything in f64 are left to expand-chlo.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, ModuleOp, f32
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.formula import Term
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.layout import as_tensor

OF_ERF: dict[type[Attribute], tuple[float, ...]] = {
    BFloat16Type: (1.12878122, 0.1006892),
    Float16Type: (1.12831379, 0.10364202, -0.00161618),
}
"""p by powers of x²."""
LARGEST_SQUARE = 16.0
"""Of x in p: tanh(x p(16)) is one from x = 4 on, and p falls behind that."""
OF_BFLOAT = (3.07814811, 1.25991685, -1.17369284)
"""a, b and c of q."""
OF_HALF = (2.25295035, 0.0270045834, 0.140132204, 0.0722912148, -0.0380739306, 6.88506883e-3, -4.54842864e-4)
"""q by powers of |x|."""
LARGEST_HALF = 4.5
"""erfc of what is larger is 0, or 2 where it is negative."""
OF_SINGLE = (
    *(0.282086044549942, 0.28238198161125183, 0.24305535852909088, 0.20287789404392242, -0.027076002210378647),
    *(0.2787192463874817, -0.4877685010433197, 0.2848488986492157, -0.05912497639656067),
)
"""r by powers of t."""
LARGEST_SINGLE = 12.0
SPLIT = 4097.0
"""x * 4097 - (x * 4097 - x) is the upper half of the significand of an f32."""


@dataclass(frozen=True)
class ExpandErrorFunctionsPass(ModulePass):
    """Rewrites erf of bf16 and f16, erfc of bf16, f16 and f32; see the module docstring."""

    name = "expand-error-functions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"chlo.erf": _erf, "chlo.erfc": _erfc})


def _erf(op: Operation) -> None:
    element = as_tensor(op.operands[0].type).element_type
    if type(element) in OF_ERF:
        e = Expansion(op)
        x = Term(e, op.operands[0]).converted(f32)
        square = (x * x).call("minimum", LARGEST_SQUARE)
        e.replace((x * polynomial(OF_ERF[type(element)], square)).call("tanh").converted(element).value)


def _erfc(op: Operation) -> None:
    element = as_tensor(op.operands[0].type).element_type
    e = Expansion(op)
    x = Term(e, op.operands[0])
    if isinstance(element, Float32Type):
        e.replace(_single_erfc(x).value)
    elif isinstance(element, BFloat16Type):
        e.replace((_times_q(-x).call("logistic").converted(element) * 2.0).value)
    elif isinstance(element, Float16Type):
        size = abs(x.converted(f32)).call("minimum", LARGEST_HALF)
        minus_q = polynomial([-c for c in OF_HALF], size)
        e.replace(((x.converted(f32) * minus_q).call("logistic") * 2.0).converted(element).value)


def _times_q(y: Term) -> Term:
    """y q(|y|) in f32, for a y in bf16; it grows with y², so that nothing needs to be limited."""
    a, b, c = OF_BFLOAT
    wide = y.converted(f32)
    shifted = abs(wide) + b
    return wide * (a / shifted + shifted + c)


def _single_erfc(x: Term) -> Term:
    size = abs(x).call("minimum", LARGEST_SINGLE)
    shifted = size * SPLIT
    upper = shifted - (shifted - size)
    falling = (-(upper * upper)).call("exponential") * ((upper - size) * (upper + size)).call("exponential")
    t = 1.0 / (size * 0.5 + 1.0)
    found = polynomial(OF_SINGLE, t) * t * falling
    return (x < 0.0).choose(2.0 - found, found)


def polynomial(coefficients: Sequence[float], x: Term) -> Term:
    """c0 + c1 x + c2 x² ... by Horner's rule; at least two coefficients."""
    *rest, last = coefficients
    found = x * last + rest[-1]
    for coefficient in reversed(rest[:-1]):
        found = found * x + coefficient
    return found
