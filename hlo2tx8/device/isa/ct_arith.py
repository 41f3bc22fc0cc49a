"""CT arithmetic: unary V, binary VV, VS, VuV and VuV_loop. Each result is rounded once to the format."""

import numpy as np

from hlo2tx8.device.arithmetic import float_rules
from hlo2tx8.device.isa import exactness
from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.expressions import bits, double, number
from hlo2tx8.device.isa.families import FourForms, Function
from hlo2tx8.device.isa.forms import CtV, CtVS, CtVuV, CtVuVLoop, CtVV


@instruction
class CtAbs(CtV):
    """dst[i] = |src[i]|, bits only."""

    MNEMONIC = "CGRATensor_ArithOp_V_V_abs"
    OPCODE = 0
    COMPUTE = float_rules.absolute
    EXPRESSION = bits("x & ~sign")
    EXACT = exactness.SILENT


@instruction
class CtNeg(CtV):
    """dst[i] = -src[i], bits only."""

    MNEMONIC = "CGRATensor_ArithOp_V_V_neg"
    OPCODE = 1
    COMPUTE = float_rules.negate
    EXPRESSION = bits("x ^ sign")
    EXACT = exactness.SILENT


@instruction
class CtRecip(CtV):
    """dst[i] = 1 / src[i]."""

    MNEMONIC = "CGRATensor_ArithOp_V_V_recip"
    OPCODE = 2
    COMPUTE = float_rules.reciprocal
    EXPRESSION = number("1 / x")
    EXACT = exactness.RECIPROCAL
    HAS_POLES = True


@instruction
class CtSquare(CtV):
    """dst[i] = src[i] * src[i]."""

    MNEMONIC = "CGRATensor_ArithOp_V_V_square"
    OPCODE = 3
    COMPUTE = np.square
    EXPRESSION = number("x * x")
    EXACT = exactness.PRODUCT


@instruction
class CtSqrt(CtV):
    """dst[i] = sqrt(src[i])."""

    MNEMONIC = "CGRATensor_ArithOp_V_V_sqrt"
    OPCODE = 4
    COMPUTE = np.sqrt
    EXPRESSION = number("root(x)")
    EXACT = exactness.ROOT


@instruction
class CtRsqrt(CtV):
    """dst[i] = 1 / sqrt(src[i])."""

    MNEMONIC = "CGRATensor_ArithOp_V_V_rsqrt"
    OPCODE = 5
    COMPUTE = float_rules.reciprocal_sqrt
    EXPRESSION = double("1.0 / sqrt(x)")
    EXACT = exactness.RECIPROCAL_ROOT
    HAS_POLES = True


ARITHMETIC = FourForms(__name__, "Ct", "ArithOp", "dst[i] = {}.", (CtVV, CtVS, CtVuV, CtVuVLoop))

CtAddVV, CtAddVS, CtAddVuV, CtAddVuVLoop = ARITHMETIC.declare(
    Function("add", 16, "{a} + {b}", np.add, number("x + y"), exactness.SUM)
)
CtSubVV, CtSubVS, CtSubVuV, CtSubVuVLoop = ARITHMETIC.declare(
    Function("sub", 20, "{a} - {b}", np.subtract, number("x - y"), exactness.DIFFERENCE)
)
CtMulVV, CtMulVS, CtMulVuV, CtMulVuVLoop = ARITHMETIC.declare(
    Function("mul", 24, "{a} * {b}", np.multiply, number("x * y"), exactness.PRODUCT)
)
CtDivVV, CtDivVS, CtDivVuV, CtDivVuVLoop = ARITHMETIC.declare(
    Function("div", 28, "{a} / {b}", np.divide, number("x / y"), exactness.QUOTIENT, has_poles=True)
)
CtMaxVV, CtMaxVS, CtMaxVuV, CtMaxVuVLoop = ARITHMETIC.declare(
    Function("max", 32, "max({a}, {b}), NaN if one is NaN, -0 < +0", float_rules.maximum, number("larger(x, y)"), exactness.ALWAYS)
)
CtMinVV, CtMinVS, CtMinVuV, CtMinVuVLoop = ARITHMETIC.declare(
    Function("min", 36, "min({a}, {b}), NaN if one is NaN, -0 < +0", float_rules.minimum, number("smaller(x, y)"), exactness.ALWAYS)
)
