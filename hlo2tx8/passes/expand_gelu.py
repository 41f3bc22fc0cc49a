"""Pass expand-gelu: a half of x erfc(-x/√2), a GELU, becomes a ReLU less a rest, which takes two thirds of the operations.

Before:                                          After, with a = |min(x, 13.4)|:
    %u = multiply (negate %x), 0.7071                %p = maximum %x, -0
    %f = chlo.erfc %u                                %t = a * m(a) * exponential(-a² / 2)
    %g = multiply (multiply %x, 0.5), %f             %g = subtract %p, %t

m(a) is a half of erfc(0.7071 a) times the exponential of a² / 2, a fraction of fractions. No side has to be chosen by the sign of
x, and no rest of a square has to be kept: u was rounded, which moves erfc u by as many units as 2u², and here a² is. So the error
against exact arithmetic is no larger. m may be off by as much as that for large a, so it has fewer levels than what erfc is made of
(expand-error-functions): 1.8e-7 around 0, ten times that at the end. The factors may stand in any order, and in bf16 also
1 + erf u for erfc -u; in f32 that is more precise around 0 than this is. bf16 computes m in f16, as its erfc.

Where x is a product of f32 at DEFAULT precision, and an offset, it is off by what TF32 leaves out of the factors, 7.7e-4 of
the size of its elements. Then it becomes x logistic(x (c0 + z (c1 + z c2))), z = min(x², LARGEST_SQUARE), in
half as many passes:

    %g = multiply %x, (logistic %l)

For elements of any size what that is off is at most a thirtieth of what x is, root mean square, so that the error of both together
is the same within a part in two thousand. Relative to GELUs of numbers far below 0, which are next to nothing, it is not small.

The GELU of f32 that is written with tanh, a half of x (1 + tanh(a x + b x³)), becomes x logistic(x (2a + 2b x²)) in three passes
less. 1 + tanh of numbers below 0 is what is left of 1; the logistic function of them is no difference.

Only a product that overflowed before it was halved is not infinite any more. `Options(reassociate=False)` leaves the pass out.
"""

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.formula import Term
from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.precision import CUT_OFF, cut_off
from hlo2tx8.hlo.types import epsilon, numpy_dtype
from hlo2tx8.notes import add_notes
from hlo2tx8.partitioner.instruction import tensor_type
from hlo2tx8.passes.expand_error_functions import bfloat_fraction
from hlo2tx8.passes.offset_behind_scale import spread_of

ROOT = math.sqrt(0.5)
LARGEST = 13.4
"""The GELU of minus this rounds to 0 in f32, and that of this to itself."""
SHIFT = 0.602191501
LEVELS = ((19.0041659, 4.95940545), (-8.96720866, 1.69752045), (1.17122885, -8.93235083e-3))
"""Of m's denominator, the innermost first: with y = a + SHIFT before them, y becomes c / y + a + e."""
NUMERATOR = 0.398859777
"""m(a) is this through the outermost y; the relative error has the least maximum of those times 1 / (1 + a² / 20)."""
LOGISTIC = (1.595547010, 7.34410552e-2, -5.96779576e-4)
"""c0, c1, c2: of normal numbers of a deviation from 0.02 to 4 the least maximum of the error in units of that of TF32."""
LARGEST_SQUARE = 41.4683258
PRODUCTS = ("stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution")
MOVES = ("stablehlo.reshape", "stablehlo.transpose")
TANH = "stablehlo.tanh"
POWER = "stablehlo.power"
POLYNOMIALS = ("stablehlo.add", "stablehlo.multiply", POWER)
MOST_POWERS, MOST_DEPTH = 3, 8
"""Of x in what a GELU takes tanh of, and of the ops that it is made by."""
SCALINGS = ("stablehlo.multiply", "stablehlo.divide")


