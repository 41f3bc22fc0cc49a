"""CT activations, and the exponential of low precision."""

from hlo2tx8.device.arithmetic import float_rules
from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.ct_function import Transcendental
from hlo2tx8.device.isa.exactness import ALWAYS, LEAKY, NEVER, OF_ZERO
from hlo2tx8.device.isa.expressions import number
from hlo2tx8.device.isa.forms import CtV


@instruction
class CtRelu(CtV):
    """dst[i] = max(src[i], 0), NaN if it is NaN, +0 for -0."""

    MNEMONIC = "CGRATensor_ActOp_V_V_relu"
    OPCODE = 312
    COMPUTE = float_rules.relu
    EXPRESSION = number("larger(x, 0)")
    EXACT = ALWAYS


@instruction
class CtSatRelu(CtV):
    """dst[i] = min(max(src[i], 0), satrelu_bound); the bound, rounded to the format, is the chip description's."""

    MNEMONIC = "CGRATensor_ActOp_V_V_satrelu"
    OPCODE = 313
    LAW = "satrelu_bound"
    COMPUTE = float_rules.saturated_relu
    FORM, EXACT = "SCALED", ALWAYS


@instruction
class CtLeakyRelu(CtV):
    """dst[i] = src[i] if it is > 0, else src[i] * leakyrelu_slope; the slope, rounded to the format, is the chip description's."""

    MNEMONIC = "CGRATensor_ActOp_V_V_leakyrelu"
    OPCODE = 314
    LAW = "leakyrelu_slope"
    COMPUTE = float_rules.leaky_relu
    FORM, EXACT = "SCALED", LEAKY


@instruction
class CtSoftplus(Transcendental):
    """dst[i] = log(1 + exp(src[i]))."""

    MNEMONIC = "CGRATensor_ActOp_V_V_softplus"
    OPCODE = 315
    FUNCTION = "softplus"
    EXACT = NEVER


@instruction
class CtExpLowPrecision(CtV):
    """dst[i] = exp(src[i]), in FP32 with the bits of TF32 only."""

    MNEMONIC = "CGRATensor_TransOp_V_V_exp_lp"
    OPCODE = 316
    COST = "ct_low_precision"
    FUNCTION = "exp"
    IS_LOW_PRECISION = True
    EXACT = OF_ZERO
