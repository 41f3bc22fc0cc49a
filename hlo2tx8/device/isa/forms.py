"""The operand forms: what instructions of one form share.

V is a vector in SPM, S a 32-bit immediate (the bits of an FP32 number), uV a unit vector of at most 64 elements, bV a vector of
packed bools: element i is bit i mod 8 of byte i div 8.
COMPUTE of a leaf is its meaning on numpy arrays: float instructions get and give FP32 (FP64 for FP64), which the definition
then rounds to the format; kernel-core instructions get and give arrays of the format's own dtype.
"""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.exactness import UNSTATED
from hlo2tx8.device.isa.extents import Elements
from hlo2tx8.device.isa.fields import Constraint, Engine, Field, Role, dims, vector

Compute = Callable[..., np.ndarray]
COUNT = Field("n", Role.COUNT)
CT_FLOATS = (Format.FP16, Format.BF16, Format.FP32, Format.TF32)
KC_INTEGERS = (
    Format.INT8,
    Format.INT16,
    Format.INT32,
    Format.INT64,
    Format.UINT8,
    Format.UINT16,
    Format.UINT32,
    Format.UINT64,
)
KC_FLOATS = (Format.FP16, Format.BF16, Format.FP32, Format.FP64)
KC_ALL = (*KC_INTEGERS, *KC_FLOATS, Format.PRED)
KC_ANY = (*KC_ALL, Format.RAW8, Format.RAW128)  # moves take opaque elements too
UNIT_ELEMENTS = 64
BITS = 8  # packed bools of a byte


def packed(name: str, role: Role, count: str = "n") -> Field:
    """An SPM operand of `count` packed bools."""
    return Field(name, role, Elements((count,), each=1, divisor=BITS))


def whole_bytes(count: str) -> Constraint:
    """Packed bools end with a byte."""
    return Constraint(f"{count} is a multiple of {BITS}", lambda o: o[count] % BITS == 0)


class CtInstruction(Instruction):
    """Executed by the CGRA tensor unit."""

    ENGINE = Engine.CT
    FORMATS = CT_FLOATS


class CtV(CtInstruction):
    """dst[i] = f(src[i])."""

    FORM, SHAPE, EXACT = "UNARY", "ONE", UNSTATED
    ROUNDS = True

    FIELDS = (vector("dst", Role.SPM_WRITE), vector("src", Role.SPM_READ), COUNT)


class CtVV(CtInstruction):
    """dst[i] = f(a[i], b[i])."""

    FORM, SHAPE, EXACT = "BINARY", "TWO", UNSTATED
    ROUNDS = True
    FIRST, SECOND, SUFFIX, SPELLING, OFFSET = "a[i]", "b[i]", "VV", "V_VV_{}", 0

    FIELDS = (vector("dst", Role.SPM_WRITE), vector("a", Role.SPM_READ), vector("b", Role.SPM_READ), COUNT)


class CtVS(CtInstruction):
    """dst[i] = f(a[i], imm)."""

    FORM, SHAPE, EXACT = "VS", "IMMEDIATE", UNSTATED
    ROUNDS = True
    FIRST, SECOND, SUFFIX, SPELLING, OFFSET = "a[i]", "imm", "VS", "V_VS_{}", 1

    FIELDS = (vector("dst", Role.SPM_WRITE), vector("a", Role.SPM_READ), Field("imm", Role.IMMEDIATE), COUNT)


class CtVuV(CtInstruction):
    """dst[i] = f(a[i], unit[i mod u]), u <= 64."""

    FORM, SHAPE, EXACT = "UNIT", "UNIT", UNSTATED
    ROUNDS = True
    FIRST, SECOND, SUFFIX, SPELLING, OFFSET = "a[i]", "unit[i mod u]", "VuV", "V_VuV_{}", 2

    FIELDS = (
        vector("dst", Role.SPM_WRITE),
        vector("a", Role.SPM_READ),
        vector("unit", Role.SPM_READ, "u"),
        COUNT,
        Field("u", Role.COUNT, least=1, most=UNIT_ELEMENTS),
    )


class CtVuVLoop(CtInstruction):
    """dst[r*n + i] = f(a[r*n + i], unit[r*u + i mod u]) for each round r; u = 64, full_n / full_u = n / u."""

    FORM, SHAPE, EXACT = "UNIT_LOOP", "UNIT_LOOP", UNSTATED
    ROUNDS = True
    FIRST, SECOND, SUFFIX, SPELLING, OFFSET = "a[i]", "unit[r*u + i mod u]", "VuVLoop", "V_VuV_{}_loop", 3

    FIELDS = (
        vector("dst", Role.SPM_WRITE, "full_n"),
        vector("a", Role.SPM_READ, "full_n"),
        vector("unit", Role.SPM_READ, "full_u"),
        Field("n", Role.COUNT, least=1),
        Field("u", Role.COUNT, least=UNIT_ELEMENTS, most=UNIT_ELEMENTS),
        Field("full_n", Role.COUNT),
        Field("full_u", Role.COUNT),
    )
    CONSTRAINTS = (
        Constraint("full_n / full_u = n / u", lambda o: o["full_n"] * o["u"] == o["full_u"] * o["n"]),
        Constraint("full_n is a multiple of n", lambda o: o["full_n"] % o["n"] == 0),
    )


