"""CT auxiliary instructions: counting, positions of extremes, packed bools to numbers, and those whose law is not published."""

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.exactness import SILENT
from hlo2tx8.device.isa.extents import Elements
from hlo2tx8.device.isa.fields import Field, Role, vector
from hlo2tx8.device.isa.forms import COUNT, CtInstruction, CtV, packed, whole_bytes


def _one(name: str) -> Field:
    """One INT32 as a result."""
    return Field(name, Role.SPM_WRITE, Elements(each=Format.INT32.bytes))


@instruction
class CtCount(CtInstruction):
    """dst = the number of src[i] that are not 0, an INT32; NaN counts."""

    FORM = "COUNT"
    MNEMONIC = "CGRATensor_PeriOp_S_V_count"
    OPCODE = 320
    FIELDS = (_one("dst"), vector("src", Role.SPM_READ), COUNT)


class CtExtreme(CtInstruction):
    """dst = an extreme of src, one element; index = the first i it is at, an INT32; the first NaN if there is one."""

    FORM = "EXTREME"
    FIELDS = (
        Field("dst", Role.SPM_WRITE, Elements()),
        _one("index"),
        vector("src", Role.SPM_READ),
        Field("n", Role.COUNT, least=1),
    )


@instruction
class CtArgMax(CtExtreme):
    """dst = the largest src[i] with its bits, -0 < +0; index = the first i of it, an INT32; the first NaN if there is one."""

    MNEMONIC = "CGRATensor_PeriOp_V_V_argmax"
    OPCODE = 321


@instruction
class CtArgMin(CtExtreme):
    """dst = the smallest src[i] with its bits, -0 < +0; index = the first i of it, an INT32; the first NaN if there is one."""

    MNEMONIC = "CGRATensor_PeriOp_V_V_argmin"
    OPCODE = 322


@instruction
class CtBitToFloat(CtInstruction):
    """dst[i] = 1.0 if bit i of src else 0.0."""

    FORM = "BIT_TO_FLOAT"
    MNEMONIC = "CGRATensor_PeriOp_V_V_bit2fp"
    OPCODE = 323
    FIELDS = (vector("dst", Role.SPM_WRITE), packed("src", Role.SPM_READ), COUNT)
    CONSTRAINTS = (whole_bytes("n"),)


@instruction
class CtBitCount(CtInstruction):
    """dst = a count of the bits of src; its law is not published."""

    FORM = "UNPUBLISHED"
    MNEMONIC = "CGRATensor_PeriOp_S_bV_bitcount"
    OPCODE = 324
    FORMATS = (Format.BOOL,)
    FIELDS = (_one("dst"), packed("src", Role.SPM_READ), COUNT)
    CONSTRAINTS = (whole_bytes("n"),)
    LAW = "bitcount"


@instruction
class CtFactorize(CtInstruction):
    """dst, dst1, dst2 = the parts of each src[i]; their law is not published."""

    FORM = "UNPUBLISHED"
    MNEMONIC = "CGRATensor_PeriOp_V_V_fp32_factorize"
    OPCODE = 325
    FORMATS = (Format.FP32,)
    FIELDS = (
        vector("dst", Role.SPM_WRITE),
        vector("dst1", Role.SPM_WRITE),
        vector("dst2", Role.SPM_WRITE),
        vector("src", Role.SPM_READ),
        COUNT,
    )
    LAW = "factorize"


def _image_bytes(prefix: str) -> Field:
    """An NHWC tensor whose height and width are the fields of that prefix."""
    size = Elements(("batch", f"{prefix}h", f"{prefix}w", "c"))
    is_result = prefix == "out_"
    return Field("dst" if is_result else "src", Role.SPM_WRITE if is_result else Role.SPM_READ, size)


@instruction
class CtBilinear(CtInstruction):
    """dst = src [batch, h, w, c] interpolated to [batch, out_h, out_w, c]; which points are read is not published."""

    FORM = "UNPUBLISHED"
    MNEMONIC = "CGRATensor_PeriOp_T_T_bilinear"
    OPCODE = 326
    FIELDS = (
        _image_bytes("out_"),
        _image_bytes(""),
        *(Field(name, Role.COUNT, least=1, most=4096) for name in ("batch", "h", "w", "c", "out_h", "out_w")),
    )
    LAW = "bilinear"


class CtLookup(CtInstruction):
    """dst[i] = table[src[i]]; what src[i] counts is not published."""

    FORM = "UNPUBLISHED"
    FIELDS = (
        vector("dst", Role.SPM_WRITE),
        vector("src", Role.SPM_READ),
        vector("table", Role.SPM_READ, "entries"),
        COUNT,
        Field("entries", Role.COUNT, least=1),
    )


@instruction
class CtLookup16(CtLookup):
    """dst[i] = table[src[i]], entries of 16 bits; what src[i] counts is not published."""

    MNEMONIC = "CGRATensor_PeriOp_V_V_lut16"
    OPCODE = 327
    FORMATS = (Format.INT16, Format.FP16, Format.BF16, Format.UINT16)
    LAW = "lut_offset"


@instruction
class CtLookup32(CtLookup):
    """dst[i] = table[src[i]], entries of 32 bits; what src[i] counts is not published."""

    MNEMONIC = "CGRATensor_PeriOp_V_V_lut32"
    OPCODE = 328
    FORMATS = (Format.INT32, Format.FP32, Format.TF32, Format.UINT32)
    LAW = "lut_offset"


@instruction
class CtRandom(CtInstruction):
    """dst = n random numbers from the states src and src1, whose next ones are dst1 and dst2; the generator is not published."""

    FORM = "UNPUBLISHED"
    MNEMONIC = "CGRATensor_PeriOp_V_rand_gen"
    OPCODE = 329
    FIELDS = (
        vector("dst", Role.SPM_WRITE),
        vector("dst1", Role.SPM_WRITE),
        vector("dst2", Role.SPM_WRITE),
        vector("src", Role.SPM_READ),
        vector("src1", Role.SPM_READ),
        COUNT,
    )
    LAW = "rand_gen"


@instruction
class CtElementMask(CtV):
    """dst[i] = src[i] * scale or 0, at random with a probability; the law is not published."""

    FORM, EXACT = "UNPUBLISHED", SILENT
    MNEMONIC = "CGRATensor_PeriOp_V_V_elem_mask"
    OPCODE = 330
    FIELDS = (*CtV.FIELDS, Field("scale", Role.IMMEDIATE), Field("probability", Role.IMMEDIATE))
    LAW = "elem_mask"


@instruction
class CtMaskGather(CtInstruction):
    """dst = the elements of src that a mask of indices picks; their order is not published."""

    FORM = "UNPUBLISHED"
    MNEMONIC = "CGRATensor_DataMoveOp_V_V_maskgather"
    OPCODE = 331
    FIELDS = (
        vector("dst", Role.SPM_WRITE),
        vector("src", Role.SPM_READ),
        Field("mask", Role.SPM_READ, Elements(("n",), each=Format.INT32.bytes)),
        COUNT,
    )
    LAW = "maskgather"


@instruction
class CtMaskGatherBits(CtInstruction):
    """dst = the elements of src that packed bools pick; their order is not published."""

    FORM = "UNPUBLISHED"
    MNEMONIC = "CGRATensor_DataMoveOp_V_bV_maskgather"
    OPCODE = 332
    FIELDS = (vector("dst", Role.SPM_WRITE), vector("src", Role.SPM_READ), packed("mask", Role.SPM_READ), COUNT)
    CONSTRAINTS = (whole_bytes("n"),)
    LAW = "maskgather"