@dataclass(frozen=True)
class ExpandGeluPass(ModulePass):
    """Rewrites GELUs of f32 and bf16; see the module docstring."""

    name = "expand-gelu"

    explain: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        notes: list[str] = []
        for function in ops_named(op, ("chlo.erfc", "chlo.erf", "stablehlo.tanh")):
            gelu = (_TanhGelu if function.name == TANH else _Gelu).of(function)
            if gelu is not None:
                notes.append(f"{function.name} in a GELU: reassociated, {gelu.replace()}")
        if self.explain:
            add_notes(op, notes)


@dataclass(frozen=True)
class _Gelu:
    """The last of `parts` is a half of x erfc(-x/√2); each is read by the next one alone. `is_coarse`: x is a product in TF32."""

    parts: list[Operation]
    x: SSAValue
    is_coarse: bool

    @staticmethod
    def of(function: Operation) -> "_Gelu | None":
        """What an erfc or erf is part of; None if this is no GELU."""
        type_ = tensor_type(function.results[0])
        (x, inner), parts, is_erf = _base_and_factor(function.operands[0]), [function], function.name == "chlo.erf"
        if is_erf:
            total = _one_more(function)
            if total is None:
                return None
            parts.append(total)
        is_coarse = type_.element_type == f32 and x is not None and _is_of_tf32(x)
        if type_.element_type != bf16 and not is_coarse and (is_erf or type_.element_type != f32):
            return None
        off = inner / (ROOT if is_erf else -ROOT) - 1
        if x is None or _multiplied(parts, x) is not x or abs(off) > epsilon(numpy_dtype(type_.element_type)):
            return None
        return _Gelu(parts, x, is_coarse)

    def replace(self) -> str:
        """Replace the parts; by what. At minus infinity, where an erfc of 0 is multiplied, the result stays NaN."""
        e = Expansion(self.parts[-1])
        x = Term(e, self.x)
        if self.is_coarse:
            z, (c0, c1, c2) = (x * x).call("minimum", LARGEST_SQUARE), LOGISTIC
            _become(self.parts, x * (x * (z * (z * c2 + c1) + c0)).call("logistic"))
            return "a logistic function of a product in TF32"
        a = abs(x.call("minimum", LARGEST))
        if x.type.element_type == bf16:
            u = a.converted(f16) * ROOT
            off = a * bfloat_fraction(u, 0.5).converted(bf16) / (u * u).converted(bf16).call("exponential")
        else:
            off = a * NUMERATOR / _denominator(a) * (a * a * -0.5).call("exponential")
        _become(self.parts, x.call("maximum", -0.0) - off)
        return "a ReLU less a rest"


@dataclass(frozen=True)
class _TanhGelu:
    """The last of `parts` is a half of x (1 + tanh(`linear` * x + `cubic` * x³)); each is read by the next one alone."""

    parts: list[Operation]
    x: SSAValue
    linear: float
    cubic: float

    @staticmethod
    def of(function: Operation) -> "_TanhGelu | None":
        """What a tanh is part of; None if this is no GELU of f32."""
        total = _one_more(function)
        if total is None or tensor_type(function.results[0]).element_type != f32:
            return None
        parts = [function, total]
        x = _multiplied(parts)
        terms = _polynomial(function.operands[0], x) if x is not None else {}
        if x is None or terms.keys() != {1, 3} or min(terms.values()) <= 0:
            return None
        return _TanhGelu(parts, x, terms[1], terms[3])

    def replace(self) -> str:
        """Replace the parts; by what. Of a square that overflows the logistic function is 1 or 0, as it is of large numbers."""
        x = Term(Expansion(self.parts[-1]), self.x)
        _become(self.parts, x * (x * (x * x * (2 * self.cubic) + 2 * self.linear)).call("logistic"))
        return "a logistic function"


def _become(parts: list[Operation], result: Term) -> None:
    """Replace the last of some ops, each of which is read by the next one alone, and take them away."""
    result.e.replace(result.value)
    for part in reversed(parts[:-1]):
        part.detach()
        part.erase()