class KcInstruction(Instruction):
    """Executed by the kernel core itself: it blocks issue and is not range-checked."""

    ENGINE = Engine.KC


class KcV(KcInstruction):
    """dst[i] = f(src[i]) on the kernel core."""

    FORM, SHAPE = "UNARY", "ONE"
    FORMATS = KC_ALL
    FIELDS = (vector("dst", Role.SPM_WRITE), vector("src", Role.SPM_READ), COUNT)


class KcVV(KcInstruction):
    """dst[i] = f(a[i], b[i]) on the kernel core."""

    FORM, SHAPE = "BINARY", "TWO"
    FORMATS = KC_ALL
    FIELDS = (vector("dst", Role.SPM_WRITE), vector("a", Role.SPM_READ), vector("b", Role.SPM_READ), COUNT)


def _pred(name: str, role: Role) -> Field:
    return Field(name, role, Elements(("n",), each=1))


def _indices(name: str, role: Role) -> Field:
    return Field(name, role, Elements(("n",), each=Format.INT32.bytes))


class KcTest(KcInstruction):
    """dst[i] = f(src[i]) as a PRED byte."""

    FORM, SHAPE = "TEST", "ONE"
    FORMATS = KC_ALL
    FIELDS = (_pred("dst", Role.SPM_WRITE), vector("src", Role.SPM_READ), COUNT)


class KcCompareVV(KcInstruction):
    """dst[i] = f(a[i], b[i]) as a PRED byte; `total` != 0 orders floats totally, -NaN < -inf < ... < -0 < +0 < ... < NaN."""

    FORM, SHAPE = "COMPARE", "TWO"
    FORMATS = KC_ALL
    FIELDS = (
        _pred("dst", Role.SPM_WRITE),
        vector("a", Role.SPM_READ),
        vector("b", Role.SPM_READ),
        COUNT,
        Field("total", Role.IMMEDIATE, default=0),
    )


class KcSelectForm(KcInstruction):
    """dst[i] = a[i] if pred[i] else b[i]."""

    FORM = "SELECT"
    FORMATS = KC_ANY
    FIELDS = (
        vector("dst", Role.SPM_WRITE),
        _pred("pred", Role.SPM_READ),
        vector("a", Role.SPM_READ),
        vector("b", Role.SPM_READ),
        COUNT,
    )


class KcConvertForm(KcInstruction):
    """dst[i] = the value of src[i] in another format."""

    FORM = "CONVERT_KC"
    FORMATS = KC_ALL
    FORMATS2 = KC_ALL
    FIELDS = (vector("dst", Role.SPM_WRITE), vector("src", Role.SPM_READ, is_source=True), COUNT)


class KcGatherForm(KcInstruction):
    """dst[i] = src[index[i]], INT32 indices in elements."""

    FORM = "GATHER"
    FORMATS = KC_ANY
    FIELDS = (vector("dst", Role.SPM_WRITE), Field("src", Role.SPM_READ), _indices("index", Role.SPM_READ), COUNT)


class KcScatterForm(KcInstruction):
    """dst[index[i]] = src[i], in order of i."""

    FORM = "SCATTER"
    FORMATS = KC_ANY
    FIELDS = (Field("dst", Role.SPM_WRITE), vector("src", Role.SPM_READ), _indices("index", Role.SPM_READ), COUNT)


class KcScalar(KcInstruction):
    """rd = f(a, b) on 64-bit registers."""

    FORM = "SCALAR"
    FIELDS = (Field("rd", Role.REGISTER), Field("a", Role.IMMEDIATE), Field("b", Role.IMMEDIATE))
    FOLD: ClassVar[Callable[[int, int], int]]


class DmaForm(Instruction):
    """A strided box of DDR elements against dense SPM; level 3 is outermost, strides in elements, offset in bytes."""

    FORMATS = tuple(Format)
    LEVELS: ClassVar[tuple[Field, ...]] = (Field("count", Role.COUNT, least=1), *dims("s1", "n1", "s2", "n2", "s3", "n3"))


DMA_BYTES = Elements(("count", "n1", "n2", "n3"))
"""SPM bytes of a DMA descriptor."""
