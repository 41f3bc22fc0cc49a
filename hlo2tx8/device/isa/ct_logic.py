"""CT logic: on truth values, where any number but zero is true and NaN is too, and bitwise on packed bools.

The bitwise forms act on any bits, so they serve integers as well.
"""

import numpy as np

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.fields import Field, Role
from hlo2tx8.device.isa.forms import BITS, COUNT, UNIT_ELEMENTS, CtInstruction, CtV, CtVuV, CtVuVLoop, CtVV, packed, whole_bytes


class CtBitsInstruction(CtInstruction):
    """Bitwise on packed bools."""

    FORMATS = (Format.BOOL,)
    CONSTRAINTS = (whole_bytes("n"),)


class CtBitsBinary(CtBitsInstruction):
    """bit i of dst = f(bit i of a, bit i of b)."""

    FIELDS = (packed("dst", Role.SPM_WRITE), packed("a", Role.SPM_READ), packed("b", Role.SPM_READ), COUNT)


class CtBitsUnit(CtBitsInstruction):
    """bit i of dst = f(bit i of a, bit i mod u of unit), u <= 64."""

    FIELDS = (
        packed("dst", Role.SPM_WRITE),
        packed("a", Role.SPM_READ),
        packed("unit", Role.SPM_READ, "u"),
        COUNT,
        Field("u", Role.COUNT, least=BITS, most=UNIT_ELEMENTS),
    )
    CONSTRAINTS = (whole_bytes("n"), whole_bytes("u"))


class CtBitsUnitLoop(CtBitsInstruction):
    """bit r*n + i of dst = f(bit r*n + i of a, bit r*u + i mod u of unit) for each round r; u = 64, full_n / full_u = n / u."""

    FIELDS = (
        packed("dst", Role.SPM_WRITE, "full_n"),
        packed("a", Role.SPM_READ, "full_n"),
        packed("unit", Role.SPM_READ, "full_u"),
        Field("n", Role.COUNT, least=BITS),
        *CtVuVLoop.FIELDS[4:],
    )
    CONSTRAINTS = (*CtVuVLoop.CONSTRAINTS, whole_bytes("n"))


@instruction
class CtNot(CtV):
    """dst[i] = 1.0 if src[i] is 0 else 0.0."""

    MNEMONIC = "CGRATensor_LogicOp_V_V_not"
    OPCODE = 292
    COMPUTE = np.logical_not


@instruction
class CtBitsNot(CtBitsInstruction):
    """bit i of dst = not bit i of src."""

    MNEMONIC = "CGRATensor_LogicOp_bV_bV_not"
    OPCODE = 296
    FIELDS = (packed("dst", Role.SPM_WRITE), packed("src", Role.SPM_READ), COUNT)
    COMPUTE = np.bitwise_not


@instruction
class CtAndVV(CtVV):
    """dst[i] = 1.0 if a[i] and b[i] else 0.0."""

    MNEMONIC = "CGRATensor_LogicOp_V_VV_and"
    OPCODE = 280
    COMPUTE = np.logical_and


