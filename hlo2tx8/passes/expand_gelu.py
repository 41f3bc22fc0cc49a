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
SCALINGS = ("stablehlo.multiply", "stablehlo.divide")


@dataclass(frozen=True)
class ExpandGeluPass(ModulePass):
    """Rewrites GELUs of f32 and bf16; see the module docstring."""

    name = "expand-gelu"

    explain: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        notes: list[str] = []
        for function in ops_named(op, ("chlo.erfc", "chlo.erf")):
            gelu = _Gelu.of(function)
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
            total = _reader(function, "stablehlo.add")
            if total is None or (scalar := scalar_of(_other(total, function))) is None or float(scalar) != 1:
                return None
            parts.append(total)
        is_coarse = type_.element_type == f32 and x is not None and _is_of_tf32(x)
        if type_.element_type != bf16 and not is_coarse and (is_erf or type_.element_type != f32):
            return None
        outer, has_x = 1.0, False
        while (product := _reader(parts[-1], "stablehlo.multiply")) is not None:
            base, factor = _base_and_factor(_other(product, parts[-1]))
            if base is not None and (has_x or base is not x):
                break
            outer, has_x = outer * factor, has_x or base is not None
            parts.append(product)
        off = inner / (ROOT if is_erf else -ROOT) - 1
        if x is None or not has_x or outer != 0.5 or abs(off) > epsilon(numpy_dtype(type_.element_type)):
            return None
        return _Gelu(parts, x, is_coarse)

    def replace(self) -> str:
        """Replace the parts; by what. At minus infinity, where an erfc of 0 is multiplied, the result stays NaN."""
        e = Expansion(self.parts[-1])
        x = Term(e, self.x)
        if self.is_coarse:
            z, (c0, c1, c2) = (x * x).call("minimum", LARGEST_SQUARE), LOGISTIC
            self._become(e, x * (x * (z * (z * c2 + c1) + c0)).call("logistic"))
            return "a logistic function of a product in TF32"
        a = abs(x.call("minimum", LARGEST))
        if x.type.element_type == bf16:
            u = a.converted(f16) * ROOT
            off = a * bfloat_fraction(u, 0.5).converted(bf16) / (u * u).converted(bf16).call("exponential")
        else:
            off = a * NUMERATOR / _denominator(a) * (a * a * -0.5).call("exponential")
        self._become(e, x.call("maximum", -0.0) - off)
        return "a ReLU less a rest"

    def _become(self, e: Expansion, result: Term) -> None:
        e.replace(result.value)
        for part in reversed(self.parts[:-1]):
            part.detach()
            part.erase()


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
