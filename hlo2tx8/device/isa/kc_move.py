"""Kernel-core selection, conversion, indexed access and counting."""

from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.fields import Field, Role, vector
from hlo2tx8.device.isa.forms import (
    COUNT,
    KC_FLOATS,
    KC_INTEGERS,
    KcConvertForm,
    KcGatherForm,
    KcInstruction,
    KcScatterForm,
    KcSelectForm,
)


@instruction
class KcVSelect(KcSelectForm):
    """dst[i] = a[i] if pred[i] else b[i]."""

    MNEMONIC = "KC_VV_select"
    OPCODE = 154


@instruction
class KcVConvert(KcConvertForm):
    """dst[i] = the value of src[i]: float to int toward zero, saturating, NaN gives 0; int to int wraps; to PRED is != 0."""

    MNEMONIC = "KC_V_convert"
    OPCODE = 155


@instruction
class KcVIota(KcInstruction):
    """dst[i] = start + ((i div div) mod mod) * step."""

    FORM = "IOTA"
    MNEMONIC = "KC_V_iota"
    OPCODE = 156
    FORMATS = (*KC_INTEGERS, *KC_FLOATS)
    FIELDS = (
        vector("dst", Role.SPM_WRITE),
        COUNT,
        Field("start", Role.IMMEDIATE),
        Field("step", Role.IMMEDIATE),
        Field("div", Role.COUNT, least=1),
        Field("mod", Role.COUNT, least=1),
    )


@instruction
class KcVGather(KcGatherForm):
    """dst[i] = src[index[i]]."""

    MNEMONIC = "KC_V_gather"
    OPCODE = 157


@instruction
class KcVScatter(KcScatterForm):
    """dst[index[i]] = src[i], in order of i."""

    MNEMONIC = "KC_V_scatter"
    OPCODE = 158
