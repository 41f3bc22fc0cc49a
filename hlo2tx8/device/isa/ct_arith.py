"""CT arithmetic: unary V, binary VV, VS, VuV and VuV_loop. Each result is rounded once to the format."""

import numpy as np

from hlo2tx8.device import float_rules
from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.forms import CtV, CtVS, CtVuV, CtVuVLoop, CtVV


@instruction
class CtAbs(CtV):
    """dst[i] = |src[i]|, bits only."""

    MNEMONIC = "CGRATensor_ArithOp_V_V_abs"
    OPCODE = 0
    COMPUTE = float_rules.absolute


@instruction
class CtNeg(CtV):
    """dst[i] = -src[i], bits only."""

    MNEMONIC = "CGRATensor_ArithOp_V_V_neg"
    OPCODE = 1
    COMPUTE = float_rules.negate


@instruction
class CtRecip(CtV):
    """dst[i] = 1 / src[i]."""

    MNEMONIC = "CGRATensor_ArithOp_V_V_recip"
    OPCODE = 2
    COMPUTE = float_rules.reciprocal


@instruction
class CtSquare(CtV):
    """dst[i] = src[i] * src[i]."""

    MNEMONIC = "CGRATensor_ArithOp_V_V_square"
    OPCODE = 3
    COMPUTE = np.square


@instruction
class CtSqrt(CtV):
    """dst[i] = sqrt(src[i])."""

    MNEMONIC = "CGRATensor_ArithOp_V_V_sqrt"
    OPCODE = 4
    COMPUTE = np.sqrt


@instruction
class CtRsqrt(CtV):
    """dst[i] = 1 / sqrt(src[i])."""

    MNEMONIC = "CGRATensor_ArithOp_V_V_rsqrt"
    OPCODE = 5
    COMPUTE = float_rules.reciprocal_sqrt


@instruction
class CtAddVV(CtVV):
    """dst[i] = a[i] + b[i]."""

    MNEMONIC = "CGRATensor_ArithOp_V_VV_add"
    OPCODE = 16
    COMPUTE = np.add


@instruction
class CtAddVS(CtVS):
    """dst[i] = a[i] + imm."""

    MNEMONIC = "CGRATensor_ArithOp_V_VS_add"
    OPCODE = 17
    COMPUTE = np.add


@instruction
class CtAddVuV(CtVuV):
    """dst[i] = a[i] + unit[i mod u]."""

    MNEMONIC = "CGRATensor_ArithOp_V_VuV_add"
    OPCODE = 18
    COMPUTE = np.add


@instruction
class CtAddVuVLoop(CtVuVLoop):
    """dst[i] = a[i] + unit[r*u + i mod u]."""

    MNEMONIC = "CGRATensor_ArithOp_V_VuV_add_loop"
    OPCODE = 19
    COMPUTE = np.add


@instruction
class CtSubVV(CtVV):
    """dst[i] = a[i] - b[i]."""

    MNEMONIC = "CGRATensor_ArithOp_V_VV_sub"
    OPCODE = 20
    COMPUTE = np.subtract


@instruction
class CtSubVS(CtVS):
    """dst[i] = a[i] - imm."""

    MNEMONIC = "CGRATensor_ArithOp_V_VS_sub"
    OPCODE = 21
    COMPUTE = np.subtract


@instruction
class CtSubVuV(CtVuV):
    """dst[i] = a[i] - unit[i mod u]."""

    MNEMONIC = "CGRATensor_ArithOp_V_VuV_sub"
    OPCODE = 22
    COMPUTE = np.subtract


@instruction
class CtSubVuVLoop(CtVuVLoop):
    """dst[i] = a[i] - unit[r*u + i mod u]."""

    MNEMONIC = "CGRATensor_ArithOp_V_VuV_sub_loop"
    OPCODE = 23
    COMPUTE = np.subtract


@instruction
class CtMulVV(CtVV):
    """dst[i] = a[i] * b[i]."""

    MNEMONIC = "CGRATensor_ArithOp_V_VV_mul"
    OPCODE = 24
    COMPUTE = np.multiply


@instruction
class CtMulVS(CtVS):
    """dst[i] = a[i] * imm."""

    MNEMONIC = "CGRATensor_ArithOp_V_VS_mul"
    OPCODE = 25
    COMPUTE = np.multiply


@instruction
class CtMulVuV(CtVuV):
    """dst[i] = a[i] * unit[i mod u]."""

    MNEMONIC = "CGRATensor_ArithOp_V_VuV_mul"
    OPCODE = 26
    COMPUTE = np.multiply


