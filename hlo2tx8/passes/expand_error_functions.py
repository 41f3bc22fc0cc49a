"""Pass expand-error-functions: erf and erfc become few operations, as many as the precision of their result needs.

bf16, f16    erf x  = tanh(x p(x²))                  p approximates atanh(erf x) / x
f16          erfc x = 2 logistic(-x q(|x|))          q approximates log((2 - erfc x) / erfc x) / x
bf16, f32    erfc x = r(x) / exp(x²)                 for x >= 0, where r is a fraction of fractions; 2 - erfc(-x) for x < 0

The polynomials have the least relative error of the result: below 2^-11 for erf of bf16, 2^-14 of f16, 2^-13 for erfc of f16; they
are computed in f32 and rounded once. r takes a division and two sums for two constants, where a polynomial takes four operations.
erfc of bf16 computes r in f16 and exp in f32, of which ten bits are kept, and is within 2.1 units of the last place. In f32 x² is
the square of its upper half and a rest, so that erfc is within 8 units of the last place everywhere; with x² rounded it would be
64 where erfc is small. erf of f32 and everything in f64 are left to expand-chlo.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, IntegerAttr, ModuleOp, bf16, f16, f32, i32
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
OF_BFLOAT = (1.85829322, 1.33934202, -0.16206168, 0.5578965)
"""Of r(x) = d / (b / (x + a) + x + c), in this order; it is off by 0.14 % at most."""
OF_HALF = (2.25295035, 0.0270045834, 0.140132204, 0.0722912148, -0.0380739306, 6.88506883e-3, -4.54842864e-4)
"""q by powers of |x|."""
LARGEST_HALF = 4.5
"""erfc of what is larger is 0, or 2 where it is negative."""
SHIFT = 0.838379498
OF_SINGLE = ((8.3575177, 2.0699666), (-4.74352277, -0.11870178), (152.984635, 206.187469), (-174.93708, None))
"""The levels of a fraction, the innermost first: with s = x + SHIFT, y becomes c / y + s + e, or c / y + s."""
LAST_SINGLE = 0.566103685
"""r(x) is this through the outermost y."""
LARGEST_UPPER = 9.375
"""Of the upper half: the exponential of its square is finite, and what x is beyond it, the rest makes up for."""
UPPER_BITS = 10
"""Of the significand of the upper half of an f32, whose square then is exact; what the vector engine rounds to at once."""


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
        e.replace(_bfloat_erfc(x).value)
    elif isinstance(element, Float16Type):
        size = abs(x.converted(f32)).call("minimum", LARGEST_HALF)
        minus_q = polynomial([-c for c in OF_HALF], size)
        e.replace(((x.converted(f32) * minus_q).call("logistic") * 2.0).converted(element).value)


def _bfloat_erfc(x: Term) -> Term:
    wide, size = x.converted(f32), abs(x).converted(f16)
    fraction = bfloat_fraction(size)
    falling = _in_upper_bits((wide * wide).call("exponential"))
    return _by_sign(x, fraction.converted(bf16) / falling.converted(bf16))


def bfloat_fraction(x: Term, factor: float = 1.0) -> Term:
    """factor r(x) for x >= 0, off by 0.14 % at most."""
    a, b, c, d = OF_BFLOAT
    return factor * d / (b / (x + a) + x + c)


def _single_erfc(x: Term) -> Term:
    size = abs(x)
    upper = _in_upper_bits(size).call("minimum", LARGEST_UPPER)
    falling = ((upper - size) * (upper + size)).call("exponential")
    return _by_sign(x, LAST_SINGLE / _single_denominator(size) * falling / (upper * upper).call("exponential"))


def _single_denominator(x: Term) -> Term:
    """LAST_SINGLE / r(x) for x >= 0."""
    shifted = x + SHIFT
    y = shifted
    for numerator, offset in OF_SINGLE:
        y = numerator / y + shifted
        y = y if offset is None else y + offset
    return y


def _by_sign(x: Term, found: Term) -> Term:
    """erfc of x, given that of |x|."""
    return (x < 0.0).choose(2.0 - found, found)


def _in_upper_bits(x: Term) -> Term:
    """An f32 rounded to as many bits of the significand as TF32 has."""
    bits = {"exponent_bits": IntegerAttr(8, i32), "mantissa_bits": IntegerAttr(UPPER_BITS, i32)}
    return Term(x.e, x.e.emit("reduce_precision", [x.value], x.type, **bits))


def polynomial(coefficients: Sequence[float], x: Term) -> Term:
    """c0 + c1 x + c2 x² ... by Horner's rule; at least two coefficients."""
    *rest, last = coefficients
    found = x * last + rest[-1]
    for coefficient in reversed(rest[:-1]):
        found = found * x + coefficient
    return found
