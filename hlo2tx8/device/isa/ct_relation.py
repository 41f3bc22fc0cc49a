"""CT relations: 1.0 where the relation holds, else 0.0; every relation with NaN is false, but `ne`."""

import numpy as np

from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.forms import CtVS, CtVuV, CtVuVLoop, CtVV


@instruction
class CtEqVV(CtVV):
    """dst[i] = 1.0 if a[i] == b[i] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VV_eq"
    OPCODE = 48
    COMPUTE = np.equal


@instruction
class CtEqVS(CtVS):
    """dst[i] = 1.0 if a[i] == imm else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VS_eq"
    OPCODE = 49
    COMPUTE = np.equal


@instruction
class CtEqVuV(CtVuV):
    """dst[i] = 1.0 if a[i] == unit[i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VuV_eq"
    OPCODE = 50
    COMPUTE = np.equal


@instruction
class CtEqVuVLoop(CtVuVLoop):
    """dst[i] = 1.0 if a[i] == unit[r*u + i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VuV_eq_loop"
    OPCODE = 51
    COMPUTE = np.equal


@instruction
class CtNeVV(CtVV):
    """dst[i] = 1.0 if a[i] != b[i] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VV_ne"
    OPCODE = 52
    COMPUTE = np.not_equal


@instruction
class CtNeVS(CtVS):
    """dst[i] = 1.0 if a[i] != imm else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VS_ne"
    OPCODE = 53
    COMPUTE = np.not_equal


@instruction
class CtNeVuV(CtVuV):
    """dst[i] = 1.0 if a[i] != unit[i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VuV_ne"
    OPCODE = 54
    COMPUTE = np.not_equal


@instruction
class CtNeVuVLoop(CtVuVLoop):
    """dst[i] = 1.0 if a[i] != unit[r*u + i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VuV_ne_loop"
    OPCODE = 55
    COMPUTE = np.not_equal


@instruction
class CtGeVV(CtVV):
    """dst[i] = 1.0 if a[i] >= b[i] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VV_ge"
    OPCODE = 56
    COMPUTE = np.greater_equal


@instruction
class CtGeVS(CtVS):
    """dst[i] = 1.0 if a[i] >= imm else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VS_ge"
    OPCODE = 57
    COMPUTE = np.greater_equal


@instruction
class CtGeVuV(CtVuV):
    """dst[i] = 1.0 if a[i] >= unit[i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VuV_ge"
    OPCODE = 58
    COMPUTE = np.greater_equal


@instruction
class CtGeVuVLoop(CtVuVLoop):
    """dst[i] = 1.0 if a[i] >= unit[r*u + i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VuV_ge_loop"
    OPCODE = 59
    COMPUTE = np.greater_equal


@instruction
class CtGtVV(CtVV):
    """dst[i] = 1.0 if a[i] > b[i] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VV_gt"
    OPCODE = 60
    COMPUTE = np.greater


@instruction
class CtGtVS(CtVS):
    """dst[i] = 1.0 if a[i] > imm else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VS_gt"
    OPCODE = 61
    COMPUTE = np.greater


@instruction
class CtGtVuV(CtVuV):
    """dst[i] = 1.0 if a[i] > unit[i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VuV_gt"
    OPCODE = 62
    COMPUTE = np.greater


@instruction
class CtGtVuVLoop(CtVuVLoop):
    """dst[i] = 1.0 if a[i] > unit[r*u + i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VuV_gt_loop"
    OPCODE = 63
    COMPUTE = np.greater


@instruction
class CtLeVV(CtVV):
    """dst[i] = 1.0 if a[i] <= b[i] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VV_le"
    OPCODE = 64
    COMPUTE = np.less_equal


@instruction
class CtLeVS(CtVS):
    """dst[i] = 1.0 if a[i] <= imm else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VS_le"
    OPCODE = 65
    COMPUTE = np.less_equal


@instruction
class CtLeVuV(CtVuV):
    """dst[i] = 1.0 if a[i] <= unit[i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VuV_le"
    OPCODE = 66
    COMPUTE = np.less_equal


@instruction
class CtLeVuVLoop(CtVuVLoop):
    """dst[i] = 1.0 if a[i] <= unit[r*u + i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VuV_le_loop"
    OPCODE = 67
    COMPUTE = np.less_equal


@instruction
class CtLtVV(CtVV):
    """dst[i] = 1.0 if a[i] < b[i] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VV_lt"
    OPCODE = 68
    COMPUTE = np.less


@instruction
class CtLtVS(CtVS):
    """dst[i] = 1.0 if a[i] < imm else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VS_lt"
    OPCODE = 69
    COMPUTE = np.less


@instruction
class CtLtVuV(CtVuV):
    """dst[i] = 1.0 if a[i] < unit[i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VuV_lt"
    OPCODE = 70
    COMPUTE = np.less


@instruction
class CtLtVuVLoop(CtVuVLoop):
    """dst[i] = 1.0 if a[i] < unit[r*u + i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_RelaOp_V_VuV_lt_loop"
    OPCODE = 71
    COMPUTE = np.less


CT_RELATIONS = (
    CtEqVV,
    CtEqVS,
    CtEqVuV,
    CtEqVuVLoop,
    CtNeVV,
    CtNeVS,
    CtNeVuV,
    CtNeVuVLoop,
    CtGeVV,
    CtGeVS,
    CtGeVuV,
    CtGeVuVLoop,
    CtGtVV,
    CtGtVS,
    CtGtVuV,
    CtGtVuVLoop,
    CtLeVV,
    CtLeVS,
    CtLeVuV,
    CtLeVuVLoop,
    CtLtVV,
    CtLtVS,
    CtLtVuV,
    CtLtVuVLoop,
)