@instruction
class CtAndVuV(CtVuV):
    """dst[i] = 1.0 if a[i] and unit[i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_LogicOp_V_VuV_and"
    OPCODE = 282
    COMPUTE = np.logical_and


@instruction
class CtAndVuVLoop(CtVuVLoop):
    """dst[i] = 1.0 if a[i] and unit[r*u + i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_LogicOp_V_VuV_and_loop"
    OPCODE = 283
    COMPUTE = np.logical_and


@instruction
class CtOrVV(CtVV):
    """dst[i] = 1.0 if a[i] or b[i] else 0.0."""

    MNEMONIC = "CGRATensor_LogicOp_V_VV_or"
    OPCODE = 284
    COMPUTE = np.logical_or


@instruction
class CtOrVuV(CtVuV):
    """dst[i] = 1.0 if a[i] or unit[i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_LogicOp_V_VuV_or"
    OPCODE = 286
    COMPUTE = np.logical_or


@instruction
class CtOrVuVLoop(CtVuVLoop):
    """dst[i] = 1.0 if a[i] or unit[r*u + i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_LogicOp_V_VuV_or_loop"
    OPCODE = 287
    COMPUTE = np.logical_or


@instruction
class CtXorVV(CtVV):
    """dst[i] = 1.0 if a[i] xor b[i] else 0.0."""

    MNEMONIC = "CGRATensor_LogicOp_V_VV_xor"
    OPCODE = 288
    COMPUTE = np.logical_xor


@instruction
class CtXorVuV(CtVuV):
    """dst[i] = 1.0 if a[i] xor unit[i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_LogicOp_V_VuV_xor"
    OPCODE = 290
    COMPUTE = np.logical_xor


@instruction
class CtXorVuVLoop(CtVuVLoop):
    """dst[i] = 1.0 if a[i] xor unit[r*u + i mod u] else 0.0."""

    MNEMONIC = "CGRATensor_LogicOp_V_VuV_xor_loop"
    OPCODE = 291
    COMPUTE = np.logical_xor


@instruction
class CtBitsAndBinary(CtBitsBinary):
    """bit i of dst = bit i of a and bit i of b."""

    MNEMONIC = "CGRATensor_LogicOp_bV_bVbV_and"
    OPCODE = 300
    COMPUTE = np.bitwise_and


@instruction
class CtBitsAndUnit(CtBitsUnit):
    """bit i of dst = bit i of a and bit i mod u of unit."""

    MNEMONIC = "CGRATensor_LogicOp_bV_bVubV_and"
    OPCODE = 302
    COMPUTE = np.bitwise_and


@instruction
class CtBitsAndUnitLoop(CtBitsUnitLoop):
    """bit i of dst = bit i of a and bit r*u + i mod u of unit."""

    MNEMONIC = "CGRATensor_LogicOp_bV_bVubV_and_loop"
    OPCODE = 303
    COMPUTE = np.bitwise_and


@instruction
class CtBitsOrBinary(CtBitsBinary):
    """bit i of dst = bit i of a or bit i of b."""

    MNEMONIC = "CGRATensor_LogicOp_bV_bVbV_or"
    OPCODE = 304
    COMPUTE = np.bitwise_or


@instruction
class CtBitsOrUnit(CtBitsUnit):
    """bit i of dst = bit i of a or bit i mod u of unit."""

    MNEMONIC = "CGRATensor_LogicOp_bV_bVubV_or"
    OPCODE = 306
    COMPUTE = np.bitwise_or


@instruction
class CtBitsOrUnitLoop(CtBitsUnitLoop):
    """bit i of dst = bit i of a or bit r*u + i mod u of unit."""

    MNEMONIC = "CGRATensor_LogicOp_bV_bVubV_or_loop"
    OPCODE = 307
    COMPUTE = np.bitwise_or


@instruction
class CtBitsXorBinary(CtBitsBinary):
    """bit i of dst = bit i of a xor bit i of b."""

    MNEMONIC = "CGRATensor_LogicOp_bV_bVbV_xor"
    OPCODE = 308
    COMPUTE = np.bitwise_xor


@instruction
class CtBitsXorUnit(CtBitsUnit):
    """bit i of dst = bit i of a xor bit i mod u of unit."""

    MNEMONIC = "CGRATensor_LogicOp_bV_bVubV_xor"
    OPCODE = 310
    COMPUTE = np.bitwise_xor


@instruction
class CtBitsXorUnitLoop(CtBitsUnitLoop):
    """bit i of dst = bit i of a xor bit r*u + i mod u of unit."""

    MNEMONIC = "CGRATensor_LogicOp_bV_bVubV_xor_loop"
    OPCODE = 311
    COMPUTE = np.bitwise_xor


CT_LOGIC = (
    CtNot,
    CtAndVV,
    CtAndVuV,
    CtAndVuVLoop,
    CtOrVV,
    CtOrVuV,
    CtOrVuVLoop,
    CtXorVV,
    CtXorVuV,
    CtXorVuVLoop,
    CtBitsNot,
    CtBitsAndBinary,
    CtBitsAndUnit,
    CtBitsAndUnitLoop,
    CtBitsOrBinary,
    CtBitsOrUnit,
    CtBitsOrUnitLoop,
    CtBitsXorBinary,
    CtBitsXorUnit,
    CtBitsXorUnitLoop,
)