def _one_more(function: Operation) -> Operation | None:
    """1 + a function, if that is what alone reads it."""
    total = _reader(function, "stablehlo.add")
    if total is None or (scalar := scalar_of(_other(total, function))) is None or float(scalar) != 1:
        return None
    return total


def _multiplied(parts: list[Operation], x: SSAValue | None = None) -> SSAValue | None:
    """Adds the products that the last of the parts is multiplied in, as far as these are with constants and with one other value,
    which may be known. That value, if the constants make a half."""
    outer, found = 1.0, None
    while (product := _reader(parts[-1], "stablehlo.multiply")) is not None:
        base, factor = _base_and_factor(_other(product, parts[-1]))
        if base is not None and (found is not None or (x is not None and base is not x)):
            break
        outer, found = outer * factor, found or base
        parts.append(product)
    return found if outer == 0.5 else None


def _polynomial(value: SSAValue, x: SSAValue, depth: int = MOST_DEPTH) -> dict[int, float]:
    """The factors of the powers of x that add up to a value; {} if it is no sum of few. Its ops may be read by others, too."""
    if value is x:
        return {1: 1.0}
    if (scalar := scalar_of(value)) is not None:
        return {0: float(scalar)}
    op = value.owner
    if depth == 0 or not isinstance(op, Operation) or op.name not in POLYNOMIALS:
        return {}
    left = _polynomial(op.operands[0], x, depth - 1)
    right = _polynomial(op.operands[1], x, depth - 1) if left else {}
    if op.name == POWER and left == {1: 1.0} and right.keys() == {0} and right[0] in range(1, MOST_POWERS + 1):
        return {int(right[0]): 1.0}
    if op.name == POWER or not right:
        return {}
    found: dict[int, float] = {}
    if op.name == "stablehlo.add":
        terms = [*left.items(), *right.items()]
    else:
        terms = [(own + other, factor * its) for own, factor in left.items() for other, its in right.items()]
    for power, factor in terms:
        found[power] = found.get(power, 0.0) + factor
    return found if max(found) <= MOST_POWERS else {}


def _is_of_tf32(value: SSAValue) -> bool:
    """Is it a product of f32 in one pass of the matrix engine, or such a one and an offset?"""
    while isinstance(op := value.owner, Operation):
        if op.name in PRODUCTS:
            return 0 < cut_off(op) == CUT_OFF[1]
        if op.name in MOVES:
            value = op.operands[0]
        elif op.name == "stablehlo.add" and any(spread_of(own) is not None for own in op.operands):
            value = op.operands[int(spread_of(op.operands[0]) is not None)]
        else:
            return False
    return False


def _denominator(a: Term) -> Term:
    """NUMERATOR / m(a) for a >= 0."""
    y = a + SHIFT
    for numerator, offset in LEVELS:
        y = numerator / y + a + offset
    return y


def _base_and_factor(value: SSAValue) -> tuple[SSAValue | None, float]:
    """What a value is a constant multiple of, and which multiple; of nothing if it is a constant itself."""
    factor = 1.0
    while (scalar := scalar_of(value)) is None and isinstance(op := value.owner, Operation):
        if op.name == "stablehlo.negate":
            value, factor = op.operands[0], -factor
        elif op.name in SCALINGS and (scalar := scalar_of(op.operands[1])) is not None and scalar != 0:
            value, factor = op.operands[0], factor * float(scalar) if op.name == SCALINGS[0] else factor / float(scalar)
        elif op.name == SCALINGS[0] and (scalar := scalar_of(op.operands[0])) is not None:
            value, factor = op.operands[1], factor * float(scalar)
        else:
            break
    return (value, factor) if scalar is None else (None, factor * float(scalar))


def _reader(op: Operation, name: str) -> Operation | None:
    """The only reader of an op, if it is of that name."""
    uses = list(op.results[0].uses)
    return uses[0].operation if len(uses) == 1 and uses[0].operation.name == name else None


def _other(op: Operation, known: Operation) -> SSAValue:
    """The operand of two that is not the result of `known`."""
    return op.operands[int(op.operands[0] is known.results[0])]
