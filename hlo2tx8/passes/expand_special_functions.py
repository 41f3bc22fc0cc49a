"""Pass expand-special-functions: bessel_i1e, erf_inv and polygamma are computed without differences that cancel and exp(lgamma).

bessel_i1e x    = x/2 p(x²) / exp|x|                      for |x| <= 8, else sign(x) q(1/|x|) / sqrt|x|
erf_inv x       = x r(w), w = -log((1 - |x|)(1 + |x|))       for w < 5, else x t(sqrt w)
polygamma n x   = (-1)^(n+1) n! zeta(n + 1, x)            for whole n > 0, digamma x for n = 0

All terms of p are positive. The Chebyshev sums that expand-chlo would make are off by 15 units of the last place of f32 near 8,
these by 4 anywhere; with 1 - x² for the product erf_inv would be off by 65, so it is by 3. n! is that of the multiple of 8 below n
times up to seven whole numbers; the exponential of its logarithm in f32 would be off by 155 units. What is narrower than f32 is
computed in f32; bessel_i1e and erf_inv of f64 are left to expand-chlo.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial

from xdsl.context import Context
from xdsl.dialects.builtin import Float64Type, ModuleOp, TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.formula import Term
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects import chlo
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.chlo_broadcast import dimensions_of
from hlo2tx8.passes.expand_error_functions import polynomial

BORDER = 8.0
OF_SMALL = (
    0.9999999979381621,
    0.12500001043020023,
    0.005208325354595793,
    0.00010850915315948892,
    1.3560432012467214e-06,
    1.1324212118788613e-08,
    6.636565567497506e-11,
    3.235646538034757e-13,
    7.009097599249079e-16,
    5.500892574372323e-18,
)
"""p by powers of x²: least relative error of 2 I1(x) / x up to BORDER, 2e-9."""
OF_LARGE = (
    0.3989422798250849,
    -0.14960293106365094,
    -0.04680183962296837,
    -0.03865899930498138,
    -0.10340705220297107,
    0.3376425417579233,
    -2.0761416853004397,
)
"""q by powers of 1/|x|: least relative error from BORDER on, 1.5e-9."""
MIDDLE, TAIL, MIDDLE_OF_TAIL = 2.5, 5.0, 3.0
OF_MIDDLE = (
    1.5014093592826045,
    0.24664028615547776,
    -0.004177386780490953,
    -0.0012527418829946801,
    0.0002183444387728538,
    -4.963345138775451e-06,
    -3.4627045773834453e-06,
    4.6617006800070196e-07,
    2.323262943631488e-08,
    -8.791013141779214e-09,
)
"""r by powers of w - MIDDLE: least relative error of erf_inv(x) / x up to TAIL, 6e-9."""
OF_TAIL = (
    2.8329767960352457,
    1.0016750741790097,
    0.009445654970994649,
    -0.007639174883510511,
    0.005683478376780783,
    -0.003588180361714436,
    0.0014949336394792293,
    -7.432585513685373e-05,
    -0.00031790152712481037,
    0.00012744509479316798,
)
"""t by powers of sqrt w - MIDDLE_OF_TAIL: the same from TAIL to the largest f32 below 1."""
EIGHTS = {32: 32, 64: 168}
"""By bits of a float: the largest multiple of 8 whose factorial is finite."""


@dataclass(frozen=True)
class ExpandSpecialFunctionsPass(ModulePass):
    """Rewrites bessel_i1e, erf_inv, polygamma and broadcast_polygamma; see the module docstring."""

    name = "expand-special-functions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrites = {f"chlo.{word}polygamma": _polygamma for word in ("", "broadcast_")}
        rewrite_named(op, {"chlo.bessel_i1e": _in_f32(_bessel_i1e), "chlo.erf_inv": _in_f32(_erf_inv), **rewrites})


def _in_f32(formula: Callable[[Term], Term]) -> Callable[[Operation], None]:
    """The rewrite of an op of one operand into a formula of f32; ops of f64 stay."""

    def rewrite(op: Operation) -> None:
        e, given = Expansion(op), as_tensor(op.results[0].type).element_type
        if not isinstance(given, Float64Type):
            e.replace(e.converted(formula(Term(e, e.converted(op.operands[0], f32))).value, given))

    return rewrite


def _bessel_i1e(x: Term) -> Term:
    size = abs(x)
    small = x * 0.5 * polynomial(OF_SMALL, x * x) * (-size).call("exponential")
    large = polynomial(OF_LARGE, 1.0 / size) * size.call("rsqrt")
    return (size > BORDER).choose(large.with_sign_of(x), small)


def _erf_inv(x: Term) -> Term:
    size = abs(x)
    w = -((1.0 - size) * (1.0 + size)).call("log")
    tail = polynomial(OF_TAIL, w.call("sqrt") - MIDDLE_OF_TAIL)
    factor = (w < TAIL).choose(polynomial(OF_MIDDLE, w - MIDDLE), tail)
    return x * size.equals(1.0).choose(float("inf"), factor)


def _polygamma(op: Operation) -> None:
    e, result = Expansion(op), as_tensor(op.results[0].type)
    given = result.element_type
    n, x = (Term(e, e.converted(_spread(e, v), given if isinstance(given, Float64Type) else f32)) for v in op.operands)
    series = _factorial(n) * _chlo("zeta", n + 1.0, x)
    half = n * 0.5
    series = half.call("floor").equals(half).choose(-series, series)
    found = n.equals(0).choose(_chlo("digamma", x), series)
    undefined = (n < 0) | n.call("floor").differs(n)
    e.replace(e.converted(undefined.choose(float("nan"), found).value, given))


def _spread(e: Expansion, value: SSAValue) -> SSAValue:
    """An operand of a broadcast_ op in the shape of the op's result."""
    type_, result = as_tensor(value.type), as_tensor(e.op.results[0].type)
    if type_.get_shape() == result.get_shape():
        return value
    dims = dimensions_of(attributes_of(e.op), type_.get_num_dims(), result.get_num_dims())
    wide = TensorType(type_.element_type, result.get_shape())
    return e.emit("broadcast_in_dim", [value], wide, broadcast_dimensions=int_array(dims))


def _chlo(name: str, *operands: Term) -> Term:
    first = operands[0]
    return Term(first.e, first.e.insert(chlo.OPS[name]([o.value for o in operands], [first.type])).results[0])


def _factorial(n: Term) -> Term:
    """n! of whole numbers; infinite where the type has no such number."""
    found, below = n.number(1), n.number(0)
    for eights in range(8, EIGHTS[64 if isinstance(n.type.element_type, Float64Type) else 32] + 1, 8):
        is_above = n >= eights
        found, below = is_above.choose(float(factorial(eights)), found), is_above.choose(eights, below)
    for less in range(7):
        factor = n - less
        found = found * (factor > below).choose(factor, 1.0)
    return found
