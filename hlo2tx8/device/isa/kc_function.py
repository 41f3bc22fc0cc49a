"""Kernel-core functions of floats: exact rounding functions and those of `device.approx`."""

from hlo2tx8.device.arithmetic import kernel_core_rules as rules
from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.expressions import double, number
from hlo2tx8.device.isa.fields import Field, Role
from hlo2tx8.device.isa.forms import KC_FLOATS, KcV


class KcFunction(KcV):
    """dst[i] = FUNCTION(src[i]), correctly rounded in 16-bit formats."""

    FORMATS = KC_FLOATS
    COST = "kc_function"


@instruction
class KcVFloor(KcV):
    """dst[i] = the largest integer <= src[i]."""

    MNEMONIC = "KC_V_floor"
    OPCODE = 136
    FORMATS = KC_FLOATS
    COMPUTE = rules.floor
    EXPRESSION = number("below(x)")
    COST = "kc_round"


@instruction
class KcVCeil(KcV):
    """dst[i] = the smallest integer >= src[i]."""

    MNEMONIC = "KC_V_ceil"
    OPCODE = 137
    FORMATS = KC_FLOATS
    COMPUTE = rules.ceil
    EXPRESSION = number("above(x)")
    COST = "kc_round"


@instruction
class KcVRoundNearestEven(KcV):
    """dst[i] = the nearest integer, ties to even."""

    MNEMONIC = "KC_V_round_even"
    OPCODE = 138
    FORMATS = KC_FLOATS
    COMPUTE = rules.round_even
    EXPRESSION = number("nearest(x)")
    COST = "kc_round"


@instruction
class KcVRoundNearestAfz(KcV):
    """dst[i] = the nearest integer, ties away from zero."""

    MNEMONIC = "KC_V_round_afz"
    OPCODE = 139
    FORMATS = KC_FLOATS
    COMPUTE = rules.round_away
    EXPRESSION = number("away(x)")
    COST = "kc_round"


@instruction
class KcVSqrt(KcV):
    """dst[i] = sqrt(src[i])."""

    MNEMONIC = "KC_V_sqrt"
    OPCODE = 140
    FORMATS = KC_FLOATS
    COMPUTE = rules.sqrt
    EXPRESSION = number("root(x)")
    COST = "kc_root"


@instruction
class KcVRsqrt(KcV):
    """dst[i] = 1 / sqrt(src[i])."""

    MNEMONIC = "KC_V_rsqrt"
    OPCODE = 141
    FORMATS = KC_FLOATS
    COMPUTE = rules.reciprocal_sqrt
    EXPRESSION = double("1.0 / sqrt(x)")
    COST = "kc_root"


@instruction
class KcVExp(KcFunction):
    """dst[i] = exp(src[i])."""

    MNEMONIC = "KC_V_exp"
    OPCODE = 142
    FUNCTION = "exp"


@instruction
class KcVExpm1(KcFunction):
    """dst[i] = expm1(src[i])."""

    MNEMONIC = "KC_V_expm1"
    OPCODE = 143
    FUNCTION = "expm1"


@instruction
class KcVLog(KcFunction):
    """dst[i] = log(src[i])."""

    MNEMONIC = "KC_V_log"
    OPCODE = 144
    FUNCTION = "log"


@instruction
class KcVLog1p(KcFunction):
    """dst[i] = log1p(src[i])."""

    MNEMONIC = "KC_V_log1p"
    OPCODE = 145
    FUNCTION = "log1p"


@instruction
class KcVSin(KcFunction):
    """dst[i] = sin(src[i])."""

    MNEMONIC = "KC_V_sin"
    OPCODE = 146
    FUNCTION = "sin"


@instruction
class KcVCos(KcFunction):
    """dst[i] = cos(src[i])."""

    MNEMONIC = "KC_V_cos"
    OPCODE = 147
    FUNCTION = "cos"


@instruction
class KcVTan(KcFunction):
    """dst[i] = tan(src[i])."""

    MNEMONIC = "KC_V_tan"
    OPCODE = 148
    FUNCTION = "tan"


@instruction
class KcVTanh(KcFunction):
    """dst[i] = tanh(src[i])."""

    MNEMONIC = "KC_V_tanh"
    OPCODE = 149
    FUNCTION = "tanh"


@instruction
class KcVLogistic(KcFunction):
    """dst[i] = logistic(src[i])."""

    MNEMONIC = "KC_V_logistic"
    OPCODE = 150
    FUNCTION = "logistic"


@instruction
class KcVCbrt(KcFunction):
    """dst[i] = cbrt(src[i])."""

    MNEMONIC = "KC_V_cbrt"
    OPCODE = 151
    FUNCTION = "cbrt"


@instruction
class KcVReducePrecision(KcV):
    """dst[i] = src[i] rounded to `exponent` and `mantissa` bits, nearest even; too large becomes infinite."""

    MNEMONIC = "KC_V_reduce_precision"
    OPCODE = 152
    FORMATS = KC_FLOATS
    FIELDS = (*KcV.FIELDS, Field("exponent", Role.IMMEDIATE, least=1, most=11), Field("mantissa", Role.IMMEDIATE, least=0))
    FORM = "REDUCE_PRECISION"
    COST = "kc_round"
