"""CT conversions and masked moves."""

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa.base import Field, Role, instruction, vector
from hlo2tx8.device.isa.forms import COUNT, CT_FLOATS, CtInstruction

CT_CONVERT_INTEGERS = (Format.INT8, Format.INT16, Format.INT32)
CT_CONVERT_FORMATS = (*CT_FLOATS, *CT_CONVERT_INTEGERS)
# Source -> the targets whose conversion takes a rounding operand; the others round to nearest even where they round.
CT_CONVERT_ROUNDED: dict[Format, tuple[Format, ...]] = {
    Format.INT16: (Format.BF16, Format.FP32, Format.TF32),
    Format.INT32: CT_FLOATS,
    Format.BF16: (Format.INT16, Format.INT32),
    Format.FP16: (*CT_CONVERT_INTEGERS, Format.BF16),
    Format.TF32: (*CT_CONVERT_INTEGERS, Format.BF16),
    Format.FP32: CT_CONVERT_FORMATS,
}


@instruction
class CtConvert(CtInstruction):
    """dst[i] = src[i] in another format, rounded by mode; float to int saturates, NaN gives 0; no int to int."""

    MNEMONIC = "CGRATensor_ConvertOp_V_V_convert"
    OPCODE = 84
    FORMATS = CT_CONVERT_FORMATS
    FORMATS2 = CT_CONVERT_FORMATS
    FIELDS = (vector("dst", Role.SPM_WRITE), vector("src", Role.SPM_READ, is_source=True), COUNT)

    @classmethod
    def takes(cls, fmt: Format, fmt2: Format, rounding: Rounding) -> bool:
        """36 pairs; stochastic rounding has no seed operand here."""
        is_pair = super().takes(fmt, fmt2, Rounding.NEAREST_EVEN) and fmt is not fmt2 and (fmt.is_float or fmt2.is_float)
        is_rounded = fmt in CT_CONVERT_ROUNDED.get(fmt2, ()) and rounding is not Rounding.STOCHASTIC
        return is_pair and (is_rounded or rounding is Rounding.NEAREST_EVEN)


@instruction
class CtMaskMove(CtInstruction):
    """dst[i] = src[i] where mask[i] != 0; the mask has one byte per element."""

    MNEMONIC = "CGRATensor_DataMoveOp_V_V_maskmove"
    OPCODE = 85
    FIELDS = (
        vector("dst", Role.SPM_WRITE),
        vector("src", Role.SPM_READ),
        Field("mask", Role.SPM_READ, lambda o: o["n"]),
        COUNT,
    )


CT_MOVES = (CtConvert, CtMaskMove)
