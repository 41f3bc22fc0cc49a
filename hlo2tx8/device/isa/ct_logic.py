"""CT logic: on truth values, where any number but zero is true and NaN is too, and bitwise on packed bools.

The bitwise forms act on any bits, so they serve integers as well.
"""

import numpy as np

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.exactness import ALWAYS, SILENT
from hlo2tx8.device.isa.expressions import number, packed_bits
from hlo2tx8.device.isa.families import Function, ThreeForms
from hlo2tx8.device.isa.fields import Field, Role
from hlo2tx8.device.isa.forms import (
    BITS,
    COUNT,
    UNIT_ELEMENTS,
    CtInstruction,
    CtV,
    CtVuV,
    CtVuVLoop,
    CtVV,
    packed,
    whole_bytes,
)


class CtBitsInstruction(CtInstruction):
    """Bitwise on packed bools."""

    FORM = "BITS"
    FORMATS = (Format.BOOL,)
    CONSTRAINTS = (whole_bytes("n"),)


class CtBitsBinary(CtBitsInstruction):
    """bit i of dst = f(bit i of a, bit i of b)."""

    SHAPE = "TWO"
    FIRST, SECOND, SUFFIX, SPELLING, OFFSET = "bit i of a", "bit i of b", "Binary", "bV_bVbV_{}", 0
    FIELDS = (packed("dst", Role.SPM_WRITE), packed("a", Role.SPM_READ), packed("b", Role.SPM_READ), COUNT)


class CtBitsUnit(CtBitsInstruction):
    """bit i of dst = f(bit i of a, bit i mod u of unit), u <= 64."""

    SHAPE = "UNIT"
    FIRST, SECOND, SUFFIX, SPELLING, OFFSET = "bit i of a", "bit i mod u of unit", "Unit", "bV_bVubV_{}", 2
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

    SHAPE = "UNIT_LOOP"
    FIRST, SECOND, SUFFIX, SPELLING, OFFSET = "bit i of a", "bit r*u + i mod u of unit", "UnitLoop", "bV_bVubV_{}_loop", 3
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
    EXPRESSION = number("x == 0 ? 1 : 0")
    EXACT = ALWAYS


TRUTH = ThreeForms(__name__, "Ct", "LogicOp", "dst[i] = 1.0 if {} else 0.0.", (CtVV, CtVuV, CtVuVLoop))

CtAndVV, CtAndVuV, CtAndVuVLoop = TRUTH.declare(
    Function("and", 280, "{a} and {b}", np.logical_and, number("x != 0 && y != 0 ? 1 : 0"), ALWAYS)
)
CtOrVV, CtOrVuV, CtOrVuVLoop = TRUTH.declare(
    Function("or", 284, "{a} or {b}", np.logical_or, number("x != 0 || y != 0 ? 1 : 0"), ALWAYS)
)
CtXorVV, CtXorVuV, CtXorVuVLoop = TRUTH.declare(
    Function("xor", 288, "{a} xor {b}", np.logical_xor, number("(x != 0) != (y != 0) ? 1 : 0"), ALWAYS)
)


@instruction
class CtBitsNot(CtBitsInstruction):
    """bit i of dst = not bit i of src."""

    MNEMONIC = "CGRATensor_LogicOp_bV_bV_not"
    OPCODE = 296
    SHAPE = "ONE"
    FIELDS = (packed("dst", Role.SPM_WRITE), packed("src", Role.SPM_READ), COUNT)
    COMPUTE = np.bitwise_not
    EXPRESSION = packed_bits("~x")


PACKED = ThreeForms(__name__, "CtBits", "LogicOp", "bit i of dst = {}.", (CtBitsBinary, CtBitsUnit, CtBitsUnitLoop))

CtBitsAndBinary, CtBitsAndUnit, CtBitsAndUnitLoop = PACKED.declare(
    Function("and", 300, "{a} and {b}", np.bitwise_and, packed_bits("x & y"), SILENT)
)
CtBitsOrBinary, CtBitsOrUnit, CtBitsOrUnitLoop = PACKED.declare(
    Function("or", 304, "{a} or {b}", np.bitwise_or, packed_bits("x | y"), SILENT)
)
CtBitsXorBinary, CtBitsXorUnit, CtBitsXorUnitLoop = PACKED.declare(
    Function("xor", 308, "{a} xor {b}", np.bitwise_xor, packed_bits("x ^ y"), SILENT)
)
