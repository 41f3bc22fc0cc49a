"""CT transcendental and activation functions; their values are those of `device.approx`."""

from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.exactness import OF_ZERO
from hlo2tx8.device.isa.forms import CtV


class Transcendental(CtV):
    """dst[i] = FUNCTION(src[i]), correctly rounded in 16-bit formats."""

    EXACT = OF_ZERO
    COST = "ct_function"


@instruction
class CtLog2(Transcendental):
    """dst[i] = log2(src[i])."""

    MNEMONIC = "CGRATensor_TransOp_V_V_log2"
    OPCODE = 72
    FUNCTION = "log2"
    HAS_POLES = True


@instruction
class CtLn(Transcendental):
    """dst[i] = log(src[i])."""

    MNEMONIC = "CGRATensor_TransOp_V_V_ln"
    OPCODE = 73
    FUNCTION = "log"
    HAS_POLES = True


@instruction
class CtPow2(Transcendental):
    """dst[i] = exp2(src[i])."""

    MNEMONIC = "CGRATensor_TransOp_V_V_pow2"
    OPCODE = 74
    FUNCTION = "exp2"


@instruction
class CtExp(Transcendental):
    """dst[i] = exp(src[i])."""

    MNEMONIC = "CGRATensor_TransOp_V_V_exp"
    OPCODE = 75
    FUNCTION = "exp"


@instruction
class CtSin(Transcendental):
    """dst[i] = sin(src[i])."""

    MNEMONIC = "CGRATensor_TransOp_V_V_sin"
    OPCODE = 76
    FUNCTION = "sin"


@instruction
class CtCos(Transcendental):
    """dst[i] = cos(src[i])."""

    MNEMONIC = "CGRATensor_TransOp_V_V_cos"
    OPCODE = 77
    FUNCTION = "cos"


@instruction
class CtTanh(Transcendental):
    """dst[i] = tanh(src[i])."""

    MNEMONIC = "CGRATensor_ActOp_V_V_tanh"
    OPCODE = 78
    FUNCTION = "tanh"


@instruction
class CtSigmoid(Transcendental):
    """dst[i] = logistic(src[i])."""

    MNEMONIC = "CGRATensor_ActOp_V_V_sigmoid"
    OPCODE = 79
    FUNCTION = "logistic"
