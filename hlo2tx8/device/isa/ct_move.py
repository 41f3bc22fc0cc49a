"""CT conversions and masked moves."""

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Field, Role, instruction, vector
from hlo2tx8.device.isa.forms import COUNT, CT_FLOATS, CtInstruction

CT_CONVERT_FORMATS = (*CT_FLOATS, Format.INT8, Format.INT16, Format.INT32)


@instruction
class CtConvert(CtInstruction):
    """dst[i] = src[i] in another format, rounded by mode; float to int saturates, NaN gives 0; no int to int."""

    MNEMONIC = "CGRATensor_ConvertOp_V_convert"
    OPCODE = 84
    FORMATS = CT_CONVERT_FORMATS
    FORMATS2 = CT_CONVERT_FORMATS
    FIELDS = (vector("dst", Role.SPM_WRITE), vector("src", Role.SPM_READ, is_source=True), COUNT)


@instruction
class CtMaskMove(CtInstruction):
    """dst[i] = src[i] where mask[i] != 0; the mask has one byte per element."""

    MNEMONIC = "CGRATensor_MoveOp_V_maskmove"
    OPCODE = 85
    FIELDS = (
        vector("dst", Role.SPM_WRITE),
        vector("src", Role.SPM_READ),
        Field("mask", Role.SPM_READ, lambda o: o["n"]),
        COUNT,
    )


CT_MOVES = (CtConvert, CtMaskMove)
