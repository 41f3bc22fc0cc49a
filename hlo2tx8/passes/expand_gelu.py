"""Pass expand-gelu: x times the erfc of -x/√2, a GELU, becomes what a ReLU is off by, which takes two thirds of the operations.

Before:                                          After, with a = |min(x, 9.5 / 0.7071)|:
    %u = multiply (negate %x), 0.7071                %p = maximum %x, -0
    %f = chlo.erfc %u                                %t = a / 2 * r(0.7071 a) / exponential(0.5 a²)
    %g = multiply (multiply %x, 0.5), %f             %g = subtract %p, %t

r(u) is erfc u times the exponential of u²; see expand-error-functions. No side has to be chosen by the sign of x, and the factors
go into constants. 1 + erf u is erfc -u. Any factors of x may stand there, and the ones around the product, in any order.

The error against exact arithmetic is no larger on average: u was rounded, which moves erfc u by as many units as 2u²; here its
square is. With 1 + erf u all digits were lost where that is small. f32 and bf16; bf16 computes r in f16.

`Options(reassociate=False)` leaves the pass out.
"""

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float32Type, ModuleOp, bf16, f16
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.formula import Term
from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.notes import add_notes
from hlo2tx8.partitioner.instruction import tensor_type
from hlo2tx8.passes.expand_error_functions import LAST_SINGLE, bfloat_fraction, single_denominator

VANISHES = 9.5
"""erfc of this is no f32 but 0, also times the largest x that it stands beside."""
LARGEST_FACTOR = 1024.0
"""Of x in u, and its reciprocal the smallest: squares of factors keep all of their bits."""


@dataclass(frozen=True)
class ExpandGeluPass(ModulePass):
    """Rewrites x erfc(c x) of f32 and bf16; see the module docstring."""

    name = "expand-gelu"

    explain: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        notes: list[str] = []
        for function in ops_named(op, ("chlo.erfc", "chlo.erf")):
            gelu = _Gelu.of(function)
            if gelu is not None:
                gelu.replace()
                notes.append(f"{function.name} times its operand is a GELU: reassociated, its operand is not rounded")
        if self.explain:
            add_notes(op, notes)


@dataclass(frozen=True)
class _Gelu:
    """The last of `parts` is outer x erfc(inner x); each is read by the next one alone."""

    parts: list[Operation]
    x: SSAValue
    inner: float
    outer: float

    @staticmethod
    def of(function: Operation) -> "_Gelu | None":
        """What an erfc or erf is part of; None if this is no GELU whose operations all have one reader."""
        if type(tensor_type(function.results[0]).element_type) not in (Float32Type, BFloat16Type):
            return None
        x, inner = _base_and_factor(function.operands[0])
        parts = [function]
        if function.name == "chlo.erf":
            total = _reader(function, "stablehlo.add")
            if total is None or (scalar := scalar_of(_other(total, function))) is None or float(scalar) != 1:
                return None
            inner = -inner
            parts.append(total)
        outer, has_x = 1.0, False
        while (product := _reader(parts[-1], "stablehlo.multiply")) is not None:
            other = _other(product, parts[-1])
            scalar = scalar_of(other)
            base, factor = (None, float(scalar)) if scalar is not None else _base_and_factor(other)
            if base is not None and (has_x or base is not x):
                break
            outer, has_x = outer * factor, has_x or base is x
            parts.append(product)
        is_known = has_x and 1 / LARGEST_FACTOR <= abs(inner) <= LARGEST_FACTOR
        return _Gelu(parts, x, inner, outer) if is_known else None

    def replace(self) -> None:
        """Replace the parts. Infinity times an erfc of 0 stays NaN, and any other end what x or 0 is there."""
        e, size = Expansion(self.parts[-1]), abs(self.inner)
        x, outer = (Term(e, self.x), self.outer) if self.inner < 0 else (-Term(e, self.x), -self.outer)
        a = abs(x.call("minimum", VANISHES / size))
        if x.type.element_type == bf16:
            u = a.converted(f16) * size
            off = a * bfloat_fraction(u, 0.5).converted(bf16) / (u * u).converted(bf16).call("exponential")
        else:
            falling = (a * a * -_square(size)).call("exponential")
            off = a * (0.5 * LAST_SINGLE / size) / single_denominator(a, size) * falling
        found = x.call("maximum", -0.0) - off
        e.replace((found if outer == 0.5 else found * (2 * outer)).value)
        for part in reversed(self.parts[:-1]):
            part.detach()
            part.erase()


def _square(factor: float) -> float:
    """factor², and where this is as near to a power of two as the factor's rounding is large, the power: ½ for f32's 0.7071."""
    square = factor * factor
    power = 2.0 ** round(math.log2(square))
    return power if abs(square / power - 1) < 2.0**-23 else square


def _base_and_factor(value: SSAValue) -> tuple[SSAValue, float]:
    """What a value is a constant multiple of, and which."""
    factor = 1.0
    while isinstance(op := value.owner, Operation):
        if op.name == "stablehlo.negate":
            value, factor = op.operands[0], -factor
        elif op.name == "stablehlo.multiply" and (scalar := scalar_of(op.operands[1])) is not None:
            value, factor = op.operands[0], factor * float(scalar)
        elif op.name == "stablehlo.multiply" and (scalar := scalar_of(op.operands[0])) is not None:
            value, factor = op.operands[1], factor * float(scalar)
        elif op.name == "stablehlo.divide" and (scalar := scalar_of(op.operands[1])) is not None and scalar != 0:
            value, factor = op.operands[0], factor / float(scalar)
        else:
            break
    return value, factor


def _reader(op: Operation, name: str) -> Operation | None:
    """The only reader of an op, if it is of that name."""
    uses = list(op.results[0].uses)
    return uses[0].operation if len(uses) == 1 and uses[0].operation.name == name else None


def _other(op: Operation, known: Operation) -> SSAValue:
    """The operand of two that is not the result of `known`."""
    return op.operands[int(op.operands[0] is known.results[0])]
