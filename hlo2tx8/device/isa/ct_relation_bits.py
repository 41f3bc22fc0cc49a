"""CT relations with packed bools as results: bit i is 1 where the relation holds; every relation with NaN is 0, but `ne`."""

import numpy as np

from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.fields import Field, Role
from hlo2tx8.device.isa.forms import BITS, CtVS, CtVuV, CtVuVLoop, CtVV, packed, whole_bytes


class CtBitsVV(CtVV):
    """bit i of dst = f(a[i], b[i])."""

    FIELDS = (packed("dst", Role.SPM_WRITE), *CtVV.FIELDS[1:])
    CONSTRAINTS = (whole_bytes("n"),)


class CtBitsVS(CtVS):
    """bit i of dst = f(a[i], imm)."""

    FIELDS = (packed("dst", Role.SPM_WRITE), *CtVS.FIELDS[1:])
    CONSTRAINTS = (whole_bytes("n"),)


class CtBitsVuV(CtVuV):
    """bit i of dst = f(a[i], unit[i mod u])."""

    FIELDS = (packed("dst", Role.SPM_WRITE), *CtVuV.FIELDS[1:])
    CONSTRAINTS = (whole_bytes("n"),)


class CtBitsVuVLoop(CtVuVLoop):
    """bit r*n + i of dst = f(a[r*n + i], unit[r*u + i mod u])."""

    FIELDS = (
        packed("dst", Role.SPM_WRITE, "full_n"),
        *CtVuVLoop.FIELDS[1:3],
        Field("n", Role.COUNT, least=BITS),
        *CtVuVLoop.FIELDS[4:],
    )
    CONSTRAINTS = (*CtVuVLoop.CONSTRAINTS, whole_bytes("n"))


@instruction
class CtBitsEqVV(CtBitsVV):
    """bit i of dst = a[i] == b[i]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VV_eq"
    OPCODE = 256
    COMPUTE = np.equal


@instruction
class CtBitsEqVS(CtBitsVS):
    """bit i of dst = a[i] == imm."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VS_eq"
    OPCODE = 257
    COMPUTE = np.equal


@instruction
class CtBitsEqVuV(CtBitsVuV):
    """bit i of dst = a[i] == unit[i mod u]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VuV_eq"
    OPCODE = 258
    COMPUTE = np.equal


@instruction
class CtBitsEqVuVLoop(CtBitsVuVLoop):
    """bit i of dst = a[i] == unit[r*u + i mod u]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VuV_eq_loop"
    OPCODE = 259
    COMPUTE = np.equal


@instruction
class CtBitsNeVV(CtBitsVV):
    """bit i of dst = a[i] != b[i]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VV_ne"
    OPCODE = 260
    COMPUTE = np.not_equal


@instruction
class CtBitsNeVS(CtBitsVS):
    """bit i of dst = a[i] != imm."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VS_ne"
    OPCODE = 261
    COMPUTE = np.not_equal


@instruction
class CtBitsNeVuV(CtBitsVuV):
    """bit i of dst = a[i] != unit[i mod u]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VuV_ne"
    OPCODE = 262
    COMPUTE = np.not_equal


@instruction
class CtBitsNeVuVLoop(CtBitsVuVLoop):
    """bit i of dst = a[i] != unit[r*u + i mod u]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VuV_ne_loop"
    OPCODE = 263
    COMPUTE = np.not_equal


@instruction
class CtBitsGeVV(CtBitsVV):
    """bit i of dst = a[i] >= b[i]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VV_ge"
    OPCODE = 264
    COMPUTE = np.greater_equal


@instruction
class CtBitsGeVS(CtBitsVS):
    """bit i of dst = a[i] >= imm."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VS_ge"
    OPCODE = 265
    COMPUTE = np.greater_equal


@instruction
class CtBitsGeVuV(CtBitsVuV):
    """bit i of dst = a[i] >= unit[i mod u]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VuV_ge"
    OPCODE = 266
    COMPUTE = np.greater_equal


@instruction
class CtBitsGeVuVLoop(CtBitsVuVLoop):
    """bit i of dst = a[i] >= unit[r*u + i mod u]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VuV_ge_loop"
    OPCODE = 267
    COMPUTE = np.greater_equal


@instruction
class CtBitsGtVV(CtBitsVV):
    """bit i of dst = a[i] > b[i]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VV_gt"
    OPCODE = 268
    COMPUTE = np.greater


@instruction
class CtBitsGtVS(CtBitsVS):
    """bit i of dst = a[i] > imm."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VS_gt"
    OPCODE = 269
    COMPUTE = np.greater


@instruction
class CtBitsGtVuV(CtBitsVuV):
    """bit i of dst = a[i] > unit[i mod u]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VuV_gt"
    OPCODE = 270
    COMPUTE = np.greater


@instruction
class CtBitsGtVuVLoop(CtBitsVuVLoop):
    """bit i of dst = a[i] > unit[r*u + i mod u]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VuV_gt_loop"
    OPCODE = 271
    COMPUTE = np.greater


@instruction
class CtBitsLeVV(CtBitsVV):
    """bit i of dst = a[i] <= b[i]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VV_le"
    OPCODE = 272
    COMPUTE = np.less_equal


@instruction
class CtBitsLeVS(CtBitsVS):
    """bit i of dst = a[i] <= imm."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VS_le"
    OPCODE = 273
    COMPUTE = np.less_equal


@instruction
class CtBitsLeVuV(CtBitsVuV):
    """bit i of dst = a[i] <= unit[i mod u]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VuV_le"
    OPCODE = 274
    COMPUTE = np.less_equal


@instruction
class CtBitsLeVuVLoop(CtBitsVuVLoop):
    """bit i of dst = a[i] <= unit[r*u + i mod u]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VuV_le_loop"
    OPCODE = 275
    COMPUTE = np.less_equal


@instruction
class CtBitsLtVV(CtBitsVV):
    """bit i of dst = a[i] < b[i]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VV_lt"
    OPCODE = 276
    COMPUTE = np.less


@instruction
class CtBitsLtVS(CtBitsVS):
    """bit i of dst = a[i] < imm."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VS_lt"
    OPCODE = 277
    COMPUTE = np.less


@instruction
class CtBitsLtVuV(CtBitsVuV):
    """bit i of dst = a[i] < unit[i mod u]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VuV_lt"
    OPCODE = 278
    COMPUTE = np.less


@instruction
class CtBitsLtVuVLoop(CtBitsVuVLoop):
    """bit i of dst = a[i] < unit[r*u + i mod u]."""

    MNEMONIC = "CGRATensor_RelaOp_bV_VuV_lt_loop"
    OPCODE = 279
    COMPUTE = np.less


CT_BIT_RELATIONS = (
    CtBitsEqVV,
    CtBitsEqVS,
    CtBitsEqVuV,
    CtBitsEqVuVLoop,
    CtBitsNeVV,
    CtBitsNeVS,
    CtBitsNeVuV,
    CtBitsNeVuVLoop,
    CtBitsGeVV,
    CtBitsGeVS,
    CtBitsGeVuV,
    CtBitsGeVuVLoop,
    CtBitsGtVV,
    CtBitsGtVS,
    CtBitsGtVuV,
    CtBitsGtVuVLoop,
    CtBitsLeVV,
    CtBitsLeVS,
    CtBitsLeVuV,
    CtBitsLeVuVLoop,
    CtBitsLtVV,
    CtBitsLtVS,
    CtBitsLtVuV,
    CtBitsLtVuVLoop,
)