@instruction
class CtMulVuVLoop(CtVuVLoop):
    """dst[i] = a[i] * unit[r*u + i mod u]."""

    MNEMONIC = "CGRATensor_ArithOp_V_VuV_mul_loop"
    OPCODE = 27
    COMPUTE = np.multiply


@instruction
class CtDivVV(CtVV):
    """dst[i] = a[i] / b[i]."""

    MNEMONIC = "CGRATensor_ArithOp_V_VV_div"
    OPCODE = 28
    COMPUTE = np.divide


@instruction
class CtDivVS(CtVS):
    """dst[i] = a[i] / imm."""

    MNEMONIC = "CGRATensor_ArithOp_V_VS_div"
    OPCODE = 29
    COMPUTE = np.divide


@instruction
class CtDivVuV(CtVuV):
    """dst[i] = a[i] / unit[i mod u]."""

    MNEMONIC = "CGRATensor_ArithOp_V_VuV_div"
    OPCODE = 30
    COMPUTE = np.divide


@instruction
class CtDivVuVLoop(CtVuVLoop):
    """dst[i] = a[i] / unit[r*u + i mod u]."""

    MNEMONIC = "CGRATensor_ArithOp_V_VuV_div_loop"
    OPCODE = 31
    COMPUTE = np.divide


@instruction
class CtMaxVV(CtVV):
    """dst[i] = max(a[i], b[i]), NaN if one is NaN, -0 < +0."""

    MNEMONIC = "CGRATensor_ArithOp_V_VV_max"
    OPCODE = 32
    COMPUTE = float_rules.maximum


@instruction
class CtMaxVS(CtVS):
    """dst[i] = max(a[i], imm), NaN if one is NaN, -0 < +0."""

    MNEMONIC = "CGRATensor_ArithOp_V_VS_max"
    OPCODE = 33
    COMPUTE = float_rules.maximum


@instruction
class CtMaxVuV(CtVuV):
    """dst[i] = max(a[i], unit[i mod u]), NaN if one is NaN, -0 < +0."""

    MNEMONIC = "CGRATensor_ArithOp_V_VuV_max"
    OPCODE = 34
    COMPUTE = float_rules.maximum


@instruction
class CtMaxVuVLoop(CtVuVLoop):
    """dst[i] = max(a[i], unit[r*u + i mod u]), NaN if one is NaN, -0 < +0."""

    MNEMONIC = "CGRATensor_ArithOp_V_VuV_max_loop"
    OPCODE = 35
    COMPUTE = float_rules.maximum


@instruction
class CtMinVV(CtVV):
    """dst[i] = min(a[i], b[i]), NaN if one is NaN, -0 < +0."""

    MNEMONIC = "CGRATensor_ArithOp_V_VV_min"
    OPCODE = 36
    COMPUTE = float_rules.minimum


@instruction
class CtMinVS(CtVS):
    """dst[i] = min(a[i], imm), NaN if one is NaN, -0 < +0."""

    MNEMONIC = "CGRATensor_ArithOp_V_VS_min"
    OPCODE = 37
    COMPUTE = float_rules.minimum


@instruction
class CtMinVuV(CtVuV):
    """dst[i] = min(a[i], unit[i mod u]), NaN if one is NaN, -0 < +0."""

    MNEMONIC = "CGRATensor_ArithOp_V_VuV_min"
    OPCODE = 38
    COMPUTE = float_rules.minimum


@instruction
class CtMinVuVLoop(CtVuVLoop):
    """dst[i] = min(a[i], unit[r*u + i mod u]), NaN if one is NaN, -0 < +0."""

    MNEMONIC = "CGRATensor_ArithOp_V_VuV_min_loop"
    OPCODE = 39
    COMPUTE = float_rules.minimum


CT_ARITHMETIC = (
    CtAbs,
    CtNeg,
    CtRecip,
    CtSquare,
    CtSqrt,
    CtRsqrt,
    CtAddVV,
    CtAddVS,
    CtAddVuV,
    CtAddVuVLoop,
    CtSubVV,
    CtSubVS,
    CtSubVuV,
    CtSubVuVLoop,
    CtMulVV,
    CtMulVS,
    CtMulVuV,
    CtMulVuVLoop,
    CtDivVV,
    CtDivVS,
    CtDivVuV,
    CtDivVuVLoop,
    CtMaxVV,
    CtMaxVS,
    CtMaxVuV,
    CtMaxVuVLoop,
    CtMinVV,
    CtMinVS,
    CtMinVuV,
    CtMinVuVLoop,
)
