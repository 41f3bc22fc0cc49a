"""CT relations: 1.0 where the relation holds, else 0.0; every relation with NaN is false, but `ne`."""

import numpy as np

from hlo2tx8.device.isa.exactness import ALWAYS
from hlo2tx8.device.isa.expressions import number
from hlo2tx8.device.isa.families import FourForms, Function
from hlo2tx8.device.isa.forms import CtVS, CtVuV, CtVuVLoop, CtVV

RELATIONS = FourForms(__name__, "Ct", "RelaOp", "dst[i] = 1.0 if {} else 0.0.", (CtVV, CtVS, CtVuV, CtVuVLoop))

CtEqVV, CtEqVS, CtEqVuV, CtEqVuVLoop = RELATIONS.declare(
    Function("eq", 48, "{a} == {b}", np.equal, number("x == y ? 1 : 0"), ALWAYS)
)
CtNeVV, CtNeVS, CtNeVuV, CtNeVuVLoop = RELATIONS.declare(
    Function("ne", 52, "{a} != {b}", np.not_equal, number("x != y ? 1 : 0"), ALWAYS)
)
CtGeVV, CtGeVS, CtGeVuV, CtGeVuVLoop = RELATIONS.declare(
    Function("ge", 56, "{a} >= {b}", np.greater_equal, number("x >= y ? 1 : 0"), ALWAYS)
)
CtGtVV, CtGtVS, CtGtVuV, CtGtVuVLoop = RELATIONS.declare(
    Function("gt", 60, "{a} > {b}", np.greater, number("x > y ? 1 : 0"), ALWAYS)
)
CtLeVV, CtLeVS, CtLeVuV, CtLeVuVLoop = RELATIONS.declare(
    Function("le", 64, "{a} <= {b}", np.less_equal, number("x <= y ? 1 : 0"), ALWAYS)
)
CtLtVV, CtLtVS, CtLtVuV, CtLtVuVLoop = RELATIONS.declare(Function("lt", 68, "{a} < {b}", np.less, number("x < y ? 1 : 0"), ALWAYS))
