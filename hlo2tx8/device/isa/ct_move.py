"""CT conversions and masked moves."""

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.exactness import ALWAYS
from hlo2tx8.device.isa.fields import Constraint, Field, Role, vector
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
    """dst[i] = src[i] in another format, rounded by mode; float to int saturates, NaN gives 0; of INT8 zp is subtracted.

    Stochastic: the discarded part of |src[i]|, as a fraction of 32 bits, plus the finalizer of murmur3 of seed ^ i in 32 bits;
    a carry rounds away from zero.
    """

    FORM, SHAPE, EXACT = "CONVERT_CT", "ONE", ALWAYS  # the exactness of conversions is a rule of its own, see device.status
    MNEMONIC = "CGRATensor_ConvertOp_V_V_convert"
    OPCODE = 84
    FORMATS = CT_CONVERT_FORMATS
    FORMATS2 = CT_CONVERT_FORMATS
    FIELDS = (
        vector("dst", Role.SPM_WRITE),
        vector("src", Role.SPM_READ, is_source=True),
        COUNT,
        Field("zp", Role.IMMEDIATE, default=0, least=-128, most=127),
        Field("seed", Role.IMMEDIATE, default=0),
    )
    CONSTRAINTS = (Constraint("zp = 0 for another source than INT8", lambda o: o["zp"] == 0 or o.fmt2 is Format.INT8),)

    @classmethod
    def takes(cls, fmt: Format, fmt2: Format, rounding: Rounding) -> bool:
        """36 pairs, of which some take a rounding."""
        is_pair = super().takes(fmt, fmt2, Rounding.NEAREST_EVEN) and fmt is not fmt2 and (fmt.is_float or fmt2.is_float)
        return is_pair and (fmt in CT_CONVERT_ROUNDED.get(fmt2, ()) or rounding is Rounding.NEAREST_EVEN)


@instruction
class CtMaskMove(CtInstruction):
    """dst[i] = src[i] where mask[i] != 0; the mask, `fmt2`, is INT8 or in the format of src, where -0 is 0 and NaN is not."""

    FORM = "MASK_MOVE"
    MNEMONIC = "CGRATensor_DataMoveOp_V_V_maskmove"
    OPCODE = 85
    FORMATS2 = (Format.INT8, *CT_FLOATS)
    FIELDS = (
        vector("dst", Role.SPM_WRITE),
        vector("src", Role.SPM_READ),
        vector("mask", Role.SPM_READ, is_source=True),
        COUNT,
    )

    @classmethod
    def takes(cls, fmt: Format, fmt2: Format, rounding: Rounding) -> bool:
        """A byte per element, or a number."""
        return super().takes(fmt, fmt2, rounding) and fmt2 in (Format.INT8, fmt)
