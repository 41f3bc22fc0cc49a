"""CT relations with packed bools as results: bit i is 1 where the relation holds; every relation with NaN is 0, but `ne`."""

import numpy as np

from hlo2tx8.device.isa.exactness import ALWAYS
from hlo2tx8.device.isa.expressions import number
from hlo2tx8.device.isa.families import FourForms, Function
from hlo2tx8.device.isa.fields import Field, Role
from hlo2tx8.device.isa.forms import BITS, CtVS, CtVuV, CtVuVLoop, CtVV, packed, whole_bytes


class CtBitsVV(CtVV):
    """bit i of dst = f(a[i], b[i])."""

    FORM, SPELLING = "RELATION_BITS", "bV_VV_{}"
    ROUNDS = False
    FIELDS = (packed("dst", Role.SPM_WRITE), *CtVV.FIELDS[1:])
    CONSTRAINTS = (whole_bytes("n"),)


class CtBitsVS(CtVS):
    """bit i of dst = f(a[i], imm)."""

    FORM, SPELLING = "RELATION_BITS", "bV_VS_{}"
    ROUNDS = False
    FIELDS = (packed("dst", Role.SPM_WRITE), *CtVS.FIELDS[1:])
    CONSTRAINTS = (whole_bytes("n"),)


class CtBitsVuV(CtVuV):
    """bit i of dst = f(a[i], unit[i mod u])."""

    FORM, SPELLING = "RELATION_BITS", "bV_VuV_{}"
    ROUNDS = False
    FIELDS = (packed("dst", Role.SPM_WRITE), *CtVuV.FIELDS[1:])
    CONSTRAINTS = (whole_bytes("n"),)


class CtBitsVuVLoop(CtVuVLoop):
    """bit r*n + i of dst = f(a[r*n + i], unit[r*u + i mod u])."""

    FORM, SPELLING = "RELATION_BITS", "bV_VuV_{}_loop"
    ROUNDS = False
    FIELDS = (
        packed("dst", Role.SPM_WRITE, "full_n"),
        *CtVuVLoop.FIELDS[1:3],
        Field("n", Role.COUNT, least=BITS),
        *CtVuVLoop.FIELDS[4:],
    )
    CONSTRAINTS = (*CtVuVLoop.CONSTRAINTS, whole_bytes("n"))


RELATIONS = FourForms(__name__, "CtBits", "RelaOp", "bit i of dst = {}.", (CtBitsVV, CtBitsVS, CtBitsVuV, CtBitsVuVLoop))

CtBitsEqVV, CtBitsEqVS, CtBitsEqVuV, CtBitsEqVuVLoop = RELATIONS.declare(
    Function("eq", 256, "{a} == {b}", np.equal, number("x == y ? 1 : 0"), ALWAYS)
)
CtBitsNeVV, CtBitsNeVS, CtBitsNeVuV, CtBitsNeVuVLoop = RELATIONS.declare(
    Function("ne", 260, "{a} != {b}", np.not_equal, number("x != y ? 1 : 0"), ALWAYS)
)
CtBitsGeVV, CtBitsGeVS, CtBitsGeVuV, CtBitsGeVuVLoop = RELATIONS.declare(
    Function("ge", 264, "{a} >= {b}", np.greater_equal, number("x >= y ? 1 : 0"), ALWAYS)
)
CtBitsGtVV, CtBitsGtVS, CtBitsGtVuV, CtBitsGtVuVLoop = RELATIONS.declare(
    Function("gt", 268, "{a} > {b}", np.greater, number("x > y ? 1 : 0"), ALWAYS)
)
CtBitsLeVV, CtBitsLeVS, CtBitsLeVuV, CtBitsLeVuVLoop = RELATIONS.declare(
    Function("le", 272, "{a} <= {b}", np.less_equal, number("x <= y ? 1 : 0"), ALWAYS)
)
CtBitsLtVV, CtBitsLtVS, CtBitsLtVuV, CtBitsLtVuVLoop = RELATIONS.declare(
    Function("lt", 276, "{a} < {b}", np.less, number("x < y ? 1 : 0"), ALWAYS)
)
